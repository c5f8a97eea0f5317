"""From a query and statistics to the items, gaps and predicates that a tree is built of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from optimizer.cost import unit_costs as cost
from optimizer.cost.absence import Absence, absences, share_left
from optimizer.cost.unit_costs import JoinCosts
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    positive_events,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Query, Window
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.statistics.statistics import symbols_of
from optimizer.trees.negation import links, negated_choices
from optimizer.trees.problem import (
    ANYWHERE,
    BESIDE,
    ClosureItem,
    Conjunction,
    Disjunction,
    Edge,
    GivenFragment,
    GivenItem,
    GroupLeaf,
    NegatedItem,
    PatternPart,
    Predicate,
    SequenceGap,
    SequenceItem,
    Single,
    TreeProblem,
    Within,
    negations_of,
    plain_rows,
    survival,
    within_of,
)
from optimizer.trees.tree import Closure, TreeError
from workloads import expressions as ex
from workloads.syntax import All, One

NONE: frozenset[str] = frozenset()
RAREST = 1e-12  # of selectivities: what never holds is planned for as what hardly ever does


def compile_query(
    query: Query,
    statistics: Statistics,
    given: Sequence[GivenFragment] = (),
    model: JoinCosts = cost.ZSTREAM,
    leaves: frozenset[str] = NONE,
) -> TreeProblem:
    """The query as the search sees it; raises `MissingStatisticError` for what is not known.

    `leaves` are groups of `tree.free_groups` that are made by themselves, and joined as events are;
    others are chosen between their neighbours, when these are bound.
    """
    return _compiled(query, statistics, tuple(given), model, leaves)


@lru_cache(maxsize=4_096)  # asked again for each tree of a query that is looked at
def _compiled(
    query: Query,
    statistics: Statistics,
    given: tuple[GivenFragment, ...],
    model: JoinCosts,
    leaves: frozenset[str],
) -> TreeProblem:
    symbols = symbols_of(query.pattern)
    key = statistics.key(query.key)
    if query.window.is_count and query.key:
        # Each key has a window of its own with as many events, however rare the key is.
        key = KeyStatistics(key.cardinality, 1 / key.cardinality)
    single = {
        event.alias for event in components(query.pattern) if isinstance(event.quantifier, One)
    }
    conditions = tuple(
        _Condition(
            condition,
            ex.aliases(condition),
            max(statistics.selectivity(condition, symbols), RAREST),
            _is_equality(condition, single),
        )
        for condition in query.conditions
        if ex.aliases(condition)
    )
    # Not those of `symbols`: parts of an OR may have one alias with different symbols.
    rows = {
        symbol: _rows(symbol, query.window, statistics, key)
        for symbol in dict.fromkeys(event.symbol for event in components(query.pattern))
    }
    compiler = _Compiler(
        conditions, rows, key, model, _seconds(query.window, statistics, key), list(given), leaves
    )
    problem = compiler.problem(query.pattern)
    if compiler.given:
        piece = compiler.given[0]
        raise TreeError(
            f"'{piece.name}' is no piece of query {query.name}: its components "
            f"{', '.join(sorted(piece.aliases))} are not neighbouring parts of one SEQ, parts of "
            "one AND, or one part"
        )
    return problem


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition that ties components, with what is known of it."""

    expression: ex.Expression
    aliases: frozenset[str]
    selectivity: float
    equality: bool


def _is_equality(condition: ex.Expression, single: set[str]) -> bool:
    match condition:
        case ex.Comparison("=", ex.Attribute(a), ex.Attribute(b)):
            return a != b and {a, b} <= single
        case _:
            return False


def _compares(condition: ex.Expression) -> bool:
    match condition:
        case ex.Comparison(_, left, right):
            return len(ex.aliases(left)) == len(ex.aliases(right)) == 1
        case _:
            return False


def _rows(symbol: Symbol, window: Window, statistics: Statistics, key: KeyStatistics) -> float:
    """CARD of table 1: the events of a symbol in one window, of all keys."""
    rate = statistics.rate(symbol)
    if window.is_count:
        return window.size * key.cardinality * min(1.0, rate / statistics.total_rate)
    return rate * statistics.held_seconds(window.size)


def _seconds(window: Window, statistics: Statistics, key: KeyStatistics) -> float:
    if window.is_count:
        return window.size * key.cardinality / statistics.total_rate
    return statistics.held_seconds(window.size)


