"""The events that counted queries speak of, as letters in groups, with room for the rows they
give.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns, distinct
from engines.columns.layout import Layout
from engines.counting.compile import Term, Value
from engines.counting.tables import Letters
from kernels.groups import Groups, ResultRows, RowSegments, Spans
from kernels.values import MAX, MIN, NUMBER, SUM
from kernels.windows.cpu import most_of_letters
from optimizer.ir.aggregates import AggregatePart, InputColumn, aggregate_parts
from optimizer.ir.automaton import Machine, Symbols, counted_readings
from optimizer.ir.pattern import (
    GroupWithout,
    Pattern,
    Symbol,
    alternatives,
    count_readings,
    last_events,
    positive_events,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Aggregation, Query, whole_ticks
from workloads.syntax import Plus

_KINDS = {
    "sum": (SUM, NUMBER),
    "min": (MIN,),
    "max": (MAX,),
    "distinct": (NUMBER,),  # by folds alone
}


def spans_of(queries: Sequence[Query], tick: int) -> Spans:
    """The windows and slides of queries, in ticks or in events."""
    widths = [query.window.ticks(tick) for query in queries]
    slides = [
        (query.slide or 0)
        if query.window.is_count
        else whole_ticks(query.slide or 0, tick, "slide")
        for query in queries
    ]
    return Spans(np.array(widths, np.int64), np.array(slides, np.int64))


class CountingPlan:
    """The machines of queries of one key that are counted together.

    `inputs`: the numbers of columns that are aggregated, by these queries and by others.
    """

    def __init__(
        self, queries: Sequence[Query], inputs: Mapping[InputColumn, int] | None = None
    ) -> None:
        self.queries = tuple(queries)
        self.choices = [counted_readings(query.pattern) for query in self.queries]
        self.inputs: dict[InputColumn, int] = dict(inputs or {})
        self.triggers = [_triggers(query) for query in self.queries]
        self._asked = [self._values(query) for query in self.queries]
        self.most_values = max(map(len, self._asked))
        distinct_choices = dict.fromkeys(itertools.chain.from_iterable(self.choices))
        self.symbols = sorted({e.symbol for c in distinct_choices for e in components(c)}, key=str)

    @cached_property
    def machines(self) -> list[tuple[Machine, ...]]:
        """Those of each query: equal patterns have one."""
        shared: dict[Pattern, Machine] = {}
        for choice in itertools.chain.from_iterable(self.choices):
            if choice not in shared:
                shared[choice] = Machine(choice)
        return [tuple(shared[choice] for choice in choices) for choices in self.choices]

    @cached_property
    def terms(self) -> list[Term]:
        """What tables are compiled from, by query."""
        return list(map(Term, self.machines, self._asked, self.triggers))

    @cached_property
    def reversible(self) -> npt.NDArray[np.bool_]:
        """By query: can all of its events be taken back?"""
        return np.array([term.reversible for term in self.terms], np.bool_)

    def _values(self, query: Query) -> tuple[Value, ...]:
        return tuple(
            Value(kind, part.alias, self.inputs.setdefault(part.column, len(self.inputs)))
            for part in wanted_values(query)
            for kind in _KINDS[part.kind]
        )

    @property
    def is_lasting(self) -> bool:
        """Do its inputs stay what they are whatever other events come?"""
        return all(column.is_lasting for column in self.inputs)


def wanted_values(query: Query) -> list[AggregatePart]:
    """The distinct values that a query's aggregates and its HAVING need, counts apart."""
    assert isinstance(query.output, Aggregation)
    return aggregate_parts(query.output)


def value_columns(query: Query) -> dict[AggregatePart, int]:
    """Where a wanted value stands in a row: its first column."""
    found: dict[AggregatePart, int] = {}
    column = 0
    for part in wanted_values(query):
        found[part] = column
        column += len(_KINDS[part.kind])
    return found


def _triggers(query: Query) -> frozenset[Symbol]:
    if query.slide is not None:
        return frozenset()
    return frozenset(
        event.symbol
        for choice in alternatives(query.pattern)
        for event in last_events(choice, frozenset())
    )


Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

# Sets of symbols that occur at one time are numbered and each gets operators of its own; a stream
# that makes more of them than this is left to the engine that constructs matches.
MAX_LETTERS = 20_000


