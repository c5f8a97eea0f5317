"""Statistics measured from events: rates, selectivities, keys and ties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, Rows, arrange
from engines.columns.vectors import Vector, evaluate, truth
from engines.input.event_paths import EventPath
from engines.input.event_table import Events, Faults, OnError, from_table
from engines.limits import EventsError
from optimizer.ir.pattern import (
    And,
    Event,
    Or,
    Pattern,
    Symbol,
    parts_of,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import BoundWorkload, Query
from optimizer.rewrite.normalize import normalize_workload
from optimizer.statistics import KeyStatistics, Sample, Statistics, given
from optimizer.statistics.statistics import (
    is_complete,
    joint_text,
    key_text,
    local_text,
    symbols_of,
    with_stated,
)
from workloads import expressions as ex
from workloads.imported_rules import refusals
from workloads.workload import Workload

MAX_EVENTS = 500_000  # that are looked at; a longer stream is sampled
MAX_PAIRS = 20_000  # that a joint predicate is tried on: a standard error of 0.0035 at most
STRETCHES = 8  # of a long stream, spread over it so that drift shows


def measure(
    workload: BoundWorkload,
    events: Events,
    seed: int = 0,
    max_events: int = MAX_EVENTS,
    max_pairs: int = MAX_PAIRS,
) -> Statistics:
    """What the queries of a workload need to know of its events.

    Of a stream longer than `max_events` only stretches are looked at, and joint predicates are
    tried on at most `max_pairs` pairs of events that could stand in one match; `sample` says how
    many it were. Selectivities that are given with the workload stay; a predicate for which the
    stream has no pair, or that aggregates over a group, is not estimated.
    """
    workload = normalize_workload(workload).of_stream  # of which plans are made
    random = np.random.default_rng(seed)
    chosen, span = _stretches(events, max_events, random)
    if span == 0:
        raise EventsError(
            "rates cannot be measured: the events are all of one moment; give a longer stream, "
            "or rates under 'statistics'"
        )
    columns = Columns(workload, chosen)
    symbols = {c.symbol for query in workload.queries for c in components(query.pattern)}
    counts = {
        name: columns.number(Symbol(name)) for name in sorted({symbol.type for symbol in symbols})
    }
    joint = _Joint(columns, random, max_pairs)
    estimates = joint.estimates(workload.queries)
    written = given(workload.statistics, workload.queries).selectivities
    whole = joint.arranged((), ranked=False).layout
    return Statistics(
        rates={name: count / span for name, count in counts.items()},
        selectivities={
            **_local(columns, symbols, counts),
            **{text: estimate.share for text, estimate in estimates.items()},
            **written,
        },
        keys={
            key_text(key): found
            for key in sorted({query.key for query in workload.queries if query.key})
            if (found := _key(joint.arranged(key, ranked=False))) is not None
        },
        ties=float(np.mean(whole.after[:-1] - whole.block[:-1] > 1)),
        events=len(events),
        span=_seconds(events),
        source="sampled",
        sample=Sample(len(chosen), seed, {text: e.pairs for text, e in estimates.items()}),
    )


SAMPLED_ROWS = 100_000  # of the beginning of files that are about to be run over
SAMPLED_PAIRS = 4_000


@dataclass(frozen=True)
class EventSample:
    """Events that a workload is planned on, as it is bound to their columns.

    `statistics` are None where nothing can be told: nothing was read, or all is of one moment.
    `notes` say what queries ask for and no event has.
    """

    workload: BoundWorkload
    statistics: Statistics | None
    notes: tuple[str, ...]
    faults: Faults


def sample_files(
    workload: Workload,
    path: EventPath,
    rows: int = SAMPLED_ROWS,
    on_error: OnError = "skip",
    disorder: int | None = None,
    with_notes: bool = True,
) -> EventSample:
    """The first events under a path, as a run would read them.

    What the workload states of its stream is taken as stated, and the rest is measured; where
    nothing is left, events are read for `notes` alone. `disorder` is in nanoseconds: events that
    are later are as bad as rows that are no events.
    """
    from engines.columns.occurrences import Occurrences
    from engines.input.batches import FileSource
    from engines.input.event_rows import ticks_of
    from engines.input.lateness import allowed_lateness
    from engines.input.query_columns import named_columns, needed_columns
    from engines.input.time_sense import TimeSpan

    part = 1.0

    def told(read: float) -> None:
        nonlocal part
        part = read

    faults = Faults(on_error)
    size = min(rows, 16_384)
    source = FileSource(path, workload.stream, faults, batch_rows=size, progress=told)
    bound = source.bind(workload)
    stated = given(bound.statistics, bound.queries)
    known = stated if is_complete(stated, bound.queries) else None
    source.assume(named_columns(bound))
    batches = source.batches(needed_columns(bound, source.schema.names))
    if disorder is not None:
        batches = allowed_lateness(source, workload.stream, disorder).all_on_time(batches)
    tables, taken, is_cut = [], 0, False
    for batch in batches if known is None or with_notes else ():
        tables.append(batch.table)
        taken += len(batch)
        if taken >= rows:
            is_cut = True
            break
    else:
        part = 1.0
    occurred = Occurrences(bound)
    for table in tables:
        occurred.add(table)
    times = TimeSpan()
    for table in tables:
        times.add(ticks_of(table.column(workload.stream.time))[0])
    notes = (
        *refusals(bound.refused),
        *occurred.notes(f" among the first {taken:,}" if is_cut else ""),
        *times.notes(source.time_type, workload.stream),
    )
    if known is not None or not tables:
        return EventSample(bound, known, notes, faults)
    try:
        events = from_table(pa.concat_tables(tables), bound.stream, source.path)
        # All that was read: to pick some of it would be to copy every column.
        known = measure(bound, events, max_events=max(rows, taken), max_pairs=SAMPLED_PAIRS)
    except EventsError:
        return EventSample(bound, None, notes, faults)
    if 0 < part < 1 and known.events is not None and known.span is not None:
        # Of files that go on, as if the rest were like their beginning.
        known = replace(known, events=round(known.events / part), span=known.span / part)
    return EventSample(bound, with_stated(known, stated), notes, faults)


def _seconds(events: Events) -> float:
    return int(events.ticks[-1] - events.ticks[0]) * events.tick / 1e9 if len(events) else 0.0


def _stretches(events: Events, most: int, random: np.random.Generator) -> tuple[Events, float]:
    """The events to look at, and the seconds that they cover."""
    if len(events) <= most:
        return events, _seconds(events)
    size, part = max(2, most // STRETCHES), len(events) // STRETCHES
    rows: list[Rows] = []
    span = 0.0
    for i in range(STRETCHES):
        first = i * part + int(random.integers(0, max(1, part - size)))
        last = min(first + size, len(events)) - 1
        rows.append(np.arange(first, last + 1))
        span += int(events.ticks[last] - events.ticks[first]) * events.tick / 1e9
    taken = np.concatenate(rows)
    return (
        replace(
            events,
            table=events.table.take(pa.array(taken)),
            ticks=events.ticks[taken],
            sequence=None if events.sequence is None else events.sequence[taken],
        ),
        span,
    )


def _local(columns: Columns, symbols: set[Symbol], counts: dict[str, int]) -> dict[str, float]:
    """Of each local predicate alone, and of all that a symbol has."""
    found: dict[str, float] = {}
    for symbol in sorted(symbols, key=str):
        total = counts[symbol.type]
        if not symbol.predicates or not total:
            continue
        for predicate in symbol.predicates:
            alone = columns.number(Symbol(symbol.type, (predicate,)))
            found[local_text(symbol, predicate)] = alone / total
        found[str(symbol)] = columns.number(symbol) / total
    return found


def _key(arranged: ArrangedEvents) -> KeyStatistics | None:
    """None where no event has a key."""
    sizes = np.diff(arranged.layout.starts)
    if not len(sizes):
        return None
    return KeyStatistics(float(len(sizes)), float(sizes.max() / sizes.sum()))


# --- joint predicates --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The share of pairs that satisfied a predicate, and how many were tried."""

    share: float
    pairs: int


