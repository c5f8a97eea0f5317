"""Partial matches as columns of row numbers, and the steps that extend or filter them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from engines.columns.groups import EventGroups, aggregate, ranges
from engines.columns.layout import Rows
from engines.columns.vectors import Mask, Vector, evaluate, truth
from engines.limits import Limits, refuse
from optimizer.ir.pattern import PositionGap, Symbol
from workloads import expressions as ex

if TYPE_CHECKING:
    from engines.columns.layout import ArrangedEvents


class Slot(Enum):
    """The columns of a frame besides its aliases."""

    LOW = auto()  # the rows that a further component can be bound to: from here
    HIGH = auto()  # to before here
    OPENING = auto()  # the region's first row
    CLOSING = auto()  # the row behind its last
    LAST = auto()  # the row behind the last that a negation in an AND looks at
    SEED = auto()  # the row of the frame that this enumeration started from
    START = auto()  # the windows that a match is in: from this one
    STOP = auto()  # to before this one


Name: TypeAlias = str | Slot


class Frame:
    """Partial matches: a row number for each single component, a group for each other one.

    A frame that extends another holds only what is new, and for each of its rows the row of the
    other (`index`; None where they are the same). What it is asked for it gathers from there and
    keeps.
    """

    def __init__(
        self,
        size: int,
        columns: dict[Name, Rows],
        groups: dict[str, EventGroups] | None = None,
        base: Frame | None = None,
        index: Rows | None = None,
    ) -> None:
        self.size = size
        self.base, self.index = base, index
        self._columns, self._groups = columns, groups or {}

    def column(self, name: Name) -> Rows:
        """A column of the frame or of the one it extends."""
        found = self._columns.get(name)
        if found is None:
            assert self.base is not None, name
            found = self.base.column(name)
            if self.index is not None:
                found = found[self.index]
            self._columns[name] = found
        return found

    def group(self, alias: str) -> EventGroups:
        found = self._groups.get(alias)
        if found is None:
            assert self.base is not None, alias
            found = self.base.group(alias)
            if self.index is not None:
                found = found.take(self.index)
            self._groups[alias] = found
        return found

    def binds(self, alias: str) -> bool:
        """Not so for the alias of a part of an OR that did not match."""
        own = alias in self._columns or alias in self._groups
        return own or (self.base is not None and self.base.binds(alias))

    def is_group(self, alias: str) -> bool:
        if alias in self._columns:
            return False
        return alias in self._groups or (self.base is not None and self.base.is_group(alias))

    def first(self, alias: str) -> Rows:
        """The first row that an alias is bound to."""
        return self.group(alias).first if self.is_group(alias) else self.column(alias)

    def last(self, alias: str) -> Rows:
        return self.group(alias).last if self.is_group(alias) else self.column(alias)

    def extended(
        self,
        index: Rows | None,
        columns: dict[Name, Rows],
        groups: dict[str, EventGroups] | None = None,
    ) -> Frame:
        """A frame over rows of this one, with further columns."""
        size = self.size if index is None else len(index)
        return Frame(size, columns, groups, self, index)

    def take(self, keep: Rows) -> Frame:
        """The given rows of the frame."""
        return Frame(
            len(keep),
            {name: column[keep] for name, column in self._columns.items()},
            {alias: group.take(keep) for alias, group in self._groups.items()},
            self.base,
            keep if self.index is None else self.index[keep],
        )


class QueryScan:
    """One query over arranged events."""

    def __init__(self, arranged: ArrangedEvents, width: int, query: str, limits: Limits) -> None:
        self.arranged, self.layout, self.columns = arranged, arranged.layout, arranged.columns
        self.width, self.query, self.limits = width, query, limits
        self.reach_low, self.reach_high = arranged.reach(width)
        self._work = 0

    def chunks(self, sizes: Rows, what: str) -> Iterator[slice]:
        """Ranges of partial matches that together have no more than a chunk of extensions."""
        total = np.cumsum(sizes)
        if not len(total) or not total[-1]:
            return
        self.count_work(int(total[-1]))
        if total[-1] <= self.limits.chunk:
            yield slice(0, len(sizes))
            return
        largest = int(sizes.max())
        if largest > self.limits.join:
            self.refuse(f"one partial match has {largest:,} extensions by {what}")
        done, start = 0, 0
        while start < len(sizes):
            end = int(np.searchsorted(total, done + self.limits.chunk, "right"))
            end = max(end, start + 1)
            yield slice(start, end)
            start, done = end, int(total[end - 1])

    def count_work(self, partial_matches: int) -> None:
        self._work += partial_matches
        if self._work > self.limits.work:
            self.refuse(f"it has made {self._work:,} partial matches")

    def refuse(self, why: str) -> None:
        """Raise the error that says what grew too large, and what to do."""
        refuse(self.query, why)


def gap_low(gap: PositionGap, scan: QueryScan, frame: Frame) -> Rows:
    """The first row of a gap, for each partial match."""
    if gap.before is None:
        return frame.column(Slot.OPENING)
    return scan.layout.after[reduce(np.maximum, [frame.last(alias) for alias in gap.before])]


def gap_high(gap: PositionGap, scan: QueryScan, frame: Frame) -> Rows:
    """The row behind the last of a gap."""
    if gap.after is None:
        return frame.column(Slot.LAST if gap.anywhere else Slot.CLOSING)
    return scan.layout.block[reduce(np.minimum, [frame.first(alias) for alias in gap.after])]


@dataclass(frozen=True)
class Extent:
    """The aliases that can be bound to a match's first event, and those that can to its last."""

    first: tuple[str, ...]
    last: tuple[str, ...]

    def of(self, frame: Frame) -> tuple[Rows, Rows]:
        """The first and the last row of each match."""
        return (
            reduce(np.minimum, [frame.first(alias) for alias in self.first]),
            reduce(np.maximum, [frame.last(alias) for alias in self.last]),
        )


