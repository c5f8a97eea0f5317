"""Steps that bind the next event, or group of events, to each partial match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce

import numpy as np

from engines.columns.groups import EventGroups, ends, ranges
from engines.columns.layout import Equality, Rows
from engines.columns.vectors import Mask
from engines.matching.stepwise.steps import (
    Frame,
    Name,
    QueryScan,
    Slot,
    gap_high,
    gap_low,
    holds,
    just_before,
)
from optimizer.ir.pattern import Event, GroupWithout, PositionGap, Symbol, group_sizes
from workloads import expressions as ex
from workloads.syntax import Exactly


def distinct(
    found: Iterable[Frame], kept: tuple[str, ...], slots: tuple[Slot, ...], scan: QueryScan
) -> Iterator[Frame]:
    """One frame with the kept columns of all of them, equal rows once; none for none."""
    frames = list(found)
    if not frames:
        return
    size = sum(frame.size for frame in frames)
    if size > scan.limits.held:
        scan.refuse(f"it has {size:,} matches, those included that differ in nothing returned")
    columns: dict[Name, Rows] = {}
    groups: dict[str, EventGroups] = {}
    identity = np.zeros(size, np.int64)
    names: list[Name] = [*kept, *slots]
    for name in names:
        if isinstance(name, str) and frames[0].is_group(name):
            groups[name] = EventGroups.concatenated([frame.group(name) for frame in frames])
            identity = _with_group(identity, groups[name])
        else:
            columns[name] = np.concatenate([frame.column(name) for frame in frames])
            identity = _with_column(identity, columns[name])
    _, first = np.unique(identity, return_index=True)
    yield Frame(size, columns, groups).take(first)


def _with_column(identity: Rows, values: Rows) -> Rows:
    """Numbers that are equal where both are; values are -1 or more."""
    span = int(values.max(initial=0)) + 2
    found: Rows = np.unique(identity * span + values + 1, return_inverse=True)[1]
    return found


def _with_group(identity: Rows, groups: EventGroups) -> Rows:
    sizes = groups.sizes
    for place in range(int(sizes.max(initial=0))):
        inside = place < sizes
        rows = np.full(len(sizes), -1)
        rows[inside] = groups.rows[groups.offsets[:-1][inside] + place]
        identity = _with_column(identity, rows)
    return identity


@dataclass(frozen=True)
class Bounds:
    """The rows that a component can be bound to: behind some aliases and before others.

    `reach`: and within a window of all that is bound, where the aliases do not imply it.
    """

    earlier: tuple[str, ...]
    later: tuple[str, ...]
    reach_low: bool
    reach_high: bool

    def low(self, scan: QueryScan, frame: Frame) -> Rows:
        bounds = [scan.layout.after[frame.last(alias)] for alias in self.earlier]
        if self.reach_low or not bounds:
            bounds.append(frame.column(Slot.LOW))
        return reduce(np.maximum, bounds)

    def high(self, scan: QueryScan, frame: Frame) -> Rows:
        bounds = [scan.layout.block[frame.first(alias)] for alias in self.later]
        if self.reach_high or not bounds:
            bounds.append(frame.column(Slot.HIGH))
        return reduce(np.minimum, bounds)


@dataclass(frozen=True)
class Narrows:
    """Which ends of the window, that what is bound later must fit in, a component moves."""

    low: bool
    high: bool
    # What only has to exist may lie further than a window from its like, but in its partition.
    to_partition: bool = False

    def apply(self, alias: str, scan: QueryScan, frame: Frame) -> Frame:
        """The frame with its window narrowed to what is in reach of a newly bound component."""
        columns: dict[Name, Rows] = {}
        if self.low:
            reach = scan.reach_low[frame.last(alias)]
            columns[Slot.LOW] = np.maximum(frame.column(Slot.LOW), reach)
        if self.high:
            reach = scan.reach_high[frame.first(alias)]
            columns[Slot.HIGH] = np.minimum(frame.column(Slot.HIGH), reach)
        if self.to_partition:
            layout = scan.layout
            partition = layout.partition[frame.first(alias)]
            start, end = layout.starts[partition], layout.starts[partition + 1]
            columns[Slot.LOW] = np.maximum(frame.column(Slot.LOW), start)
            columns[Slot.HIGH] = np.minimum(frame.column(Slot.HIGH), end)
        return frame.extended(None, columns) if columns else frame


@dataclass(frozen=True)
class Rival:
    """A component in another part of an AND, whose events are not to be used again."""

    alias: str
    symbol: Symbol


@dataclass(frozen=True)
class BindOne:
    """Bind a single event."""

    event: Event
    bounds: Bounds
    rivals: tuple[Rival, ...]
    narrows: Narrows
    equality: Equality | None = None  # one of the conditions that it must satisfy

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        candidates, start, sizes = self._candidates(scan, frame)
        for part in scan.chunks(sizes, self.event.alias):
            index = np.repeat(np.arange(part.start, part.stop), sizes[part])
            rows = candidates[ranges(start[part], sizes[part])]
            extended = frame.extended(index, {self.event.alias: rows})
            extended = without_rivals(self.event, self.rivals, scan, extended)
            yield self.narrows.apply(self.event.alias, scan, extended)

    def _candidates(self, scan: QueryScan, frame: Frame) -> tuple[Rows, Rows, Rows]:
        """Rows, and for each partial match where its candidates start and how many they are."""
        low, high = self.bounds.low(scan, frame), self.bounds.high(scan, frame)
        candidates = scan.arranged.candidates(self.event.symbol)
        start = candidates.before[low]
        sizes = np.maximum(candidates.before[high] - start, 0)
        if self.equality is not None and int(sizes.sum()) > scan.limits.search * frame.size:
            wanted = self.equality
            found = scan.arranged.index(self.event.symbol, wanted.attribute, wanted.bound_attribute)
            if found is not None:
                start, stop = found.find(frame.column(wanted.bound), low, high)
                return found.rows, start, stop - start
        return candidates.rows, start, sizes


def without_rivals(event: Event, rivals: tuple[Rival, ...], scan: QueryScan, frame: Frame) -> Frame:
    """Drop partial matches that use an event twice."""
    for rival in rivals:
        if scan.arranged.overlap(event.symbol, rival.symbol):
            keep = ~_share(event.alias, rival.alias, frame)
            if not keep.all():
                frame = frame.take(np.flatnonzero(keep))
    return frame


def _share(first: str, second: str, frame: Frame) -> Mask:
    """Are two components bound to a common event?"""
    if not frame.is_group(first) and not frame.is_group(second):
        same: Mask = frame.column(first) == frame.column(second)
        return same
    owners, rows = [], []
    for alias in (first, second):
        if frame.is_group(alias):
            owners.append(frame.group(alias).owner)
            rows.append(frame.group(alias).rows)
        else:
            owners.append(np.arange(frame.size))
            rows.append(frame.column(alias))
    owner, row = np.concatenate(owners), np.concatenate(rows)
    order = np.lexsort((row, owner))
    owner, row = owner[order], row[order]
    found = np.zeros(frame.size, bool)
    found[owner[1:][(owner[1:] == owner[:-1]) & (row[1:] == row[:-1])]] = True
    return found


@dataclass(frozen=True, eq=False)
class Members:
    """For each partial match, the events that can be in a group: places `start … stop - 1`.

    `following` is the place of the first event that is not simultaneous with the one at a place.
    """

    rows: Rows
    following: Rows
    start: Rows
    stop: Rows
    owner: Rows | None  # of each place, where every partial match has its own list
    length: int  # of the layout

    def place(self, match: Rows, row: Rows, before: Rows) -> Rows:
        """The first place of a partial match's list whose row is not before `row`."""
        if self.owner is None:
            return before[row]
        keys = self.owner * (self.length + 1) + self.rows
        return np.searchsorted(keys, match * (self.length + 1) + row)


