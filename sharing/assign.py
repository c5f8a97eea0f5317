"""Which queries are counted together, and by which engine: the cheapest by the measured model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optimizer.chains import Chain, chain_of
from optimizer.cost.choice import Engine, Ranked, cheapest
from optimizer.cost.counting import Counting, chopconnect, reversible
from optimizer.cost.operations import UnitCosts, nanoseconds
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.physical.groups import Device
from optimizer.physical.operators import Together
from optimizer.statistics import Statistics
from optimizer.statistics.known import key_text
from sharing.parting import Members, best_parts

SAME = "counted together: they have one key, window and slide"
TOGETHER: Mapping[Engine, str] = {
    "product": f"{SAME}, so each distinct piece of their patterns is counted once",
    "pretree": f"{SAME}, and what they begin with is counted once",
    "chopconnect": f"{SAME}, and segments that they share are counted once and connected",
    "aseq": f"{SAME}, and events are prepared once",
    "panes": "counted together by panes, whatever their windows and slides",
}
LONELY = "counted alone: no other query has its key, window and slide"
APART = "counted alone: with the others of its key, window and slide it would take longer"
OFF = "counted alone: sharing is switched off"

Lengths = Mapping[str, tuple[int, ...]]


class Assigned(NamedTuple):
    """Groups of queries that are counted, and what they take, in ns per second of stream.

    No choice of groups and engines takes less than `least`.
    """

    groups: list[Together]
    nanoseconds: float
    least: float


@dataclass(frozen=True)
class Assigning:
    """How queries are put into groups: by these statistics and costs, and with what was chosen.

    `lengths` are the segments for Chop-Connect, of which other choices would save `segments` at
    most. Classes of up to `exactly` queries that could run together are parted in the best of all
    ways; of larger ones, queries of one key, window and slide run together where that takes the
    least, or those that a negation or a value makes dearer apart from the others, or each alone.
    Where rates or keys are only assumed the product is taken, as its cost depends least on them;
    likewise on an OpenCL `device`, for which the others have no kernels.
    """

    statistics: Statistics
    unit_costs: UnitCosts
    lengths: Lengths = field(default_factory=dict)
    segments: float = 0.0
    sharing: bool = True
    exactly: int = 0
    device: Device = "cpu"
    _known: dict[str, Ranked] = field(default_factory=dict, init=False, repr=False, compare=False)

    def assigned(self, queries: Sequence[Query]) -> Assigned:
        """The groups of all queries."""
        groups: list[Together] = []
        least = 0.0
        for some in self._classes(queries):
            found = self._class(some)
            groups += found.groups
            least += found.least
        return Assigned(groups, sum(group.nanoseconds for group in groups), least)

    def alone(self, query: Query) -> float:
        """What a query takes by itself, in nanoseconds per second of stream."""
        return self._alone(query).nanoseconds

    def _classes(self, queries: Sequence[Query]) -> Iterable[Sequence[Query]]:
        """Queries that could run together: by panes, those of a key that slide in time."""
        found: dict[Hashable, list[Query]] = {}
        for query in queries:
            place: Hashable = query.name
            if self.sharing:
                panes = _has_panes(query) and self.device == "cpu"
                place = query.key if panes else _setting(query)
            found.setdefault(place, []).append(query)
        return found.values()

    def _class(self, some: Sequence[Query]) -> Assigned:
        each = [self._alone(query) for query in some]
        if len(some) == 1:
            group = self._together(some, each[0], 1)
            return Assigned([group], group.nanoseconds, group.nanoseconds)
        if len(some) <= self.exactly and trusted(some, self.statistics):
            return self._exactly(some, each)
        settings: dict[Hashable, list[int]] = {}
        for i, query in enumerate(some):
            settings.setdefault(_setting(query), []).append(i)
        groups: list[Together] = []
        for same in settings.values():
            parted = self._parted([some[i] for i in same], [each[i] for i in same])
            groups += [self._together(group, ranked, len(same)) for group, ranked in parted]
        may_pane = self.device == "cpu" and _has_panes(some[0])
        if len(groups) > 1 and may_pane and trusted(some, self.statistics):
            panes = self._panes(some)
            if panes.nanoseconds < sum(group.nanoseconds for group in groups):
                groups = [self._together(some, panes, len(some))]
        # No group takes less than the dearest of its queries does alone.
        least = max(ranked.nanoseconds for ranked in each)
        return Assigned(groups, sum(group.nanoseconds for group in groups), least)

    def _exactly(self, some: Sequence[Query], each: Sequence[Ranked]) -> Assigned:
        """The best of all ways to part a class."""
        chains = [_is_chain(query) for query in some]
        found: dict[Members, Ranked] = {(i,): ranked for i, ranked in enumerate(each)}

        def ranked(members: Members) -> Ranked:
            if members not in found:
                group = [some[i] for i in members]
                same = len({_setting(query) for query in group}) == 1
                found[members] = self._best(group) if same else self._panes(group)
            return found[members]

        def cost(members: Members) -> float:
            return ranked(members).nanoseconds

        def floor(members: Members) -> float:
            if len(members) == 1 or ranked(members).engine == "panes":
                return cost(members)
            if not all(chains[i] for i in members):
                return cost(members)
            group = Counting(tuple(some[i] for i in members), self.statistics)
            whole = nanoseconds(chopconnect(group), self.unit_costs)
            return min(cost(members), max(0.0, whole - self.segments))

        parts, total = best_parts(len(some), cost)
        least = best_parts(len(some), floor)[1] if self.segments else total
        settings = Counter(map(_setting, some))
        groups = [
            self._together(
                [some[i] for i in members], ranked(members), settings[_setting(some[members[0]])]
            )
            for members in parts
        ]
        return Assigned(groups, total, least)

    def _parted(
        self, same: Sequence[Query], each: Sequence[Ranked]
    ) -> list[tuple[Sequence[Query], Ranked]]:
        """Queries of one key, window and slide in groups, by a rule."""
        ways: list[list[tuple[Sequence[Query], Ranked]]] = [
            [(same, self._best(same))],
            [([query], ranked) for query, ranked in zip(same, each, strict=True)],
        ]
        if len(same) > 1 and trusted(same, self.statistics):
            marks = reversible(same, self.statistics)
            halves = [
                [q for q, mark in zip(same, marks, strict=True) if mark == wanted]
                for wanted in (1, 0)
            ]
            if all(halves):
                ways.append([(half, self._best(half)) for half in halves])
        return min(ways, key=lambda groups: sum(ranked.nanoseconds for _, ranked in groups))

    def _together(self, group: Sequence[Query], ranked: Ranked, same: int) -> Together:
        why = f"{_how(group, same, ranked.engine, self.sharing)}; {ranked.why}"
        return Together(tuple(group), ranked.engine, why, ranked.nanoseconds)

    def _alone(self, query: Query) -> Ranked:
        if query.name not in self._known:
            self._known[query.name] = self._best([query])
        return self._known[query.name]

    def _best(self, group: Sequence[Query]) -> Ranked:
        """The cheapest engine for queries of one key, window and slide."""
        allowed: tuple[Engine, ...] = ("product",)
        on_cpu = self.device == "cpu"
        if on_cpu and all(map(_is_chain, group)) and trusted(group, self.statistics):
            allowed = ("product", "aseq")
            if len(group) > 1:
                allowed = ("product", "aseq", "pretree", "chopconnect")
        mine = {
            query.name: self.lengths[query.name] for query in group if query.name in self.lengths
        }
        chopped = mine if any(len(parts) > 1 for parts in mine.values()) else None
        return cheapest(group, self.statistics, self.unit_costs, allowed, chopped)[0]

    def _panes(self, group: Sequence[Query]) -> Ranked:
        only: tuple[Engine, ...] = ("panes",)
        return cheapest(group, self.statistics, self.unit_costs, only)[0]


def _how(group: Sequence[Query], same: int, engine: Engine, sharing: bool) -> str:
    if len(group) > 1:
        return TOGETHER[engine]
    if not sharing:
        return OFF
    return LONELY if same == 1 else APART


def _setting(query: Query) -> Hashable:
    return query.key, query.window, query.slide


def _has_panes(query: Query) -> bool:
    return query.slide is not None and not query.window.is_count


def _is_chain(query: Query) -> bool:
    return isinstance(chain_of(query), Chain)


def trusted(group: Sequence[Query], statistics: Statistics) -> bool:
    """Is everything known, and not assumed, that decides among engines for these queries?"""
    assumed = set(statistics.assumed)
    if not assumed:
        return True
    types = {event.symbol.type for query in group for event in events(query.pattern)}
    keys = {key_text(query.key) for query in group if query.key}
    return not assumed & ({f"rates: {name}" for name in types} | {f"keys: {key}" for key in keys})
