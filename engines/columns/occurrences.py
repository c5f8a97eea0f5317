"""Which of the types and attributes that queries ask for have occurred in the events.

A query for something that never occurs finds nothing, or with a negation too much, and no error
says so: these are the sentences that do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.input.event_table import column_at, from_table
from engines.input.time_sense import notes_about_times
from optimizer.ir.keys import is_added
from optimizer.ir.pattern import Symbol, events
from optimizer.ir.query import Aggregation, BoundWorkload, Query, ReturnAttribute, ReturnValue
from workloads import expressions as ex
from workloads.errors import did_you_mean
from workloads.printing import print_expression
from workloads.workload import Stream

FIRST_ROWS = 20_000  # of a table: what is common has occurred by then
MAX_NAMES = 10_000  # of types that are remembered, to find the one that was meant
SHOWN_NAMES = 12
MAX_NOTES = 50

TypeAttribute = tuple[str, str]  # a type, and an attribute of its events


@dataclass(frozen=True)
class _Asked:
    """What a query asks for: types, attributes of their events, and a key that these need."""

    query: str
    types: tuple[str, ...]
    attributes: tuple[TypeAttribute, ...]
    key: tuple[str, ...]

    @property
    def pairs(self) -> Iterator[TypeAttribute]:
        yield from self.attributes
        yield from ((type_, name) for type_ in self.types for name in self.key)


@dataclass
class Occurrences:
    """What has occurred so far of what the queries of a workload ask for.

    Events are looked at only as long as something is missing. What several processes have seen is
    put together by `seen` and `merge`.
    """

    workload: BoundWorkload
    types: set[str] = field(default_factory=set)
    pairs: set[TypeAttribute] = field(default_factory=set)  # of which some value is not null
    names: set[str] = field(default_factory=set)  # that the column of types has
    events: int = 0
    times: list[int] = field(default_factory=list)  # the first and the last tick, if told

    def __post_init__(self) -> None:
        self._asked = [_asked(query) for query in self.workload.of_stream.queries]
        self._types = {type_ for asked in self._asked for type_ in asked.types}
        self._pairs = {pair for asked in self._asked for pair in asked.pairs}

    def afresh(self, workload: BoundWorkload) -> Occurrences:
        """One that has seen nothing, of the same workload or of a part of it."""
        if workload is not self.workload:
            return Occurrences(workload)
        found = copy(self)  # finding out what is asked for takes a while
        found.types, found.pairs, found.names, found.events, found.times = (
            set(),
            set(),
            set(),
            0,
            [],
        )
        return found

    @property
    def stream(self) -> Stream:
        return self.workload.stream

    @property
    def is_complete(self) -> bool:
        """Has everything occurred that any query asks for?"""
        return self.types >= self._types and self.pairs >= self._pairs

    def missing(self) -> tuple[set[str], set[TypeAttribute]]:
        """The types that have not occurred, and the attributes that have no value."""
        return self._types - self.types, self._pairs - self.pairs

    def add(self, table: pa.Table) -> None:
        """Look at some events, in any order."""
        self.events += table.num_rows
        for part in (table.slice(0, FIRST_ROWS), table.slice(FIRST_ROWS)):
            if part.num_rows and not self.is_complete:
                self._look(part)

    def seen(self) -> dict[str, Any]:
        """All of it as plain values."""
        pairs = [list(pair) for pair in sorted(self.pairs)]
        return {
            "types": sorted(self.types),
            "pairs": pairs,
            "names": sorted(self.names),
            "times": self.times,
            "events": self.events,
        }

    def merge(self, seen: Mapping[str, Any]) -> None:
        """Add what another has seen."""
        self.types |= set(seen.get("types", ()))
        self.pairs |= {(type_, name) for type_, name in seen.get("pairs", ())}
        self._remember(seen.get("names", ()))
        self.events += seen.get("events", 0)
        if times := [*self.times, *seen.get("times", ())]:
            self.times = [min(times), max(times)]

    def time_notes(self, kind: pa.DataType | None) -> list[str]:
        """What is odd about the times of all events, which are of this type."""
        if not self.times or kind is None:
            return []
        return notes_about_times(self.times[0], self.times[1], self.events, kind, self.stream)

    def notes(self, among: str = "") -> list[str]:
        """A sentence for each thing that a query asks for and no event has had.

        `among` is said of events that are not all there are, such as ` among the first 1,000`.
        """
        if not self.events:
            return ["no event was read"]
        found = [note for asked in self._asked for note in self._of_query(asked, among)]
        if len(found) <= MAX_NOTES:
            return found
        more = len(found) - MAX_NOTES
        return [*found[:MAX_NOTES], f"{more:,} more that queries ask for and no event has"]

    # --- looking -------------------------------------------------------------------------------

    def _look(self, table: pa.Table) -> None:
        types, pairs = self.missing()
        wanted = types | {type_ for type_, _ in pairs}
        stated = {name for name in wanted if self.stream.types.get(name) is not None}
        tests: Columns | None = None
        if stated:
            events = from_table(table, self.stream)
            table = events.table
            tests = Columns(replace(self.workload, queries=()), events)
        codes, names = self._coded(table)
        self._remember(names)
        counts = np.bincount(codes, minlength=len(names))
        here = {name for name, count in zip(names, counts, strict=False) if count} & wanted
        masks: dict[str, npt.NDArray[np.bool_]] = {}
        if tests is not None:
            tests.symbol_sets([Symbol(name) for name in stated])  # all at once
            masks = {name: tests.instances(Symbol(name)) for name in stated}
        here |= {name for name, mask in masks.items() if mask.any()}
        self.types |= here
        missing: dict[str, list[str]] = {}
        for type_, name in pairs:
            if type_ in here:
                missing.setdefault(name, []).append(type_)
        for name, of in missing.items():
            present = _present(table, name)
            counts = np.bincount(codes[present], minlength=len(names))
            having = {type_ for type_, count in zip(names, counts, strict=False) if count}
            having |= {type_ for type_ in of if type_ in masks and masks[type_][present].any()}
            self.pairs |= {(type_, name) for type_ in of if type_ in having}

    def _coded(self, table: pa.Table) -> tuple[npt.NDArray[np.int64], list[str]]:
        """The type of each event as a number, and the types; events without one have the last."""
        if self.stream.type is None or self.stream.type not in table.column_names:
            return np.zeros(table.num_rows, np.int64), []
        column = table.column(self.stream.type)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        encoded = pc.dictionary_encode(column).combine_chunks()
        names = [str(value) for value in encoded.dictionary.to_pylist()]
        codes = np.asarray(pc.fill_null(encoded.indices, len(names)))
        return codes.astype(np.int64), names

    def _remember(self, names: Iterable[str]) -> None:
        if self._types - self.types:
            room = max(0, MAX_NAMES - len(self.names))
            self.names.update(islice((name for name in names if name not in self.names), room))

    # --- telling -------------------------------------------------------------------------------

    def _of_query(self, asked: _Asked, among: str) -> Iterator[str]:
        start = f"query {asked.query}: "
        for type_ in asked.types:
            if type_ not in self.types:
                yield start + self._no_type(type_, among)
        here = [type_ for type_ in asked.types if type_ in self.types]
        for name in asked.key:
            if without := [type_ for type_ in here if (type_, name) not in self.pairs]:
                yield (
                    f"{start}its key '{name}' is null in every event of {_listed(without)}{among}, "
                    "and an event without a key is in no match"
                )
        for type_, name in asked.attributes:
            if type_ in here and name not in asked.key and (type_, name) not in self.pairs:
                yield f"{start}'{name}' is null in every event of '{type_}'{among}"

    def _no_type(self, type_: str, among: str) -> str:
        condition = self.stream.types.get(type_)
        if condition is not None:
            return f"no event{among} is '{type_}', which is {print_expression(condition)}"
        names = sorted(self.names)
        listed = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        hint = did_you_mean(type_, names) or f"there are {listed or 'none'}"
        return f"no event{among} has '{type_}'; {hint}"


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What several have seen, as one; the names of types as far as they are remembered."""
    types: set[str] = set()
    pairs: set[TypeAttribute] = set()
    names: set[str] = set()
    times: list[int] = []
    events = 0
    for seen in parts:
        types.update(seen.get("types", ()))
        pairs.update((type_, name) for type_, name in seen.get("pairs", ()))
        names.update(seen.get("names", ()))
        times += seen.get("times", ())
        events += seen.get("events", 0)
    return {
        "types": sorted(types),
        "pairs": [list(pair) for pair in sorted(pairs)],
        "names": sorted(names)[:MAX_NAMES],
        "times": [min(times), max(times)] if times else [],  # the first and the last tick
        "events": events,
    }