def members(
    event: Event,
    tied: tuple[ex.Expression, ...],
    low: Rows,
    high: Rows,
    scan: QueryScan,
    frame: Frame,
) -> Members:
    """The events between two bounds that the conditions, event by event, let into a group."""
    candidates = scan.arranged.candidates(event.symbol)
    start, stop = candidates.before[low], candidates.before[high]
    stop = np.maximum(start, stop)
    if not tied:
        return Members(candidates.rows, candidates.following, start, stop, None, len(scan.layout))
    sizes = stop - start
    scan.count_work(int(sizes.sum()))
    owner = np.repeat(np.arange(frame.size), sizes)
    rows = candidates.rows[ranges(start, sizes)]
    each = frame.extended(owner, {event.alias: rows})
    allowed = np.ones(len(rows), bool)
    for condition in tied:
        allowed &= holds(condition, scan, each)
    owner, rows = owner[allowed], rows[allowed]
    offsets = ends(np.bincount(owner, minlength=frame.size))
    runs = np.ones(len(rows), bool)
    blocks = scan.layout.block[rows]
    runs[1:] = (blocks[1:] != blocks[:-1]) | (owner[1:] != owner[:-1])
    following = np.append(np.flatnonzero(runs), len(rows))[np.cumsum(runs)]
    return Members(rows, following, offsets[:-1], offsets[1:], owner, len(scan.layout))