@dataclass(frozen=True)
class MatchRegion:
    """Open the window of a match that is returned: from last - w to first + w, both exclusive."""

    extent: Extent

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        first, last = self.extent.of(frame)
        columns: dict[Name, Rows] = {
            Slot.OPENING: scan.reach_low[last],
            Slot.CLOSING: scan.reach_high[first],
            Slot.LAST: scan.layout.after[last],
        }
        yield frame.extended(None, columns)


@dataclass(frozen=True)
class Inside:
    """Keep the matches whose merely existing components lie in the window."""

    extent: Extent

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        first, last = self.extent.of(frame)
        inside = (first >= frame.column(Slot.OPENING)) & (last < frame.column(Slot.CLOSING))
        yield frame if inside.all() else frame.take(np.flatnonzero(inside))


def just_before(alias: str) -> str:
    """The column of the event just before that of an alias; no alias can be called so."""
    return f"<{alias}"


def value(expression: ex.Expression, scan: QueryScan, frame: Frame) -> Vector:
    """The value of an expression for each partial match."""

    def attribute(node: ex.Attribute) -> Vector:
        return scan.arranged.vector(node.name).take(frame.first(node.alias))

    def call(node: ex.Call) -> Vector:
        assert isinstance(node.argument, ex.Attribute)
        if node.function == ex.PREV:
            rows = frame.column(just_before(node.argument.alias))
            return scan.arranged.vector(node.argument.name).take(rows)
        group = frame.group(node.argument.alias)
        values = scan.arranged.vector(node.argument.name).take(group.rows)
        return aggregate(node.function, values, group)

    return evaluate(expression, attribute, scan.columns.texts, call)


