"""SEM over machines: a vector over the states of the patterns for every active START."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.starts import sem as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.aseq import counter as counter
from optimizer.engines.aseq import has_counter as has_counter
from optimizer.engines.pretree import computed_once as computed_once
from optimizer.engines.pretree import counts_once as counts_once
from optimizer.engines.spec import Device, one_setting
from optimizer.ir.automaton import Machine, countable_by_counters, counted_readings
from optimizer.ir.query import Query

NAME = "sem"
LABEL = "SEM"
MEANING = (
    "Counts matches of any pattern with a vector of counters for each event that can begin a "
    "match, one for each state of the patterns: cheap where such events are rare, also for OR, E+ "
    "and nested negations. States that evolve alike are counted once, whichever query they are of."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "counted together: they have one key, and what they begin with is counted once, whatever their "
    "windows"
)
FEWEST = 1
CHOPPED = False
ANY_PIECE = False
BY_WINDOW = False
ROBUST = False
APART = False


@lru_cache(maxsize=16_384)  # a planner asks for each query again and again
def refusal(query: Query) -> str | None:
    """Why its matches cannot be counted, or not from the events that they begin with."""
    reason = countable_by_counters(query)
    if reason is not None:
        return reason
    for choice in counted_readings(query.pattern):
        if any(kind != "tail" for kind, _ in Machine(choice).watched):
            return (
                "what it negates looks back to the opening of the window, which the counters of an "
                "event that begins a match know nothing of"
            )
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in."""
    if len({query.slide is None for query in queries}) > 1:
        return "some of its queries slide, and others do not"
    return one_setting(queries)


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group)