@dataclass(frozen=True)
class CountResult:
    """Results of a group of queries: a row for each evaluation with at least one match.

    The rows of query q stand from `ends[q]` to before `ends[q + 1]`, in order. `group` is the last
    group in the window, and `last[group]` that group's last row of the layout; `boundary` is the
    time or rank at which it was evaluated, per slide. `counts` are exact where `exact` says so;
    `values[row, i]` is the i-th of the query's wanted values.
    """

    ends: Int64s
    group: Int64s
    last: Int64s
    boundary: Int64s
    counts: npt.NDArray[np.uint64]
    approximate: Float64s
    exact: npt.NDArray[np.bool_]
    values: Float64s
    events: int = 0  # that were looked at

    @property
    def query(self) -> Int64s:
        """The number of each row's query."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))

    def where(self, mask: npt.NDArray[np.bool_]) -> CountResult:
        """Some of the rows."""
        return replace(
            self,
            ends=np.append(0, np.cumsum(mask))[self.ends],
            group=self.group[mask],
            boundary=self.boundary[mask],
            counts=self.counts[mask],
            approximate=self.approximate[mask],
            exact=self.exact[mask],
            values=self.values[mask],
        )

    @property
    def row(self) -> Int64s:
        """The last row of the layout in each window."""
        return self.last[self.group]


@dataclass(frozen=True)
class LetterGroups:
    """The rows that a plan's queries speak of, in groups, and the letters that stand for them."""

    queries: int
    used: Int64s  # rows of the layout
    groups: Groups
    letters: Letters

    @property
    def has_ties(self) -> bool:
        """Are there simultaneous events?"""
        return len(self.groups.move_letter) > len(self.groups.position)


@dataclass(frozen=True)
class RelevantEvents:
    """The events of a layout that queries speak of, in groups of simultaneous ones.

    `codes` are numbers of `sets`, the sets of symbols that events are instances of.
    """

    used: Int64s  # rows of the layout, by event
    event: Int64s  # row pointers by group
    partition: Int64s  # by group
    position: Int64s  # by group
    codes: Int64s  # by event
    sets: Sequence[Symbols]
    inputs: Float64s  # (attribute, event)


def spoken(plan: CountingPlan, columns: Columns, layout: Layout) -> RelevantEvents:
    """The events that the plan's queries speak of."""
    codes, sets = columns.symbol_sets(plan.symbols)
    codes = layout.taken(codes)
    speaks = np.array([bool(symbols) for symbols in sets])
    if speaks.all() and layout.known_after is None:  # each row is a group
        every, inputs = np.arange(len(codes) + 1), _inputs(plan, columns, layout.order)
        return RelevantEvents(
            every[:-1],
            every,
            layout.partition,
            layout.position,
            codes.astype(np.int64),
            sets,
            inputs,
        )
    used = np.arange(len(codes)) if speaks.all() else np.flatnonzero(speaks[codes])
    blocks = layout.block[used]
    new_group = np.ones(len(used), np.bool_)
    np.not_equal(blocks[1:], blocks[:-1], out=new_group[1:])
    firsts = np.flatnonzero(new_group)
    rows = used if len(firsts) == len(used) else used[firsts]
    return RelevantEvents(
        used,
        np.append(firsts, len(used)),
        layout.partition[rows],
        layout.position[rows],
        codes[used].astype(np.int64),
        sets,
        _inputs(plan, columns, layout.order[used]),
    )


def prepare(
    plan: CountingPlan, columns: Columns, layout: Layout, width: int, is_count: bool
) -> LetterGroups | None:
    """What the kernels run on; None where the stream has too many letters.

    `width` is that of the widest window.
    """
    found = spoken(plan, columns, layout)
    named = with_letters(plan, found.codes, found.sets, found.event)
    return None if named is None else _grouped(plan, found, layout, width, is_count, *named)


def spoken_groups(
    plan: CountingPlan, columns: Columns, layout: Layout, width: int, is_count: bool
) -> LetterGroups:
    """The same for what does not look at groups as a whole: a letter is a set of symbols."""
    found = spoken(plan, columns, layout)
    letters = Letters([(symbols, 0) for symbols in found.sets], [frozenset()])
    none = np.zeros(0, np.int64)
    return _grouped(plan, found, layout, width, is_count, letters, none, found.codes)