def holds(condition: ex.Expression, scan: QueryScan, frame: Frame) -> Mask:
    """Where a condition holds; for each event of a group that it speaks of event by event."""
    looks_back = ex.prev_alias(condition)
    if looks_back is None and ex.has_group_call(condition):
        return _tested(condition, scan, frame)
    owner: Rows | None = None
    each = frame
    if looks_back is not None:
        if frame.is_group(looks_back):
            owner, rows, before = _neighbours(frame.group(looks_back), scan)
            each = frame.extended(owner, {looks_back: rows, just_before(looks_back): before})
        elif not frame.binds(just_before(looks_back)):
            return np.ones(frame.size, bool)  # there is none before
    for alias in sorted(ex.aliases(condition)):
        if each.is_group(alias):
            group = each.group(alias)
            owner = group.owner if owner is None else owner[group.owner]
            each = each.extended(group.owner, {alias: group.rows})
    found = _tested(condition, scan, each)
    if owner is None:
        return found
    everywhere = np.ones(frame.size, bool)
    everywhere[owner[~found]] = False
    return everywhere


def _neighbours(group: EventGroups, scan: QueryScan) -> tuple[Rows, Rows, Rows]:
    """Of all groups: the events that are not first, each with every one of the moment before."""
    rows, owner = group.rows, group.owner
    blocks = scan.layout.block[rows]
    begins = np.ones(len(rows), bool)  # a moment of a group
    begins[1:] = (owner[1:] != owner[:-1]) | (blocks[1:] != blocks[:-1])
    moment = np.cumsum(begins) - 1
    starts = np.append(np.flatnonzero(begins), len(rows))
    first = np.zeros(len(starts) - 1, bool)
    first[moment[group.offsets[:-1][group.sizes > 0]]] = True
    later = np.flatnonzero(~first[moment])
    sizes = starts[moment[later]] - starts[moment[later] - 1]
    each = np.repeat(later, sizes)
    before = ranges(starts[moment[later] - 1], sizes)
    return owner[each], rows[each], rows[before]


def _tested(condition: ex.Expression, scan: QueryScan, frame: Frame) -> Mask:
    found: Mask = np.broadcast_to(truth(value(condition, scan, frame)), frame.size)
    return found


class Step(Protocol):
    """Something done to a frame of partial matches; what is left of it comes in parts."""

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]: ...


@dataclass(frozen=True)
class StepPlan:
    """The steps in order; `reads` are the aliases of an enclosing pattern that they look at.

    `chain` are the symbols of a plain sequence, where all that matters is whether it occurs.
    """

    steps: tuple[Step, ...]
    kept: tuple[str, ...]
    unkept: tuple[str, ...]
    extent: Extent
    reads: frozenset[str] = frozenset()
    chain: tuple[Symbol, ...] | None = None


@dataclass(frozen=True)
class Filter:
    """Keep the partial matches for which a condition holds."""

    condition: ex.Expression

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        found = holds(self.condition, scan, frame)
        yield frame if found.all() else frame.take(np.flatnonzero(found))


@dataclass(frozen=True)
class FilterByPrevious:
    """Keep the partial matches whose events of a component agree with those just before in them.

    The first event of the component comes behind the last of `before`, if there is such a one.
    """

    condition: ex.Expression  # with `prev`
    alias: str
    before: str | None

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        found = holds(self.condition, scan, frame)
        if self.before is not None:
            columns: dict[Name, Rows] = {
                self.alias: frame.first(self.alias),
                just_before(self.alias): frame.last(self.before),
            }
            found = found & holds(self.condition, scan, frame.extended(None, columns))
        yield frame if found.all() else frame.take(np.flatnonzero(found))


def run_steps(steps: tuple[Step, ...], scan: QueryScan, seed: Frame) -> Iterator[Frame]:
    """The frames that all steps leave, depth first, so that only one part of each is held."""
    stack: list[Iterator[Frame]] = [iter((seed,))]
    while stack:
        frame = next(stack[-1], None)
        if frame is None:
            stack.pop()
        elif not frame.size:
            continue
        elif len(stack) > len(steps):
            yield frame
        else:
            stack.append(steps[len(stack) - 1].apply(scan, frame))
