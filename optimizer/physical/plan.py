"""The physical plan: frozen, named by its content, and complete enough to run from its JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any
from typing import Literal as OneOf

from optimizer.physical.errors import PlanError
from optimizer.physical.groups import (
    Cost,
    CountingGroup,
    DeferredGroup,
    Device,
    Group,
    StepwiseGroup,
    TreeGroup,
    cost_document,
    group_document,
    group_fields,
    group_type,
)
from optimizer.physical.operator import Operator, OperatorKind
from optimizer.physical.sanity import check

__all__ = [
    "NANOSECONDS",
    "VERSION",
    "Candidate",
    "Cost",
    "CountingGroup",
    "DeferredGroup",
    "Device",
    "Group",
    "Model",
    "Operator",
    "OperatorKind",
    "Plan",
    "PlanError",
    "Solver",
    "SparkLayout",
    "Status",
    "StepwiseGroup",
    "TreeGroup",
    "from_json",
    "to_json",
]

VERSION = 5
NANOSECONDS = "nanoseconds per second of stream"

Solver = OneOf["greedy", "cpsat", "exhaustive"]
Model = OneOf["aseq", "measured"]
Status = OneOf["optimal", "feasible"]


@dataclass(frozen=True)
class Candidate:
    """A piece of pattern that several queries have in common, and why it is shared or not.

    `benefit` is what the plan costs less with it, beside the others that are chosen: the benefits
    of these add up to what is saved. Below zero the plan would cost more with it. `conflicts` are
    other candidates that cannot be chosen with it: all `conflicting` of them, or the first of very
    many.
    """

    id: str
    pattern: tuple[str, ...]
    queries: tuple[str, ...]
    kind: str
    benefit: float
    conflicts: tuple[str, ...] = ()
    conflicting: int = 0
    why: str = ""
    unit: str = NANOSECONDS


@dataclass(frozen=True)
class SparkLayout:
    """How events are spread over Spark's tasks; None is decided by the events and the cluster.

    `spread` is by stretches of time as they are stored, or by a shuffle to parts; `buckets` are
    those of each key.
    """

    spread: OneOf["auto", "time", "shuffle"] = "auto"
    buckets: int | None = None


@dataclass(frozen=True)
class Plan:
    """How a workload will run.

    `cost` is what the operators take together, and what the queries would take one by one;
    `objective` is what is saved by that and `bound` what could be saved at most, in the cost's
    unit. `document` is the workload itself. `rates`, `statistics` and `unit_costs` are what the
    costs rest on, and `assumed` names what of it nobody gave. `obstacles` say what queries have in
    common and cannot share all the same. Without `sharing` no operator behind the partitions has
    two readers.
    """

    workload: str
    queries: tuple[str, ...]
    solver: Solver
    model: Model
    status: Status
    objective: float
    bound: float
    cost: Cost
    candidates: tuple[Candidate, ...]
    chosen: tuple[str, ...]
    groups: tuple[Group, ...]
    operators: tuple[Operator, ...]
    rates: Mapping[str, float]
    assumed: tuple[str, ...]
    obstacles: tuple[str, ...]
    document: Mapping[str, Any]
    statistics: Mapping[str, Any] = field(default_factory=dict)
    unit_costs: Mapping[str, Any] = field(default_factory=dict)
    sharing: bool = True
    spark: SparkLayout = field(default_factory=SparkLayout)
    # By query, the rules beyond those of its planning form that it was rewritten by.
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self.queries, (group.queries for group in self.groups), self.operators)
        known = {candidate.id for candidate in self.candidates}
        if unknown := set(self.chosen) - known:
            raise PlanError(f"the plan chose what is no candidate: {', '.join(sorted(unknown))}")

    @cached_property
    def id(self) -> str:
        """The same for the same content, in every process."""
        content = {k: v for k, v in _plain(self).items() if k != "workload"}
        text = json.dumps([VERSION, content], sort_keys=True, separators=(",", ":"))
        return "plan-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, `version` and `id` first."""
    content = {"version": VERSION, "id": plan.id, **_plain(plan)}
    plain: dict[str, Any] = json.loads(json.dumps(content))  # tuples become lists
    return plain


def _plain(value: Plan | Candidate | Operator) -> dict[str, Any]:
    """Its fields, and the fields of its parts; `asdict` would copy each of their lists as well."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    match value:
        case Plan():
            for name in ("candidates", "operators"):
                found[name] = list(map(_plain, found[name]))
            found["groups"] = list(map(group_document, value.groups))
            found["cost"] = cost_document(value.cost)
            found["spark"] = asdict(value.spark)
        case Operator():
            found["partitioning"] = asdict(value.partitioning)
            found["state"] = asdict(value.state)
        case _:
            pass
    return found


def from_json(document: Mapping[str, Any]) -> Plan:
    """The plan that `to_json` made these values from; its id follows from its content."""
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(document, Mapping) or "version" not in document:
        raise PlanError("this is not a plan: it has no version")
    if document["version"] != VERSION:
        raise PlanError(
            f"the plan has version {document['version']!r}, and this Sheaf reads {VERSION}; "
            "make it again from its workload: 'sheaf plan WORKLOAD --format json'"
        )
    content = {k: v for k, v in document.items() if k not in ("version", "id")}
    try:
        groups = content.get("groups")
        if isinstance(groups, list) and all(isinstance(group, Mapping) for group in groups):
            content["groups"] = [
                TypeAdapter(group_type(group)).validate_python(group_fields(group))
                for group in groups
            ]
        return TypeAdapter(Plan).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the plan"
        raise PlanError(f"this is not a plan: {place}: {first['msg']}") from error
