"""Queries whose matches are listed in order, where that is cheaper than joining."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

from optimizer.cost.unit_costs import COMPILED
from optimizer.engines import compact
from optimizer.ir.pattern import positive_events
from optimizer.ir.query import Construction, Query
from optimizer.plan.groups import CompactGroup, Cost
from optimizer.statistics import MissingStatisticError
from optimizer.trees import TreeError, best_tree, labels_of
from optimizer.trees.tree import to_document
from sharing.request import NANOSECONDS_UNIT, PlanPart, PlanRequest
from workloads.errors import UnsupportedError
from workloads.syntax import Plus


@dataclass(frozen=True, eq=False)
class ListedQuery:
    """A query by itself, and what listing its matches takes."""

    query: Query
    part: PlanPart


def listed_query(query: Query, request: PlanRequest) -> ListedQuery | None:
    """The query by the engine `compact`, if it has a limit or groups and no tree is cheaper.

    Listing looks at each event of its symbols once, and at the events of each match that is given.
    A tree also makes matches that a limit leaves out, and partial ones.
    """
    output, known = query.output, request.statistics
    if request.shape != "bushy" or not isinstance(output, Construction):
        return None
    has_groups = any(isinstance(part.quantifier, Plus) for part in positive_events(query.pattern))
    if output.limit is None and (not has_groups or known.assumed):
        return None  # what joins share with others, or find out on the events, is left to them
    parts = compact.components(query)
    if compact.refusal(query) is not None or parts is None:
        return None
    try:
        found = best_tree(query, known, model=COMPILED)
        events = fsum(known.rate(part.symbol) for part in parts)
        ends = known.rate(parts[-1].symbol)
    except (TreeError, UnsupportedError, MissingStatisticError):
        return None
    rows = found.cardinality / found.seconds
    if output.limit is not None:
        rows = min(rows, output.limit.number * ends)
    touched = events + len(parts) * rows
    if touched > found.per_second:
        return None
    nanoseconds = request.unit_costs.each.joined * touched
    why = "lists its matches in order: nothing ties its components"
    if output.limit is not None:
        why += f", and {output.limit.number:,} of each last event are wanted"
    group = CompactGroup(
        (query.name,),
        why,
        to_document(found.tree, labels_of(query)),
        Cost(nanoseconds, nanoseconds, NANOSECONDS_UNIT),
    )
    return ListedQuery(query, PlanPart((group,), separate=nanoseconds, least=nanoseconds))