@dataclass(frozen=True)
class BindChain:
    """Bind E+, without something between its events or not, or E^n: each before the next.

    `pairs` are conditions on two events that are neighbours in the group.
    """

    event: Event
    bounds: Bounds
    tied: tuple[ex.Expression, ...]
    rivals: tuple[Rival, ...]
    narrows: Narrows
    pairs: tuple[ex.Expression, ...] = ()

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        low, high = self.bounds.low(scan, frame), self.bounds.high(scan, frame)
        before = scan.arranged.candidates(self.event.symbol).before
        sizes = np.maximum(before[high] - before[low], 0)
        for part in scan.chunks(sizes, self.event.alias):
            index = np.arange(part.start, part.stop)
            index = index[sizes[part] > 0]
            yield from self._chains(scan, frame.extended(index, {}), low[index], high[index])

    def _chains(self, scan: QueryScan, frame: Frame, low: Rows, high: Rows) -> Iterator[Frame]:
        found = members(self.event, self.tied, low, high, scan, frame)
        before = scan.arranged.candidates(self.event.symbol).before
        quantifier = self.event.quantifier
        least, most = group_sizes(quantifier)
        sizes = found.stop - found.start
        owner = np.repeat(np.arange(frame.size), sizes)
        place = ranges(found.start, sizes)
        first = found.rows[place]
        # A group spans less than a window, whatever else the match holds.
        stop = np.minimum(found.stop[owner], found.place(owner, scan.reach_high[first], before))
        chain = [first]
        ready: list[tuple[Rows, EventGroups]] = []
        made = 0
        while len(owner):
            if len(chain) >= least:
                ready.append((owner, EventGroups.of_matrix(chain)))
                made += len(owner)
            if len(chain) == most:
                break
            following = found.following[place]
            end = stop
            if isinstance(quantifier, GroupWithout):
                barrier = _barrier(quantifier, scan, chain[-1])
                end = np.minimum(stop, found.place(owner, barrier, before))
            elif isinstance(quantifier, Exactly):
                # In E^n no event of the list lies between two of the group.
                inside = following < stop
                next_end = found.following[np.where(inside, following, 0)]
                end = np.where(inside, np.minimum(stop, next_end), following)
            sizes = np.maximum(end - following, 0)
            total = int(sizes.sum())
            if made + total > scan.limits.chunk and frame.size > 1 and most != least:
                # Too many groups for one go: start again with fewer partial matches at a time.
                middle = frame.size // 2
                for half in (np.arange(middle), np.arange(middle, frame.size)):
                    part = frame.extended(half, {})
                    yield from self._chains(scan, part, low[half], high[half])
                return
            if total > scan.limits.join:
                scan.refuse(f"there are more than {total:,} groups {self.event.alias}")
            scan.count_work(total)
            longer = np.repeat(np.arange(len(owner)), sizes)
            place = ranges(following, sizes)
            if self.pairs:
                fits = self._fits(scan, frame, owner[longer], chain[-1][longer], found.rows[place])
                longer, place = longer[fits], place[fits]
            owner, stop = owner[longer], stop[longer]
            chain = [column[longer] for column in chain]
            chain.append(found.rows[place])
        if ready:
            yield self._bound(scan, frame, ready)

    def _fits(self, scan: QueryScan, frame: Frame, owner: Rows, before: Rows, rows: Rows) -> Mask:
        """May these rows follow those just before them?"""
        alias = self.event.alias
        pair = frame.extended(owner, {alias: rows, just_before(alias): before})
        fits = np.ones(len(rows), bool)
        for condition in self.pairs:
            fits &= holds(condition, scan, pair)
        return fits

    def _bound(self, scan: QueryScan, frame: Frame, ready: list[tuple[Rows, EventGroups]]) -> Frame:
        index = np.concatenate([owner for owner, _ in ready])
        groups = EventGroups.concatenated([group for _, group in ready])
        bound = frame.extended(index, {}, {self.event.alias: groups})
        bound = without_rivals(self.event, self.rivals, scan, bound)
        return self.narrows.apply(self.event.alias, scan, bound)


def _barrier(group: GroupWithout, scan: QueryScan, rows: Rows) -> Rows:
    """Behind each row, the first that something absent lies before."""
    layout = scan.layout
    behind = layout.after[rows]
    barrier = np.full(len(rows), len(layout))
    for symbol in group.symbols:
        candidates = scan.arranged.candidates(symbol)
        place = candidates.before[behind]
        some = np.flatnonzero(place < len(candidates.rows))
        first = layout.after[candidates.rows[place[some]]]
        barrier[some] = np.minimum(barrier[some], first)
    return barrier


