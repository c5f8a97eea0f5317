"""Groups of a plan: which queries one engine runs together, and what decides how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from typing import Literal as OneOf

from optimizer.engines import pass_engine
from optimizer.engines.spec import Device


@dataclass(frozen=True)
class Cost:
    """What the workload costs query by query, and as planned; `unit` says of what."""

    separate: float
    shared: float
    unit: str


@dataclass(frozen=True)
class CountingGroup:
    """Queries whose matches are counted together and never constructed.

    `uses` says which of the `segments`, by number, each query is made of.
    """

    queries: tuple[str, ...]
    engine: str  # of `optimizer.engines.COUNTING`
    why: str
    segments: tuple[tuple[str, ...], ...]
    uses: Mapping[str, tuple[int, ...]]
    cost: Cost | None = None
    device: Device = "cpu"

    @property
    def lengths(self) -> dict[str, tuple[int, ...]]:
        """How many steps each segment of each query has."""
        return {
            query: tuple(len(self.segments[i]) for i in self.uses.get(query, ()))
            for query in self.queries
        }


@dataclass(frozen=True)
class TreeGroup:
    """Queries whose matches are found by these trees of joins; equal subtrees are joined once."""

    queries: tuple[str, ...]
    why: str
    trees: Mapping[str, Mapping[str, Any]]
    cost: Cost | None = None
    device: Device = "cpu"
    engine: OneOf["trees"] = "trees"


@dataclass(frozen=True)
class DeferredGroup:
    """Queries whose trees are chosen on the events when these are there.

    `trees` are those that costs and rows are estimated with: they rest on assumed statistics.
    """

    queries: tuple[str, ...]
    why: str
    trees: Mapping[str, Mapping[str, Any]]
    cost: Cost | None = None
    device: Device = "cpu"
    engine: OneOf["deferred-trees"] = "deferred-trees"


@dataclass(frozen=True)
class StepwiseGroup:
    """A query whose matches are found by binding one component after the other.

    Its cost and rows are estimated with `tree`, where it has one.
    """

    queries: tuple[str, ...]
    why: str
    tree: Mapping[str, Any] | None = None
    cost: Cost | None = None
    device: Device = "cpu"
    engine: OneOf["stepwise", "compact"] = "stepwise"

    @property
    def trees(self) -> dict[str, Mapping[str, Any]]:
        """The tree by the name of its query."""
        return {self.queries[0]: self.tree} if self.tree else {}


@dataclass(frozen=True)
class CompactGroup(StepwiseGroup):
    """A query whose matches are listed in order; rows are estimated with `tree`, if it has one."""

    engine: OneOf["stepwise", "compact"] = "compact"


@dataclass(frozen=True)
class PassGroup:
    """Queries that are answered in one pass over the events of each partition, in order.

    Of `shared`, each has the queries that read one part of a pattern that is joined once, and at
    which of its names each of them has it.
    """

    queries: tuple[str, ...]
    engine: str  # of `optimizer.engines.PASSING`
    why: str
    cost: Cost | None = None
    device: Device = "cpu"
    shared: tuple[Mapping[str, tuple[int, ...]], ...] = ()


Group: TypeAlias = (
    CountingGroup | TreeGroup | DeferredGroup | StepwiseGroup | CompactGroup | PassGroup
)


def cost_document(cost: Cost) -> dict[str, Any]:
    """A cost as plain values; whole numbers too are written as doubles, as they are read."""
    return {
        "separate": float(cost.separate),
        "shared": float(cost.shared),
        "unit": cost.unit,
    }


def group_document(group: Group) -> dict[str, Any]:
    """A group as plain values: with `segments`, or with `tree`.

    That is the tree of its query, a map of trees by query where it has several, and empty where it
    needs none.
    """
    plain: dict[str, Any] = {
        "queries": group.queries,
        "engine": group.engine,
        "device": group.device,
        "why": group.why,
    }
    if group.cost is not None:
        plain["cost"] = cost_document(group.cost)
    match group:
        case CountingGroup():
            plain |= {"segments": group.segments, "uses": dict(group.uses)}
        case StepwiseGroup():
            plain["tree"] = group.tree or {}
        case PassGroup():
            plain["tree"] = {}
            if group.shared:
                plain["shared"] = [dict(places) for places in group.shared]
        case TreeGroup() | DeferredGroup():
            single = len(group.queries) == 1
            plain["tree"] = group.trees[group.queries[0]] if single else dict(group.trees)
    return plain


def group_type(document: Mapping[str, Any]) -> type[Group]:
    """The type of a group that a document holds, by its engine."""
    for kind in (TreeGroup, DeferredGroup, StepwiseGroup, CompactGroup):
        if document.get("engine") == kind.engine:
            return kind
    return CountingGroup if pass_engine(str(document.get("engine"))) is None else PassGroup


def group_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a group from what `group_document` made of it."""
    plain = dict(document)
    kind = group_type(document)
    if kind in (TreeGroup, DeferredGroup) and "tree" in plain:
        queries, tree = plain.get("queries") or [None], plain.pop("tree")
        plain["trees"] = {queries[0]: tree} if len(queries) == 1 else tree
    if issubclass(kind, StepwiseGroup) and not plain.get("tree"):
        plain["tree"] = None
    if kind is PassGroup:
        plain.pop("tree", None)
    return plain
