"""Groups: each row of a buffer with every `E+`, `E^n` or `ALL E` that fits in its gap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engines.columns.groups import EventGroups, ends, ranges
from engines.columns.layout import changes_in
from engines.columns.vectors import Mask
from engines.matching.trees.buffers import (
    Buffer,
    Column,
    EventNumbers,
    SelectedEvents,
    TooWideError,
    chunks,
)
from engines.matching.trees.conditions import closing, holds, opening, region
from optimizer.plan.join_operators import Closure, Conditions, Whole
from workloads.syntax import All, Exactly

Entries = npt.NDArray[Any]


class Room(NamedTuple):
    """How much is done at once: rows, and groups of one row."""

    rows: int
    groups: int


class _Lists(NamedTuple):
    """For each row the events that can be in its group: entries from `start` to before `stop`.

    `following` of an entry is the first that is not simultaneous with it.
    """

    places: EventNumbers
    following: Entries
    start: Entries
    stop: Entries
    owner: Entries | None  # of each entry, where every row has a list of its own
    length: int  # of all places

    def entry(self, rows: Entries, places: Entries) -> Entries:
        """The first entry of each row's list that is not before a place."""
        if self.owner is None:
            return np.searchsorted(self.places, places)
        keys = self.owner * (self.length + 1) + self.places
        return np.searchsorted(keys, rows * (self.length + 1) + places)


class BoundGroups(NamedTuple):
    """Rows with a group each; and how many events were tried for them."""

    rows: Buffer
    tried: int


def bind_groups(
    closure: Closure,
    picked: SelectedEvents,
    part: Buffer | None,
    candidates: EventNumbers,
    width: int,
    room: Room,
) -> Iterator[BoundGroups]:
    """The rows of a closure; `candidates` are the events of its symbol, in order.

    Without a part its groups are anywhere.
    """
    if not len(candidates) or (part is not None and not len(part)):
        return
    binder = _All if isinstance(closure.quantifier, All) else _Chains
    yield from binder(closure, picked, candidates, width, room).bind(part)


def whole_groups(
    whole: Whole,
    picked: SelectedEvents,
    part: Buffer,
    candidates: EventNumbers,
    width: int,
    room: Room,
) -> Iterator[Buffer]:
    """The rows whose group has every event of its gap."""
    if not len(part):
        return
    low, high = region(picked, part, whole.gap, width)
    group = part.columns[whole.number]
    assert isinstance(group, EventGroups)
    for rows in _in_parts(_sizes(picked, candidates, low, high), room.rows):
        some, (lowest, highest) = part.take(rows), (low[rows], high[rows])
        found = _lists(picked, some, candidates, lowest, highest, whole.tests)
        yield some.take(np.flatnonzero(found.stop - found.start == group.sizes[rows]))


class _Binder:
    def __init__(
        self,
        closure: Closure,
        picked: SelectedEvents,
        candidates: EventNumbers,
        width: int,
        room: Room,
    ) -> None:
        self.closure, self.picked, self.width, self.room = closure, picked, width, room
        self.candidates = candidates

    def bind(self, part: Buffer | None) -> Iterator[BoundGroups]:
        if part is None:
            whole = np.array([0]), np.array([len(self.picked)])
            found = _lists(self.picked, None, self.candidates, *whole, self.closure.tests)
            yield from self.groups(None, found, len(self.candidates))
            return
        low, high = self.gap(part)
        for rows in _in_parts(_sizes(self.picked, self.candidates, low, high), self.room.rows):
            some = part.take(rows)
            tried = int(_sizes(self.picked, self.candidates, low[rows], high[rows]).sum())
            found = _lists(
                self.picked, some, self.candidates, low[rows], high[rows], self.closure.tests
            )
            yield from self.groups(some, found, tried)

    def gap(self, part: Buffer) -> tuple[EventNumbers, EventNumbers]:
        return region(self.picked, part, self.closure.gap, self.width)

    def groups(self, part: Buffer | None, found: _Lists, tried: int) -> Iterator[BoundGroups]:
        raise NotImplementedError

    def bound(self, part: Buffer | None, owner: Entries, groups: EventGroups) -> Buffer:
        """Rows with their groups, but for those that use an event twice."""
        if part is None:
            return Buffer((groups,), groups.first, groups.last)
        rows = part.take(owner)
        # What a group cannot be before, or behind, is still the first event, or the last.
        first, last = rows.first, rows.last
        if self.closure.gap.before is None:
            first = np.minimum(first, groups.first)
        if self.closure.gap.after is None:
            last = np.maximum(last, groups.last)
        bound = Buffer((*rows.columns, groups), first, last, rows.earliest, rows.latest)
        for rival, symbol in self.closure.rivals:
            if self.picked.overlap(self.closure.symbol, symbol):
                bound = apart(bound, rival, len(bound.columns) - 1)
        return bound


