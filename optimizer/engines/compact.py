"""Matches of a sequence without further conditions, listed in order."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device
from optimizer.ir.pattern import Event, Seq
from optimizer.ir.query import Construction, Query
from workloads.syntax import One, Plus

NAME = "compact"
LABEL = "listing matches in order"
MEANING = (
    "Matches are listed in the order of their events' times, each from the first event that may "
    "begin it. Nothing is joined or held, and with LIMIT no more is made than is given."
)
PHRASES: tuple[str, ...] = ("listing matches in order",)
DEVICES: tuple[Device, ...] = ("cpu",)


def refusal(query: Query) -> str | None:
    """Why its matches cannot be listed without trying in vain."""
    if not isinstance(query.output, Construction):
        return "it aggregates its matches"
    if query.special_windows is not None:
        return query.special_windows
    if query.strategy != "any":
        return f"of its matches only those of STRATEGY {query.strategy.upper()} count"
    if query.conditions:
        return "conditions tie its components"
    if components(query) is None:
        return "its pattern is no sequence of events and groups E+"
    return None


def components(query: Query) -> tuple[Event, ...] | None:
    """The components of a sequence of single events and groups; None for any other pattern."""
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, Seq) else (pattern,)
    found = tuple(part for part in parts if isinstance(part, Event))
    if len(found) < len(parts) or not all(isinstance(e.quantifier, One | Plus) for e in found):
        return None
    return found


def refusal_together(queries: Sequence[Query]) -> str | None:
    """Each query is a group of its own."""
    return "it runs one query at a time" if len(queries) > 1 else None
