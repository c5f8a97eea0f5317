"""How many elementary operations each counting engine does in a second of stream.

The formulas follow the kernels: the sliding product changes a counter for each distinct piece of
the queries' patterns, whatever the window holds; A-Seq (Qi's thesis, sections 3.2 and 3.3), PreTree
(4.1) and Chop-Connect (4.2) keep counters for every active START, so that an event costs as many
additions as STARTs are in the window, and the vector instructions that they are made with have a
price for each node and a small one for each START.

Rates are those of the stream, uniform or not. A symbol's rate is `statistics.rate`; an event of
several symbols counts once for each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optimizer.cost.absence import absences
from optimizer.cost.substrings import (
    TWO_WORDS,
    Arrivals,
    Changes,
    SoughtSequence,
    Word,
    arrivals_of,
    changes,
    explored,
    value_changes,
    words_of,
)
from optimizer.cost.unit_costs import Operations
from optimizer.ir.automaton import Symbols, counted_readings
from optimizer.ir.pattern import (
    And,
    GroupWithout,
    Neg,
    Pattern,
    Seq,
    Symbol,
    count_readings,
    events,
    last_events,
    parts_of,
    positive_events,
    walk,
)
from optimizer.ir.query import Query, Window
from optimizer.statistics.statistics import Statistics
from workloads.syntax import Plus

Lengths = Mapping[str, Sequence[int]]
_MOST_LEVELS = 12  # of nodes of panes
ONE_WORD = 62  # bits of counts that one number is sure to hold
_MANY_BITS = 1e6  # of the number of groups of events
_LEAVING = 0.1  # of visiting an event, for it to leave another window
_WIDE = 1.4  # times of adding a number, for adding two


@dataclass(frozen=True, eq=False)
class CountedQueries:
    """Aggregate queries of one key over a stream: what engines count together.

    Their windows and slides may differ, as long as all windows are in time, or all in events.
    """

    queries: tuple[Query, ...]
    statistics: Statistics

    @cached_property
    def arrivals(self) -> Arrivals:
        """The stream as the one with the widest window sees it."""
        return self.widest(range(len(self.queries)))

    def widest(self, chosen: Iterable[int]) -> Arrivals:
        """The same for some of the queries, by their numbers."""
        return self.each[max(chosen, key=lambda q: self.queries[q].window.size)]

    @cached_property
    def each(self) -> list[Arrivals]:
        """The stream as each query sees it: alike for those of one window and slide."""
        known: dict[tuple[Window, int | None], Arrivals] = {}
        found = []
        for query in self.queries:
            span = query.window, query.slide
            if span not in known:
                known[span] = arrivals_of(self.statistics, query.key, *span)
            found.append(known[span])
        return found

    @cached_property
    def spans(self) -> list[list[int]]:
        """The numbers of the queries of each window and slide."""
        found: dict[int, list[int]] = defaultdict(list)
        for q, arrivals in enumerate(self.each):
            found[id(arrivals)].append(q)
        return list(found.values())

    def widths(self, chosen: Iterable[int]) -> list[list[int]]:
        """Some of the queries by the width of their windows."""
        found: dict[int, list[int]] = defaultdict(list)
        for q in chosen:
            found[self.queries[q].window.size].append(q)
        return list(found.values())

    @cached_property
    def choices(self) -> list[tuple[Pattern, ...]]:
        """The OR-free alternatives of each query."""
        return [counted_readings(query.pattern) for query in self.queries]

    @cached_property
    def words(self) -> list[tuple[Word, ...] | None]:
        """Each query's alternatives as words; None where one of them is none."""
        return [words_of(query) for query in self.queries]

    @cached_property
    def chains(self) -> list[Word]:
        """Each query as one word, which is what the engines that keep STARTs take."""
        found = []
        for query, words in zip(self.queries, self.words, strict=True):
            if words is None or len(words) != 1:
                raise ValueError(f"{query.name} is not one sequence of single events")
            found.append(words[0])
        return found

    @cached_property
    def symbols(self) -> Symbols:
        """All that the queries speak of."""
        return frozenset(event.symbol for query in self.queries for event in events(query.pattern))

    @cached_property
    def triggers(self) -> list[Symbols]:
        """By query, the symbols whose events are evaluated, where no slide says when."""
        return [
            frozenset(e.symbol for choice in choices for e in last_events(choice, frozenset()))
            for choices in self.choices
        ]

    @cached_property
    def spoken(self) -> float:
        """Events per second that the queries speak of."""
        return self.rate(self.symbols)

    def rate(self, symbols: Symbols) -> float:
        """Events per second of these symbols: of one type at most as many as it has."""
        by_type: dict[str, float] = defaultdict(float)
        for symbol in symbols:
            by_type[symbol.type] += self.each[0].rate(symbol)
        return math.fsum(
            min(rate, self.statistics.rates.get(name, rate)) for name, rate in by_type.items()
        )

    @cached_property
    def seen(self) -> float:
        """Events per second of the stream, as far as it is known."""
        if self.statistics.events is not None and self.statistics.span:
            return max(self.spoken, self.statistics.total_rate)
        return self.spoken

    @cached_property
    def bits(self) -> list[float]:
        """By query, of how many bits its counts may be."""
        return [
            max(
                _MANY_BITS
                if any(
                    isinstance(e.quantifier, Plus | GroupWithout) and arrivals.most(e.symbol) >= 50
                    for e in positive_events(choice)
                )
                else arrivals.bits(
                    [e.symbol for e in positive_events(choice)],
                    count_readings(choice) * len(choices),
                )
                for choice in choices
            )
            for choices, arrivals in zip(self.choices, self.each, strict=True)
        ]

    @cached_property
    def dual(self) -> bool:
        """Is there a query of which one number may not hold the count? Then all have more."""
        return max(self.bits) >= ONE_WORD

    @cached_property
    def evaluations(self) -> NDArray[np.float64]:
        """By query, how often a second it is evaluated."""
        found = np.zeros(len(self.queries))
        for some in self.spans:
            arrivals = self.each[some[0]]
            if arrivals.slide:
                found[some] = arrivals.evaluations(self.symbols)
            else:
                found[some] = [self.rate(self.triggers[q]) for q in some]
        return found

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """By query, result rows a second: evaluations of windows that hold a match."""
        wanted = []
        owner = []
        for q, choices in enumerate(self.choices):
            words = self.words[q]
            for i, choice in enumerate(choices):
                if words is not None:
                    wanted.append(SoughtSequence(words[i].symbols, words[i].gaps))
                else:
                    wanted.append(self._wanted(choice))
                owner.append(q)
        none = np.ones(len(self.queries))
        windows = self.evaluations.copy()
        for some in self.spans:
            arrivals, mine = self.each[some[0]], set(some)
            distinct = list(
                dict.fromkeys(w for w, q in zip(wanted, owner, strict=True) if q in mine)
            )
            chance = dict(zip(distinct, arrivals.chances(distinct), strict=True))
            for word, q in zip(wanted, owner, strict=True):
                if q in mine:
                    none[q] *= 1 - chance[word]
            if arrivals.slide and not arrivals.window.is_count:
                windows[some] = arrivals.windows
        found: NDArray[np.float64] = np.minimum(windows * (1 - none), self.evaluations)
        return found

    def _wanted(self, choice: Pattern) -> SoughtSequence:
        """A pattern that is no word, as if groups were events and parts came in their order."""
        symbols: list[Symbol] = []
        lost, nowhere = [0.0], 0.0
        for part in parts_of(choice) if isinstance(choice, Seq) else (choice,):
            if isinstance(part, Neg):
                lost[-1] += self._completed(part)
                continue
            for event in positive_events(part):
                symbols.append(event.symbol)
                lost.append(0.0)
            if isinstance(part, And):
                negated = (inner for inner in part.parts if isinstance(inner, Neg))
                nowhere += sum(map(self._completed, negated))
        none: tuple[Symbols, ...] = (frozenset(),) * len(lost)
        return SoughtSequence(tuple(symbols), none, tuple(lost), nowhere)

    def _completed(self, negation: Neg) -> float:
        """How often a second what is negated is complete."""
        found = absences(negation.part, lambda event: self.arrivals.rate(event.symbol))
        return sum(absence.rate for absence in found or ())

    def common(self) -> Operations:
        """What every engine does before it counts."""
        keyed = self.seen if self.arrivals.key else 0.0
        negates = any(
            len(list(events(pattern))) > len(list(positive_events(pattern)))
            and any(isinstance(node, Neg) for node in walk(pattern))
            for pattern in (query.pattern for query in self.queries)
        )
        return Operations(
            seen=self.seen,
            keyed=keyed,
            spoken=self.spoken,
            watched=self.spoken if negates else 0.0,
        )