def _grouped(
    plan: CountingPlan,
    found: RelevantEvents,
    layout: Layout,
    width: int,
    is_count: bool,
    letters: Letters,
    stay_letter: Int64s,
    move_letter: Int64s,
) -> LetterGroups:
    run = _runs(found.partition)
    # A window counted in events ends with the stream; one in time is looked at until it is empty.
    ends = layout.position[layout.starts[found.partition[run[:-1]] + 1] - 1]
    limit = ends if is_count else ends + width
    groups = Groups(run, limit, found.position, stay_letter, found.event, move_letter, found.inputs)
    return LetterGroups(len(plan.queries), found.used, groups, letters)


def rows_for(capacity: int, dual: bool, most_values: int) -> ResultRows:
    """Room for a kernel's results."""
    return ResultRows(
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.uint64),
        np.empty(capacity if dual else 0, np.float64),
        np.empty((capacity, most_values), np.float64),
    )


def joined(parts: Sequence[ResultRows]) -> ResultRows:
    """The rows of several kernel calls."""
    return ResultRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def counted(
    prepared: LetterGroups,
    layout: Layout | None,
    rows: ResultRows,
    dual: bool,
    by_rank: npt.NDArray[np.bool_] | None = None,
) -> CountResult:
    """A kernel's rows as results.

    `by_rank`: of which queries the boundaries are ranks, which a layout is needed for.
    """
    number = rows.query
    if prepared.queries < 2**16:
        number = number.astype(np.uint16)  # sorted by its bits
    order = np.argsort(number, kind="stable")
    ends = np.append(0, np.cumsum(np.bincount(rows.query, minlength=prepared.queries)))
    group, boundary, counts = rows.group[order], rows.boundary[order], rows.counts[order]
    approximate = rows.approximate[order] if dual else counts.astype(np.float64)
    return _counted(
        prepared,
        layout,
        ends,
        group,
        boundary,
        counts,
        approximate,
        rows.values[order],
        dual,
        by_rank,
    )


