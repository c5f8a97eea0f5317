"""Of a slice of which little is new, what has to be looked at: keys that have a new last event."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.columns import Columns
from engines.input.event_table import Events
from engines.local.slices import Slice, SliceReach
from engines.program import Program, Unit
from optimizer.ir.pattern import (
    And,
    Event,
    GroupWithout,
    Neg,
    Seq,
    Symbol,
    alternatives,
    last_events,
    walk,
)
from optimizer.ir.query import Query
from workloads.errors import TooLargeError, UnsupportedError
from workloads.syntax import Exactly, One, Plus

# Whole numbers that lie so close are looked up in a table, which takes a fifth of the time.
_LARGEST_TABLE = 1 << 20
LITTLE = 0.25  # of a slice: if no more of it is new, keys that have nothing new are left out


@dataclass(frozen=True)
class KeyedProgram:
    """The part of a program that has one key, and its parts by their reach."""

    program: Program
    timed: Mapping[SliceReach, Program]

    @cached_property
    def last_symbols(self) -> frozenset[Symbol] | None:
        """The symbols that the last event of any row has one of; None: that is not known."""
        found = [_last_symbols(query) for query in self.program.workload.queries]
        return frozenset().union(*(s for s in found if s is not None)) if all(found) else None


def by_key(
    program: Program, timed: Mapping[SliceReach, Sequence[Unit]]
) -> dict[tuple[str, ...], KeyedProgram]:
    """Units by key; those that give rows of keys without new events are under none."""
    found: dict[tuple[str, ...], dict[SliceReach, list[Unit]]] = {}
    for reach, units in timed.items():
        for unit in units:
            slides = any(query.slide is not None for query in unit.queries)
            key = () if slides else unit.queries[0].key
            found.setdefault(key, {}).setdefault(reach, []).append(unit)
    return {
        key: KeyedProgram(
            program.only([unit for units in some.values() for unit in units]),
            {reach: program.only(units) for reach, units in some.items()},
        )
        for key, some in found.items()
    }


def _last_symbols(query: Query) -> frozenset[Symbol] | None:
    if query.skips_past:
        return None  # a row is of the slice in which it begins
    try:
        choices = alternatives(query.pattern)
    except TooLargeError:
        return None  # which is said when it runs
    for node in (node for choice in choices for node in walk(choice)):
        match node:
            case Event(_, _, One() | Plus() | Exactly() | GroupWithout()) | Seq() | And() | Neg():
                continue
            case _:
                return None
    return frozenset(e.symbol for choice in choices for e in last_events(choice, frozenset()))


def events_of_news(keyed: KeyedProgram, piece: Slice, key: tuple[str, ...], own: Events,
                   account: Account) -> Events:  # fmt: skip
    """The events of a slice whose key can give a row of the slice, and maybe more."""
    program, last = keyed.program, keyed.last_symbols
    if last is not None:
        own = of_symbols(program, own, last, account)
    with account.charge(program.ids.partition(key, False)):
        return _of_keys(piece.events, own, key)


def of_symbols(
    program: Program, events: Events, symbols: Collection[Symbol], account: Account
) -> Events:
    """The events that are instances of any of these symbols of a program, and maybe more."""
    if not len(events):
        return events
    try:
        columns = Columns(program.workload, events, account, program.conditions)
        codes, sets = columns.symbol_sets(sorted(symbols, key=str))
    except UnsupportedError:
        return events  # who reads the symbol that cannot be tested says so
    wanted = np.array([bool(found) for found in sets], bool)
    return events if wanted.all() else _where(events, wanted[codes])


def _of_keys(events: Events, some: Events, key: tuple[str, ...]) -> Events:
    """The events whose key one of some others has too, and maybe more."""
    mask: npt.NDArray[np.bool_] | None = None
    for name in key:
        values, found = some.whole(name), events.whole(name)
        if pa.types.is_floating(values.type):  # of which 0.0 and -0.0 are one key
            continue
        own = _among(found, values)
        mask = own if mask is None else mask & own
    return events if mask is None else _where(events, mask)


def _among(found: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which of what was found is among some values."""
    is_whole = pa.types.is_int64(found.type) and pa.types.is_int64(values.type)
    if is_whole and len(values) and not found.null_count and not values.null_count:
        wanted: npt.NDArray[np.int64] = values.to_numpy()
        low, high = int(wanted.min()), int(wanted.max())
        if high - low < _LARGEST_TABLE:
            table = np.zeros(high - low + 1, bool)
            table[wanted - low] = True
            numbers: npt.NDArray[np.int64] = found.to_numpy()
            places = (numbers - low).view(np.uint64)  # what is below is far above
            inside = table[np.minimum(places, np.uint64(high - low)).view(np.int64)]
            return inside & (places <= np.uint64(high - low))
    return np.asarray(pc.is_in(found, value_set=pc.unique(values)))


def _where(events: Events, mask: npt.NDArray[np.bool_]) -> Events:
    rows = np.flatnonzero(mask)
    if len(rows) == len(events):
        return events
    return Events(
        events.table.take(pa.array(rows)),
        events.ticks[rows],
        None if events.sequence is None else events.sequence[rows],
        events.tick,
        events.time_type,
        events.time_column,
        events.ignores_missing,
    )
