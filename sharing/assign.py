"""Which queries are counted together, and by which engine: the cheapest by the measured model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from optimizer.chains import Chain, chain_of
from optimizer.cost.choice import Engine, Ranked, cheapest
from optimizer.cost.operations import UnitCosts
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.physical.operators import Together
from optimizer.statistics import Statistics
from optimizer.statistics.known import key_text

TOGETHER = (
    "counted together: they have one key, window and slide, so each distinct piece of their "
    "patterns is counted once"
)
LONELY = "counted alone: no other query has its key, window and slide"
OFF = "counted alone: sharing is switched off"

Lengths = Mapping[str, tuple[int, ...]]


def assigned(
    queries: Sequence[Query],
    statistics: Statistics,
    unit_costs: UnitCosts,
    lengths: Lengths,
    sharing: bool = True,
) -> tuple[list[Together], float]:
    """The groups of queries that are counted, and what they take, in ns per second of stream.

    Where rates or keys are only assumed the product is taken, as its cost depends least on them.
    `lengths` are the segments that were chosen for Chop-Connect.
    """
    settings: dict[Hashable, list[Query]] = {}
    for query in queries:
        place = (query.key, query.window, query.slide) if sharing else query.name
        settings.setdefault(place, []).append(query)
    best = [_best(group, statistics, unit_costs, lengths) for group in settings.values()]
    groups = [
        Together(
            tuple(group), ranked.engine, f"{_how(group, sharing)}; {ranked.why}", ranked.nanoseconds
        )
        for group, ranked in zip(settings.values(), best, strict=True)
    ]
    costs = [ranked.nanoseconds for ranked in best]
    if sharing:
        groups, costs = _by_panes(groups, costs, statistics, unit_costs)
    return groups, sum(costs)


def alone(query: Query, statistics: Statistics, unit_costs: UnitCosts) -> float:
    """What a query takes by itself, in nanoseconds per second of stream."""
    return _best([query], statistics, unit_costs, {}).nanoseconds


def _how(group: Sequence[Query], sharing: bool) -> str:
    if len(group) > 1:
        return TOGETHER
    return LONELY if sharing else OFF


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
        why = "counted together by panes, whatever their windows and slides"
        groups[members[0]] = Together(together, "panes", f"{why}; {panes.why}", panes.nanoseconds)
        costs[members[0]] = panes.nanoseconds
        for i in members[1:]:
            groups[i], costs[i] = Together((), "", ""), 0.0
    kept = [i for i, group in enumerate(groups) if group.queries]
    return [groups[i] for i in kept], [costs[i] for i in kept]
