"""The simplest cost there is: how often an event meets a component of a query.

Unit: visits per second where the rate of every type is known. Where one is not, visits per event
at worst, as if every event could be of every type; the two are never mixed in one plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.ir.pattern import events
from optimizer.ir.query import Query

PER_SECOND = "component visits per second"
PER_EVENT = "component visits per event"


def unit(queries: tuple[Query, ...], rates: Mapping[str, float]) -> str:
    """What the costs of these queries are counted in."""
    known = all(event.symbol.type in rates for q in queries for event in events(q.pattern))
    return PER_SECOND if known else PER_EVENT


def visits(query: Query, rates: Mapping[str, float], unit: str) -> float:
    """What one query costs when it runs alone, negated components included."""
    components = list(events(query.pattern))
    if unit == PER_EVENT:
        return float(len(components))
    return sum(rates[component.symbol.type] for component in components)
