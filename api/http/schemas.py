"""What goes over HTTP, in both directions; none of it is the IR."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from typing import Literal as OneOf

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from api.http import examples
from api.http.option_schemas import RunSettingsIn
from api.http.place_schemas import Events, EventsIn, Location, PathIn
from optimizer.plan.plan import Model, Solver

EXAMPLE_WORKLOAD = examples.WORKLOAD


class _In(BaseModel):
    """A request's body: a key that is not known is an error, not a silence."""

    model_config = ConfigDict(extra="forbid")


class QueryOut(BaseModel):
    name: str
    kind: OneOf["aggregate", "detection"]
    pattern: str = Field(examples=["SEQ(View v, Cart c, Buy b)"])
    key: list[str] = Field(description="The attributes it is partitioned by.")
    window: str = Field(examples=["10 min"])


class WorkloadSummary(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": examples.WORKLOAD_SUMMARY})

    id: str = Field(examples=[examples.WORKLOAD_ID])
    name: str
    version: int = Field(description="Counts from 1; a changed workload is a new version.")
    created: datetime = Field(description="When the first version came.")
    changed: datetime = Field(description="When this version came.")
    queries: int


class RefusedRuleOut(BaseModel):
    """A rule of another system that was not taken; the others are queries."""

    format: str = Field(description="Such as sigma or eql.", examples=["sigma"])
    name: str = Field(description="Its id, or else its name or title.")
    place: str = Field(description="The file that it is in, where rules come in files.")
    reason: str


class WorkloadOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": examples.WORKLOAD_OUT})

    id: str = Field(examples=[examples.WORKLOAD_ID])
    name: str
    version: int = Field(description="Counts from 1; a changed workload is a new version.")
    latest: int = Field(description="The latest version there is.")
    created: datetime = Field(description="When the first version came.")
    changed: datetime = Field(description="When this version came.")
    queries: list[QueryOut]
    types: list[str] = Field(description="The event types that the queries use.")
    document: dict[str, Any] = Field(examples=[EXAMPLE_WORKLOAD])
    text: str | None = Field(
        default=None, description="As it was posted, comments and all, where that was YAML."
    )
    refused: list[RefusedRuleOut] = Field(
        default=[], description="Rules that were not taken, where the workload is posted or put."
    )


LARGEST_NUMBER = 1e15  # of what is counted in statistics: beyond it, sums of products overflow


class KeyStatisticsIn(_In):
    cardinality: Annotated[float, Field(ge=1, le=LARGEST_NUMBER)] = Field(
        description="Different keys."
    )
    heaviest: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="The share of all events that the heaviest key has."
    )


class StatisticsIn(_In):
    """What a workload may say about its stream, as under `statistics` in a workload file."""

    rates: dict[str, Annotated[float, Field(ge=0, le=LARGEST_NUMBER)]] = Field(
        default={}, description="Events per second, by type."
    )
    selectivities: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={}, description="By predicate, as plans print it."
    )
    keys: dict[str, KeyStatisticsIn] = Field(
        default={}, description="By a key's attributes, joined by commas."
    )
    ties: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="The share of events that are simultaneous with another."
    )
    events: Annotated[int, Field(ge=0, le=LARGEST_NUMBER)] | None = Field(
        default=None, description="Of the whole stream, in `span` seconds."
    )
    span: Annotated[float, Field(gt=0, le=LARGEST_NUMBER)] | None = None


