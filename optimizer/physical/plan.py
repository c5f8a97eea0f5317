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
from optimizer.physical.operator import Operator, OperatorKind
from optimizer.physical.sanity import check

__all__ = [
    "VERSION",
    "Candidate",
    "Cost",
    "Group",
    "Model",
    "Operator",
    "OperatorKind",
    "Plan",
    "PlanError",
    "Solver",
    "Status",
    "from_json",
    "to_json",
]

VERSION = 4

Solver = OneOf["greedy", "cpsat", "exhaustive"]
Model = OneOf["aseq", "measured"]
Status = OneOf["optimal", "feasible"]


@dataclass(frozen=True)
class Cost:
    """What the workload costs query by query, and as planned; `unit` says of what."""

    separate: float
    shared: float
    unit: str


@dataclass(frozen=True)
class Candidate:
    """A piece of pattern that several queries have in common, and why it is shared or not.

    `conflicts` are other candidates that cannot be chosen with it: all `conflicting` of them, or
    the first of very many.
    """

    id: str
    pattern: tuple[str, ...]
    queries: tuple[str, ...]
    kind: str
    benefit: float
    conflicts: tuple[str, ...] = ()
    conflicting: int = 0
    why: str = ""


@dataclass(frozen=True)
class Group:
    """Queries that run together: `segments` for counting, `tree` for detection, and why.

    `uses` says which of the segments, by number, each query is made of. Where several queries are
    run as trees `trees` has one for each; equal parts of them are made once. `cost` is what the
    group takes by the measured model, and what its queries would take one by one. Trees that are
    `provisional` rest on assumed statistics: they are chosen again on the events at hand.
    """

    queries: tuple[str, ...]
    engine: str
    why: str
    segments: tuple[tuple[str, ...], ...] | None = None
    tree: Mapping[str, Any] | None = None
    uses: Mapping[str, tuple[int, ...]] | None = None
    trees: Mapping[str, Mapping[str, Any]] | None = None
    cost: Cost | None = None
    provisional: bool | None = None

    @property
    def all_trees(self) -> dict[str, Mapping[str, Any]]:
        """The tree of each of its queries, where it runs trees."""
        if self.trees is not None:
            return dict(self.trees)
        return {self.queries[0]: self.tree} if self.tree else {}


@dataclass(frozen=True)
class Plan:
    """How a workload will run.

    `objective` is what sharing saves and `bound` what it could save at most, in the cost's unit.
    `document` is the workload itself, `rates` and `statistics` are what the costs rest on, and
    `assumed` names what of it nobody gave. `obstacles` say what queries have in common and cannot
    share all the same.
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
    groups = [
        {key: value for key, value in _plain(group).items() if value is not None}
        for group in plan.groups
    ]
    content = {"version": VERSION, "id": plan.id, **_plain(plan), "groups": groups}
    plain: dict[str, Any] = json.loads(json.dumps(content))  # tuples become lists
    return plain


def _plain(value: Plan | Candidate | Group | Operator | Cost) -> dict[str, Any]:
    """Its fields, and the fields of its parts; `asdict` would copy each of their lists as well."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    match value:
        case Plan():
            for name in ("candidates", "groups", "operators"):
                found[name] = list(map(_plain, found[name]))
            found["cost"] = _plain(value.cost)
        case Group():
            found["cost"] = None if value.cost is None else _plain(value.cost)
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
            "make it again from its workload"
        )
    content = {k: v for k, v in document.items() if k not in ("version", "id")}
    try:
        return TypeAdapter(Plan).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the plan"
        raise PlanError(f"this is not a plan: {place}: {first['msg']}") from error