# --- the sliding product -------------------------------------------------------------------------


def product(group: CountedQueries) -> Operations:
    """The sliding product: of queries whose events can be taken back, and of all others."""
    plain = [q for q in range(len(group.queries)) if _is_reversible(group, q)]
    others = sorted(set(range(len(group.queries))) - set(plain))
    found = group.common() + Operations(product_rows=float(group.rows.sum()))
    if plain:
        found += _reversible(group, plain)
    for some in group.widths(others):
        found += _two_stacks(group, some)
    return found


def reversible(queries: Sequence[Query], statistics: Statistics) -> list[bool]:
    """Which of the queries the product can take events back from, if they are counted together."""
    group = CountedQueries(tuple(queries), statistics)
    return [_is_reversible(group, q) for q in range(len(queries))]


def _is_reversible(group: CountedQueries, q: int) -> bool:
    words = group.words[q]
    if group.bits[q] >= TWO_WORDS:
        return False
    if words is not None:
        return not any(word.has_negation or word.values for word in words)
    return _is_plain_machine(group.choices[q]) and not _values(group, q)


def _is_plain_machine(choices: Sequence[Pattern]) -> bool:
    """Neither groups nor negations: all components are single and bound by a match."""
    return all(
        not any(isinstance(e.quantifier, Plus | GroupWithout) for e in positive_events(choice))
        and len(list(events(choice))) == len(list(positive_events(choice)))
        for choice in choices
    )