def _present(table: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """Where an attribute has a value; one that is no column, such as `time`, has one everywhere."""
    column = column_at(table, name)
    if column is None:
        return np.ones(table.num_rows, bool)
    present = np.asarray(pc.is_valid(column))
    if pa.types.is_floating(column.type):
        present = present & ~np.asarray(pc.fill_null(pc.is_nan(column), True))
    return present


def _listed(types: Sequence[str]) -> str:
    return ", ".join(f"'{type_}'" for type_ in types)


def _asked(query: Query) -> _Asked:
    parts = list(events(query.pattern))
    of_alias = {event.alias: event.symbol.type for event in parts}
    found: dict[TypeAttribute, None] = {}
    for event in parts:
        for predicate in event.symbol.predicates:
            asked = (node for node in _read(predicate) if not is_added(node.name))
            found.update({(event.symbol.type, node.name): None for node in asked})
    for node in (node for expression in _expressions(query) for node in _read(expression)):
        if node.alias in of_alias:
            found[of_alias[node.alias], node.name] = None
    types = tuple(dict.fromkeys(event.symbol.type for event in parts))
    return _Asked(query.name, types, tuple(found), query.key)


def _expressions(query: Query) -> Iterator[ex.Expression]:
    yield from query.conditions
    if isinstance(query.output, Aggregation):
        yield from (item.operand for item in query.output.items if item.operand is not None)
        if query.output.having is not None:
            yield query.output.having
        return
    for item in query.output.items:
        if isinstance(item, ReturnAttribute):
            yield ex.Attribute(item.alias, item.attribute)
        elif isinstance(item, ReturnValue):
            yield item.value


def _read(expression: ex.Expression) -> Iterator[ex.Attribute]:
    """The attributes that it needs a value of: not those that it asks to be null."""
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ex.Attribute):
            yield node
        if not (isinstance(node, ex.IsNull) and not node.negated):
            stack.extend(reversed(ex.children(node)))
