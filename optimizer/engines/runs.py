"""Runs: sequences of single events without gaps, all followed in one pass and counted."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.runs import runs as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.folds import computed_once as computed_once  # a run is not cut into pieces
from optimizer.engines.folds import counter as counter
from optimizer.engines.folds import counts_once as counts_once
from optimizer.engines.folds import has_counter as has_counter
from optimizer.engines.spec import Device, one_setting
from optimizer.ir.aggregates import aggregate_parts
from optimizer.ir.automaton import countable_by_counters, counted_readings
from optimizer.ir.pattern import run_of
from optimizer.ir.query import Aggregation, Query

NAME = "runs"
LABEL = "runs in one pass"
MEANING = (
    "Counts sequences each of whose events directly follows the one before. All of them are "
    "followed at once, and what they begin with alike once; as such a match is of a fixed length, "
    "a window holds those that ended less those that began before it, so an event costs the same "
    "however many queries there are."
)
PHRASES: tuple[str, ...] = ("runs in one pass",)
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "counted together: they have one key, and their runs are followed in one visit of its events, "
    "whatever their windows and slides"
)
FEWEST = 1
CHOPPED = False
ANY_PIECE = False
BY_WINDOW = False
ROBUST = True
APART = True


def refusal(query: Query) -> str | None:
    """Why its matches are no runs, or more is asked of them than their number."""
    reason = countable_by_counters(query)
    if reason is not None:
        return reason
    assert isinstance(query.output, Aggregation)
    if aggregate_parts(query.output):
        return "values of its matches are aggregated, and runs are only counted"
    if run_of(counted_readings(query.pattern)) is None:
        return "it is no sequence of single events of which each directly follows the one before"
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in."""
    return one_setting(queries)


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group)