def _values(group: CountedQueries, q: int) -> int:
    """How many numbers a query carries beside its count."""
    words = group.words[q]
    if words is not None:
        return max((sum(weight for *_, weight in word.values) for word in words), default=0)
    output = group.queries[q].output
    items = getattr(output, "items", ())
    return sum(2 for item in items if getattr(item, "operand", None) is not None)


def _changes(group: CountedQueries, chosen: Sequence[int]) -> Changes:
    words = [word for q in chosen for word in group.words[q] or ()]
    machines = {
        choice: None for q in chosen if group.words[q] is None for choice in group.choices[q]
    }
    found = changes(words)
    for choice in machines:
        found += explored(choice).changes
    return found


def _per_second(group: CountedQueries, numbers: Mapping[Symbol, float]) -> float:
    return math.fsum(n * group.arrivals.rate(symbol) for symbol, n in numbers.items())


def _reversible(group: CountedQueries, chosen: Sequence[int]) -> Operations:
    """Each width has counters of its own, and groups that leave it; events are visited once."""
    widths = group.widths(chosen)
    adds = 0.0
    for some in widths:
        found = _changes(group, some)
        adds += _per_second(group, found.arriving) + _per_second(group, found.leaving)
    alternatives_ = [len(group.choices[q]) for q in chosen]
    return Operations(
        reversible_events=group.spoken * (1 + _LEAVING * (len(widths) - 1)),
        reversible_adds=adds * (_WIDE if group.dual else 1.0),
        reversible_reads=float(group.evaluations[list(chosen)] @ np.array(alternatives_)),
    )


def _two_stacks(group: CountedQueries, chosen: Sequence[int]) -> Operations:
    found = _changes(group, chosen)
    words = [word for q in chosen for word in group.words[q] or ()]
    carried = value_changes(words)
    back, front = _per_second(group, found.arriving), _per_second(group, found.leaving)
    logged = _per_second(group, found.first)
    values = sum(
        _per_second(group, which) for which in (carried.arriving, carried.leaving, carried.first)
    )
    evaluations = group.evaluations[list(chosen)]
    pairs = np.array([_pairs(group, q) for q in chosen])
    read = float(evaluations @ pairs)
    values += float(
        2 * group.rows[list(chosen)] @ (pairs * np.array([_values(group, q) for q in chosen]))
    )
    return Operations(
        stack_events=group.spoken,
        stack_adds=back,
        stack_front=front,
        stack_logged=logged,
        stack_reads=float(evaluations.sum()),
        stack_pairs=read,
        stack_floats=back + front + logged + read if group.dual else 0.0,
        stack_values=values,
    )


def _pairs(group: CountedQueries, q: int) -> int:
    """Ways to cut a match in a front and a back."""
    words = group.words[q]
    if words is not None:
        return sum(len(word.symbols) + 1 for word in words)
    return sum(explored(choice).states for choice in group.choices[q])


