"""From what was posted to a checked workload, and from that to a plan and to what explains it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from api.http.schemas import PlanIn
from api.jobs.roots import Roots
from api.planning.progress import report_stage
from engines.calibration.machine_costs import known
from optimizer.bind.binder import bind
from optimizer.ir.query import BoundWorkload, print_pattern
from optimizer.plan.plan import Plan, to_json
from optimizer.rewrite.normalize import normalize
from sharing.planner import make_plan
from workloads.errors import Diagnostic, SheafError, WorkloadError
from workloads.loading import load_statistics, load_workload, parse_document, read_workload
from workloads.syntax import print_expression
from workloads.workload import Workload, to_document

CheckedWorkload = tuple[BoundWorkload, dict[str, Any]]


class TooManyQueriesError(SheafError):
    """A workload has more queries than the service takes."""


class TooManyCandidatesError(SheafError):
    """The queries have more in common than the service looks at."""


def check_candidates(plan: Plan, most: int) -> Plan:
    """The plan, unless it has more candidates for sharing than it may."""
    if len(plan.candidates) > most:
        raise TooManyCandidatesError(
            f"the queries have {len(plan.candidates):,} pieces in common, and the service takes "
            f"{most:,} (SHEAF_MAX_CANDIDATES); split the workload"
        )
    return plan


def check_text(text: str, max_queries: int | None = None) -> CheckedWorkload:
    """A workload in YAML, checked, and its document; raises `WorkloadError` with all findings."""
    return _check(*parse_document(text), max_queries)


def check_document(document: Mapping[str, Any], max_queries: int | None = None) -> CheckedWorkload:
    """The same for a document that has been parsed."""
    queries = document.get("queries")
    _count(len(queries) if isinstance(queries, list) else 0, max_queries)
    return _check(*read_workload(document), max_queries)


def _check(
    workload: Workload | None, findings: list[Diagnostic], max_queries: int | None
) -> CheckedWorkload:
    if workload is None:
        raise WorkloadError(findings)
    _count(len(workload.queries), max_queries)
    return bind(workload, None, findings), to_document(workload)


def _count(queries: int, max_queries: int | None) -> None:
    if max_queries is not None and queries > max_queries:
        raise TooManyQueriesError(
            f"the workload has {queries:,} queries, and the service takes {max_queries:,} "
            "(SHEAF_MAX_QUERIES); split it"
        )


def plan_bound(
    bound: BoundWorkload, document: Mapping[str, Any], wanted: PlanIn, roots: Sequence[Path]
) -> Plan:
    """The plan that was asked for; statistics that are given win over a sample's."""
    statistics = None
    if wanted.statistics is not None:
        statistics = load_statistics(wanted.statistics.model_dump(exclude_none=True))
    elif wanted.sample is not None:
        from engines.input.batches import read_events
        from engines.statistics.measure import measure

        Roots(roots).check_files(wanted.sample.path)
        report_stage("measuring the sample")
        statistics = measure(bound, read_events(wanted.sample.path, bound.stream))
    report_stage("choosing what to share")
    return make_plan(
        bound,
        document,
        wanted.solver,
        wanted.model,
        statistics,
        sharing=wanted.sharing,
        unit_costs=known(),
        device=wanted.device,
    )


def plan_document(
    document: Mapping[str, Any], wanted: PlanIn, roots: Sequence[Path], max_candidates: int
) -> dict[str, Any]:
    """The plan as JSON, for a workload that has been checked, from its document."""
    report_stage("reading the queries")
    bound = _bound(json.dumps(document))
    return to_json(check_candidates(plan_bound(bound, document, wanted, roots), max_candidates))


@lru_cache(maxsize=4)
def _bound(document: str) -> BoundWorkload:
    """A workload that is often planned more than once in a row."""
    return bind(load_workload(json.loads(document)))


def explain_bound(bound: BoundWorkload, document: Mapping[str, Any]) -> dict[str, Any]:
    """Each query's normal form, what queries have in common, and what keeps them from sharing."""
    plan = plan_bound(bound, document, PlanIn(), ())
    queries = []
    for query in bound.queries:
        found = normalize(query, stream=bound.stream)
        queries.append(
            {
                "name": query.name,
                "pattern": print_pattern(query.pattern),
                "form": found.form,
                "normalized": print_pattern(found.body.pattern),
                "conditions": [print_expression(c) for c in found.body.conditions],
                "rules": [step.rule for step in found.trace],
                "notes": list(found.notes),
            }
        )
    return {
        "queries": queries,
        "candidates": [
            {
                "id": c.id,
                "pattern": list(c.pattern),
                "queries": list(c.queries),
                "kind": c.kind,
                "benefit": c.benefit,
                "conflicts": list(c.conflicts),
                "conflicting": c.conflicting,
                "why": c.why,
                "unit": c.unit,
            }
            for c in plan.candidates
        ],
        "obstacles": list(plan.obstacles),
        "assumed": list(plan.assumed),
    }


def explain_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same from a workload's document."""
    return explain_bound(bind(load_workload(document)), document)
