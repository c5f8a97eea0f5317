"""A plan: groups, candidates, operators and costs, as a value that is checked and as JSON."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any
from typing import Literal as OneOf

from optimizer.ir.query import Window
from optimizer.plan.groups import (
    Cost,
    Group,
    cost_document,
    group_document,
    group_fields,
    group_type,
)
from workloads.errors import SheafError
from workloads.workload import print_nanoseconds

__all__ = [
    "NANOSECONDS",
    "VERSION",
    "Model",
    "Operator",
    "OperatorKind",
    "Plan",
    "PlanCandidate",
    "PlanError",
    "Solver",
    "SparkLayout",
    "Status",
    "from_json",
    "to_json",
]


class PlanError(SheafError):
    """A plan that contradicts itself, or a document that is no plan."""


OperatorKind = OneOf[
    "scan",  # reading the stream
    "conditions",  # testing every event against all symbols of the workload, once
    "symbol",  # a column of the conditions: the events of one symbol
    "partition",  # keys, and the events in their order
    "events",  # the events of a symbol in a partition
    "segment",  # a piece of pattern that a counter counts once for several queries
    "counter",  # counting the matches of some queries
    "filter",
    "join",
    "walk",  # components bound depth first, in an order of its own
    "negation",
    "marks",  # the negations of all readers of one piece, checked in one pass
    "group",  # E+, E^n and ALL E
    "semijoin",  # events that are left when the last component is passed down to them
    "union",  # of the readings of an OR
    "stepwise",  # binding one component after the other
    "compact",  # listing matches in order
    "pass",  # answering queries in one pass over the events in order
    "output",  # making the rows of one query
    "into",  # rows of a query as events that other queries read
    "sink",  # sorting and writing the rows of all
]
CONSTRUCTING: tuple[OperatorKind, ...] = (
    "filter", "join", "walk", "negation", "marks", "group", "semijoin", "union", "stepwise",
    "compact",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How rows are spread: as the files have them, by key, in slices of time, or not at all.

    `by` are the attributes of the key. A slice is a stretch of time with the window before it.
    """

    kind: OneOf["any", "key", "slices", "single"]
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "any":
                return "as the events come"
            case "key":
                return f"by {', '.join(self.by)}"
            case "slices":
                return "by slices of time"
            case "single":
                return "all in one place"


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What an operator remembers of rows that it has read, and what bounds that.

    `size` is in nanoseconds, or in events of each key. What is `unbounded` says the reason.
    """

    bound: OneOf["none", "window", "events", "lateness", "slice", "unbounded"]
    size: int | None = None
    reason: str | None = None

    def __str__(self) -> str:
        match self.bound:
            case "none":
                return "no state"
            case "window":
                return f"state of {print_nanoseconds(self.size or 0)}"
            case "events":
                return f"state of {self.size} events of each key"
            case "lateness":
                return f"events wait {print_nanoseconds(self.size or 0)} for later ones"
            case "slice":
                return "a slice of events at a time"
            case "unbounded":
                return f"unbounded state: {self.reason}"


NO_STATE = OperatorState("none")
ANYWHERE, SINGLE, SLICES = Partitioning("any"), Partitioning("single"), Partitioning("slices")


def state_of(window: Window | None, what: str) -> OperatorState:
    """The state of something that looks back by a window."""
    if window is None:
        return OperatorState("unbounded", reason=f"no window bounds {what}")
    return OperatorState("events" if window.is_count else "window", window.size)


@dataclass(frozen=True)
class Operator:
    """A node of the graph that runs; `inputs` are operators that stand before it in the plan.

    `schema` are the columns of its rows with their types, `order` the columns by which they come
    sorted within a partition. `cost` is what it takes by itself, without its inputs, in nanoseconds
    of one core for a second of stream, and `rows` how many rows it is expected to give in that
    second: None where that is not known.
    """

    id: str
    kind: OperatorKind
    inputs: tuple[str, ...]
    detail: Mapping[str, Any]
    schema: Mapping[str, str]
    order: tuple[str, ...] = ()
    partitioning: Partitioning = ANYWHERE
    state: OperatorState = NO_STATE
    cost: float = 0.0
    rows: float | None = None


def identity(kind: OperatorKind, content: Any, inputs: Sequence[str] = ()) -> str:
    """The id of an operator that does this with those inputs; the same in every process."""
    text = json.dumps([kind, content, list(inputs)], sort_keys=True, separators=(",", ":"))
    return f"{kind}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


_MATCHES: tuple[OperatorKind, ...] = ("events", *CONSTRUCTING)


@dataclass(frozen=True, slots=True)
class _Needs:
    """What an operator of a kind reads.

    `alike`: its inputs must be spread as it is itself. `order`: they come sorted by that column.
    """

    kinds: tuple[OperatorKind, ...]
    fewest: int = 1
    most: int | None = None
    order: str | None = None
    alike: bool = False


_JOINED = _Needs(_MATCHES, order="end", alike=True)
_NEEDS: Mapping[OperatorKind, _Needs] = {
    "scan": _Needs((), 0, 0),
    "conditions": _Needs(("scan",), 1, 1),
    "symbol": _Needs(("conditions", "into"), 1, 2),
    "partition": _Needs(("scan",), 1, 1),
    "events": _Needs(("partition", "symbol"), 2, 2),
    "segment": _Needs(("events", "segment"), order="end", alike=True),
    "counter": _Needs(("events", "segment"), order="end", alike=True),
    "stepwise": _Needs(("events",), order="end", alike=True),
    "compact": _Needs(("events",), order="end", alike=True),
    "pass": _Needs(("events", "partition"), alike=True),
    "output": _Needs(("counter", "pass", *_MATCHES), 1, 1, order="end", alike=True),
    **{kind: _JOINED for kind in CONSTRUCTING if kind not in ("stepwise", "compact")},
    "into": _Needs(("output",), 1, 1),
    "sink": _Needs(("output",)),
}


def check(
    queries: Sequence[str], groups: Iterable[Sequence[str]], operators: Sequence[Operator]
) -> None:
    """Refuse a plan for these queries, in those groups, that does not hold together."""
    _check_groups(queries, groups)
    _check_graph(operators)
    by_id = {operator.id: operator for operator in operators}
    for operator in operators:
        _check_inputs(operator, [by_id[source] for source in operator.inputs])
        if operator.state.bound == "unbounded":
            raise PlanError(f"the plan is unbounded: {operator.id}: {operator.state.reason}")
    _check_outputs(queries, operators)


def _check_groups(queries: Sequence[str], groups: Iterable[Sequence[str]]) -> None:
    planned = Counter(query for group in groups for query in group)
    if planned != Counter(dict.fromkeys(queries, 1)):
        wrong = sorted(set(queries) ^ planned.keys()) + sorted(
            query for query, times in planned.items() if times > 1
        )
        raise PlanError(f"the plan does not run these queries exactly once: {', '.join(wrong)}")


def _check_graph(operators: Sequence[Operator]) -> None:
    known = {operator.id for operator in operators}
    before: set[str] = set()
    for operator in operators:
        if operator.id in before:
            raise PlanError(f"two operators are called {operator.id}")
        if missing := set(operator.inputs) - known:
            raise PlanError(
                f"operator {operator.id} reads {_names(missing)}, which the plan does not have"
            )
        if later := set(operator.inputs) - before:
            raise PlanError(
                f"operator {operator.id} reads {_names(later)}, which does not stand before it: "
                "the plan has a cycle, or is not in order"
            )
        before.add(operator.id)


def _check_inputs(operator: Operator, inputs: Sequence[Operator]) -> None:
    needs = _NEEDS[operator.kind]
    if len(inputs) < needs.fewest or (needs.most is not None and len(inputs) > needs.most):
        most = "" if needs.most is None else f" to {needs.most}"
        raise PlanError(
            f"operator {operator.id} reads {len(inputs)} operators, and a {operator.kind} reads "
            f"{needs.fewest}{most or ' or more'}"
        )
    for source in inputs:
        what = f"operator {operator.id} reads {source.id}, which"
        if source.kind not in needs.kinds:
            raise PlanError(
                f"{what} is a {source.kind}; a {operator.kind} reads {' or '.join(needs.kinds)}"
            )
        if needs.order is not None and source.order[:1] != (needs.order,):
            given = ", ".join(source.order) or "nothing"
            raise PlanError(f"{what} is sorted by {given}, and not by {needs.order}")
        if needs.alike and source.partitioning != operator.partitioning:
            raise PlanError(
                f"{what} is spread {source.partitioning}, and not {operator.partitioning}"
            )
    _check_columns(operator, inputs)


def _check_columns(operator: Operator, inputs: Sequence[Operator]) -> None:
    """Every column that an operator reads is there, and a sink's rows are all of its kind."""
    there = {column for source in inputs for column in source.schema}
    if missing := [c for c in operator.detail.get("columns", ()) if c not in there]:
        raise PlanError(
            f"operator {operator.id} needs {_names(missing)}, which none of its inputs has"
        )
    if absent := [column for column in operator.order if column not in operator.schema]:
        raise PlanError(f"operator {operator.id} is sorted by {_names(absent)}, which it has not")
    if operator.kind == "events":
        kinds = sorted(source.kind for source in inputs)
        if kinds != ["partition", "symbol"]:
            raise PlanError(f"operator {operator.id} reads no symbol in a partition: {kinds}")
        (spread,) = (s.partitioning for s in inputs if s.kind == "partition")
        if spread != operator.partitioning:
            raise PlanError(
                f"operator {operator.id} is spread {operator.partitioning}, and its partition "
                f"{spread}"
            )
    if operator.kind == "sink":
        for source in inputs:
            if dict(source.schema) != dict(operator.schema):
                raise PlanError(
                    f"operator {operator.id} takes rows of {_names(operator.schema)}; {source.id} "
                    f"gives {_names(source.schema)}"
                )


