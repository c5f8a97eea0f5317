"""Which queries are counted together, and by which engine: the cheapest by the measured model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optimizer.cost.choice import Ranked, cheapest
from optimizer.cost.counting import Counting, reversible
from optimizer.cost.operations import UnitCosts, nanoseconds
from optimizer.engines import COUNTING, CountingEngine, counting_engine, takes
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.physical.groups import Device
from optimizer.statistics import Statistics
from optimizer.statistics.known import key_text
from sharing.parting import Members, best_parts
from sharing.steps import Setting

LONELY = "counted alone: no other query has its key, window and slide"
APART = "counted alone: with the others of its key, window and slide it would take longer"
OFF = "counted alone: sharing is switched off"
MOST_MERGED = 12  # groups of one key, window and slide, any two of which are tried as one

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


class Assigned(NamedTuple):
    """Groups of queries that are counted, and what they take, in ns per second of stream.

    No choice of groups and engines takes less than `least`.
    """

    groups: list[QueryGroup]
    nanoseconds: float
    least: float


@dataclass(frozen=True)
class Assigning:
    """How queries are put into groups: by these statistics and costs, and with what was chosen.

    `lengths` are the segments for Chop-Connect; other segments would save at most `more_saved`, by
    setting. Classes of up to `exactly` queries that could run together are parted in the best of
    all ways; of larger ones, queries of one key, window and slide run together where that takes the
    least, or those that a negation or a value makes dearer apart from the others, or each alone.
    Where rates or keys are only assumed, engines whose cost depends on them are left out.
    """

    statistics: Statistics
    unit_costs: UnitCosts
    lengths: Lengths = field(default_factory=dict)
    more_saved: Mapping[Setting, float] = field(default_factory=dict)
    sharing: bool = True
    exactly: int = 0
    device: Device = "cpu"
    _known: dict[str, Ranked] = field(default_factory=dict, init=False, repr=False, compare=False)

    def assigned(self, queries: Sequence[Query]) -> Assigned:
        """The groups of all queries."""
        groups: list[QueryGroup] = []
        least = 0.0
        for some in self._classes(queries):
            found = self._class(some)
            groups += found.groups
            least += found.least
        return Assigned(groups, sum(group.nanoseconds for group in groups), least)

    def alone(self, query: Query) -> Ranked:
        """What a query takes by itself, by its cheapest engine."""
        if query.name not in self._known:
            self._known[query.name] = self.ranked([query])[0]
        return self._known[query.name]

    def alone_as_group(self, query: Query, why: str) -> QueryGroup:
        """A query that is a group of its own, for that reason."""
        found = self.alone(query)
        return QueryGroup((query,), found.engine, f"{why}; {found.why}", found.nanoseconds)

    def ranked(
        self, group: Sequence[Query], lengths: Lengths | None = None, any_rates: bool = False
    ) -> list[Ranked]:
        """The engines that can count queries together, the cheapest first.

        With `any_rates` also those whose costs rest on assumed statistics.
        """
        if lengths is None:
            known = {q.name: self.lengths[q.name] for q in group if q.name in self.lengths}
            lengths = known if any(len(parts) > 1 for parts in known.values()) else None
        robust = not any_rates and not trusted(group, self.statistics)
        allowed = [engine for engine in self.engines if engine.ROBUST or not robust]
        return cheapest(group, self.statistics, self.unit_costs, allowed, lengths)

    @property
    def engines(self) -> tuple[CountingEngine, ...]:
        """Those that have kernels for the device."""
        return tuple(engine for engine in COUNTING if self.device in engine.DEVICES)

    def _classes(self, queries: Sequence[Query]) -> Iterable[Sequence[Query]]:
        """Queries that could run together: where an engine takes any windows, those of a key."""
        found: dict[Hashable, list[Query]] = {}
        across = [engine for engine in self.engines if engine.ANY_WINDOW]
        for query in queries:
            place: Hashable = query.name
            if self.sharing:
                wide = any(engine.refusal(query) is None for engine in across)
                place = query.key if wide else setting_of(query)
            found.setdefault(place, []).append(query)
        return found.values()

    def _class(self, some: Sequence[Query]) -> Assigned:
        each = [self.alone(query) for query in some]
        if len(some) == 1:
            group = self._group(some, each[0], 1)
            return Assigned([group], group.nanoseconds, group.nanoseconds)
        if len(some) <= self.exactly and trusted(some, self.statistics):
            return self._exactly(some, each)
        settings: dict[Setting, list[Query]] = {}
        for query in some:
            settings.setdefault(setting_of(query), []).append(query)
        groups: list[QueryGroup] = []
        for same in settings.values():
            parted = self._merged(self._parted(same))
            groups += [self._group(group, ranked, len(same)) for group, ranked in parted]
        total = sum(group.nanoseconds for group in groups)
        across = self.ranked(some)[:1] if len(settings) > 1 else []
        if across and across[0].nanoseconds < total:
            groups = [self._group(some, across[0], len(some))]
            total = across[0].nanoseconds
        return Assigned(groups, total, min(total, self._dearest(each)))

    def _exactly(self, some: Sequence[Query], each: Sequence[Ranked]) -> Assigned:
        """The best of all ways to part a class."""
        found: dict[Members, Ranked | None] = {(i,): ranked for i, ranked in enumerate(each)}

        def ranked(members: Members) -> Ranked | None:
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
        settings = Counter(map(setting_of, some))
        groups = []
        for members in parts:
            best = ranked(members)
            assert best is not None
            same = settings[setting_of(some[members[0]])]
            groups.append(self._group([some[i] for i in members], best, same))
        return Assigned(groups, total, min(least, total))

    def _dearest(self, each: Sequence[Ranked]) -> float:
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
                engine.operations(Counting(tuple(group), self.statistics), None), self.unit_costs
            )
            - self.more_saved.get(setting_of(group[0]), 0.0)
            for engine in self.engines
            if engine.CHOPPED and len(group) >= engine.FEWEST and takes(engine, group)
        ]
        return min(found, default=float("inf"))

    def _parted(self, same: Sequence[Query]) -> list[tuple[Sequence[Query], Ranked]]:
        """Queries of one key, window and slide in groups, by a rule."""
        ways: list[list[tuple[Sequence[Query], Ranked]]] = [
            [(same, self.ranked(same)[0])],
            [([query], self.alone(query)) for query in same],
        ]
        if len(same) > 1 and trusted(same, self.statistics):
            marks = reversible(same, self.statistics)
            halves = [
                [q for q, mark in zip(same, marks, strict=True) if mark == wanted]
                for wanted in (1, 0)
            ]
            if all(halves):
                ways.append([(half, self.ranked(half)[0]) for half in halves])
        return min(ways, key=lambda groups: sum(ranked.nanoseconds for _, ranked in groups))

    def _merged(
        self, groups: list[tuple[Sequence[Query], Ranked]]
    ) -> list[tuple[Sequence[Query], Ranked]]:
        """The groups, of which any two are one as long as that takes less."""
        while 1 < len(groups) <= MOST_MERGED:
            best, gain = None, 0.0
            for i, (one, mine) in enumerate(groups):
                for j in range(i + 1, len(groups)):
                    other, theirs = groups[j]
                    both = [*one, *other]
                    ranked = self.ranked(both)[0]
                    less = mine.nanoseconds + theirs.nanoseconds - ranked.nanoseconds
                    if less > gain:
                        best, gain = (i, j, both, ranked), less
            if best is None:
                break
            i, j, both, ranked = best
            kept = [group for number, group in enumerate(groups) if number not in (i, j)]
            groups = [*kept, (both, ranked)]
        return groups

    def _group(self, group: Sequence[Query], ranked: Ranked, same: int) -> QueryGroup:
        if len(group) > 1:
            why = counting_engine(ranked.engine).TOGETHER
        elif not self.sharing:
            why = OFF
        else:
            why = LONELY if same == 1 else APART
        return QueryGroup(tuple(group), ranked.engine, f"{why}; {ranked.why}", ranked.nanoseconds)


def setting_of(query: Query) -> Setting:
    """What a query must have in common with others to be chopped into segments with them."""
    return Setting(query.key, query.window, query.slide)


def trusted(group: Sequence[Query], statistics: Statistics) -> bool:
    """Is everything known, and not assumed, that decides among engines for these queries?"""
    assumed = set(statistics.assumed)
    if not assumed:
        return True
    types = {event.symbol.type for query in group for event in events(query.pattern)}
    keys = {key_text(query.key) for query in group if query.key}
    return not assumed & ({f"rates: {name}" for name in types} | {f"keys: {key}" for key in keys})