@dataclass
class _Compiler:
    conditions: tuple[_Condition, ...]
    symbol_rows: dict[Symbol, float]
    key: KeyStatistics
    model: JoinCosts
    seconds: float
    given: list[GivenFragment]  # those that have not found their place yet
    leaves: frozenset[str] = NONE  # groups that are joined as events are
    top: list[NegatedItem] = field(default_factory=list)

    def problem(self, pattern: Pattern) -> TreeProblem:
        root = self._part(pattern)
        return TreeProblem(root, tuple(self.top), self.model, self.key, self.seconds)

    def _part(self, pattern: Pattern) -> PatternPart:
        if isinstance(pattern, Event | Or):  # of a SEQ or AND negations at its edges are no part
            for piece in self.given:
                if piece.aliases == _bound(pattern):
                    found = self._piece(piece, pattern)
                    self.top += found.left_out
                    return found
        match pattern:
            case Event(symbol, alias, One()):
                return Single(alias, self.symbol_rows[symbol])
            case Event() | Seq():
                return self._chain(list(_flat(pattern)))
            case And():
                return self._together(pattern)
            case Or(parts):
                return self._choice(parts)
            case Proj(_, part):
                return self._part(part)
            case Neg():
                raise AssertionError("a negation outside SEQ and AND")

    def _piece(self, piece: GivenFragment, pattern: Pattern) -> GivenItem:
        """A shared piece; `pattern` is what it stands for, for its rows."""
        self.given.remove(piece)
        inner = replace(self, given=[], top=[])
        part = inner._part(pattern if piece.negations else _without_negations(pattern))
        rows = TreeProblem(part, tuple(inner.top), self.model, self.key, self.seconds).rows
        rows = rows if piece.rows is None else piece.rows
        within = within_of(part.items if isinstance(part, SequenceItem) else [part])
        negations = tuple(n for n in negations_of(part) if n.within == within)
        plain = rows / survival(self.model, self.key, negations, part.aliases)
        left_out: list[NegatedItem] = []
        if not piece.negations:
            before = 0
            for node in _flat(pattern):
                if not _is_negative(node):
                    before += 1
                for found in _negations(node):
                    gap = min(max(before, 1), max(len(within) - 1, 1)) - 1
                    left_out.append(self._placed(self._negation(found, 2, NONE), within, gap))
        return GivenItem(
            piece, rows, part.events, part.shares, plain, within, negations, tuple(left_out)
        )

    # --- sequences -----------------------------------------------------------------------------

    def _chain(self, parts: list[Pattern]) -> PatternPart:
        positive = [i for i, part in enumerate(parts) if not isinstance(part, Neg)]
        first, last = positive[0], positive[-1]
        beside = [part for part in (*parts[:first], *parts[last + 1 :]) if isinstance(part, Neg)]
        parts, pieces = self._substitute(parts[first : last + 1])
        items: list[PatternPart | Edge] = []
        between: list[list[Event | Neg]] = []
        leaves = self.leaves if len(positive) > 1 else NONE
        if _is_group(parts[0]) and not _bound(parts[0]) <= leaves:
            loose = all(_is_loose(part) and not _bound(part) & leaves for part in parts)
            items.append(Edge(self.key.cardinality if loose else 1.0))
            between.append([])
        for i, part in enumerate(parts):
            if isinstance(part, Event) and part.alias in leaves:
                items.append(self._leaf_group(part))
                between.append([])
            elif isinstance(part, Neg) or (isinstance(part, Event) and _is_group(part)):
                between[-1].append(part)
            else:
                items.append(pieces[i] if i in pieces else self._part(part))
                between.append([])
        if between[-1]:
            items.append(Edge())
        else:
            between.pop()
        groups = {e.alias: e.symbol for gap in between for e in gap if isinstance(e, Event)}
        aliases = frozenset(groups).union(*(item.aliases for item in items))
        tests = {alias: self._tests(alias, groups.keys(), aliases) for alias in groups}
        items = self._in_place(items)
        within = within_of(items)
        self.top += [self._placed(self._negation(node, 1, NONE), within, BESIDE) for node in beside]
        gaps = tuple(
            self._gap(gap, i, items, within, tests, aliases) if gap else SequenceGap()
            for i, gap in enumerate(between)
        )
        if len(items) == 1 and not isinstance(items[0], Edge):
            return items[0]
        used = {id(test) for found in tests.values() for test in found}
        shares = {
            **dict.fromkeys(groups, 1.0),
            **{
                a: s for item in items if not isinstance(item, Edge) for a, s in item.shares.items()
            },
        }
        predicates = self._predicates(aliases, items, shares, used)
        chain = SequenceItem(
            tuple(items), gaps, predicates, aliases, 0.0, sum(i.events for i in items), shares
        )
        return replace(chain, rows=self._chain_rows(chain))

    def _leaf_group(self, event: Event) -> GroupLeaf:
        """The groups of a window, of all keys: each begins with one of the events."""
        starts = self.symbol_rows[event.symbol]
        size, made = cost.groups_from(event.quantifier, starts * self.key.together(2))
        tests = [c for c in self.conditions if c.aliases == {event.alias}]
        rows = starts * made * math.prod(c.selectivity for c in tests)
        own = cost.touched(self.model, starts * (1 + made), len(tests), rows * size)
        return GroupLeaf(Closure(event.alias, event.quantifier), rows, own)

    def _in_place(self, items: list[PatternPart | Edge]) -> list[PatternPart | Edge]:
        """The items of a sequence; what pieces negate or leave out is in gaps of the sequence."""
        within, found, start = within_of(items), list(items), 0
        for number, item in enumerate(items):
            if isinstance(item, GivenItem):
                placed, left_out = (
                    tuple(self._placed(n, within, start + n.gap) for n in negations)
                    for negations in (item.negations, item.left_out)
                )
                found[number] = replace(item, negations=placed)
                self.top += left_out
            start += len(item.within) if isinstance(item, GivenItem) else 1
        return found

    def _substitute(self, parts: list[Pattern]) -> tuple[list[Pattern], dict[int, GivenItem]]:
        """Neighbouring parts that are a shared piece become one."""
        pieces: dict[int, GivenItem] = {}
        for piece in list(self.given):
            inside = [i for i, p in enumerate(parts) if _bound(p) and _bound(p) <= piece.aliases]
            covered = frozenset().union(*(_bound(parts[i]) for i in inside))
            if len(inside) < 2 or covered != piece.aliases:
                continue
            start, stop = inside[0], inside[-1] + 1
            if any(i not in inside for i in range(start, stop) if _bound(parts[i])):
                continue
            stretch = parts[start:stop]
            if (start > 0 and _is_all(stretch[0])) or (stop < len(parts) and _is_all(stretch[-1])):
                continue  # which events these are depends on the parts beyond
            made = self._piece(piece, Seq(tuple(stretch)))
            parts = [*parts[:start], Seq(tuple(stretch)), *parts[stop:]]
            shift = stop - start - 1
            pieces = {i if i < start else i - shift: found for i, found in pieces.items()}
            pieces[start] = made
        return parts, pieces

    def _gap(
        self,
        between: list[Event | Neg],
        place: int,
        items: Sequence[PatternPart | Edge],
        within: Within,
        tests: dict[str, list[_Condition]],
        chain: frozenset[str],
    ) -> SequenceGap:
        left, right = items[place], items[place + 1]
        at_edge = place == 0 or place + 2 == len(items)
        gap = len(within_of(items[: place + 1])) - 1
        groups = [part for part in between if isinstance(part, Event)]
        around = left.aliases | right.aliases | {group.alias for group in groups}
        negations: list[NegatedItem] = []
        for node in between:
            if not isinstance(node, Neg):
                continue
            negation = self._placed(self._negation(node, 2, around), within, gap)
            if not negation.needs <= chain:
                self.top.append(negation)
                continue
            if not groups:
                negation = replace(
                    negation, before=left.aliases, after=right.aliases, reads=self._reads(node)
                )
            negations.append(negation)
        sides = sum(not isinstance(side, Edge) for side in (left, right))
        return SequenceGap(
            tuple(
                self._group(group, tests[group.alias], sides, len(groups), at_edge)
                for group in groups
            ),
            tuple(negations),
        )

    def _group(
        self, event: Event, tests: list[_Condition], sides: int, beside: int, at_edge: bool
    ) -> ClosureItem:
        candidates = cost.between(self.model, sides, self.symbol_rows[event.symbol])
        candidates *= self.key.together(2) / beside
        for test in tests:
            candidates *= test.selectivity
        needs = frozenset().union(*(test.aliases for test in tests)) - {event.alias}
        whole = sides < 2 and at_edge and isinstance(event.quantifier, All)
        closure = Closure(event.alias, event.quantifier)
        made = cost.groups(self.model, event.quantifier, candidates, sides)
        return ClosureItem(closure, candidates, made, len(tests), needs, whole)

    def _tests(self, alias: str, groups: Iterable[str], chain: frozenset[str]) -> list[_Condition]:
        """The conditions that choose the events of a closure, one by one."""
        others = set(groups) - {alias}
        return [
            condition
            for condition in self.conditions
            if alias in condition.aliases
            and condition.aliases <= chain
            and not condition.aliases & others
            and not ex.has_group_call(condition.expression)
        ]

    def _chain_rows(self, chain: SequenceItem) -> float:
        """The product of all that is in it: the same in every order."""
        rows = math.prod(map(plain_rows, chain.items))
        problem = TreeProblem(chain, (), self.model, self.key, self.seconds)
        seen = chain.items[0].events
        for item, gap in zip(chain.items[1:], chain.gaps, strict=True):
            rows *= cost.meeting(self.model, seen, item.events, ordered=True)
            rows *= problem.same_key(seen, item.events)
            seen += item.events
            for group in gap.groups:
                rows *= group.made
        negations = [negation for gap in chain.gaps for negation in gap.negations]
        for item in chain.items:
            negations += item.negations if isinstance(item, GivenItem) else ()
        rows *= survival(self.model, self.key, negations, chain.aliases)
        return rows * math.prod(p.selectivity for p in chain.predicates)

    # --- conjunction and disjunction -----------------------------------------------------------

    def _together(self, pattern: And) -> PatternPart:
        parts = list(_flat(pattern))
        absent = [part for part in parts if isinstance(part, Neg)]
        parts = [part for part in parts if not isinstance(part, Neg)]
        items: list[PatternPart] = []
        for piece in list(self.given):
            inside = [part for part in parts if _bound(part) <= piece.aliases]
            if len(inside) > 1 and frozenset().union(*map(_bound, inside)) == piece.aliases:
                found = self._piece(piece, And(tuple(inside)))
                self.top += found.left_out
                items.append(found)
                parts = [part for part in parts if part not in inside]
        items += [self._part(part) for part in parts]
        within = tuple((item.aliases, item.events) for item in items)
        self.top += [
            self._placed(self._negation(node, 0, NONE), within, ANYWHERE) for node in absent
        ]
        if len(items) == 1:
            return items[0]
        aliases = frozenset().union(*(item.aliases for item in items))
        shares = {a: s for item in items for a, s in item.shares.items()}
        predicates = self._predicates(aliases, items, shares, set())
        together = Conjunction(tuple(items), predicates, aliases, 0.0, 0, shares)
        problem = TreeProblem(together, (), self.model, self.key, self.seconds)
        rows, seen = 1.0, 0
        for item in items:
            rows *= item.rows * problem.same_key(seen, item.events)
            rows *= cost.meeting(self.model, seen, item.events, ordered=False)
            seen += item.events
        rows *= math.prod(p.selectivity for p in predicates)
        return replace(together, rows=rows, events=seen)

    def _choice(self, parts: tuple[Pattern, ...]) -> PatternPart:
        items: list[PatternPart] = []
        tops: list[list[NegatedItem]] = []
        for part in parts:
            before = len(self.top)
            items.append(self._part(part))
            tops.append(self.top[before:])
            del self.top[before:]
        if len(items) == 1:
            self.top += tops[0]
            return items[0]
        rows = sum(item.rows for item in items)
        shares: dict[str, float] = {}
        for item, negations in zip(items, tops, strict=True):
            share = item.rows / rows if rows else 1 / len(items)
            for alias, inner in item.shares.items():
                shares[alias] = shares.get(alias, 0.0) + share * inner
            # Such a negation says nothing of the matches of other parts.
            self.top += [
                replace(n, survival=1 - share * (1 - n.survival), partial=True) for n in negations
            ]
        aliases = frozenset().union(*(item.aliases for item in items))
        most = max((item.events for item in items), default=1)
        return Disjunction(tuple(items), aliases, rows, most, shares)

    # --- conditions and negations --------------------------------------------------------------

    def _predicates(
        self,
        aliases: frozenset[str],
        items: Sequence[PatternPart | Edge],
        shares: dict[str, float],
        used: set[int],
    ) -> tuple[Predicate, ...]:
        """The conditions over several items; one that reaches into an OR holds for the rest."""
        return tuple(
            Predicate(
                condition.aliases,
                1 - min(shares[a] for a in condition.aliases) * (1 - condition.selectivity),
                condition.equality,
                _compares(condition.expression),
            )
            for condition in self.conditions
            if condition.aliases <= aliases
            and id(condition) not in used
            and not any(condition.aliases <= item.aliases for item in items)
        )

    def _reads(self, negation: Neg) -> frozenset[str]:
        """What the conditions of a negation read outside it."""
        inner = {event.alias for event in components(negation)}
        found = (c.aliases - inner for c in self.conditions if c.aliases & inner)
        return frozenset().union(*found)

    def _negation(self, negation: Neg, sides: int, around: frozenset[str]) -> NegatedItem:
        inside = {event.alias for event in components(negation)}
        reaching = [c for c in self.conditions if c.aliases & inside and not c.aliases <= inside]
        problem = self._negated(negation)
        if self.model.arrivals == "halves":
            selectivity = math.prod(c.selectivity for c in reaching)
            left = max(cost.surviving(sides, selectivity), 1e-9)
            absent: tuple[Absence, ...] = ()
        else:
            absent = self._absences(negation, problem, inside)
            left = share_left((absent,), max(sides, 1), self.key)
        needs = around | self._reads(negation)
        return NegatedItem(problem, needs, len(reaching), left, absent)

    def _negated(self, negation: Neg) -> TreeProblem:
        """What is to be found of a negation."""
        inner = replace(self, given=[], top=[])
        expressions = tuple(condition.expression for condition in self.conditions)
        choices = negated_choices(negation, expressions)
        if len(choices) == 1 and links(choices[0], expressions) is not None:
            return replace(inner.problem(choices[0]), one_pass=True)
        return inner.problem(negation.part)

    def _absences(
        self, negation: Neg, problem: TreeProblem, inside: set[str]
    ) -> tuple[Absence, ...]:
        """What is looked for, of all keys; what a condition ties is so much rarer."""
        shares = dict.fromkeys(inside, 1.0)
        for condition in self.conditions:
            named = condition.aliases & inside
            for alias in named:
                shares[alias] *= condition.selectivity ** (1 / len(named))

        def expected(event: Event) -> float:
            return self.symbol_rows[event.symbol] * shares[event.alias]

        found = absences(negation.part, expected)
        if found is None:  # as if its matches were events
            count = problem.rows * math.prod(
                c.selectivity for c in self.conditions if c.aliases & inside
            )
            found = (Absence((count,)),)
        return found

    def _placed(self, negation: NegatedItem, within: Within, gap: int) -> NegatedItem:
        """The negation in a gap of a sequence."""
        found = replace(negation, within=within, gap=gap)
        if self.model.arrivals == "halves":
            return found
        every = frozenset().union(*(aliases for aliases, _ in within))
        return replace(found, survival=survival(self.model, self.key, [found], every))


