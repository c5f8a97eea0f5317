"""Which queries are counted together, and by which engine: the cheapest by the measured model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from optimizer.chains import Chain, chain_of
from optimizer.cost.choice import Engine, Ranked, cheapest
from optimizer.cost.counting import reversible
from optimizer.cost.operations import UnitCosts
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.physical.operators import Together
from optimizer.statistics import Statistics
from optimizer.statistics.known import key_text

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


def assigned(
    queries: Sequence[Query],
    statistics: Statistics,
    unit_costs: UnitCosts,
    lengths: Lengths,
    sharing: bool = True,
    each: Mapping[str, float] | None = None,
) -> tuple[list[Together], float]:
    """The groups of queries that are counted, and what they take, in ns per second of stream.

    Where rates or keys are only assumed the product is taken, as its cost depends least on them.
    `lengths` are the segments that were chosen for Chop-Connect, and `each` is what each query
    takes alone. Queries of one key, window and slide run together where that takes the least;
    else those that a negation or a value makes dearer run apart from the others, or all do.
    """
    settings: dict[Hashable, list[Query]] = {}
    for query in queries:
        place = (query.key, query.window, query.slide) if sharing else query.name
        settings.setdefault(place, []).append(query)
    groups, costs = [], []
    for same in settings.values():
        for group, ranked in _parted(same, statistics, unit_costs, lengths, each or {}):
            how = _how(group, len(same), ranked.engine, sharing)
            why = f"{how}; {ranked.why}"
            groups.append(Together(tuple(group), ranked.engine, why, ranked.nanoseconds))
            costs.append(ranked.nanoseconds)
    if sharing:
        groups, costs = _by_panes(groups, costs, statistics, unit_costs)
    return groups, sum(costs)


def alone(query: Query, statistics: Statistics, unit_costs: UnitCosts) -> float:
    """What a query takes by itself, in nanoseconds per second of stream."""
    return _best([query], statistics, unit_costs, {}).nanoseconds


def _parted(
    same: Sequence[Query],
    statistics: Statistics,
    unit_costs: UnitCosts,
    lengths: Lengths,
    each: Mapping[str, float],
) -> list[tuple[Sequence[Query], Ranked]]:
    """Queries of one key, window and slide in groups, such that all take the least."""

    def ranked(groups: Sequence[Sequence[Query]]) -> list[tuple[Sequence[Query], Ranked]]:
        return [(group, _best(group, statistics, unit_costs, lengths)) for group in groups]

    best = ranked([same])
    if len(same) == 1 or not trusted(same, statistics):
        return best

    def cost(groups: Sequence[tuple[Sequence[Query], Ranked]]) -> float:
        return sum(found.nanoseconds for _, found in groups)

    marks = reversible(same, statistics)
    halves = [
        [q for q, mark in zip(same, marks, strict=True) if mark == wanted] for wanted in (1, 0)
    ]
    if all(halves):
        best = min(best, ranked(halves), key=cost)
    if all(query.name in each for query in same) and sum(each[q.name] for q in same) < cost(best):
        return ranked([[query] for query in same])
    return best


def _how(group: Sequence[Query], same: int, engine: Engine, sharing: bool) -> str:
    if len(group) > 1:
        return TOGETHER[engine]
    if not sharing:
        return OFF
    return LONELY if same == 1 else APART


def _best(
    group: Sequence[Query], statistics: Statistics, unit_costs: UnitCosts, lengths: Lengths
) -> Ranked:
    allowed: tuple[Engine, ...] = ("product",)
    if trusted(group, statistics) and all(isinstance(chain_of(q), Chain) for q in group):
        allowed = ("product", "aseq")
        if len(group) > 1:
            allowed = ("product", "aseq", "pretree", "chopconnect")
    mine = {query.name: lengths[query.name] for query in group if query.name in lengths}
    chopped = mine if any(len(parts) > 1 for parts in mine.values()) else None
    return cheapest(group, statistics, unit_costs, allowed, chopped)[0]


def trusted(group: Sequence[Query], statistics: Statistics) -> bool:
    """Is everything known, and not assumed, that decides among engines for these queries?"""
    assumed = set(statistics.assumed)
    types = {event.symbol.type for query in group for event in events(query.pattern)}
    keys = {key_text(query.key) for query in group if query.key}
    return not assumed & ({f"rates: {name}" for name in types} | {f"keys: {key}" for key in keys})


def _by_panes(
    groups: list[Together],
    costs: list[float],
    statistics: Statistics,
    unit_costs: UnitCosts,
) -> tuple[list[Together], list[float]]:
    """Groups of one key whose windows slide in time become one, where panes are cheaper."""
    by_key: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        first = group.queries[0]
        if first.slide is not None and not first.window.is_count:
            by_key.setdefault(first.key, []).append(i)
    for members in by_key.values():
        together = tuple(query for i in members for query in groups[i].queries)
        if len(members) < 2 or not trusted(together, statistics):
            continue
        only: tuple[Engine, ...] = ("panes",)
        panes = cheapest(together, statistics, unit_costs, only)[0]
        if panes.nanoseconds >= sum(costs[i] for i in members):
            continue
        why = f"{TOGETHER['panes']}; {panes.why}"
        groups[members[0]] = Together(together, "panes", why, panes.nanoseconds)
        costs[members[0]] = panes.nanoseconds
        for i in members[1:]:
            groups[i], costs[i] = Together((), "", ""), 0.0
    kept = [i for i, group in enumerate(groups) if group.queries]
    return [groups[i] for i in kept], [costs[i] for i in kept]
