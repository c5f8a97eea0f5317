"""From what was posted to a checked workload, and from that to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.schemas import PlanIn
from api.store import StoredWorkload
from optimizer.bind import bind
from optimizer.ir.query import BoundWorkload
from optimizer.physical.plan import Plan
from sharing.planner import make_plan
from workloads.document import to_document
from workloads.errors import Diagnostic, WorkloadError
from workloads.loading import parse_document, read_workload
from workloads.model import Statistics, Workload


def check_text(text: str) -> tuple[BoundWorkload, dict[str, Any]]:
    """A workload in YAML, checked, and its document; raises `WorkloadError` with all findings."""
    return _check(*parse_document(text))


def check_document(document: Mapping[str, Any]) -> tuple[BoundWorkload, dict[str, Any]]:
    """The same for a document that has been parsed."""
    return _check(*read_workload(document))


def _check(
    workload: Workload | None, findings: list[Diagnostic]
) -> tuple[BoundWorkload, dict[str, Any]]:
    if workload is None:
        raise WorkloadError(findings)
    return bind(workload, None, findings), to_document(workload)


def plan_workload(stored: StoredWorkload, wanted: PlanIn) -> Plan:
    """The plan that was asked for; statistics that are given win over a sample's."""
    statistics = None
    if wanted.statistics is not None:
        statistics = Statistics(wanted.statistics.rates, wanted.statistics.selectivities)
    elif wanted.sample is not None:
        from engines.events import read_events
        from engines.statistics import measure

        sample = read_events(wanted.sample.path, stored.bound.stream)
        statistics = measure(stored.bound, sample)
    return make_plan(stored.bound, stored.document, wanted.solver, wanted.model, statistics)