def _bound(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(pattern))


def _is_group(pattern: Pattern) -> bool:
    return isinstance(pattern, Event) and not isinstance(pattern.quantifier, One)


def _is_all(pattern: Pattern) -> bool:
    return isinstance(pattern, Event) and isinstance(pattern.quantifier, All)


def _is_loose(pattern: Pattern) -> bool:
    return _is_group(pattern) or isinstance(pattern, Neg)


def _flat(pattern: Pattern) -> Iterable[Pattern]:
    """The parts of a SEQ or AND, those of its own kind and ANDs of negations in their place."""
    if not isinstance(pattern, Seq | And):
        yield pattern
        return
    for part in pattern.parts:
        inner = part.part if isinstance(part, Proj) else part
        negations = isinstance(inner, And) and all(_is_negative(p) for p in inner.parts)
        if isinstance(inner, type(pattern)) or negations:
            yield from _flat(inner)
        else:
            yield part


def _is_negative(pattern: Pattern) -> bool:
    if isinstance(pattern, And):
        return all(map(_is_negative, pattern.parts))
    return isinstance(pattern, Neg)


def _negations(pattern: Pattern) -> Iterable[Neg]:
    """The outermost negations inside a pattern."""
    match pattern:
        case Neg():
            yield pattern
        case Seq(parts) | And(parts) | Or(parts):
            for part in parts:
                yield from _negations(part)
        case Proj(_, part):
            yield from _negations(part)
        case Event():
            return


def _without_negations(pattern: Pattern) -> Pattern:
    match pattern:
        case Seq(parts):
            return Seq(tuple(_without_negations(p) for p in parts if not _is_negative(p)))
        case And(parts):
            return And(tuple(_without_negations(p) for p in parts if not _is_negative(p)))
        case Or(parts):
            return Or(tuple(map(_without_negations, parts)))
        case Proj(keep, part):
            return Proj(keep, _without_negations(part))
        case _:
            return pattern