def panes(queries: Sequence[Query], statistics: Statistics) -> Operations:
    """Products of panes, for queries of one key with any windows and slides in time.

    The stream is cut where a window opens or closes, and an event is multiplied to its pane once
    for all queries. Two panes are joined to a node, two nodes to a larger one, as often as that
    pays; a window is put together from the largest, and about one of each smaller kind.
    """
    every = CountedQueries(tuple(queries), statistics)
    numbers = range(len(queries))
    found = _changes(every, numbers)
    carried = value_changes([word for q in numbers for word in every.words[q] or ()])
    adds = _per_second(every, found.arriving) + _per_second(every, carried.arriving)
    counters = sum(found.arriving.values()) + sum(carried.arriving.values())
    made = every.spoken / events_per_pane(queries, statistics) if every.spoken else 0.0
    walks = windows = evaluated = rows = 0.0
    for (size, slide), members in _spans(queries).items():
        group = (
            every if len(members) == len(queries) else CountedQueries(tuple(members), statistics)
        )
        own = _changes(group, range(len(members)))
        values = value_changes([w for words in group.words for w in words or ()])
        joins = (own.final_joins + 2 * values.final_joins) * (2 if group.dual else 1)
        walks += made * size / slide * joins
        windows += float(group.evaluations[0]) * joins
        evaluated += float(group.evaluations.sum())
        rows += float(group.rows.sum())
    merged = made * (found.joins + 2 * carried.joins)
    pairs = min(
        walks / 2**level + windows * level + merged * (1 - 0.5**level)
        for level in range(_MOST_LEVELS)
    )
    return every.common() + Operations(
        pane_events=every.spoken,
        pane_adds=adds * (2 if every.dual else 1),
        pane_cells=made * counters,
        pane_pairs=pairs,
        pane_windows=evaluated,
        product_rows=rows,
    )


def events_per_pane(queries: Sequence[Query], statistics: Statistics) -> float:
    """How many events that the queries speak of are in a pane that has any."""
    # Windows close at multiples of the slide, and open there too if that divides them.
    cuts = {(slide, -phase % slide) for size, slide in _spans(queries) for phase in (0, size)}
    mean = math.ceil(1 / sum(1 / slide for slide, _ in cuts))  # nanoseconds
    every = CountedQueries(tuple(queries), statistics)
    pane = Arrivals(statistics, queries[0].key, Window(mean), mean)
    made = pane.evaluations(every.symbols)
    return every.spoken / made if made else 1.0


def _spans(queries: Sequence[Query]) -> dict[tuple[int, int], list[Query]]:
    """Queries by window and slide."""
    spans: dict[tuple[int, int], list[Query]] = defaultdict(list)
    for query in queries:
        if query.slide is None or query.window.is_count:
            raise ValueError(f"{query.name} does not slide in time, which panes are for")
        spans[query.window.size, query.slide].append(query)
    return spans


# --- counters for every START --------------------------------------------------------------------


def aseq(group: CountedQueries) -> Operations:
    """A-Seq: the queries one by one, each over all events that the group speaks of."""
    trees: list[Sequence[int]] = [[q] for q in range(len(group.queries))]
    return _trees(group, trees)


def pretree(group: CountedQueries) -> Operations:
    """PreTree: queries that begin with the same symbol share their STARTs and common prefixes."""
    trees: dict[Symbol, list[int]] = {}
    for q, word in enumerate(group.chains):
        trees.setdefault(word.symbols[0], []).append(q)
    return _trees(group, list(trees.values()))


def _trees(group: CountedQueries, trees: Sequence[Sequence[int]]) -> Operations:
    nodes = laden = counters = cells = reads = totals = floats = 0.0
    for tree in trees:
        arrivals = group.widest(tree)  # whose STARTs are kept
        start = group.chains[tree[0]].symbols[0]
        active = arrivals.met(start)
        # A node is a prefix with what is negated after each of its symbols.
        found = {
            tuple(zip(word.symbols[:n], word.gaps[1 : n + 1], strict=True))
            for word in (group.chains[q] for q in tree)
            for n in range(1, len(word.symbols) + 1)
        }
        extended = math.fsum(arrivals.rate(node[-1][0]) for node in found if len(node) > 1)
        cleared = math.fsum(group.rate(node[-1][1]) for node in found)
        starts = arrivals.rate(start)
        nodes += extended + cleared
        if group.dual or any(group.chains[q].values for q in tree):
            laden += extended + cleared
        counters += (extended + cleared) * active
        cells += starts * len(found)
        evaluated = float(group.evaluations[list(tree)].sum())
        reads += evaluated
        totals += sum(float(group.evaluations[q]) * group.each[q].met(start) for q in tree)
        floats += _slots(group, tree) * active
        if group.dual:
            floats += (extended + cleared + evaluated) * active
    return group.common() + Operations(
        tree_events=group.spoken * len(trees),
        tree_nodes=nodes,
        tree_laden=laden,
        tree_counters=counters,
        tree_cells=cells,
        tree_reads=reads,
        tree_totals=totals,
        tree_floats=floats,
        sorted_rows=float(group.rows.sum()),
    )