class PlanIn(RunSettingsIn):
    """How to plan. Of the options of a run, `on_error` and `disorder` say how a sample is read;
    the others are taken as a job takes them, and change no plan."""

    version: int | None = Field(
        default=None, ge=1, le=10**9, description="Of the workload; by default the latest."
    )
    solver: Solver = Field(
        default="greedy",
        description="`greedy` is quick; `cpsat` searches further and proves its choice where it "
        "can; `exhaustive` finds the best one or refuses. `status` and `bound` of the plan say how "
        "far from the best it can be.",
    )
    model: Model = "measured"
    sharing: bool = Field(default=True, description="Without it every query runs on its own.")
    device: OneOf["cpu", "opencl"] = Field(default="cpu", description="What it is planned for.")
    statistics: StatisticsIn | None = Field(
        default=None, description="In place of the workload's own."
    )
    sample: EventsIn | None = Field(
        default=None,
        validation_alias=AliasChoices("sample", "events"),
        description="Events to measure rates from, where none are given; also called `events`.",
    )

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"solver": "greedy", "model": "measured"}}
    )


class CostOut(BaseModel):
    separate: float
    shared: float
    unit: str


class CandidateOut(BaseModel):
    id: str
    pattern: list[str]
    queries: list[str]
    kind: str
    benefit: float
    conflicts: list[str] = Field(description="Other candidates that exclude it; the first 1,000.")
    conflicting: int = Field(description="How many exclude it in all.")
    why: str = Field(description="Why it is shared, or why not.")
    unit: str = Field(description="Of its benefit.")


class ExplainedQuery(BaseModel):
    name: str
    pattern: str
    form: str = Field(description="Of NEEL's normal forms, or what keeps it from one.")
    normalized: str = Field(description="The pattern when all rules have been applied.")
    conditions: list[str]
    rules: list[str] = Field(description="The rules that applied, in their order.")
    notes: list[str]


class ExplainOut(BaseModel):
    """What the optimizer sees in a workload before anything is chosen."""

    model_config = ConfigDict(json_schema_extra={"example": examples.EXPLAIN})

    workload: str
    workload_version: int
    queries: list[ExplainedQuery]
    candidates: list[CandidateOut]
    obstacles: list[str] = Field(description="What queries have in common and cannot share.")
    assumed: list[str] = Field(description="Statistics that nobody gave, and that were assumed.")


class GroupOut(BaseModel):
    queries: list[str]
    engine: str = Field(
        description="What counts the matches (product, panes, aseq, pretree, chopconnect) or finds "
        "them: trees, deferred-trees (which are chosen on the events), stepwise, compact.",
        examples=["product"],
    )
    device: OneOf["cpu", "opencl"] = Field(default="cpu", description="What it computes on.")
    why: str
    segments: list[list[str]] | None = None
    tree: dict[str, Any] | None = Field(
        default=None,
        description="The tree of its query, or of each by name where the group has several.",
    )
    uses: dict[str, list[int]] | None = Field(
        default=None, description="The segments, by number, that each query is made of."
    )
    cost: CostOut | None = Field(
        default=None, description="What the group takes, and its queries one by one."
    )


class PartitioningOut(BaseModel):
    kind: OneOf["any", "key", "slices", "single"]
    by: list[str] = []


class StateOut(BaseModel):
    bound: OneOf["none", "window", "events", "lateness", "slice", "unbounded"]
    size: int | None = Field(default=None, description="In nanoseconds, or in events of each key.")
    reason: str | None = Field(default=None, description="Why it is unbounded.")


class OperatorOut(BaseModel):
    id: str = Field(description="The same for the same operator in every plan.")
    kind: str
    inputs: list[str] = Field(description="Operators that it reads.")
    detail: dict[str, Any]
    columns: dict[str, str] = Field(alias="schema", description="Of its rows, with their types.")
    order: list[str] = Field(default=[], description="Columns that its rows are sorted by.")
    partitioning: PartitioningOut = PartitioningOut(kind="any")
    state: StateOut = StateOut(bound="none")
    cost: float = Field(default=0.0, description="Nanoseconds of a core for a second of stream.")
    rows: float | None = Field(default=None, description="Rows expected in a second of stream.")


class SparkLayoutOut(BaseModel):
    """How events are spread over Spark's tasks; null is decided by the events and the cluster."""

    spread: OneOf["auto", "time", "shuffle"] = Field(
        default="auto", description="By stretches of time as they are stored, or by a shuffle."
    )
    buckets: int | None = Field(default=None, description="Of each key.")


