"""Counted queries in groups, each with an engine; patterns cut into segments by the candidates
chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optimizer.cost.counting import CountedQueries, reversible
from optimizer.cost.engine_choice import RankedEngine, cheapest
from optimizer.cost.unit_costs import UnitCosts, nanoseconds
from optimizer.engines import COUNTING, CountingEngine, counting_engine, takes
from optimizer.engines.spec import Device
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.statistics.statistics import key_text
from sharing.counting.candidates import Candidates, CountSetting, SharedSetting
from sharing.errors import SharingError


@dataclass(frozen=True)
class Segment:
    """So many steps of a query from `start` on; `shared` is the number of a candidate, or None."""

    start: int
    length: int
    shared: int | None = None

    @property
    def end(self) -> int:
        """The step after its last."""
        return self.start + self.length


SegmentsByQuery = Mapping[str, tuple[Segment, ...]]


class ChopError(SharingError):
    """Segments that do not make up their query: each step must be in exactly one."""


def chop(candidates: Candidates, chosen: Iterable[int]) -> SegmentsByQuery:
    """The segments of every query, in order: those that are shared, and what lies between them.

    Raises ChopError where two of the chosen are in conflict.
    """
    shared: dict[int, list[Segment]] = {}
    for i in chosen:
        for place in range(int(candidates.first[i]), int(candidates.first[i + 1])):
            segment = Segment(int(candidates.position[place]), int(candidates.length[i]), i)
            shared.setdefault(int(candidates.query[place]), []).append(segment)
    chopped = {}
    for q, query in enumerate(candidates.of):
        listed = sorted(shared.get(q, []), key=lambda segment: segment.start)
        chopped[query.name] = tuple(_filled(listed, len(query.steps)))
        check(query.name, chopped[query.name], len(query.steps))
    return chopped


def check(query: str, segments: Sequence[Segment], steps: int) -> None:
    """Raise ChopError unless the segments, in order, hold each of so many steps once."""
    at = 0
    for segment in segments:
        if segment.start != at or segment.length < 1:
            wrong = "overlap" if segment.start < at else "leave a gap"
            raise ChopError(f"the segments of {query} {wrong} at step {min(at, segment.start) + 1}")
        at = segment.end
    if at != steps:
        raise ChopError(f"the segments of {query} have {at} steps, and it has {steps}")


def lengths(chopped: SegmentsByQuery) -> dict[str, tuple[int, ...]]:
    """The length of each query's segments, as Chop-Connect takes them."""
    return {name: tuple(s.length for s in segments) for name, segments in chopped.items()}


def together(chopped: SegmentsByQuery) -> tuple[tuple[str, ...], ...]:
    """The queries that must run in one group, as they share something, directly or through others.

    Groups, and the queries in each, come in the order of the queries.
    """
    parent: dict[str, str] = {name: name for name in chopped}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    first: dict[int, str] = {}
    for name, segments in chopped.items():
        for segment in segments:
            if segment.shared is not None:
                parent[root(name)] = root(first.setdefault(segment.shared, name))
    groups: dict[str, list[str]] = {}
    for name in chopped:
        groups.setdefault(root(name), []).append(name)
    return tuple(map(tuple, groups.values()))


def _filled(shared: Sequence[Segment], steps: int) -> Iterable[Segment]:
    at = 0
    for segment in shared:
        if segment.start > at:
            yield Segment(at, segment.start - at)
        yield segment
        at = segment.end
    if at < steps:
        yield Segment(at, steps - at)


Members = tuple[int, ...]


def best_parts(size: int, cost: Callable[[Members], float]) -> tuple[list[Members], float]:
    """The groups of the numbers below `size` that cost the least together, and what they cost.

    `cost` is asked once for each subset, so `size` must be small. Groups come in the order of
    their first members; of equal costs, larger groups are taken.
    """
    every = range(1 << size)
    alone = [cost(tuple(_members(subset))) if subset else 0.0 for subset in every]
    least, taken = [0.0] * len(every), [0] * len(every)
    for subset in every[1:]:
        first = subset & -subset
        others = subset ^ first
        best, part = alone[subset], subset
        rest = others
        while rest:  # what is left when the group of the first member is taken
            found = alone[subset ^ rest] + least[rest]
            if found < best:
                best, part = found, subset ^ rest
            rest = (rest - 1) & others
        least[subset], taken[subset] = best, part
    left = len(every) - 1
    total = least[left]
    parts = []
    while left:
        parts.append(tuple(_members(taken[left])))
        left ^= taken[left]
    return parts, total


