"""The latest partial match of each stage and key: what STRATEGY LATEST asks for."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device, one_setting
from optimizer.ir.latest import latest_parts
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.statistics.statistics import Statistics

NAME = "latest"
LABEL = "keeping the latest partial match of each stage"
MEANING = (
    "Events go by in order, and of each stage of a sequence the one partial match that came last "
    "waits for its key. One pass answers all queries of a key, and touches an event once for each "
    "stage that it fits."
)
PHRASES: tuple[str, ...] = ("keeping the latest partial match of each stage",)
DEVICES: tuple[Device, ...] = ("cpu",)

_ITEM_NANOSECONDS = 40.0  # an event that fits a stage: put in order, looked up, moved on


def refusal(query: Query) -> str | None:
    """It takes the queries with STRATEGY LATEST."""
    return None if query.strategy == "latest" else "it has not STRATEGY LATEST"


def refusal_together(queries: Sequence[Query]) -> str | None:
    """One key and one kind of window; the rest differs by query."""
    endless = {query.window.is_endless for query in queries}
    if len(endless) > 1:
        return "some of its queries have no window, and others have"
    return one_setting(queries)


def done_once(queries: Sequence[Query]) -> str:
    """The order of events is made for all of them."""
    return f"{len(queries)} queries in one pass"


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """What the pass takes, in nanoseconds for a second of stream."""
    items = sum(statistics.rate(e.symbol) for query in queries for e in events(query.pattern))
    return _ITEM_NANOSECONDS * items


def rows(query: Query, statistics: Statistics) -> float | None:
    """At most one for each event of the rarest stage."""
    return min(statistics.rate(stage.symbol) for stage in latest_parts(query.pattern).stages)
