"""An operator of a plan: what it does, and what it promises of the rows that it gives.

Ids are digests of what an operator does and of the ids that it reads, so that the same operator of
two plans, of two workloads even, has the same id. Names of queries are no part of it, except where
a query's rows are written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from optimizer.ir.query import Window
from workloads.document import print_nanoseconds

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
    "negation",
    "group",  # E+, E^n and ALL E
    "semijoin",  # events that are left when the last component is passed down to them
    "union",  # of the readings of an OR
    "stepwise",  # binding one component after the other
    "output",  # making the rows of one query
    "sink",  # sorting and writing the rows of all
]
CONSTRUCTING: tuple[OperatorKind, ...] = (
    "filter", "join", "negation", "group", "semijoin", "union", "stepwise"
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
class State:
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


NONE = State("none")
ANYWHERE, SINGLE, SLICES = Partitioning("any"), Partitioning("single"), Partitioning("slices")


def state_of(window: Window | None, what: str) -> State:
    """The state of something that looks back by a window."""
    if window is None:
        return State("unbounded", reason=f"no window bounds {what}")
    return State("events" if window.is_count else "window", window.size)


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
    state: State = NONE
    cost: float = 0.0
    rows: float | None = None


def identity(kind: OperatorKind, content: Any, inputs: Sequence[str] = ()) -> str:
    """The id of an operator that does this with those inputs; the same in every process."""
    text = json.dumps([kind, content, list(inputs)], sort_keys=True, separators=(",", ":"))
    return f"{kind}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
