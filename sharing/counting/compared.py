"""Queries whose conditions compare neighbours: counted in order, or by constructing matches."""

from __future__ import annotations

from optimizer.cost.counting import CountedQueries
from optimizer.cost.unit_costs import COMPILED, nanoseconds
from optimizer.engines import fenwick
from optimizer.ir.query import Query
from optimizer.statistics import MissingStatisticError
from optimizer.trees import TreeError, best_tree
from sharing.counting.grouping import trusted
from sharing.request import PlanRequest
from workloads.errors import UnsupportedError


def is_counted_in_order(query: Query, request: PlanRequest) -> bool:
    """Does counting it by Fenwick trees take less than constructing its matches?

    Where rates or keys are only assumed it is counted so: what that takes grows with the events of
    a window, and not with its matches.
    """
    if fenwick.refusal(query) is not None or not request.counting:
        return False
    if request.device not in fenwick.DEVICES:
        return False
    if not trusted([query], request.statistics):
        return True
    try:
        found = best_tree(query, request.statistics, model=COMPILED)
        group = CountedQueries((query,), request.statistics)
        counting = nanoseconds(fenwick.operations(group, None), request.unit_costs)
    except (TreeError, UnsupportedError, MissingStatisticError):
        return False
    return counting < request.unit_costs.each.joined * found.per_second