Title = Annotated[
    str, Field(description="Of what it is, as people call it.", examples=["shop, version 1"])
]


class PlanSummary(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": examples.PLAN_SUMMARY})

    id: str
    title: Title = ""
    workload: str
    workload_version: int
    created: datetime
    solver: Solver
    model: Model
    sharing: bool = Field(default=True, description="Without it every query runs on its own.")
    status: OneOf["optimal", "feasible"]
    queries: int
    cost: CostOut


class PlanOut(BaseModel):
    """A plan; it can be run again from this alone, since `document` is its workload."""

    model_config = ConfigDict(json_schema_extra={"example": examples.PLAN})

    version: int
    id: str = Field(examples=[examples.PLAN_ID])
    title: Title = ""
    workload: str = Field(description="The id of the workload.")
    workload_version: int = Field(description="The version of the workload that it is of.")
    queries: list[str]
    solver: Solver
    model: Model
    status: OneOf["optimal", "feasible"]
    objective: float = Field(description="What sharing saves, in the cost's unit.")
    bound: float = Field(description="What sharing could save at most.")
    cost: CostOut
    candidates: list[CandidateOut]
    chosen: list[str]
    groups: list[GroupOut]
    operators: list[OperatorOut]
    rates: dict[str, float]
    assumed: list[str] = Field(description="Statistics that nobody gave, and that were assumed.")
    obstacles: list[str] = Field(description="What queries have in common and cannot share.")
    document: dict[str, Any]
    statistics: dict[str, Any] = Field(default={}, description="What the costs rest on.")
    unit_costs: dict[str, Any] = Field(
        default={}, description="What each kind of operation takes, by which costs were made."
    )
    notes: list[str] = Field(
        default=[], description="What queries ask for and no event of the sample has."
    )
    access: dict[str, Any] = Field(default={}, description="How the sampled events would be read.")
    forms: dict[str, list[str]] = Field(
        default={},
        description="By query, the rules beyond those of the planning form that it was rewritten "
        "by.",
    )
    sharing: bool = Field(default=True, description="Without it every query runs on its own.")
    spark: SparkLayoutOut = SparkLayoutOut()


class TaskOut(BaseModel):
    """A plan in the making, asked for with `Prefer: respond-async`."""

    model_config = ConfigDict(json_schema_extra={"example": examples.TASK})

    id: str = Field(examples=["task-5f3a9c1b77de"])
    workload: str = Field(description="The id of the workload.")
    workload_version: int
    status: OneOf["queued", "running", "succeeded", "failed", "cancelled"]
    stage: str = Field(description="What is under way, in a few words.")
    seconds: float = Field(description="For which it has run.")
    limit: float = Field(description="Seconds that it may run.")
    reason: str | None = Field(default=None, description="Why it failed or was cancelled.")
    plan: str | None = Field(default=None, description="The id of the plan that came of it.")
    created: datetime
    finished: datetime | None = None


class StreamIn(_In):
    """How a stream runs."""

    checkpoint: PathIn | None = Field(
        default=None,
        description="A folder for its state, to go on from; in the job's own by default.",
    )
    every: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Seconds between batches; without, one follows the other."
    )
    buckets: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Pieces that the state is in, for a new checkpoint."
    )
    files: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="New files in a batch at most."
    )
    like: EventsIn | None = Field(
        default=None, description="A file of events like those that will come."
    )
    on_error: OneOf["stop", "skip"] | None = Field(
        default=None, description="The job's `on_error`, where an earlier version had it."
    )
    once: bool = Field(default=False, description="End with the events there are.")
    finish: bool = Field(
        default=False, description="After `once`: no more will come, so give the rows that wait."
    )
    light: bool = Field(
        default=False, description="Keep the light index of files of rows, to read them as events."
    )