class _Chains(_Binder):
    """E+ and E^n: events that are each before the next."""

    def groups(self, part: Buffer | None, found: _Lists, tried: int) -> Iterator[BoundGroups]:
        quantifier = self.closure.quantifier
        size = quantifier.count if isinstance(quantifier, Exactly) else 0
        many = found.stop - found.start
        owner, at = np.repeat(np.arange(len(many)), many), ranges(found.start, many)
        counts, sizes, stops = self.picked.kernels.count_chains(
            found.places, found.following, self.picked.position, at, found.stop[owner],
            self.width, size,
        )  # fmt: skip
        if counts.max(initial=0) > self.room.groups or sizes.max(initial=0) > 8 * self.room.groups:
            raise TooWideError("one partial match has too many groups")
        for heads in _in_parts(np.maximum(counts, sizes // 8), self.room.rows):
            head, offsets, places = self.picked.kernels.fill_chains(
                found.places, found.following, at[heads], stops[heads], size,
                int(counts[heads].sum()), int(sizes[heads].sum()),
            )  # fmt: skip
            rows = self.bound(part, owner[heads][head], EventGroups(offsets, places))
            yield BoundGroups(rows, tried)
            tried = 0


class _All(_Binder):
    """ALL E: the whole of what lies between its neighbours."""

    def gap(self, part: Buffer) -> tuple[EventNumbers, EventNumbers]:
        low, high = super().gap(part)
        if self.closure.lower == "reach":
            low = opening(self.picked, part, self.width)
        if self.closure.upper in ("reach", "follows"):
            high = closing(self.picked, part, self.width)
        return low, high

    def groups(self, part: Buffer | None, found: _Lists, tried: int) -> Iterator[BoundGroups]:
        owner, first, stop = self._ends(found)
        settled = self._settled(found)
        sure = self.closure.lower == self.closure.upper == "gap" and part is not None
        for rows in _in_parts(stop - first, self.room.rows):
            sizes = stop[rows] - first[rows]
            groups = EventGroups(ends(sizes), settled[ranges(first[rows], sizes)])
            bound = self.bound(part, owner[rows], groups)
            yield BoundGroups(bound if sure else self._fitting(bound), tried)
            tried = 0

    def _ends(self, found: _Lists) -> tuple[Entries, Entries, Entries]:
        """The row of each group that is tried, its first entry and the one behind its last."""
        if self.closure.lower in ("gap", "reach"):
            owner = np.flatnonzero(found.stop > found.start)
            first = found.start[owner]
        else:
            sizes = found.stop - found.start
            owner, first = np.repeat(np.arange(len(sizes)), sizes), ranges(found.start, sizes)
            heads = _is_head(found, owner, first)
            owner, first = owner[heads], first[heads]
        stop = found.stop[owner]
        if self.closure.upper in ("follows", "open"):
            position = self.picked.position
            behind = position[found.places[first]] + self.width
            stop = np.minimum(stop, found.entry(owner, np.searchsorted(position, behind)))
        if self.closure.upper == "open":
            sizes = stop - first
            longer, last = np.repeat(np.arange(len(owner)), sizes), ranges(first, sizes)
            heads = _is_head(found, owner[longer], last)
            owner, first = owner[longer][heads], first[longer][heads]
            stop = found.following[last[heads]]
        return owner, first, stop

    def _settled(self, found: _Lists) -> EventNumbers:
        """The lists, simultaneous events in an order that does not depend on that of arrival."""
        rank = self.picked.settled
        if rank is None:
            return found.places
        rank = rank[found.places]
        order = np.argsort(rank) if found.owner is None else np.lexsort((rank, found.owner))
        return found.places[order]

    def _fitting(self, bound: Buffer) -> Buffer:
        """A group is all there is in its gap: if that does not fit, there is no match."""
        group = bound.columns[-1]
        assert isinstance(group, EventGroups)
        position, first, last = self.picked.position, group.first, group.last
        fits: Mask = position[bound.last] - position[bound.first] < self.width
        if len(bound.columns) > 1:
            low, high = super().gap(bound)
            fits &= (first >= low) & (last < high)
        return bound if fits.all() else bound.take(np.flatnonzero(fits))


def apart(buffer: Buffer, one: int, other: int) -> Buffer:
    """The rows in which two components have no event in common."""
    columns = buffer.columns[one], buffer.columns[other]
    owner = np.concatenate([_owner(column) for column in columns])
    places = np.concatenate([_places(column) for column in columns])
    order = np.lexsort((places, owner))
    owner, places = owner[order], places[order]
    keep = np.ones(len(buffer), bool)
    keep[owner[1:][(owner[1:] == owner[:-1]) & (places[1:] == places[:-1])]] = False
    return buffer if keep.all() else buffer.take(np.flatnonzero(keep))


def _owner(column: Column) -> Entries:
    return column.owner if isinstance(column, EventGroups) else np.arange(len(column))


def _places(column: Column) -> EventNumbers:
    return column.rows if isinstance(column, EventGroups) else column


def _lists(
    picked: SelectedEvents,
    part: Buffer | None,
    candidates: EventNumbers,
    low: EventNumbers,
    high: EventNumbers,
    tests: Conditions,
) -> _Lists:
    """The events between two places of each row that the tests let into a group."""
    start = picked.kernels.places_from(candidates, low).astype(np.int64)
    stop = np.maximum(start, picked.kernels.places_from(candidates, high))
    moment = picked.moment[candidates]
    if not tests:
        following = np.searchsorted(moment, moment, "right")
        return _Lists(candidates, following, start, stop, None, len(picked))
    sizes = stop - start
    owner = np.repeat(np.arange(len(sizes)), sizes)
    places = candidates[ranges(start, sizes)]
    for test in tests:
        columns = () if part is None else part.take(owner).columns
        allowed = holds(test, picked, Buffer((*columns, places), places, places))
        owner, places = owner[allowed], places[allowed]
    offsets = ends(np.bincount(owner, minlength=len(sizes)))
    runs = changes_in(picked.moment[places]) | changes_in(owner)
    following = np.append(np.flatnonzero(runs), len(places))[np.cumsum(runs)]
    return _Lists(places, following, offsets[:-1], offsets[1:], owner, len(picked))


def _is_head(found: _Lists, owner: Entries, entry: Entries) -> Mask:
    """Is it the first of the simultaneous events of its list?"""
    previous = np.maximum(entry - 1, 0)
    heads: Mask = (entry == found.start[owner]) | (found.following[previous] == entry)
    return heads


def _sizes(
    picked: SelectedEvents, candidates: EventNumbers, low: EventNumbers, high: EventNumbers
) -> Entries:
    """How many candidates lie between two places."""
    start = picked.kernels.places_from(candidates, low)
    found: Entries = np.maximum(picked.kernels.places_from(candidates, high) - start, 0)
    return found


def _in_parts(sizes: Entries, most: int) -> Iterator[Entries]:
    """The rows that have something, in parts that together have no more than `most`."""
    for start, stop, _ in chunks(sizes, most):
        rows = np.arange(start, stop)
        yield rows[sizes[start:stop] > 0]
