"""STRATEGY NEXT where conditions tie what a group may go on with: the steps that keep to it.

A partial match takes what comes next: it looks at the first moment with an event that could be
taken, judged by the conditions on what is bound so far, and goes on with each event there, in each
way that this fits. No choice of events is made that could not be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from engines.columns.groups import EventGroups, ends, ranges
from engines.columns.layout import Rows
from engines.columns.vectors import Mask
from engines.matching.stepwise.steps import Frame, Name, QueryScan, Slot, holds, just_before
from optimizer.ir.pattern import Event, group_sizes
from optimizer.rewrite.strategies import following_components
from workloads import expressions as ex
from workloads.syntax import One


class Take(NamedTuple):
    """A way to go on: the number of the component that takes an event, and what is asked then."""

    place: int
    conditions: tuple[ex.Expression, ...]


@dataclass(frozen=True)
class TakingRules:
    """The components of a sequence, with the conditions that tie them.

    `present` are those that the matches of one reading bind: optional ones may be absent, and then
    are still what such a match could have taken.
    """

    components: tuple[Event, ...]
    conditions: tuple[ex.Expression, ...]
    present: frozenset[str]

    @property
    def places(self) -> list[int]:
        """The numbers of the components that are bound."""
        return [i for i, each in enumerate(self.components) if each.alias in self.present]

    def ways(self, place: int, count: int) -> list[Take]:
        """The ways to go on behind the so-many-th event of a component."""
        least, most = group_sizes(self.components[place].quantifier)
        again = [self._goes_on(place)] if most is None or count < most else []
        if count < least:
            return again
        following = following_components(self.components, self.components[place])
        return again + [
            self._follows(place, place + number) for number in range(1, len(following) + 1)
        ]

    def is_kept(self, place: int, way: Take) -> bool:
        """Does it lead to a match of the reading?"""
        following = next((later for later in self.places if later > place), None)
        return way.place in (place, following)

    def is_whole(self, place: int, count: int) -> bool:
        """Can a match end behind the so-many-th event of a component?"""
        return (
            place == self.places[-1] and count >= group_sizes(self.components[place].quantifier)[0]
        )

    def _goes_on(self, place: int) -> Take:
        alias = self.components[place].alias
        return Take(place, tuple(c for c in self._settled(place, place) if alias in ex.aliases(c)))

    def _follows(self, place: int, taking: int) -> Take:
        alias, left = self.components[taking].alias, self.components[place].alias
        return Take(
            taking,
            tuple(
                c
                for c in self._settled(place, taking)
                if alias in ex.aliases(c) or ex.is_of_group(c, left)
            ),
        )

    def _settled(self, place: int, taking: int) -> Iterator[ex.Expression]:
        """What can be asked when a component takes an event: nothing of a group that may go on."""
        bound = {component.alias for component in self.components[: place + 1]} & self.present
        component = self.components[taking]
        is_group = not isinstance(component.quantifier, One)
        for condition in self.conditions:
            if ex.aliases(condition) <= bound | {component.alias} and not (
                is_group and ex.is_of_group(condition, component.alias)
            ):
                yield condition


@dataclass(frozen=True, eq=False)
class _Partial:
    """Partial matches that are at one component.

    `behind` is the row from which on they look, `limit` that behind their window.
    """

    columns: dict[Name, Rows]
    groups: dict[str, EventGroups]
    behind: Rows
    limit: Rows

    def __len__(self) -> int:
        return len(self.behind)

    @property
    def frame(self) -> Frame:
        return Frame(len(self), dict(self.columns), dict(self.groups))

    def take(self, index: Rows) -> _Partial:
        return _Partial(
            {name: rows[index] for name, rows in self.columns.items()},
            {alias: group.take(index) for alias, group in self.groups.items()},
            self.behind[index],
            self.limit[index],
        )

    @staticmethod
    def concatenated(parts: Sequence[_Partial]) -> _Partial:
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        return _Partial(
            {name: np.concatenate([p.columns[name] for p in parts]) for name in first.columns},
            {a: EventGroups.concatenated([p.groups[a] for p in parts]) for a in first.groups},
            np.concatenate([p.behind for p in parts]),
            np.concatenate([p.limit for p in parts]),
        )


Stage = tuple[int, int]  # a component, and how many events there are, as far as it matters


@dataclass(frozen=True)
class BindNext:
    """Bind all components of a sequence, each partial match going on with what comes next."""

    rules: TakingRules

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        assert frame.size == 1  # nothing is bound
        first = scan.arranged.candidates(self.rules.components[self.rules.places[0]].symbol)
        low, high = frame.column(Slot.LOW)[0], frame.column(Slot.HIGH)[0]
        rows = first.rows[first.before[low] : first.before[high]]
        for start in range(0, len(rows), scan.limits.chunk):
            for found in self._matches(scan, rows[start : start + scan.limits.chunk]):
                every = np.zeros(len(found), np.int64)
                yield frame.extended(every, found.columns, found.groups)

    def _matches(self, scan: QueryScan, rows: Rows) -> Iterator[_Partial]:
        """The matches that begin with these rows, each as soon as it is whole."""
        nothing = _Partial({}, {}, rows, scan.reach_high[rows])
        waiting: dict[Stage, list[_Partial]] = {}
        start = self.rules.places[0]
        began = [(start, self._taken(scan, nothing, np.arange(len(rows)), Take(start, ()), rows))]
        while True:
            for place, partial in began:
                count = self._count(partial, place)
                if self.rules.is_whole(place, count):
                    yield partial
                ways = self.rules.ways(place, count)
                if any(self.rules.is_kept(place, way) for way in ways):
                    waiting.setdefault((place, count), []).append(partial)
            if not waiting:
                return
            stage = min(waiting)
            partial = _Partial.concatenated(waiting.pop(stage))
            began, left = self._step(scan, partial, stage)
            if len(left):
                waiting.setdefault(stage, []).append(left)

    def _count(self, partial: _Partial, place: int) -> int:
        """How many events a component has, up to where it no longer matters.

        All partial matches that were taken in one step have as many.
        """
        component = self.rules.components[place]
        least, most = group_sizes(component.quantifier)
        if most == 1 or (least, most) == (1, None):
            return 1
        count = int(partial.groups[component.alias].sizes[0])
        return count if most is not None else min(count, least)

    def _step(
        self, scan: QueryScan, partial: _Partial, stage: Stage
    ) -> tuple[list[tuple[int, _Partial]], _Partial]:
        """Look at the next moment with a candidate: what goes on there, and what looks further."""
        ways = self.rules.ways(*stage)
        lists = [scan.arranged.candidates(self.rules.components[way.place].symbol) for way in ways]
        none = len(scan.layout)
        nearest = [np.append(c.rows, none)[c.before[partial.behind]] for c in lists]
        candidate = reduce(np.minimum, nearest)
        inside = np.flatnonzero(candidate < partial.limit)
        partial, candidate = partial.take(inside), candidate[inside]
        low, high = scan.layout.block[candidate], scan.layout.after[candidate]
        taken = np.zeros(len(partial), bool)
        began: list[tuple[int, _Partial]] = []
        for way, candidates in zip(ways, lists, strict=True):
            start = candidates.before[low]
            sizes = candidates.before[high] - start
            scan.count_work(int(sizes.sum()))
            owner = np.repeat(np.arange(len(partial)), sizes)
            rows = candidates.rows[ranges(start, sizes)]
            fits = self._fits(scan, partial, owner, way, rows)
            owner, rows = owner[fits], rows[fits]
            taken[owner] = True
            if len(owner) and self.rules.is_kept(stage[0], way):
                began.append((way.place, self._taken(scan, partial, owner, way, rows)))
        index = np.flatnonzero(~taken)
        left = partial.take(index)
        return began, _Partial(left.columns, left.groups, high[index], left.limit)

    def _fits(self, scan: QueryScan, partial: _Partial, owner: Rows, way: Take, rows: Rows) -> Mask:
        fits = np.ones(len(owner), bool)
        if way.conditions and len(owner):
            alias = self.rules.components[way.place].alias
            columns: dict[Name, Rows] = {alias: rows}
            if alias in partial.groups:
                columns[just_before(alias)] = partial.groups[alias].last[owner]
            each = partial.frame.extended(owner, columns)
            for condition in way.conditions:
                fits &= holds(condition, scan, each)
        return fits

    def _taken(
        self, scan: QueryScan, partial: _Partial, owner: Rows, way: Take, rows: Rows
    ) -> _Partial:
        """Partial matches with an event more."""
        found = partial.take(owner)
        component = self.rules.components[way.place]
        columns, groups = found.columns, found.groups
        if isinstance(component.quantifier, One):
            columns = {**columns, component.alias: rows}
        else:
            groups = {**groups, component.alias: _longer(groups.get(component.alias), rows)}
        return _Partial(columns, groups, scan.layout.after[rows], found.limit)


def _longer(groups: EventGroups | None, rows: Rows) -> EventGroups:
    """The groups, each with a row more."""
    if groups is None:
        return EventGroups(np.arange(len(rows) + 1), rows)
    return EventGroups(ends(groups.sizes + 1), np.insert(groups.rows, groups.offsets[1:], rows))


@dataclass(frozen=True)
class LeavesNothingOut:
    """Keep the matches that leave out no event, between two of theirs, that they could have taken.

    For sequences with ALL E, whose events no partial match can take one after the other.
    """

    rules: TakingRules

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        left_out = np.zeros(frame.size, bool)
        components, places = self.rules.components, self.rules.places
        for place, after in zip_longest(places, places[1:]):
            component = components[place]
            alias = component.alias
            following: Rows | None = None
            if after is not None:
                following = frame.first(components[after].alias)
            if isinstance(component.quantifier, One):
                if following is not None:
                    row = frame.column(alias)
                    owner = np.arange(frame.size)
                    self._look(scan, frame, owner, row, following, place, 1, left_out)
                continue
            self._look_in_group(scan, frame, frame.group(alias), place, following, left_out)
        yield frame.take(np.flatnonzero(~left_out)) if left_out.any() else frame

    def _look_in_group(
        self,
        scan: QueryScan,
        frame: Frame,
        group: EventGroups,
        place: int,
        following: Rows | None,
        left_out: Mask,
    ) -> None:
        """Look behind each event of a group, the group being what it is up to there."""
        alias = self.rules.components[place].alias
        sizes = group.sizes
        for count in range(1, int(sizes.max(initial=0)) + 1):
            is_last = sizes == count
            owner = np.flatnonzero((sizes > count) | (is_last & (following is not None)))
            start = group.offsets[:-1][owner]
            rows = group.rows[start + count - 1]
            after = np.zeros(len(owner), np.int64)
            inner = ~is_last[owner]
            after[inner] = group.rows[start[inner] + count]
            if following is not None:
                after[~inner] = following[owner[~inner]]
            so_far = EventGroups(
                np.arange(len(owner) + 1) * count,
                group.rows[ranges(start, np.full(len(owner), count))],
            )
            each = frame.extended(owner, {}, {alias: so_far})
            self._look(scan, each, owner, rows, after, place, count, left_out)

    def _look(
        self,
        scan: QueryScan,
        frame: Frame,
        match: Rows,
        rows: Rows,
        following: Rows,
        place: int,
        count: int,
        left_out: Mask,
    ) -> None:
        low, high = scan.layout.after[rows], scan.layout.block[following]
        for way in self.rules.ways(place, count):
            component = self.rules.components[way.place]
            candidates = scan.arranged.candidates(component.symbol)
            start = candidates.before[low]
            sizes = np.maximum(candidates.before[high] - start, 0)
            scan.count_work(int(sizes.sum()))
            owner = np.repeat(np.arange(len(rows)), sizes)
            columns: dict[Name, Rows] = {component.alias: candidates.rows[ranges(start, sizes)]}
            if way.place == place:
                columns[just_before(component.alias)] = rows[owner]
            each = frame.extended(owner, columns)
            fits = np.ones(len(owner), bool)
            for condition in way.conditions:
                fits &= holds(condition, scan, each)
            left_out[match[owner[fits]]] = True