class JobIn(RunSettingsIn):
    plan: str = Field(description="The id of the plan to run.")
    source: EventsIn
    sink: PathIn | None = Field(
        default=None,
        description="Where results are written besides: .parquet, .arrow, .csv or .jsonl by its "
        "ending, or a table in a folder, `delta:PATH` or `iceberg:PATH`.",
    )
    webhook: Annotated[str, Field(max_length=2_000)] | None = Field(
        default=None, description="An address under SHEAF_WEBHOOKS that rows are posted to."
    )
    mode: OneOf["batch", "stream"] = "batch"
    stream: StreamIn | None = Field(default=None, description="With mode `stream`.")
    engine: OneOf["spark", "local"] = "spark"
    device: OneOf["auto", "cpu", "opencl"] = Field(
        default="auto", description="`auto`: the device that the plan names for each group."
    )
    master: str = Field(default="local[*]", description="Spark's master; embedded by default.")

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "plan": examples.PLAN_ID,
                "source": {"path": "events.parquet"},
                "mode": "batch",
            }
        },
    )


class JobChange(_In):
    """What a stream is to go on with."""

    plan: str = Field(description="The id of a plan over the same stream of events.")

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"plan": "plan-77de1f0c9a3b"}}
    )


class JobChanged(BaseModel):
    """What becomes of a stream's queries with a new plan."""

    model_config = ConfigDict(json_schema_extra={"example": examples.JOB_CHANGED})

    job: str
    plan: str
    workload_version: int
    kept: list[str] = Field(description="Queries that go on with their state.")
    afresh: list[str] = Field(description="Queries that begin with the next events.")
    removed: list[str]


class GroupStateOut(BaseModel):
    queries: list[str] = Field(description="They have one state together.")
    events: int = Field(description="That the state holds.")
    bytes: int


class StreamOut(BaseModel):
    """What a stream has done, and where it stands after its last batch."""

    batches: int
    events: int = Field(description="Read in all.")
    bad: int = Field(description="Rows that were no events, and left out.")
    late: int = Field(description="Events that came too late, and are kept aside.")
    aggregates: int
    matches: int
    seconds: float = Field(description="Of all batches together.")
    restarts: int = Field(description="How often its process had to be started again.")
    batch: int | None = Field(default=None, description="The number of the last batch.")
    batch_seconds: float | None = None
    batch_p50: float | None = Field(
        default=None, description="Half of the last 500 batches took at most so many seconds."
    )
    batch_p99: float | None = Field(
        default=None, description="99 of 100 of the last 500 batches took at most so many seconds."
    )
    until: int | str | None = Field(
        default=None, description="The time up to which all results are given."
    )
    state: int = Field(default=0, description="In bytes.")
    waiting: int = Field(default=0, description="Events that wait for the watermark.")
    groups: list[GroupStateOut] = []


class HoldingOut(BaseModel):
    events: int
    bytes: int | None = Field(default=None, description="Of windows and counts; not of waiting.")
    queries: int = Field(description="That have this state together, whoever else reads it.")


class OperatorCounts(BaseModel):
    """An operator of a plan, with what the job has counted of it; null is what is not counted.

    Beside a number is what the plan predicts for the events that have been read so far.
    """

    id: str = Field(description="As in the plan.")
    kind: str
    about: str = Field(description="What it does, in a few words.")
    queries: int = Field(description="Queries that it serves.")
    rows_in: int | None = Field(
        default=None, description="Rows read, events given to it, or rows of results."
    )
    rows_out: int | None = Field(
        default=None, description="Events it has passed on, or rows of results that came of it."
    )
    cpu_seconds: float | None = Field(
        default=None, description="CPU that it took itself, without what it reads from."
    )
    predicted_seconds: float | None = Field(
        default=None, description="CPU that the plan predicts for so many events."
    )
    predicted_rows: float | None = Field(default=None, description="Rows that the plan predicts.")
    unplanned: bool = Field(
        default=False,
        description="It ran in place of planned ones, or is of an earlier plan of a stream.",
    )
    state: HoldingOut | None = Field(
        default=None, description="Of a stream: events that wait, or what windows hold."
    )