class Side(Enum):
    """How an end of ALL E is found."""

    GAP = auto()  # it reaches to a bound neighbour, or to the end of a region that is given
    REACH = auto()  # it reaches to where the match's window ends, which nothing unbound can move
    FOLLOWS = auto()  # it reaches to where the window closes that its own first event opens
    OPEN = auto()  # every choice is tried, and checked when all is bound


@dataclass(frozen=True)
class BindAll:
    """Bind ALL E: the whole of what lies between its neighbours."""

    event: Event
    bounds: Bounds
    gap: PositionGap
    lower: Side
    upper: Side
    tied: tuple[ex.Expression, ...]
    rivals: tuple[Rival, ...]
    narrows: Narrows
    fits: bool  # it counts for the match's extent, so it must fit in one window with the rest

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        match self.lower:
            case Side.GAP:
                low = gap_low(self.gap, scan, frame)
            case Side.REACH:
                low = frame.column(Slot.LOW)
            case _:
                low = self.bounds.low(scan, frame)
        match self.upper:
            case Side.GAP:
                high = gap_high(self.gap, scan, frame)
            case Side.REACH | Side.FOLLOWS:
                high = frame.column(Slot.HIGH)
            case _:
                high = self.bounds.high(scan, frame)
        before = scan.arranged.candidates(self.event.symbol).before
        sizes = np.maximum(before[high] - before[low], 0)
        for part in scan.chunks(sizes, self.event.alias):
            index = np.arange(part.start, part.stop)
            index = index[sizes[part] > 0]
            yield from self._groups(scan, frame.extended(index, {}), low[index], high[index])

    def _groups(self, scan: QueryScan, frame: Frame, low: Rows, high: Rows) -> Iterator[Frame]:
        found = members(self.event, self.tied, low, high, scan, frame)
        before = scan.arranged.candidates(self.event.symbol).before
        some = np.flatnonzero(found.stop > found.start)
        if self.lower in (Side.GAP, Side.REACH):
            owner, first = some, found.start[some]
        else:
            sizes = found.stop - found.start
            owner, first = np.repeat(np.arange(frame.size), sizes), ranges(found.start, sizes)
            heads = _is_head(found, owner, first)
            owner, first = owner[heads], first[heads]
        stop = found.stop[owner]
        if self.upper in (Side.FOLLOWS, Side.OPEN):
            reach = found.place(owner, scan.reach_high[found.rows[first]], before)
            stop = np.minimum(stop, reach)
        if self.upper is Side.OPEN:
            sizes = stop - first
            longer = np.repeat(np.arange(len(owner)), sizes)
            last = ranges(first, sizes)
            heads = _is_head(found, owner[longer], last)
            owner, first = owner[longer][heads], first[longer][heads]
            stop = found.following[last[heads]]
        sizes = stop - first
        for part in scan.chunks(sizes, self.event.alias):
            groups = EventGroups(ends(sizes[part]), found.rows[ranges(first[part], sizes[part])])
            bound = frame.extended(owner[part], {}, {self.event.alias: groups})
            bound = self._fitting(scan, bound)
            bound = without_rivals(self.event, self.rivals, scan, bound)
            yield self.narrows.apply(self.event.alias, scan, bound)

    def _fitting(self, scan: QueryScan, frame: Frame) -> Frame:
        """A group is all there is in its gap: if that does not fit, there is no match."""
        group = frame.group(self.event.alias)
        first, last = group.first, group.last
        fits: Mask = first >= self.bounds.low(scan, frame)
        fits &= last < self.bounds.high(scan, frame)
        if self.fits:
            fits &= (first >= frame.column(Slot.LOW)) & (last < frame.column(Slot.HIGH))
            fits &= last < scan.reach_high[first]
        return frame if fits.all() else frame.take(np.flatnonzero(fits))


def _is_head(found: Members, owner: Rows, place: Rows) -> Mask:
    """Is it the first of the simultaneous events of its list?"""
    previous = np.maximum(place - 1, 0)
    heads: Mask = (place == found.start[owner]) | (found.following[previous] == place)
    return heads


@dataclass(frozen=True)
class WholeGroup:
    """Keep the matches whose ALL E leaves out no event that belongs to it."""

    event: Event
    gap: PositionGap
    tied: tuple[ex.Expression, ...]

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        low, high = gap_low(self.gap, scan, frame), gap_high(self.gap, scan, frame)
        before = scan.arranged.candidates(self.event.symbol).before
        sizes = np.maximum(before[high] - before[low], 0)
        for part in scan.chunks(sizes, self.event.alias):
            index = np.arange(part.start, part.stop)
            some = frame.extended(index, {})
            found = members(self.event, self.tied, low[index], high[index], scan, some)
            whole = found.stop - found.start == some.group(self.event.alias).sizes
            yield some.take(np.flatnonzero(whole))