class _Joint:
    """Tries joint predicates on events that could stand in one match."""

    def __init__(self, columns: Columns, random: np.random.Generator, most: int) -> None:
        self._columns, self._random, self._most = columns, random, most
        self._layouts: dict[tuple[tuple[str, ...], bool], ArrangedEvents] = {}

    def arranged(self, key: tuple[str, ...], ranked: bool) -> ArrangedEvents:
        if (key, ranked) not in self._layouts:
            layout = arrange(self._columns.events, key, ranked, settled=False)
            self._layouts[key, ranked] = ArrangedEvents(layout, self._columns)
        return self._layouts[key, ranked]

    def estimates(self, queries: tuple[Query, ...]) -> dict[str, _Estimate]:
        """By name; where several queries ask the same, over the pairs of all of them."""
        tried: dict[str, list[tuple[float, int]]] = {}
        for query in queries:
            symbols = symbols_of(query.pattern)
            for condition in query.conditions:
                if len(ex.aliases(condition)) < 2 or ex.has_group_call(condition):
                    continue
                found = self._try(query, condition, symbols)
                if found is not None:
                    tried.setdefault(joint_text(condition, symbols), []).append(found)
        return {
            text: _Estimate(
                sum(hits for hits, _ in found) / sum(pairs for _, pairs in found),
                sum(pairs for _, pairs in found),
            )
            for text, found in tried.items()
        }

    def _try(
        self, query: Query, condition: ex.Expression, symbols: dict[str, Symbol]
    ) -> tuple[float, int] | None:
        """How many of how many pairs satisfied it; None where there are no pairs."""
        arranged = self.arranged(query.key, query.window.is_count)
        tick = 1 if query.window.is_count else self._columns.events.tick
        width = max(1, -(-query.window.size // tick))
        named = [alias for alias in symbols if alias in ex.aliases(condition)]
        drawn = self._draw(arranged, query.pattern, [(a, symbols[a]) for a in named], width)
        if drawn is None:
            return None
        rows, complete = drawn
        size = len(rows[named[0]])
        if size == 0:
            return None

        def attribute(node: ex.Attribute) -> Vector:
            return arranged.vector(node.name).take(rows[node.alias])

        value = evaluate(condition, attribute, self._columns.texts)
        hits = int(np.count_nonzero(np.broadcast_to(truth(value), size)))
        # None in a sample is not none at all: half a hit, so that no estimate is exactly 0.
        return (hits if hits or complete else 0.5), size

    def _draw(
        self,
        arranged: ArrangedEvents,
        pattern: Pattern,
        named: list[tuple[str, Symbol]],
        width: int,
    ) -> tuple[dict[str, Rows], bool] | None:
        """Rows for each alias, within the window and in order, and whether these are all.

        Pairs are drawn uniformly: an event of the first alias as often as it has partners. A third
        alias is drawn around the first, and combinations that do not fit are dropped.
        """
        (anchor, symbol), *others = named
        rows = arranged.candidates(symbol).rows
        if not len(rows) or any(order_of(pattern, anchor, a) == "never" for a, _ in others):
            return None
        found: dict[str, Rows] = {}
        complete = True
        for alias, other in others:
            candidates = arranged.candidates(other)
            low, high = self._region(arranged, rows, order_of(pattern, anchor, alias), width)
            first = candidates.before[low]
            partners = np.maximum(candidates.before[high] - first, 0)
            if not found:
                ends = np.cumsum(partners)
                total = int(ends[-1])
                complete = total <= self._most
                picks = (
                    np.arange(total)
                    if complete
                    else np.sort(self._random.integers(0, total, self._most))
                )
                place = np.searchsorted(ends, picks, "right")
                offset = picks - (ends[place] - partners[place])
                rows = rows[place]
                found = {anchor: rows, alias: candidates.rows[first[place] + offset]}
                continue
            complete = False
            kept = np.flatnonzero(partners)
            offset = (self._random.random(len(kept)) * partners[kept]).astype(np.int64)
            found = {name: drawn[kept] for name, drawn in found.items()}
            found[alias] = candidates.rows[first[kept] + offset]
            rows = found[anchor]
        return self._fitting(arranged, pattern, found, width), complete

    @staticmethod
    def _region(arranged: ArrangedEvents, rows: Rows, order: str, width: int) -> tuple[Rows, Rows]:
        """Where the partners of rows stand that are before them, after them, or either."""
        low, high = (found[rows] for found in arranged.reach(width))
        if order == "before":
            low = arranged.layout.after[rows]
        elif order == "after":
            high = arranged.layout.block[rows]
        return low, high

    @staticmethod
    def _fitting(
        arranged: ArrangedEvents, pattern: Pattern, found: dict[str, Rows], width: int
    ) -> dict[str, Rows]:
        """The combinations with no event twice, all in order and in one window."""
        names = list(found)
        fits = np.ones(len(found[names[0]]), bool)
        block, (low, high) = arranged.layout.block, arranged.reach(width)
        for i, first in enumerate(names):
            for second in names[i + 1 :]:
                a, b = found[first], found[second]
                fits &= (a != b) & (low[a] <= b) & (b < high[a])
                order = order_of(pattern, first, second)
                if order == "before":
                    fits &= block[a] < block[b]
                elif order == "after":
                    fits &= block[b] < block[a]
        return {name: rows[fits] for name, rows in found.items()}


def order_of(pattern: Pattern, first: str, second: str) -> str:
    """How one alias' event stands to another's: before, after, any; never in one match."""
    node = pattern
    while True:
        sides = [
            next((i for i, part in enumerate(parts_of(node)) if alias in _named(part)), None)
            for alias in (first, second)
        ]
        one, two = sides
        if one is None or two is None:
            return "any"
        if one == two:
            node = parts_of(node)[one]
            continue
        if isinstance(node, Or):
            return "never"
        if isinstance(node, And):
            return "any"
        return "before" if one < two else "after"


def _named(pattern: Pattern) -> Iterator[str]:
    return (event.alias for event in components(pattern) if isinstance(event, Event))