def _members(subset: int) -> Iterator[int]:
    while subset:
        first = subset & -subset
        yield first.bit_length() - 1
        subset ^= first


LONELY = "counted alone: no other query has its key, and a window in the same unit"
APART = "counted alone: with the others of its key it would take longer"
OFF = "counted alone: sharing is switched off"
MOST_MERGED = 8  # groups of one key, any two of which are tried as one
MOST_GATHERED = 8  # of which each is tried with those before it

Lengths = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class QueryGroup:
    """Queries that are counted together, by which engine, and why.

    `nanoseconds` is what they take together for a second of stream, by the measured model.
    """

    queries: tuple[Query, ...]
    engine: str
    why: str
    nanoseconds: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its queries."""
        return tuple(query.name for query in self.queries)


class GroupAssignment(NamedTuple):
    """Groups of queries that are counted, and what they take, in ns per second of stream.

    No choice of groups and engines takes less than `least`.
    """

    groups: list[QueryGroup]
    nanoseconds: float
    least: float


RankedGroup = tuple[Sequence[Query], RankedEngine]


def _cost(groups: Sequence[RankedGroup]) -> float:
    return sum(ranked.nanoseconds for _, ranked in groups)


@dataclass(frozen=True)
class GroupAssigner:
    """How queries are put into groups: by these statistics and costs, and with what was chosen.

    `lengths` are the segments for Chop-Connect; other segments would save at most `more_saved`, by
    setting. Queries of one key could run together, whatever their windows and slides. Classes of up
    to `exactly` of them are parted in the best of all ways; larger ones by rules: all together,
    each alone, those that a negation or a value makes dearer apart from the others, or by window
    and slide; and what is found so is merged as long as that takes less.
    Where rates or keys are only assumed, engines whose cost depends on them are left out.
    """

    statistics: Statistics
    unit_costs: UnitCosts
    lengths: Lengths = field(default_factory=dict)
    more_saved: Mapping[SharedSetting, float] = field(default_factory=dict)
    sharing: bool = True
    exactly: int = 0
    device: Device = "cpu"
    _known: dict[str, RankedEngine] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _tried: dict[frozenset[str], RankedEngine] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def assigned(self, queries: Sequence[Query]) -> GroupAssignment:
        """The groups of all queries."""
        groups: list[QueryGroup] = []
        least = 0.0
        for some in self._classes(queries):
            found = self._class(some)
            groups += found.groups
            least += found.least
        return GroupAssignment(groups, sum(group.nanoseconds for group in groups), least)

    def alone(self, query: Query) -> RankedEngine:
        """What a query takes by itself, by its cheapest engine."""
        if query.name not in self._known:
            self._known[query.name] = self.ranked([query])[0]
        return self._known[query.name]

    def _price_apart(self, some: Sequence[Query]) -> None:
        """Have many queries that an engine is there for priced by it alone.

        Pricing each by all others takes longer than to run them, and none of those is taken for
        queries that run together.
        """
        for engine in self.engines:
            if engine.APART and all(takes(engine, [query]) for query in some):
                for query in some:
                    if query.name not in self._known:
                        costs = cheapest([query], self.statistics, self.unit_costs, [engine])
                        self._known[query.name] = costs[0]

    def alone_as_group(self, query: Query, why: str) -> QueryGroup:
        """A query that is a group of its own, for that reason."""
        found = self.alone(query)
        return QueryGroup((query,), found.engine, f"{why}; {found.why}", found.nanoseconds)

    def ranked(
        self, group: Sequence[Query], lengths: Lengths | None = None, any_rates: bool = False
    ) -> list[RankedEngine]:
        """The engines that can count queries together, the cheapest first.

        With `any_rates` also those whose costs rest on assumed statistics.
        """
        if lengths is None:
            known = {q.name: self.lengths[q.name] for q in group if q.name in self.lengths}
            lengths = known if any(len(parts) > 1 for parts in known.values()) else None
        robust = not any_rates and not trusted(group, self.statistics)
        engines = self._engines_for(group)
        allowed = [engine for engine in engines if engine.ROBUST or not robust]
        if len(group) > 1:  # what has an engine of its own runs together by that
            allowed = [e for e in allowed if e.APART and takes(e, group)] or allowed
        return cheapest(group, self.statistics, self.unit_costs, allowed, lengths)

    @property
    def engines(self) -> tuple[CountingEngine, ...]:
        """Those that have kernels for the device."""
        return tuple(engine for engine in COUNTING if self.device in engine.DEVICES)

    def _engines_for(self, group: Sequence[Query]) -> tuple[CountingEngine, ...]:
        """Those of the device; where none of them takes a query, those of the processor."""
        own = self.engines
        if len(own) == len(COUNTING):
            return own
        taken = all(any(takes(engine, [query]) for engine in own) for query in group)
        return own if taken else COUNTING

    def _classes(self, queries: Sequence[Query]) -> Iterable[Sequence[Query]]:
        """Queries that could run together: those of a key, with windows in time or in events."""
        found: dict[Hashable, list[Query]] = {}
        for query in queries:
            place: Hashable = query.name
            if self.sharing:
                place = setting_of(query).shared
                apart = [engine for engine in self._engines_for([query]) if engine.APART]
                own = next((engine for engine in apart if engine.refusal(query) is None), None)
                if own is not None:
                    places = ((own.NAME, place, number) for number in itertools.count())
                    place = next(
                        p
                        for p in places
                        if own.refusal_together([*found.get(p, ())[:1], query]) is None
                    )
            found.setdefault(place, []).append(query)
        return found.values()

    def _class(self, some: Sequence[Query]) -> GroupAssignment:
        if len(some) > MOST_GATHERED:
            self._price_apart(some)
        if len(some) > self.exactly:
            self._together(some)  # first, as much of what each costs follows from it
        each = [self.alone(query) for query in some]
        if len(some) == 1:
            group = self._group(some, each[0], 1)
            return GroupAssignment([group], group.nanoseconds, group.nanoseconds)
        if len(some) <= self.exactly and trusted(some, self.statistics):
            return self._exactly(some, each)
        ways = [self._parted(some)]
        spans: dict[CountSetting, list[Query]] = {}
        for query in some:
            spans.setdefault(setting_of(query), []).append(query)
        if len(spans) > 1 and trusted(some, self.statistics):
            parts = [part for same in spans.values() for part in self._parted(same)]
            ways.append(self._gathered(self._paired(parts)))
        parted = self._merged(min(ways, key=_cost))
        groups = [self._group(group, ranked, len(some)) for group, ranked in parted]
        total = sum(group.nanoseconds for group in groups)
        return GroupAssignment(groups, total, min(total, self._dearest(each)))

    def _paired(self, parts: list[RankedGroup]) -> list[RankedGroup]:
        """Groups, the dearest first, of which neighbours are one where that takes less, as long as
        there are many: what follows looks at them again and again.
        """
        parts = sorted(parts, key=lambda part: -part[1].nanoseconds)
        while len(parts) > MOST_GATHERED:
            found: list[RankedGroup] = []
            for first, *others in (parts[i : i + 2] for i in range(0, len(parts), 2)):
                found.append(first)
                for group, ranked in others:
                    both = [*first[0], *group]
                    joint = self._together(both)
                    if joint.nanoseconds < first[1].nanoseconds + ranked.nanoseconds:
                        found[-1] = both, joint
                    else:
                        found.append((group, ranked))
            if len(found) == len(parts):
                break
            parts = found
        return parts

    def _gathered(self, parts: Iterable[RankedGroup]) -> list[RankedGroup]:
        """Groups, the dearest first: each joins the one with which that takes the least, if it
        takes less.
        """
        found: list[RankedGroup] = []
        for group, ranked in sorted(parts, key=lambda part: -part[1].nanoseconds):
            best, gain = None, 0.0
            for i, (other, theirs) in enumerate(found[:MOST_MERGED]):
                both = [*other, *group]
                joint = self._together(both)
                less = ranked.nanoseconds + theirs.nanoseconds - joint.nanoseconds
                if less > gain:
                    best, gain = (i, both, joint), less
            if best is None:
                found.append((group, ranked))
            else:
                found[best[0]] = best[1:]
        return found

    def _together(self, group: Sequence[Query]) -> RankedEngine:
        """The cheapest engine for a group that is asked for again and again."""
        if len(group) == 1:
            return self.alone(group[0])
        names = frozenset(query.name for query in group)
        if names not in self._tried:
            self._tried[names] = self.ranked(group)[0]
        return self._tried[names]

    def _exactly(self, some: Sequence[Query], each: Sequence[RankedEngine]) -> GroupAssignment:
        """The best of all ways to part a class."""
        found: dict[Members, RankedEngine | None] = {(i,): ranked for i, ranked in enumerate(each)}

        def ranked(members: Members) -> RankedEngine | None:
            if members not in found:
                engines = self.ranked([some[i] for i in members])
                found[members] = engines[0] if engines else None
            return found[members]

        def cost(members: Members) -> float:
            best = ranked(members)
            return float("inf") if best is None else best.nanoseconds

        def floor(members: Members) -> float:
            """What the queries take at least with any segments."""
            group = [some[i] for i in members]
            dearest = self._dearest([each[i] for i in members])
            return min(cost(members), max(dearest, self._least_chopped(group)))

        parts, total = best_parts(len(some), cost)
        least = best_parts(len(some), floor)[1] if self.more_saved else total
        groups = []
        for members in parts:
            best = ranked(members)
            assert best is not None
            groups.append(self._group([some[i] for i in members], best, len(some)))
        return GroupAssignment(groups, total, min(least, total))

    def _dearest(self, each: Sequence[RankedEngine]) -> float:
        """What queries take at least however they are put into groups: no less than any alone.

        No group takes less than one of its queries, and all of them write their rows.
        """
        costs = self.unit_costs.each
        row = min(costs.product_rows, costs.sorted_rows)
        rows = [row * (r.operations.product_rows + r.operations.sorted_rows) for r in each]
        own = (ranked.nanoseconds - mine for ranked, mine in zip(each, rows, strict=True))
        return max(own) + sum(rows)

    def _least_chopped(self, group: Sequence[Query]) -> float:
        """What engines that chop queries take at least; infinite where none can."""
        found = [
            nanoseconds(
                engine.operations(CountedQueries(tuple(group), self.statistics), None),
                self.unit_costs,
            )
            - self.more_saved.get(setting_of(group[0]).shared, 0.0)
            for engine in self.engines
            if engine.CHOPPED and len(group) >= engine.FEWEST and takes(engine, group)
        ]
        return min(found, default=float("inf"))

    def _parted(self, some: Sequence[Query]) -> list[RankedGroup]:
        """Queries of one key in groups, by a rule."""
        ways: list[list[RankedGroup]] = [
            [(some, self._together(some))],
            [([query], self.alone(query)) for query in some],
        ]
        if len(some) > 1 and trusted(some, self.statistics):
            marks = reversible(some, self.statistics)
            halves = [
                [q for q, mark in zip(some, marks, strict=True) if mark == wanted]
                for wanted in (1, 0)
            ]
            if all(halves):
                ways.append([(half, self._together(half)) for half in halves])
        return min(ways, key=_cost)

    def _merged(self, groups: list[RankedGroup]) -> list[RankedGroup]:
        """The groups, of which any two are one as long as that takes less."""
        while 1 < len(groups) <= MOST_MERGED:
            best, gain = None, 0.0
            for i, (one, mine) in enumerate(groups):
                for j in range(i + 1, len(groups)):
                    other, theirs = groups[j]
                    both = [*one, *other]
                    ranked = self._together(both)
                    less = mine.nanoseconds + theirs.nanoseconds - ranked.nanoseconds
                    if less > gain:
                        best, gain = (i, j, both, ranked), less
            if best is None:
                break
            i, j, both, ranked = best
            kept = [group for number, group in enumerate(groups) if number not in (i, j)]
            groups = [*kept, (both, ranked)]
        return groups

    def _group(self, group: Sequence[Query], ranked: RankedEngine, same: int) -> QueryGroup:
        if len(group) > 1:
            why = counting_engine(ranked.engine).TOGETHER
        elif not self.sharing:
            why = OFF
        else:
            why = LONELY if same == 1 else APART
        return QueryGroup(tuple(group), ranked.engine, f"{why}; {ranked.why}", ranked.nanoseconds)


def setting_of(query: Query) -> CountSetting:
    """How a query looks at the stream."""
    return CountSetting(query.key, query.window, query.slide, added=query.added_columns)


def trusted(group: Sequence[Query], statistics: Statistics) -> bool:
    """Is everything known, and not assumed, that decides among engines for these queries?"""
    assumed = set(statistics.assumed)
    if not assumed:
        return True
    types = {event.symbol.type for query in group for event in events(query.pattern)}
    keys = {key_text(query.key) for query in group if query.key}
    return not assumed & ({f"rates: {name}" for name in types} | {f"keys: {key}" for key in keys})
