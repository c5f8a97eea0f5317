"""How a workload is to be run: what a user may choose, apart from the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as OneOf

from engines.partial import PartialLimit
from optimizer.physical.plan import Group, Plan
from optimizer.trees import OrMerge, Tree
from optimizer.trees.document import from_document

COUNTING = ("product", "panes", "aseq", "pretree", "chopconnect")


@dataclass(frozen=True)
class Counted:
    """Queries that a plan has counted together, by which engine.

    `lengths` are those of each query's segments, for Chop-Connect.
    """

    queries: tuple[str, ...]
    engine: str
    lengths: tuple[tuple[int, ...], ...] = ()


def counted_groups(plan: Plan) -> tuple[Counted, ...]:
    """The groups of a plan that count."""
    found = []
    for group in plan.groups:
        if group.engine not in COUNTING:
            continue
        segments, uses = group.segments or (), group.uses or {}
        lengths = tuple(
            tuple(len(segments[i]) for i in uses.get(query, ())) for query in group.queries
        )
        found.append(Counted(group.queries, group.engine, lengths))
    return tuple(found)


@dataclass(frozen=True)
class Constructed:
    """The trees by which a plan has a query's matches found: one for each reading of its ORs.

    What trees of one key and window have in common is made once.
    """

    query: str
    trees: tuple[Tree, ...]


def constructed(plan: Plan) -> tuple[Constructed, ...]:
    """The trees of a plan, but for those that are to be chosen on the events at hand."""
    return tuple(
        Constructed(name, _readings(from_document(tree)))
        for group in plan.groups
        if _is_settled(group)
        for name, tree in group.all_trees.items()
    )


def _is_settled(group: Group) -> bool:
    return group.engine == "trees" and not group.provisional


def _readings(tree: Tree) -> tuple[Tree, ...]:
    return tree.parts if isinstance(tree, OrMerge) else (tree,)


@dataclass(frozen=True)
class How:
    """Without `counting` all queries construct their matches; without `sharing` each runs alone.

    `device` is where counting and joining run. `insist`: an OpenCL device that is missing or fails
    is an error, and not a warning after which the CPU takes over. `groups` are what a plan has
    counted together; without them, queries of one key, window and slide are. `trees` are what a
    plan has matches found by; queries without are planned on the events at hand. `detection` is the
    shape of the trees that find matches, or `joins` for one component after the other;
    `propagation` is which events are joined (`engines.trees.passdown`); with `adaptive` the trees
    change when the stream does, else those of the first batch are kept. `partial` limits the
    partial matches that a query holds.
    """

    counting: bool = True
    sharing: bool = True
    device: OneOf["cpu", "opencl"] = "cpu"
    insist: bool = False
    groups: tuple[Counted, ...] | None = None
    trees: tuple[Constructed, ...] = ()
    detection: OneOf["bushy", "left", "right", "worst", "joins"] = "bushy"
    propagation: OneOf["auto", "push", "pull", "pass-down"] = "auto"
    adaptive: bool = True
    partial: PartialLimit | None = None

    def following(self, plan: Plan) -> How:
        """The same, with what a plan has chosen."""
        return replace(self, groups=counted_groups(plan), trees=constructed(plan))


USUAL = How()
