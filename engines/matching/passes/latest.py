"""STRATEGY LATEST: of each stage one partial match waits for its key; one pass for all queries.

Of an AND each key has one match, that which is complete first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import Layout, Rows, partition_codes
from engines.columns.vectors import Vector, evaluate, truth
from engines.input.event_table import is_list
from engines.matching.passes.together import first_together
from engines.results.chunks import MatchChunk, RowChunk
from engines.results.json_text import BoundAliases, RowNumbers, joined, json_column, json_text
from kernels.latest.cpu import NO_ROW, UNTIL, select_latest
from optimizer.ir.latest import Absence, LatestParts, conditions_by_stage, latest_parts
from optimizer.ir.pattern import Event
from optimizer.ir.query import Query
from workloads import expressions as ex
from workloads.errors import UnsupportedError

if TYPE_CHECKING:
    from engines.matching.passes.input import PassInput
    from engines.program import PassUnit

Mask = npt.NDArray[np.bool_]


def latest_chunks(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The matches of a unit's queries, each query's as one chunk."""
    columns = given.columns
    first = unit.queries[0]
    layout = given.arranged(first).layout if first.window.is_count else None
    run = _Pass(columns, layout)
    parts = [run.parts(query) for query in unit.queries]
    ordered = [found for found in parts if not found.pattern.together]
    selected = run.select(ordered) if ordered else None
    for found in parts:
        if found.pattern.together or selected is None:
            matches = run.together(found)
        else:
            matches = run.matches(found, selected)
        output = given.outputs[found.query.name]
        if len(matches.last):
            yield LatestMatches(found, columns, run.moments, matches, given.context.account, output)


class Moments(NamedTuple):
    """The order of the table's rows: simultaneous ones have one number, and a window is measured by
    positions; where these are ranks, `layout` has them.
    """

    number: Rows
    position: Rows
    layout: Layout | None


@dataclass
class QueryItems:
    """The events of a query at its stages, in the order in which they are offered.

    `absent` are the rows of what must be absent, each with the number of its key.
    """

    query: Query
    pattern: LatestParts
    width: int
    rows: Rows
    stage: Rows
    code: Rows
    absent: Mapping[Absence, tuple[Rows, Rows]]
    codes: int
    allowed: Mask  # may the event take what it would meet, by the conditions that tie events?
    start: int = 0  # of its items among those of all queries


class Selected(NamedTuple):
    """For each item of all queries its event and key, the item before, and the first event."""

    rows: Rows
    code: Rows
    previous: Rows
    first: Rows


class FoundRows(NamedTuple):
    """The rows of each match's events, stage by stage, and the number of its key."""

    events: Sequence[Rows]
    code: Rows

    @property
    def first(self) -> Rows:
        found: Rows = np.minimum.reduce(self.events)
        return found

    @property
    def last(self) -> Rows:
        found: Rows = np.maximum.reduce(self.events)
        return found

    def take(self, some: Rows | Mask) -> FoundRows:
        return FoundRows([rows[some] for rows in self.events], self.code[some])


