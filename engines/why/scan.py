"""One pass over all events: how many are left of each component after each of its conditions.

It also keeps where the instances of components are, by key, and the events that come nearest to
being one, so that a second pass reads only the events of a few places.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.input.batches import FileSource
from engines.input.event_table import Events, column_at, from_table
from engines.input.query_columns import needed_columns
from engines.why.failing_parts import numbers_failing
from optimizer.ir.pattern import ANY_TYPE, Event, Symbol, events, positive_events
from optimizer.ir.query import BoundWorkload, Query
from workloads import expressions as ex
from workloads.printing import print_expression

Mask = npt.NDArray[np.bool_]
KeyTexts = tuple[str, ...]
MOST_KEYS = 20_000  # that are remembered of a component
MOST_INSTANCES = 20_000  # of a component in a batch whose keys are looked at
LATEST_TIMES = 2  # of the instances of a key
NEAR_EVENTS = 3  # that are kept of those that come nearest to a component
MOST_ROWS = 20_000  # of one place that are looked at
MOST_RELEVANT = 400  # of them that are searched
MOST_SEARCHED = 2_000  # where each event of a partition counts


@dataclass(frozen=True)
class Restriction:
    """The events that a question is about: of a key, by its texts, and between two times."""

    key: KeyTexts | None = None
    low: int | None = None
    high: int | None = None

    def times(self, ticks: npt.NDArray[np.int64]) -> Mask:
        found = np.ones(len(ticks), bool)
        if self.low is not None:
            found &= ticks >= self.low
        if self.high is not None:
            found &= ticks <= self.high
        return found


@dataclass(frozen=True)
class NearEvent:
    """An event of a component's type that is no instance: how many conditions it fails, of which
    those that AND and OR join count each."""

    fails: int
    tick: int
    values: Mapping[str, Any]
    key: KeyTexts | None


@dataclass
class ComponentScan:
    """What was seen of one component; `left` are the events after each condition in turn."""

    event: Event
    negated: bool
    everywhere: int = 0  # events of its type, whatever the question is about
    of_type: int = 0
    left: list[int] = field(default_factory=list)
    keys: dict[KeyTexts | None, tuple[int, list[int]]] = field(default_factory=dict)
    near: list[NearEvent] = field(default_factory=list)

    @property
    def instances(self) -> int:
        return self.left[-1] if self.left else self.of_type

    def document(self) -> dict[str, Any]:
        """The counts as plain values."""
        alias = self.event.alias
        predicates = self.event.symbol.predicates
        kind = self.event.symbol.type
        return {
            "alias": alias,
            "type": "any" if kind == ANY_TYPE else kind,
            "negated": self.negated,
            "events_of_type": self.everywhere,
            "events_looked_at": self.of_type,
            "conditions": [
                {"condition": print_expression(ex.rename(p, {"": alias})), "left": left}
                for p, left in zip(predicates, self.left, strict=True)
            ],
            "instances": self.instances,
        }


@dataclass
class Scan:
    """What a pass over all events has seen."""

    components: list[ComponentScan]
    events: int = 0
    looked_at: int = 0
    is_cut: bool = False  # were there more keys or instances than are remembered?


def key_columns(query: Query, alias: str) -> tuple[str, ...]:
    """The columns that hold the key of a component's events."""
    return (*query.key, *(key.column(alias) for key in query.tied_key))


def scan_events(
    source: FileSource, bound: BoundWorkload, restriction: Restriction, at: int | None
) -> Scan:
    """Count the events of each component, of those that the question is about."""
    query = bound.queries[0]
    positive = {event.alias for event in positive_events(query.pattern)}
    found = Scan([ComponentScan(e, e.alias not in positive) for e in events(query.pattern)])
    for component in found.components:
        component.left = [0] * len(component.event.symbol.predicates)
    for read in _batches(source, bound):
        found.events += len(read)
        columns = Columns(bound, read)
        times = restriction.times(read.ticks)
        asked_any = np.zeros(len(read), bool)
        for component in found.components:
            alias = component.event.alias
            names = key_columns(query, alias)
            asked = times & _has_key(read, names, restriction.key)
            asked_any |= asked
            _count(component, columns, read, asked, names, at, found)
        found.looked_at += int(np.count_nonzero(asked_any))
    return found


def _batches(source: FileSource, bound: BoundWorkload) -> Iterator[Events]:
    columns = needed_columns(bound, source.schema.names)
    for batch in source.batches(columns):
        yield from_table(batch.table, bound.stream)