def _check_outputs(queries: Sequence[str], operators: Sequence[Operator]) -> None:
    """Each query has one output, which one sink reads once."""
    outputs = {o.id: str(o.detail.get("query")) for o in operators if o.kind == "output"}
    written = Counter(source for sink in operators if sink.kind == "sink" for source in sink.inputs)
    times = Counter(outputs[source] for source in written.elements())
    if unknown := set(outputs.values()) - set(queries):
        raise PlanError(f"the plan gives rows of what is no query of it: {_names(unknown)}")
    if twice := [query for query in queries if times[query] > 1]:
        raise PlanError(f"the plan would return these queries more than once: {_names(twice)}")
    if never := [query for query in queries if not times[query]]:
        raise PlanError(f"the plan would not return these queries: {_names(never)}")
    if idle := outputs.keys() - written.keys():
        raise PlanError(f"nothing reads {_names(idle)}")
    read = {source for operator in operators for source in operator.inputs}
    if unread := [o.id for o in operators if o.kind != "sink" and o.id not in read]:
        raise PlanError(f"nothing reads {_names(unread)}")


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


VERSION = 5
NANOSECONDS = "nanoseconds per second of stream"

Solver = OneOf["greedy", "cpsat", "exhaustive"]
Model = OneOf["aseq", "measured"]
Status = OneOf["optimal", "feasible"]