class ListCodes(NamedTuple):
    """The values of each row's list as numbers: where those of a row begin, and all of them."""

    starts: Rows
    numbers: Rows

    def of(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """Some rows, once for each distinct value: the rows, their places, and the values."""
        starts, sizes = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        places = np.repeat(np.arange(len(rows)), sizes)
        inside = np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        numbers = self.numbers[np.repeat(starts, sizes) + inside]
        pairs = np.unique(np.stack([places, numbers], 1), axis=0)
        return rows[pairs[:, 0]], pairs[:, 0], pairs[:, 1]


@dataclass
class _Pass:
    """One pass over the events; numbers of keys are made once for all queries."""

    columns: Columns
    layout: Layout | None
    _own: dict[tuple[str, ...], tuple[Rows, int]] = field(default_factory=dict)
    _tied: dict[frozenset[str], dict[str, Rows | ListCodes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        events = self.columns.events
        changes = np.ones(len(events), bool)
        changes[1:] = events.ticks[1:] != events.ticks[:-1]
        if events.sequence is not None:
            changes[1:] |= events.sequence[1:] != events.sequence[:-1]
        number: Rows = np.cumsum(changes)
        position = events.ticks
        if self.layout is not None:
            position = np.zeros(len(events), np.int64)
            position[self.layout.order] = self.layout.position
        self.moments = Moments(number, position, self.layout)

    def parts(self, query: Query) -> QueryItems:
        """What a query reads, with the keys of all its components in one numbering."""
        pattern = latest_parts(query.pattern)
        components = list(enumerate(pattern.stages))[::-1]
        if pattern.until is not None:
            components.append((UNTIL, pattern.until))
        read = [(event, self._rows(event)) for _, event in components]
        read += [(absence.event, self._rows(absence.event)) for absence in pattern.absences]
        given, codes, number = self._codes(query, read)
        known = [code >= 0 for code in codes]
        rows = [r[keep] for r, keep in zip(given, known, strict=True)]
        codes = [code[keep] for code, keep in zip(codes, known, strict=True)]
        size = len(components)
        stages = [np.full(len(r), s) for (s, _), r in zip(components, rows, strict=False)]
        every = np.concatenate(rows[:size])
        order = np.argsort(every, kind="stable")  # of one event, stages stay from last to first
        absent = dict(
            zip(pattern.absences, zip(rows[size:], codes[size:], strict=True), strict=True)
        )
        found = QueryItems(
            query,
            pattern,
            query.window.ticks(self.columns.events.tick),
            every[order],
            np.concatenate(stages)[order],
            np.concatenate(codes[:size])[order],
            absent,
            number,
            np.ones(len(every), bool),
        )
        for place, conditions in conditions_by_stage(query).items():
            self._ask(found, place, conditions)
        return found

    def _ask(self, one: QueryItems, place: int, conditions: Sequence[ex.Expression]) -> None:
        """Settle which events of a stage may take what waits behind the stage before.

        That is the last partial match of its key that came so far, whatever takes it earlier.
        """
        found = self.select([one])
        items = np.flatnonzero(one.stage == place)
        order = np.argsort(one.code, kind="stable")
        came = (one.stage[order] == place - 1) & (found.first[order] >= 0)
        last = np.maximum.accumulate(np.where(came, np.arange(len(order)), -1))
        sorted_place = np.empty(len(order), np.int64)
        sorted_place[order] = np.arange(len(order))
        before = last[sorted_place[items]]
        waits = before >= 0
        waits[waits] = one.code[order[before[waits]]] == one.code[items[waits]]
        one.allowed[items] = False
        items, item = items[waits], order[before[waits]]
        rows = {one.pattern.stages[place].alias: one.rows[items]}
        for stage in one.pattern.stages[:place][::-1]:
            rows[stage.alias] = one.rows[item]
            item = found.previous[item]
        holds = np.ones(len(items), bool)
        for condition in conditions:
            holds &= truth(
                evaluate(
                    condition,
                    lambda node: self.columns.vector(node.name).take(rows[node.alias]),
                    self.columns.texts,
                )
            )
        one.allowed[items] = holds

    def select(self, parts: Sequence[QueryItems]) -> Selected:
        """Go through the items of all queries."""
        starts = np.cumsum([0, *(len(one.rows) for one in parts)])
        for one, start in zip(parts, starts.tolist(), strict=False):
            one.start = start
        rows = np.concatenate([one.rows for one in parts])
        code = np.concatenate([one.code for one in parts])
        previous, first = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        tied = select_latest(
            starts,
            np.array([len(one.pattern.stages) for one in parts], np.int64),
            np.array([one.width for one in parts], np.int64),
            rows,
            np.concatenate([one.stage for one in parts]),
            code,
            np.concatenate([one.allowed for one in parts]),
            self.moments.position,
            self.moments.number,
            max(one.codes for one in parts),
            previous,
            first,
        )
        if tied != NO_ROW:
            self._refuse(tied)
        return Selected(rows, code, previous, first)

    def together(self, one: QueryItems) -> FoundRows:
        """Of each key the match of an AND that is complete first."""
        by_key = np.argsort(one.code, kind="stable")
        rows, code = one.rows[by_key], one.code[by_key]
        tied = (code[1:] == code[:-1]) & (rows[1:] != rows[:-1])
        tied &= self.moments.number[rows[1:]] == self.moments.number[rows[:-1]]
        if tied.any():
            self._refuse(int(rows[1:][tied][0]))
        return FoundRows(*first_together(rows, one.stage[by_key], code, len(one.pattern.stages)))

    def matches(self, one: QueryItems, selected: Selected) -> FoundRows:
        """The matches of a query without those that have what must be absent."""
        final = (one.stage == len(one.pattern.stages) - 1) & (
            selected.first[one.start : one.start + len(one.rows)] >= 0
        )
        item = np.flatnonzero(final) + one.start
        code, events = selected.code[item], []
        for _ in one.pattern.stages:
            events.append(selected.rows[item])
            item = selected.previous[item]
        found = FoundRows(events[::-1], code)
        for absence in one.pattern.absences:
            found = found.take(~self._occurs(one, absence, found))
        return found

    def _occurs(self, one: QueryItems, absence: Absence, found: FoundRows) -> Mask:
        """Does a match have the event that must be absent?"""
        rows, codes = one.absent[absence]
        # In a window counted in events the ranks of a key are the order of its moments.
        place = self.moments.number if self.layout is None else self.moments.position
        span = int(place.max(initial=0)) + 2
        keys = np.sort(codes * span + place[rows])
        if absence.behind == 0:
            low = self._opening(one, found)
        else:
            low = place[found.events[absence.behind - 1]]
        if absence.behind == len(one.pattern.stages):
            high = self._closing(one, found)
        else:
            high = place[found.events[absence.behind]]
        base = found.code * span
        return np.searchsorted(keys, base + high) > np.searchsorted(keys, base + low, "right")

    def _opening(self, one: QueryItems, found: FoundRows) -> Rows:
        """The place that the last moment before the window of each match has."""
        opens = self.moments.position[found.last] - one.width
        if self.layout is not None:
            return np.maximum(opens, 0)
        return self._moments_until(opens, "right")

    def _closing(self, one: QueryItems, found: FoundRows) -> Rows:
        """The place of the first moment behind the window of each match."""
        closes = self.moments.position[found.events[0]] + one.width
        if self.layout is not None:
            most = int(self.moments.position.max(initial=0)) + 1
            return np.minimum(closes, most)
        return self._moments_until(closes, "left") + 1

    def _moments_until(self, ticks: Rows, side: str) -> Rows:
        """How many moments there are before these times, or up to them."""
        side_of = "left" if side == "left" else "right"
        before = np.searchsorted(self.columns.events.ticks, ticks, side_of)  # type: ignore[call-overload]
        found: Rows = np.concatenate([[0], self.moments.number])[before]
        return found

    # --- keys ------------------------------------------------------------------------------------

    def _rows(self, event: Event) -> Rows:
        return np.flatnonzero(self.columns.instances(event.symbol))

    def _codes(
        self, query: Query, read: Sequence[tuple[Event, Rows]]
    ) -> tuple[list[Rows], list[Rows], int]:
        """Rows with the number of their key, -1 where a part of it is null; and how many keys.

        A row whose key is a list stands there once for each of its values.
        """
        own, number = self._own_codes(query.key)
        given = [rows for _, rows in read]
        codes: list[Rows] = [own[rows] for rows in given]
        for key in query.tied_key:
            values = self._tied_codes(frozenset(column for _, column in key.columns))
            others: list[Rows] = []
            for place, (event, _) in enumerate(read):
                found = values[key.column(event.alias)]
                if isinstance(found, ListCodes):
                    given[place], picked, other = found.of(given[place])
                    codes[place] = codes[place][picked]
                    others.append(other)
                else:
                    others.append(found[given[place]])
            known, other = np.concatenate(codes), np.concatenate(others)
            if key.optional:
                other = other + 1  # null is the first of the values
            pairs = known * (int(other.max(initial=0)) + 1) + other
            pairs[(known < 0) | (other < 0)] = -1
            distinct, place = np.unique(pairs, return_inverse=True)
            absent = int(len(distinct) > 0 and distinct[0] < 0)
            number = len(distinct) - absent
            sizes = np.cumsum([len(rows) for rows in given])[:-1]
            codes = np.split(place.astype(np.int64) - absent, sizes)
        return given, codes, max(number, 1)

    def _own_codes(self, key: tuple[str, ...]) -> tuple[Rows, int]:
        if key not in self._own:
            events = self.columns.events
            if key:
                codes, number = partition_codes(events, key)
                self._own[key] = codes.astype(np.int64), number
            else:
                self._own[key] = np.zeros(len(events), np.int64), 1
        return self._own[key]

    def _tied_codes(self, names: frozenset[str]) -> dict[str, Rows | ListCodes]:
        """The values of columns as numbers, by column and row; equal ones have one number."""
        if names not in self._tied:
            events = self.columns.events
            numbers: dict[tuple[bool, object], int] = {}
            found: dict[str, Rows | ListCodes] = {}
            kinds = {name: events.column(name).type for name in sorted(names)}
            for name, kind in kinds.items():
                if is_list(kind) and not all(map(is_list, kinds.values())):
                    lists = events.column(name).combine_chunks()
                    encoded = pc.dictionary_encode(pc.list_flatten(lists))
                    codes = np.asarray(pc.fill_null(encoded.indices, -1))
                    values = encoded.dictionary
                else:
                    codes, values = events.codes(name)
                places = [
                    numbers.setdefault((isinstance(value, bool), value), len(numbers))
                    for value in values.to_pylist()
                ]
                each = np.array([*places, -1], np.int64)[codes]
                if is_list(kind):
                    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
                    found[name] = ListCodes(np.cumsum([0, *sizes]), each)
                else:
                    found[name] = each
            self._tied[names] = found
        return self._tied[names]

    def _refuse(self, row: int) -> None:
        events = self.columns.events
        when = json_column(events.times(events.ticks[row : row + 1]))[0].as_py()
        number = "" if events.sequence is None else f" and the sequence {events.sequence[row]}"
        raise UnsupportedError(
            f"two events of one key have the time {when}{number}: under STRATEGY LATEST one comes "
            "after the other; declare a column as the stream's 'sequence' that tells them apart"
        )


class LatestMatches(MatchChunk):
    """Matches of a query with STRATEGY LATEST."""

    def __init__(
        self,
        items: QueryItems,
        columns: Columns,
        moments: Moments,
        found: FoundRows,
        account: Account,
        operator: str,
    ) -> None:
        super().__init__(items.query, columns, account, operator)
        self._items, self._moments, self._found = items, moments, found

    def __len__(self) -> int:
        return len(self._found.code)

    def take(self, rows: Rows) -> LatestMatches:
        found = self._found.take(rows)
        return LatestMatches(
            self._items, self._columns, self._moments, found, self._account, self._operator
        )

    def partitions(self) -> tuple[Rows, int] | None:
        if not self.of.result_key:
            return None
        return self._found.code, self._items.codes

    def key_texts(self, partitions: Rows) -> pa.Array:
        """As the first event of a match spells them, whose key is no list."""
        codes, places = np.unique(self._found.code, return_index=True)
        match = places[np.searchsorted(codes, partitions)]
        named = [(name, name, 0) for name in self.of.key]
        for key in self.of.tied_key:
            columns = [key.column(stage.alias) for stage in self._items.pattern.stages]
            plain = (p for p, c in enumerate(columns) if not is_list(self._events.column(c).type))
            place = next(plain, 0)
            named.append((key.name, columns[place], place))
        pieces: list[pa.Array | str] = []
        for name, column, place in named:
            rows = pa.array(self._found.events[place][match])
            pieces.append(("," if pieces else "{") + json_text(name) + ":")
            pieces.append(json_column(self._events.whole(column).take(rows)))
        return joined(*pieces, "}")

    def times(self) -> tuple[Rows, Rows, Rows]:
        ticks = self._events.ticks
        start, end = ticks[self._found.first], ticks[self._found.last]
        stages = len(self._items.pattern.stages)
        if all(absence.behind < stages for absence in self._items.pattern.absences):
            return start, end, end
        layout = self._moments.layout
        if layout is None:
            return start, end, start + self._items.width
        # The event whose rank closes the window, or else the last one of its key.
        place = np.empty(len(ticks), np.int64)
        place[layout.order] = np.arange(len(layout))
        first = place[self._found.events[0]]
        partition = layout.partition[first]
        closing = layout.rows_until(partition, layout.position[first] + self._items.width - 1)
        return start, end, layout.ticks[np.minimum(closing, layout.starts[partition + 1] - 1)]

    def matched(self) -> BoundAliases:
        aliases = [stage.alias for stage in self._items.pattern.stages]
        events: dict[str, RowNumbers | EventGroups] = dict(
            zip(aliases, self._found.events, strict=True)
        )
        rows = dict(zip(aliases, self._found.events, strict=True))

        def attribute(node: ex.Attribute) -> Vector:
            return self._columns.vector(node.name).take(rows[node.alias])

        def value(expression: ex.Expression) -> Vector:
            return evaluate(expression, attribute, self._columns.texts)

        return BoundAliases(len(self), events, value)

    def last_rows(self) -> Rows:
        return self._found.last

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        return len(self._found.events), ()
