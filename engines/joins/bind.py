"""Binding a component: partial matches, each extended by every event that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from engines.columns.grouped import ranges
from engines.columns.index import Equality
from engines.columns.layout import Rows
from engines.columns.vectors import Mask
from engines.joins.frame import Frame, Name, Slot
from engines.joins.scan import Scan
from optimizer.ir.pattern import Event, Symbol


@dataclass(frozen=True)
class Bounds:
    """The rows that a component can be bound to: behind some aliases and before others.

    `reach`: and within a window of all that is bound, where the aliases do not imply it.
    """

    earlier: tuple[str, ...]
    later: tuple[str, ...]
    reach_low: bool
    reach_high: bool

    def low(self, scan: Scan, frame: Frame) -> Rows:
        bounds = [scan.layout.after[frame.last(alias)] for alias in self.earlier]
        if self.reach_low or not bounds:
            bounds.append(frame.column(Slot.LOW))
        return reduce(np.maximum, bounds)

    def high(self, scan: Scan, frame: Frame) -> Rows:
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

    def apply(self, alias: str, scan: Scan, frame: Frame) -> Frame:
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

    def apply(self, scan: Scan, frame: Frame) -> Iterator[Frame]:
        candidates, start, sizes = self._candidates(scan, frame)
        for part in scan.chunks(sizes, self.event.alias):
            index = np.repeat(np.arange(part.start, part.stop), sizes[part])
            rows = candidates[ranges(start[part], sizes[part])]
            extended = frame.extended(index, {self.event.alias: rows})
            extended = without_rivals(self.event, self.rivals, scan, extended)
            yield self.narrows.apply(self.event.alias, scan, extended)

    def _candidates(self, scan: Scan, frame: Frame) -> tuple[Rows, Rows, Rows]:
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


def without_rivals(event: Event, rivals: tuple[Rival, ...], scan: Scan, frame: Frame) -> Frame:
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