def _slots(group: CountedQueries, tree: Sequence[int]) -> float:
    """Values carried along prefixes that are extended, or read, for each START."""
    found: dict[tuple[object, ...], float] = {}
    for q in tree:
        word = group.chains[q]
        for place, what, weight in word.values:
            for n in range(place + 1, len(word.symbols) + 1):
                node = (word.symbols[:n], word.gaps[1 : n + 1], place, what)
                found[node] = weight * group.arrivals.rate(word.symbols[n - 1])
            found[q, place, what] = weight * float(group.rows[q])
    return sum(found.values())


def chopconnect(group: CountedQueries, lengths: Lengths | None = None) -> Operations:
    """Chop-Connect: each query in segments of the lengths given under its name, or whole.

    A segment's counters are kept for its own STARTs, once for all queries that have it. Where it
    is not the first, each START of it takes a snapshot of what precedes it, for every STARTs of the
    first segment; and a query is read by a look into the snapshot of each START of its last.
    """
    arrivals = group.arrivals
    chopped = [
        _chop(word, tuple((lengths or {}).get(query.name, (len(word.symbols),))), query.name)
        for query, word in zip(group.queries, group.chains, strict=True)
    ]
    nodes = counters = cells = floats = 0.0
    segments = dict.fromkeys(part for parts in chopped for part in parts)
    for segment in segments:
        active = arrivals.met(segment[0][0])
        extended = sum(arrivals.rate(symbol) for symbol, _ in segment[1:])
        cleared = sum(group.rate(gap) for _, gap in segment)
        nodes += extended + cleared + arrivals.rate(segment[0][0])
        counters += (extended + cleared) * active
        cells += arrivals.rate(segment[0][0]) * len(segment)
        floats += (extended + cleared) * active if group.dual else 0.0
    links = dict.fromkeys(
        (parts[: n + 1], word.gaps[0])
        for parts, word in zip(chopped, group.chains, strict=True)
        for n in range(1, len(parts))
    )
    snapshots = rows = products = 0.0
    for path, _ in links:
        root, before, connecting = path[0][0][0], path[-2][0][0], path[-1][0][0]
        taken = arrivals.rate(connecting)
        snapshots += taken
        if len(path) == 2:
            rows += taken * arrivals.met(root)
        else:
            # Of an earlier snapshot's rows, those are left whose STARTs are still in the window:
            # on average half of them.
            rows += taken * arrivals.met(root)
            products += taken * arrivals.met_both(before, root) / 2
    totals = connected = 0.0
    for q, (parts, evaluated) in enumerate(zip(chopped, group.evaluations.tolist(), strict=True)):
        active = evaluated * group.each[q].met(parts[-1][0][0])
        if len(parts) == 1:
            totals += active
        else:
            connected += active
    if group.dual:
        floats += rows + products + totals + connected
    floats += sum(_slots(group, [q]) * arrivals.met(p[-1][0][0]) for q, p in enumerate(chopped))
    return group.common() + Operations(
        chop_events=group.spoken,
        chop_windows=group.spoken * len(segments) if _slides(group) else 0.0,
        chop_nodes=nodes,
        chop_laden=nodes if group.dual or any(word.values for word in group.chains) else 0.0,
        chop_counters=counters,
        chop_cells=cells,
        chop_snapshots=snapshots,
        chop_rows=rows,
        chop_products=products,
        chop_reads=float(group.evaluations.sum()),
        chop_totals=totals,
        chop_connected=connected,
        chop_floats=floats,
        sorted_rows=float(group.rows.sum()),
    )


def _slides(group: CountedQueries) -> bool:
    return any(arrivals.slide for arrivals in group.each)


_Segment = tuple[tuple[Symbol, Symbols], ...]  # symbols, and what is negated after each


def _chop(word: Word, lengths: tuple[int, ...], name: str) -> tuple[_Segment, ...]:
    if sum(lengths) != len(word.symbols) or min(lengths) < 1:
        raise ValueError(
            f"segments of {lengths} do not make up the {len(word.symbols)} components of {name}"
        )
    whole = tuple(zip(word.symbols, word.gaps[1:], strict=True))
    found, at = [], 0
    for length in lengths:
        found.append(whole[at : at + length])
        at += length
    return tuple(found)