def _count(
    component: ComponentScan,
    columns: Columns,
    read: Events,
    asked: Mask,
    names: Sequence[str],
    at: int | None,
    scan: Scan,
) -> None:
    symbol = component.event.symbol
    of_type = columns.instances(Symbol(symbol.type))
    component.everywhere += int(np.count_nonzero(of_type))
    of_type = of_type & asked
    component.of_type += int(np.count_nonzero(of_type))
    if not of_type.any():
        return
    left, fails = of_type, np.zeros(len(read), np.int64)
    for place, predicate in enumerate(symbol.predicates):
        holds = columns.test(predicate)
        left = left & holds
        component.left[place] += int(np.count_nonzero(left))
        fails += numbers_failing(predicate, columns.test)
    _remember(component, read, np.flatnonzero(left), names, scan)
    near = np.flatnonzero(of_type & (fails > 0))
    if len(near):
        away = np.zeros(len(near), np.int64) if at is None else np.abs(read.ticks[near] - at)
        best = near[np.lexsort((away, fails[near]))[:NEAR_EVENTS]]
        keys = _keys_of(read, names, best)
        for row, key in zip(best.tolist(), keys, strict=True):
            values = read.table.slice(row, 1).to_pylist()[0]
            component.near.append(NearEvent(int(fails[row]), int(read.ticks[row]), values, key))
        component.near = heapq.nsmallest(
            NEAR_EVENTS,
            component.near,
            key=lambda e: (e.fails, 0 if at is None else abs(e.tick - at), -e.tick),
        )


def _remember(
    component: ComponentScan, read: Events, rows: npt.NDArray[Any], names: Sequence[str], scan: Scan
) -> None:
    """Where the instances of a component are, the latest of each key."""
    if len(rows) > MOST_INSTANCES:
        rows = rows[-MOST_INSTANCES:]
        scan.is_cut = True
    for row, key in zip(rows.tolist(), _keys_of(read, names, rows), strict=True):
        if names and key is None:
            continue
        count, times = component.keys.get(key, (0, []))
        if not count and len(component.keys) >= MOST_KEYS:
            scan.is_cut = True
            continue
        latest = sorted([*times, int(read.ticks[row])])[-LATEST_TIMES:]
        component.keys[key] = (count + 1, latest)


def _keys_of(
    read: Events, names: Sequence[str], rows: npt.NDArray[Any]
) -> Sequence[KeyTexts | None]:
    """The key of each row as texts; None where one is null, or there is no key."""
    if not names:
        return [None] * len(rows)
    taken = pa.array(rows, pa.int64())
    columns = [read.column(name).take(taken).to_pylist() for name in names]
    return [
        None if None in values else tuple(map(key_text, values))
        for values in zip(*columns, strict=True)
    ]


def key_text(value: Any) -> str:
    """A value of a key as people write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _has_key(read: Events, names: Sequence[str], wanted: KeyTexts | None) -> Mask:
    """Which events have this key."""
    found = np.ones(len(read), bool)
    for name, text in zip(names, wanted or (), strict=False):
        column = read.column(name)
        values = column if pa.types.is_string(column.type) else _as_texts(column)
        found &= np.asarray(pc.fill_null(pc.equal(values, text), False))
    return found


def _as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts of a column's values, as `key_text` has them: each distinct value once."""
    codes = pc.dictionary_encode(column).combine_chunks()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.chunk(0) if codes.num_chunks else pa.array([]).dictionary_encode()
    texts = [None if v is None else key_text(v) for v in codes.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(codes.indices)


# --- the events of a few places ---------------------------------------------------------------


@dataclass(frozen=True)
class Focus:
    """A place that is looked at closely: the events of a key around a time.

    Without a `key` it has the events of all.
    """

    key: KeyTexts | None
    center: int
    low: int | None
    high: int | None


@dataclass
class FocusEvents:
    """The events of a place, and whether there are more than are searched."""

    focus: Focus
    rows: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    is_cut: bool = False


def events_of(
    source: FileSource, bound: BoundWorkload, foci: Sequence[Focus], all_count: bool
) -> list[FocusEvents]:
    """The events of places, in one pass; only those of a component's type, unless all count."""
    query = bound.queries[0]
    found = [FocusEvents(focus) for focus in foci]
    each = list(events(query.pattern))
    symbols = {Symbol(event.symbol.type) for event in each}
    groups = {key_columns(query, event.alias) for event in each}
    for read in _batches(source, bound):
        relevant: Mask | None = None
        for place in found:
            focus = place.focus
            mask = Restriction(None, focus.low, focus.high).times(read.ticks)
            if not mask.any():
                continue
            if focus.key is not None:
                keyed = np.zeros(len(read), bool)
                for names in groups:
                    keyed |= _has_key(read, names, focus.key)
                mask &= keyed
            if not all_count:
                if relevant is None:
                    columns = Columns(bound, read)
                    relevant = np.zeros(len(read), bool)
                    for symbol in symbols:
                        relevant |= columns.instances(symbol)
                mask &= relevant
            rows = np.flatnonzero(mask)
            if len(rows) + len(place.rows) > MOST_ROWS:
                place.is_cut = True
                rows = rows[: MOST_ROWS - len(place.rows)]
            values = read.table.take(pa.array(rows, pa.int64())).to_pylist()
            place.rows += zip(read.ticks[rows].tolist(), values, strict=True)
    most = MOST_SEARCHED if all_count else MOST_RELEVANT
    for place in found:
        if len(place.rows) > most:
            center = place.focus.center
            place.rows = heapq.nsmallest(most, place.rows, key=lambda row: abs(row[0] - center))
            place.is_cut = True
    return found


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """An attribute of an event, by its path."""
    if name in values:
        return values[name]
    column = column_at(pa.Table.from_pylist([dict(values)]), name)
    return None if column is None else column[0].as_py()
