"""What each stage of planning gave, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from optimizer.engines import label
from optimizer.explain.text import cpu, digits, some, wrapped
from optimizer.ir.pattern import print_pattern
from sharing.planner import PlanningStages


def render_stages(stages: PlanningStages) -> str:
    """A line or some for each stage, in their order."""
    lines = [
        *_workload(stages),
        *_constants(stages),
        *_candidates(stages),
        *_solved(stages),
        *_plan(stages),
    ]
    return "\n".join(part for line in lines for part in wrapped(line)) + "\n"


def _workload(stages: PlanningStages) -> Iterator[str]:
    bound, normal = stages.bound, stages.normalized
    yield f"bind        {len(bound.queries):,} queries of {bound.name}"
    before = {query.name: query for query in bound.queries}
    changed = [q for q in normal.queries if before.get(q.name) != q]
    if not changed:
        yield "normalize   all of them are in the form that runs"
        return
    yield f"normalize   {len(changed):,} of them are rewritten"
    for query in changed:
        yield f"              {query.name}: {print_pattern(query.pattern)}"


def _constants(stages: PlanningStages) -> Iterator[str]:
    known, costs = stages.constants.statistics, stages.constants.unit_costs
    rates = [f"{name} {digits(rate)}/s" for name, rate in known.rates.items()]
    yield f"constants   rates {some(rates, 12)}" if rates else "constants   no rates"
    if known.assumed:
        yield f"              assumed: {some(known.assumed, 12)}"
    yield f"              unit costs: {costs.source}"


def _candidates(stages: PlanningStages) -> Iterator[str]:
    found = stages.candidates
    trees = sum(len(problem.nodes) for problem in found.trees)
    readings = sum(len(problem.readings) for problem in found.trees)
    settings = len(found.counted.mined)
    yield (
        f"candidates  {len(found.counted.queries):,} queries are counted, in {settings:,} settings "
        f"(key, window, slide): {found.counted.number:,} pieces in common"
    )
    yield (
        f"              {readings:,} readings are joined, in {len(found.trees):,} settings "
        f"(key, window): {trees:,} pieces in common"
    )
    by_reason: dict[str, list[str]] = {}
    for name, why in found.uncounted.items():
        by_reason.setdefault(f"not counted: {why}", []).append(name)
    for name, why in found.treeless.items():
        by_reason.setdefault(f"no tree: {why}", []).append(name)
    for why, names in by_reason.items():
        yield f"              {some(names)}: {why}"


def _solved(stages: PlanningStages) -> Iterator[str]:
    solved = stages.solved
    engines = Counter(group.engine for group in solved.groups)
    groups = ", ".join(f"{number:,} by {label(name)}" for name, number in engines.items())
    yield (
        f"solve       {len(solved.chosen):,} of {len(solved.candidates):,} candidates are chosen; "
        f"groups: {groups}"
    )
    proven = "which is proven" if solved.proven else "which is not proven to be the least"
    yield f"              no choice takes less than {cpu(solved.least)}; {proven}"


def _plan(stages: PlanningStages) -> Iterator[str]:
    plan = stages.plan
    kinds = Counter(operator.kind for operator in plan.operators)
    several = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    yield f"assemble    {len(plan.operators):,} operators: {several}"
    yield "check       the graph holds together, and each engine takes its group on its device"
