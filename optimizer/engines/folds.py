"""Folds: aggregates of single events, column by column, by panes of any windows and slides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.folds import folds as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.spec import Device, Segments, Steps, Stretch
from optimizer.ir.automaton import countable
from optimizer.ir.pattern import Event
from optimizer.ir.query import Query
from workloads.syntax import One

NAME = "folds"
LABEL = "folds of columns"
MEANING = (
    "Aggregates single events: cuts the stream where windows begin or end, folds each column to a "
    "count, a sum, a minimum and a maximum of each of these panes in one pass, and puts windows "
    "together from them. Queries of one symbol share its panes, whatever their windows."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "aggregated together: each column is folded once for all of them, whatever their windows and "
    "slides"
)
FEWEST = 1
CHOPPED = False
ANY_PIECE = False
BY_WINDOW = False
ROBUST = True
APART = True


def refusal(query: Query) -> str | None:
    """Why it is no aggregate of single events."""
    reason = countable(query)
    if reason is not None:
        return reason
    match query.pattern:
        case Event(quantifier=One()):
            return None
        case Event():
            return "it has a group of events, and folds are of single ones"
        case _:
            return "it has more than one component, and folds are of single events"


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in: any windows and slides in time will do."""
    first = queries[0]
    if any(query.key != first.key for query in queries):
        return "its queries differ in key"
    if any((query.slide is None) != (first.slide is None) for query in queries):
        return "some of its queries slide, and others do not"
    if any(q.window != first.window for q in queries if q.window.is_count or first.window.is_count):
        return "its queries differ in window, which counts events"
    return None


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group.queries, group.statistics)


def computed_once(segments: Segments) -> dict[Steps, tuple[str, ...]]:
    """Nothing that is a piece: single symbols are no pieces."""
    return {}


def counts_once(piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
    """None."""
    return ()


def has_counter(start: int, end: int) -> bool:
    """It keeps no counters."""
    return False


def counter(stretch: Stretch, group: CountedQueries, each: Operations) -> float:
    """None."""
    return 0.0
