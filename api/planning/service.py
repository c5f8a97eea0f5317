"""From what was posted to a checked workload, and from that to a plan and to what explains it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from api.http.schemas import PlanIn
from api.jobs.roots import Roots
from api.planning.progress import report_stage
from engines.calibration.machine_costs import known
from optimizer.bind.binder import bind
from optimizer.ir.pattern import print_pattern
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import Plan, to_json
from optimizer.plan.window_texts import shown_pattern
from optimizer.rewrite.normalize import normalize
from sharing.planner import PlanOptions, plan
from workloads.errors import Diagnostic, SheafError, WorkloadError
from workloads.loading import (
    load_statistics,
    load_workload,
    parse_archive,
    parse_document,
    read_workload,
)
from workloads.printing import print_expression
from workloads.workload import Statistics, Workload, to_document, without_tests

SEARCH_SHARE = 0.5  # of the time for planning, in which more to share is searched for
CheckedWorkload = tuple[BoundWorkload, dict[str, Any]]


class TooManyQueriesError(SheafError):
    """A workload has more queries than the service takes."""


class TooManyCandidatesError(SheafError):
    """The queries have more in common than the service looks at."""


def check_candidates(made: Plan, most: int) -> Plan:
    """The plan, unless it has more candidates for sharing than it may."""
    if len(made.candidates) > most:
        raise TooManyCandidatesError(
            f"the queries have {len(made.candidates):,} pieces in common, and the service takes "
            f"{most:,} (SHEAF_MAX_CANDIDATES); split the workload"
        )
    return made


def check_text(
    text: str, max_queries: int | None = None, name: str = "workload"
) -> CheckedWorkload:
    """A workload in YAML or SQL, checked, and its document; raises `WorkloadError` with all
    findings. Its name is the one given, unless it has one."""
    return _check(*parse_document(text, name=name), max_queries)


def check_archive(body: bytes, max_queries: int | None = None) -> CheckedWorkload:
    """A workload with its rules in a zip or tar.gz, checked; `ArchiveError` where it is none."""
    return _check(*parse_archive(body), max_queries)


def check_document(document: Mapping[str, Any], max_queries: int | None = None) -> CheckedWorkload:
    """A workload of a document that has been parsed, checked."""
    queries = document.get("queries")
    _count(len(queries) if isinstance(queries, list) else 0, max_queries)
    return _check(*read_workload(document), max_queries)


def _check(
    workload: Workload | None, findings: list[Diagnostic], max_queries: int | None
) -> CheckedWorkload:
    if workload is None:
        raise WorkloadError(findings)
    _count(len(workload.queries), max_queries)
    bound = bind(workload, None, findings)
    bound = replace(bound, refused=(*workload.refused, *bound.refused))
    return bound, to_document(workload, tests=True)


def _count(queries: int, max_queries: int | None) -> None:
    if max_queries is not None and queries > max_queries:
        raise TooManyQueriesError(
            f"the workload has {queries:,} queries, and the service takes {max_queries:,} "
            "(SHEAF_MAX_QUERIES); split it"
        )


def plan_bound(
    bound: BoundWorkload,
    document: Mapping[str, Any],
    wanted: PlanIn,
    roots: Sequence[Path],
    seconds: float | None = None,
) -> Plan:
    """The plan that was asked for; statistics that are given win over a sample's.

    After so many `seconds` nothing more is searched for.
    """
    statistics: Statistics | None = None
    notes: tuple[str, ...] = ()
    access: dict[str, Any] = {}
    if wanted.sample is not None:
        from engines.access.choice import access_document
        from engines.statistics.measure import sample_files

        Roots(roots).check_source(wanted.sample.path)
        report_stage("measuring the sample")
        settings, path = wanted.settings(), wanted.sample.path
        workload = load_workload(document)
        sample = sample_files(workload, path, on_error=settings.on_error, disorder=settings.late())
        bound, statistics, notes = sample.workload, sample.statistics, sample.notes
        access = access_document(path, bound, settings.access, wanted.solver)
    if wanted.statistics is not None:
        statistics = load_statistics(wanted.statistics.model_dump(exclude_none=True))
    report_stage("choosing what to share")
    options = PlanOptions(
        wanted.solver,
        wanted.model,
        sharing=wanted.sharing,
        unit_costs=known(),
        device=wanted.device,
        seconds=seconds,
    )
    written = without_tests(document)
    return replace(plan(bound, statistics, options, written).plan, notes=notes, access=access)


def plan_document(
    document: Mapping[str, Any],
    wanted: PlanIn,
    roots: Sequence[Path],
    max_candidates: int,
    seconds: float | None = None,
) -> dict[str, Any]:
    """The plan as JSON, for a workload that has been checked, from its document."""
    report_stage("reading the queries")
    bound = _bound(json.dumps(document))
    made = plan_bound(bound, document, wanted, roots, seconds)
    return to_json(check_candidates(made, max_candidates))


@lru_cache(maxsize=4)
def _bound(document: str) -> BoundWorkload:
    """A workload that is often planned more than once in a row."""
    return bind(load_workload(json.loads(document)))


def explain_bound(bound: BoundWorkload, document: Mapping[str, Any]) -> dict[str, Any]:
    """Each query's normal form, what queries have in common, and what keeps them from sharing."""
    made = plan_bound(bound, document, PlanIn(), ())
    queries = []
    for query in bound.queries:
        found = normalize(query, stream=bound.stream)
        queries.append(
            {
                "name": query.name,
                "pattern": shown_pattern(query),
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
            for c in made.candidates
        ],
        "obstacles": list(made.obstacles),
        "assumed": list(made.assumed),
    }


def explain_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """`explain_bound` of a workload's document."""
    return explain_bound(bind(load_workload(document)), document)