class TreeDecision(BaseModel):
    """What was done about the trees of some queries before a batch of events."""

    what: OneOf["chosen", "kept", "changed"] = Field(
        description="The plan had left them to be chosen on the events; others were not better by "
        "enough; or they are others from this batch on."
    )
    batch: int
    queries: list[str]
    reason: str
    old: dict[str, str] = Field(default={}, description="The trees until then, by query.")
    new: dict[str, str] = Field(default={}, description="The trees from then on, by query.")


class OperatorsOut(BaseModel):
    """The operators of a job's plan, in the plan's order."""

    model_config = ConfigDict(json_schema_extra={"example": examples.OPERATORS})

    job: str
    plan: str
    status: OneOf["queued", "running", "succeeded", "failed", "cancelled"]
    until: int | str | None = Field(
        default=None, description="Of a stream: the time up to which all results are given."
    )
    operators: list[OperatorCounts]
    gone: dict[str, int] = Field(
        default={}, description="Of a stream: rows of queries that are no longer in the plan."
    )
    cpu_seconds: float | None = Field(default=None, description="CPU of all of the run.")
    predicted_seconds: float | None = Field(
        default=None, description="CPU that the plan predicts for all of it."
    )
    unclaimed_seconds: float | None = Field(
        default=None, description="CPU of the run that no operator claims, once it is over."
    )
    fallbacks: list[str] = Field(
        default=[], description="What data or devices did not allow as planned."
    )
    trees: list[TreeDecision] = Field(
        default=[],
        description="Trees that were chosen on the events or changed: old and new, and why.",
    )
    read: dict[str, int] = Field(
        default={}, description="Bytes, row groups and events that were read, once it is over."
    )
    access: dict[str, Any] = Field(
        default={}, description="What of the events was read, and why, as in plans."
    )
    access_text: str | None = Field(default=None, description="That in a sentence.")


class ProgressOut(BaseModel):
    done: int = Field(description="Parts of the work that are done; they never get fewer.")
    known: int = Field(description="Parts that there are: 100, for percents of the whole.")


class JobOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": examples.JOB})

    id: str = Field(examples=["job-1-5f3a9c1b"])
    title: Title = ""
    plan: str
    workload: str = Field(description="The id of the workload.")
    workload_version: int
    source: Events
    sink: Location | None
    webhook: str | None = None
    mode: OneOf["batch", "stream"] = "batch"
    engine: str
    device: str
    master: str
    status: OneOf["queued", "running", "succeeded", "failed", "cancelled"]
    position: int | None = Field(default=None, description="Its place in the queue, from 1.")
    stage: str = Field(description="What is under way, in a word or two.")
    reason: str | None = Field(description="Why it failed or was cancelled.")
    progress: ProgressOut | None = None
    stream: StreamOut | None = Field(default=None, description="Of a stream: what it has done.")
    created: datetime
    started: datetime | None
    finished: datetime | None
    events: int | None = None
    seconds: dict[str, float] | None = Field(default=None, description="By stage.")
    rows: dict[str, int] | None = Field(default=None, description="Rows of each kind of result.")
    files: list[str] | None = Field(default=None, description="What was written to the sink.")
    rows_by_query: dict[str, int] | None = Field(
        default=None, description="Rows of each query, also of those that have none."
    )
    skipped: int | None = Field(default=None, description="Rows that were no events, left out.")
    notes: list[str] = Field(
        default=[],
        description="What is odd about the events, such as a type that a query asks for and none "
        "of them has.",
    )
    options: dict[str, str | bool | int] = Field(
        default={}, description="Those of its run that are not as usual: `on_error` and so on."
    )
    stopped: dict[str, str] | None = Field(
        default=None, description="Queries that were stopped at a limit, and why."
    )
    dropped: dict[str, int] | None = Field(
        default=None, description="Partial matches that were dropped at a limit, by query."
    )