@dataclass(frozen=True)
class PlanCandidate:
    """A piece of pattern that several queries have in common, and why it is shared or not.

    `benefit` is what the plan costs less with it, beside the others that are chosen: the benefits
    of these add up to what groups save. Below zero the plan would cost more with it. `conflicts`
    are other candidates that cannot be chosen with it: all `conflicting` of them, or the first of
    very many.
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


_BESIDE = ("workload", "notes", "access")  # what the id of a plan does not stand for


@dataclass(frozen=True)
class Plan:
    """How a workload will run.

    `cost` is what the operators take together, and what the queries would take one by one;
    `objective` is what is saved by that and `bound` what could be saved at most, in the cost's
    unit. `document` is the workload itself. `rates`, `statistics` and `unit_costs` are what the
    costs rest on, and `assumed` names what of it nobody gave. `obstacles` say what queries have in
    common and cannot share all the same. Without `sharing` no operator but the sinks has two
    readers. `notes` say what queries ask for and the sampled events do not have; they change
    nothing that runs, and so are no part of what the plan's id stands for.
    """

    workload: str
    queries: tuple[str, ...]
    solver: Solver
    model: Model
    status: Status
    objective: float
    bound: float
    cost: Cost
    candidates: tuple[PlanCandidate, ...]
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
    notes: tuple[str, ...] = ()
    # How stored events would be read, as far as was asked; a run decides it for its own events.
    access: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self.queries, (group.queries for group in self.groups), self.operators)
        known = {candidate.id for candidate in self.candidates}
        if unknown := set(self.chosen) - known:
            raise PlanError(f"the plan chose what is no candidate: {', '.join(sorted(unknown))}")

    @property
    def written(self) -> tuple[str, ...]:
        """The queries of the workload, without those that only make events for them."""
        outputs = (operator.detail for operator in self.operators if operator.kind == "output")
        inner = {detail["query"] for detail in outputs if detail.get("inner")}
        return tuple(name for name in self.queries if name not in inner)

    @cached_property
    def id(self) -> str:
        """The same for the same content, in every process."""
        content = {k: v for k, v in _plain(self).items() if k not in _BESIDE}
        text = json.dumps([VERSION, content], sort_keys=True, separators=(",", ":"))
        return "plan-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, `version` and `id` first; `notes`, `access` where there are any."""
    content = {"version": VERSION, "id": plan.id, **_plain(plan)}
    content = {k: v for k, v in content.items() if v or k not in ("notes", "access")}
    plain: dict[str, Any] = json.loads(json.dumps(content))  # tuples become lists
    return plain


def _plain(value: Plan | PlanCandidate | Operator) -> dict[str, Any]:
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
