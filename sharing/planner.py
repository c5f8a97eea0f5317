"""Bound workload to physical plan: what is shared, which queries run together, on which engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any
from typing import Literal as OneOf

import numpy as np

from optimizer.automaton import countable
from optimizer.cost.operations import DEFAULTS, UnitCosts
from optimizer.cost.trees import COMPILED
from optimizer.ir.query import Aggregation, BoundWorkload, Query
from optimizer.physical.operators import operators
from optimizer.physical.plan import (
    Cost,
    Device,
    Model,
    Plan,
    Solver,
    SparkLayout,
    StepwiseGroup,
)
from optimizer.statistics import Statistics, given, with_defaults
from optimizer.statistics.document import about
from optimizer.trees import TreeError, best_tree, labels_of
from optimizer.trees.document import to_document as tree_document
from optimizer.trees.refusal import refusal
from optimizer.trees.solved import Shape
from optimizer.trees.tree import Propagation
from sharing.counted import counted
from sharing.detection.planned import detected
from sharing.part import NANOSECONDS, Part, PlanRequest, together
from sharing.solve import DEFAULT, Options
from workloads.errors import SheafError, UnsupportedError
from workloads.model import Statistics as Written

ANY_LAYOUT = SparkLayout()


class CostsError(SheafError):
    """A workload whose costs no number can hold."""

    def __init__(self) -> None:
        super().__init__(
            "its costs are beyond all numbers: the rates, the window and the length of a pattern "
            "make too many matches; give rates in events per second, or a narrower window"
        )


def make_plan(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    solver: Solver = "greedy",
    model: Model = "measured",
    statistics: Written | None = None,
    sharing: bool = True,
    earlier: Plan | None = None,
    strict: bool = False,
    options: Options = DEFAULT,
    unit_costs: UnitCosts = DEFAULTS,
    device: Device = "cpu",
    counting: bool = True,
    shape: Shape | OneOf["stepwise"] = "bushy",
    propagation: Propagation | OneOf["auto"] = "auto",
    spark: SparkLayout = ANY_LAYOUT,
) -> Plan:
    """A plan for the workload, whose document it carries along.

    `statistics` take the place of the workload's own; what they leave out is assumed, and the plan
    says so, or with `strict` it is an error that names it. Without `sharing` each query is a group.
    Exact solvers begin from what an `earlier` plan shared. `unit_costs` are what operations take on
    this machine: by them each group gets its engine. Costs beyond all numbers are a `CostsError`.
    For `device`, `counting`, `shape` and `propagation` see `PlanRequest`.
    """
    known = _known(statistics or workload.statistics, workload.queries)
    full = known if strict else with_defaults(known, workload.queries)
    request = PlanRequest(
        full,
        unit_costs,
        model,
        solver,
        options,
        sharing,
        earlier,
        device,
        counting,
        shape,
        propagation,
    )
    try:
        with np.errstate(over="raise", invalid="raise"):
            plan = _planned(workload, document, request, spark)
    except (OverflowError, FloatingPointError):
        raise CostsError from None
    if not all(map(isfinite, (plan.cost.separate, plan.cost.shared, plan.objective, plan.bound))):
        raise CostsError
    return plan


def _planned(
    workload: BoundWorkload, document: Mapping[str, Any], request: PlanRequest, spark: SparkLayout
) -> Plan:
    queries, full = workload.queries, request.statistics
    off = None if request.counting else "counting is switched off"
    reasons = {query.name: countable(query) or off for query in queries}
    by_trees = refusal if request.shape != "stepwise" else lambda query: "trees are switched off"
    refused = {q.name: by_trees(q) for q in queries if reasons[q.name] is not None}
    found = together(
        [
            counted([query for query in queries if query.name not in refused], request),
            detected([q for q in queries if refused.get(q.name, "") is None], request, reasons),
            *(
                _joined(query, reasons[query.name], why, request)
                for query in queries
                if (why := refused.get(query.name)) is not None
            ),
        ]
    )
    place = {query.name: i for i, query in enumerate(queries)}
    groups = tuple(sorted(found.groups, key=lambda group: place[group.queries[0]]))
    return Plan(
        workload=workload.name,
        queries=tuple(query.name for query in queries),
        solver=request.solver,
        model=request.model,
        status="optimal" if found.proven else "feasible",
        objective=found.saved,
        bound=found.bound,
        cost=Cost(found.separate, found.shared, request.unit),
        candidates=found.candidates,
        chosen=found.chosen,
        groups=groups,
        operators=operators(workload, groups, full, request.unit_costs, request.sharing),
        rates=dict(full.rates),
        assumed=full.assumed,
        obstacles=found.obstacles,
        document=document,
        statistics={**about(full), "unit_costs": request.unit_costs.source},
        sharing=request.sharing,
        spark=spark,
    )


def _known(written: Written, queries: Sequence[Query]) -> Statistics:
    return written if isinstance(written, Statistics) else given(written, queries)


def _joined(query: Query, reason: str | None, refused: str, request: PlanRequest) -> Part:
    """A query that constructs its matches one component after the other, alone."""
    why = "constructs its matches"
    if isinstance(query.output, Aggregation):
        why += f" to count them: {reason}"
    why += f"; one component after the other: {refused}"
    try:
        found = best_tree(query, request.statistics, model=COMPILED)
    except (TreeError, UnsupportedError):
        return Part((StepwiseGroup((query.name,), why),))
    nanoseconds = request.unit_costs.each.joined * found.per_second
    cost = found.cost if request.model == "aseq" else nanoseconds
    group = StepwiseGroup(
        (query.name,),
        why,
        tree_document(found.tree, labels_of(query)),
        Cost(nanoseconds, nanoseconds, NANOSECONDS),
    )
    return Part((group,), separate=cost, shared=cost)
