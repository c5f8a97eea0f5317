"""The form in which queries are planned and run: the rules of `PLANNING`, and constants carried.

A query and its planning form give the same rows in every engine, under the same name and aliases.
What is bound again and normalized again, with the columns of the events known, is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from optimizer import constants
from optimizer.body import Body, gaps
from optimizer.driver import Step, rewrite
from optimizer.ir.pattern import Event, Neg, Pattern, Seq
from optimizer.ir.query import BoundWorkload, Query
from optimizer.rules import PLANNING
from workloads.syntax import One


@dataclass(frozen=True, slots=True)
class PlanningForm:
    """A query as it is planned and run, and the steps that led there."""

    query: Query
    trace: tuple[Step, ...]


def normalize_workload(workload: BoundWorkload) -> BoundWorkload:
    """The workload with every query in its planning form."""
    return replace(workload, queries=tuple(map(normalize_query, workload.queries)))


@lru_cache(maxsize=16_384)  # a query is planned and run in several places
def normalize_query(query: Query) -> Query:
    """The query in its planning form."""
    return query if _is_plain(query) else planning_form(query).query


def _is_plain(query: Query) -> bool:
    """Is it a SEQ of types and single negated types alone, as most of a large workload are?

    No rule applies to one, and there is no constant in it.
    """
    match query.pattern:
        case Seq((_, _, *_) as parts) if not query.conditions:
            single = all(map(_is_type, parts))
            return single and not any(len(gap) > 1 for gap in gaps(parts))
        case _:
            return False


def _is_type(part: Pattern) -> bool:
    match part:
        case Neg(Event(symbol, quantifier=One())) | Event(symbol):
            return not symbol.predicates
        case _:
            return False


def planning_form(query: Query, off: Iterable[str] = ()) -> PlanningForm:
    """The planning form of a query, with its steps; `off` names rules to leave out."""
    left_out = tuple(off)
    trace: list[Step] = []
    while True:
        found = rewrite(
            Body(query.pattern, query.conditions),
            PLANNING,
            off=[name for name in left_out if name != constants.NAME],
            triggers=query.is_triggered,
        )
        trace += found.trace
        query = replace(query, pattern=found.body.pattern, conditions=found.body.conditions)
        if constants.NAME in left_out:
            return PlanningForm(query, tuple(trace))
        carried = constants.propagate_constants(query)
        if carried == query:
            return PlanningForm(query, tuple(trace))
        query = carried
        trace.append(Step(constants.NAME, Body(query.pattern, query.conditions)))