def counted_by_query(
    prepared: LetterGroups,
    layout: Layout | None,
    start: Int64s,
    rows: RowSegments,
    dual: bool,
    by_rank: npt.NDArray[np.bool_] | None = None,
) -> CountResult:
    """The same of rows that come in segments."""
    ends = np.append(0, np.cumsum(rows.end - start))
    moved = np.flatnonzero(start != ends[:-1]).tolist()

    def close(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows without the room that was not needed; in place, as new memory takes longer."""
        if len(column):
            for q in moved:
                column[ends[q] : ends[q + 1]] = column[start[q] : rows.end[q]]
        return column[: ends[-1]]

    counts = close(rows.counts)
    approximate = close(rows.approximate) if dual else counts.astype(np.float64)
    return _counted(
        prepared,
        layout,
        ends,
        close(rows.group),
        close(rows.boundary),
        counts,
        approximate,
        close(rows.values),
        dual,
        by_rank,
    )


def _counted(
    prepared: LetterGroups,
    layout: Layout | None,
    ends: Int64s,
    group: Int64s,
    boundary: Int64s,
    counts: npt.NDArray[np.uint64],
    approximate: Float64s,
    values: Float64s,
    dual: bool,
    by_rank: npt.NDArray[np.bool_] | None,
) -> CountResult:
    if dual:
        # A wrapped count is right where the true one is below 2^64, which the other one tells.
        exact = (approximate < 2.0**63.5) & (counts <= np.uint64(2**63 - 1))
        approximate = np.where(exact, counts.astype(np.float64), approximate)
    else:
        exact = np.ones(len(counts), np.bool_)
    last = prepared.used[prepared.groups.event[1:] - 1]
    if by_rank is not None and by_rank.any() and layout is not None:
        # The window may end with an event that no query speaks of.
        last = last[group]
        ranked = np.flatnonzero(np.repeat(by_rank, np.diff(ends)))
        until = layout.rows_until(layout.partition[last[ranked]], boundary[ranked])
        last[ranked] = until - 1
        group = np.arange(len(group))
    events = len(prepared.used)
    return CountResult(ends, group, last, boundary, counts, approximate, exact, values, events)


def joined_queries(parts: Sequence[CountResult]) -> CountResult:
    """The results of queries that were counted in parts, one part after the other."""
    starts = np.cumsum([0, *(part.ends[-1] for part in parts)])
    lasts = np.cumsum([0, *(len(part.last) for part in parts)])
    ends = [p.ends[1:] + start for p, start in zip(parts, starts, strict=False)]
    groups = [p.group + first for p, first in zip(parts, lasts, strict=False)]
    return CountResult(
        ends=np.concatenate([[0], *ends]),
        group=np.concatenate(groups),
        last=np.concatenate([part.last for part in parts]),
        boundary=np.concatenate([part.boundary for part in parts]),
        counts=np.concatenate([part.counts for part in parts]),
        approximate=np.concatenate([part.approximate for part in parts]),
        exact=np.concatenate([part.exact for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        events=max(part.events for part in parts),
    )


def nothing(plan: CountingPlan) -> CountResult:
    """No results."""
    none = np.empty(0, np.int64)
    numbers = np.empty(0, np.float64)
    return CountResult(
        np.zeros(len(plan.queries) + 1, np.int64),
        none,
        none,
        none,
        none.astype(np.uint64),
        numbers,
        none.astype(bool),
        numbers.reshape(0, plan.most_values),
    )


def with_letters(
    plan: CountingPlan, codes: Int64s, sets_of: Sequence[Symbols], event: Int64s
) -> tuple[Letters, Int64s, Int64s] | None:
    """The stream's letters, the stay letter of each group and the move letter of each event.

    None where it has too many. `event` are row pointers by group.
    """
    watched = sorted({s for ms in plan.machines for m in ms for s in m.watched_symbols}, key=str)
    if len(watched) > 62:
        return None
    bits = np.array(
        [sum(1 << b for b, s in enumerate(watched) if s in m) for m in sets_of], np.int64
    )
    together = np.bitwise_or.reduceat(bits[codes], event[:-1]) if len(codes) else codes
    sets, stay_letter = distinct(together)
    stays = [frozenset(s for b, s in enumerate(watched) if x >> b & 1) for x in sets.tolist()]
    numbers = codes
    if len(stays) > 1:
        numbers = codes * len(stays) + np.repeat(stay_letter, np.diff(event))
    pairs, move_letter = distinct(numbers)
    if len(pairs) > MAX_LETTERS:
        return None
    moves = [(sets_of[p // len(stays)], p % len(stays)) for p in pairs.tolist()]
    return Letters(moves, stays), stay_letter, move_letter


def _runs(partition: Int64s) -> Int64s:
    """Where the groups of each partition begin, and where the last ones end."""
    return np.append(np.flatnonzero(np.diff(partition, prepend=-1)), len(partition))


def _inputs(plan: CountingPlan, columns: Columns, rows: Int64s) -> Float64s:
    """The aggregated attributes of the used events; NaN for null."""
    inputs = np.empty((len(plan.inputs), len(rows)), np.float64)
    for column, i in plan.inputs.items():
        vector = columns.input(column).take(rows)
        inputs[i] = vector.values.astype(np.float64)
        if vector.nulls is not None:
            inputs[i, vector.nulls] = np.nan
    return inputs


ONE_WORD, TWO_WORDS = 62, 126  # bits of counts that one or two numbers are sure to hold


def bits_of_counts(plan: CountingPlan, prepared: LetterGroups, spans: Spans) -> Float64s:
    """By query, of how many bits the matches in a window may be.

    They are at most the product of the components' candidates.
    """
    groups, moves = prepared.groups, prepared.letters.moves
    events = np.bincount(groups.move_letter, minlength=len(moves))
    every = range(len(plan.queries))
    bits = bits_of_symbols(
        plan, every, _by_symbol(plan, moves, events)
    )  # if all were in one window
    for width in np.unique(spans.width[bits >= ONE_WORD]).tolist():
        most = most_of_letters(
            groups.run, groups.position, groups.event, groups.move_letter, len(moves), width
        )
        mine = np.flatnonzero((bits >= ONE_WORD) & (spans.width == width))
        bits[mine] = bits_of_symbols(plan, mine.tolist(), _by_symbol(plan, moves, most))
    return bits


class CountBounds:
    """Upper bounds of counts by how many events there are, which are the same for most batches."""

    def __init__(self, plan: CountingPlan) -> None:
        self._plan = plan
        self._known: dict[tuple[int, ...], Float64s] = {}

    def bits(self, events: Int64s, most: int) -> Float64s:
        """By query, of how many bits the matches in a window may be.

        `events` are those of each symbol of the plan, and `most` all of one partition.
        """
        # The next power of two, so that the answer is known.
        lengths = tuple(int(n).bit_length() for n in np.minimum(events, most))
        if lengths not in self._known:
            bounds = {s: 1 << b for s, b in zip(self._plan.symbols, lengths, strict=True)}
            every = range(len(self._plan.queries))
            self._known[lengths] = bits_of_symbols(self._plan, every, bounds)
        return self._known[lengths]

    def of_groups(self, prepared: LetterGroups, spans: Spans) -> Float64s:
        """`bits_of_counts`, or higher ones where a number of one word is sure to hold all."""
        groups, moves = prepared.groups, prepared.letters.moves
        events = np.bincount(groups.move_letter, minlength=len(moves))
        by_symbol = _by_symbol(self._plan, moves, events)
        most = int(np.diff(groups.event[groups.run]).max(initial=0))
        bits = self.bits(np.array([by_symbol[s] for s in self._plan.symbols], np.int64), most)
        return bits_of_counts(self._plan, prepared, spans) if (bits >= ONE_WORD).any() else bits


def may_overflow(plan: CountingPlan, prepared: LetterGroups, spans: Spans) -> bool:
    """Could a window hold 2^62 matches?"""
    return bool((bits_of_counts(plan, prepared, spans) >= ONE_WORD).any())


def _by_symbol(
    plan: CountingPlan, moves: Iterable[tuple[Symbols, int]], numbers: Int64s
) -> dict[Symbol, int]:
    """For each symbol, the sum over the letters that have it."""
    found = dict.fromkeys(plan.symbols, 0)
    for (symbols, _), number in zip(moves, numbers.tolist(), strict=True):
        for symbol in symbols:
            found[symbol] += number
    return found


def bits_of_symbols(
    plan: CountingPlan, queries: Iterable[int], most: dict[Symbol, int]
) -> Float64s:
    """The same for windows with at most so many candidates of each symbol."""
    bits = {symbol: math.log2(max(1, number)) for symbol, number in most.items()}
    return np.array([
        max(
            sum(
                most[e.symbol]
                if isinstance(e.quantifier, Plus | GroupWithout)
                else bits[e.symbol]
                for e in positive_events(choice)
            )
            for choice in plan.choices[q]
        )
        + math.log2(sum(map(count_readings, plan.choices[q])))
        for q in queries
    ])  # fmt: skip


_FIRST, _MOST = 1 << 10, 1 << 21  # rows per slide that are made room for at first


def filled(
    run: Callable[[ResultRows], int], capacity: int, dual: bool, most_values: int
) -> ResultRows:
    """The rows that `run` fills in; where it says -1 it is given more room and asked again."""
    while True:
        out = rows_for(capacity, dual, most_values)
        made = run(out)
        if made >= 0:
            return ResultRows(*(column[:made] for column in out))
        capacity = 4 * max(1, capacity)


def capacity_for(groups: Groups, triggered: np.ndarray, spans: Spans) -> int:
    """How many rows there may be, by how many queries each move letter triggers.

    Per slide that is a guess where boundaries are very many, as after a gap in the stream.
    """
    capacity = int(triggered[groups.move_letter].sum())
    firsts = groups.run[:-1][np.diff(groups.run) > 0]
    reach = groups.limit[np.diff(groups.run) > 0] - groups.position[firsts]
    marks = spans.marks
    boundaries = sum(
        (float(np.floor_divide(reach, slide).sum()) + len(reach)) * number
        for slide, number in zip(marks.slide.tolist(), np.diff(marks.marked).tolist(), strict=True)
    )
    return capacity + (int(min(_MOST, max(_FIRST, boundaries))) if len(marks.slide) else 0)
