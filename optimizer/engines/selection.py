"""Single events, selected for all queries that ask for no more than one."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from optimizer.engines.spec import Device
from optimizer.ir.pattern import Event
from optimizer.ir.query import Construction, Query
from optimizer.statistics.statistics import Statistics
from workloads.syntax import One

NAME = "selection"
LABEL = "selecting single events"
MEANING = (
    "Each event that the conditions of a query hold for is a match. Nothing is joined or held; all "
    "such queries read what the index of conditions found."
)
PHRASES: tuple[str, ...] = ("selecting single events",)
DEVICES: tuple[Device, ...] = ("cpu",)

_ROW_NANOSECONDS = 500.0


def refusal(query: Query) -> str | None:
    """Why its matches are more than single events."""
    if not isinstance(query.output, Construction):
        return "it aggregates its matches"
    if not isinstance(query.pattern, Event) or not isinstance(query.pattern.quantifier, One):
        return "its pattern is more than one event"
    if query.key or query.fixed_key or query.tied_key:
        return "it has a key"
    if query.conditions or query.output != Construction(query.output.items) or query.skips_past:
        return "it has further conditions, or not all of its matches count"
    if query.strategy != "any" or query.window.is_count or query.has_own_clock:
        return "it has a strategy, or another window than a stretch of time"
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """All of them go together: what they read was found for all."""
    return None


def done_once(queries: Sequence[Query]) -> str:
    """Conditions are tested for all of them."""
    return f"{len(queries)} queries in one pass"


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """What rows take; looking for them is the work of the conditions."""
    return _ROW_NANOSECONDS * fsum(rows_of(query, statistics) for query in queries)


def rows(query: Query, statistics: Statistics) -> float | None:
    """As many as there are instances."""
    return rows_of(query, statistics)


def rows_of(query: Query, statistics: Statistics) -> float:
    assert isinstance(query.pattern, Event)
    return statistics.rate(query.pattern.symbol)
