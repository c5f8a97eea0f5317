"""Trees of joins: frozen nodes that say in which order a pattern is put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from workloads.errors import SheafError
from workloads.syntax import Quantifier

Side = OneOf["left", "right"]
Propagation = OneOf["push", "pull", "pass-down"]


class TreeError(SheafError):
    """A tree that does not evaluate its query, or a request that no tree fulfils."""


class TooEarlyError(TreeError):
    """A tree that decides something before all that it depends on is known."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The events of one component."""

    alias: str


@dataclass(frozen=True, slots=True)
class Shared:
    """A piece of the pattern that is computed elsewhere, and only read here."""

    name: str
    aliases: frozenset[str]


@dataclass(frozen=True, slots=True)
class SeqJoin:
    """`(left ; right)`"""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class AndJoin:
    """`(left & right)`"""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class OrMerge:
    """`(part | part …)`"""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class NSeq:
    """A negation pushed down to its neighbour: every row with the event that negates it.

    `side` is where the negation stands: left of the part, `!B` in `A; !B; C` pushed to C, or right
    of it, the same pushed to A.
    """

    part: Tree
    negation: Tree
    side: Side


@dataclass(frozen=True, slots=True)
class Latest:
    """A negated sequence that one pass decides: the latest of each part before the next.

    Only as what a `NSeq` or `NegTop` negates. No sequence of it is made: of those that end with an
    event only the latest start matters. Parts are leaves, with what is negated to their left.
    """

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class NegTop:
    """A filter on finished rows: the negation is checked when all it needs is there."""

    part: Tree
    negation: Tree


@dataclass(frozen=True, slots=True)
class Closure:
    """A group of events: `E+`, `E^n` or `ALL E`."""

    alias: str
    quantifier: Quantifier


@dataclass(frozen=True, slots=True)
class KSeq:
    """Groups between a start and an end; either is absent at an edge of the pattern."""

    start: Tree | None
    closures: tuple[Closure, ...]
    end: Tree | None


@dataclass(frozen=True, slots=True)
class Passed:
    """The root of a tree whose events are thinned out by the last component before they are joined.

    With `pull` only such events are joined as the last component can follow; with `pass-down` also
    its conditions with each component are tested (Odense thesis, sections 4.1 to 4.4).
    """

    part: Tree
    way: OneOf["pull", "pass-down"]


Tree: TypeAlias = (
    Leaf | Shared | SeqJoin | AndJoin | OrMerge | NSeq | NegTop | KSeq | Latest | Passed
)


def children(tree: Tree) -> tuple[Tree, ...]:
    """The inputs of a node, negations last."""
    match tree:
        case Leaf() | Shared():
            return ()
        case SeqJoin(left, right) | AndJoin(left, right):
            return (left, right)
        case OrMerge(parts) | Latest(parts):
            return parts
        case NSeq(part, negation) | NegTop(part, negation):
            return (part, negation)
        case Passed(part):
            return (part,)
        case KSeq(start, _, end):
            return tuple(side for side in (start, end) if side is not None)


def without_passing(tree: Tree) -> tuple[Tree, Propagation]:
    """A reading's tree of joins, and which events are joined."""
    return (tree.part, tree.way) if isinstance(tree, Passed) else (tree, "push")


def readings_of(tree: Tree) -> tuple[Tree, ...]:
    """The tree of each reading of a query's ORs."""
    return tree.parts if isinstance(tree, OrMerge) else (tree,)


def walk(tree: Tree) -> Iterator[Tree]:
    """The tree and everything below it, parents first."""
    yield tree
    for child in children(tree):
        yield from walk(child)


def bound(tree: Tree) -> frozenset[str]:
    """The aliases that a row of the tree binds; not those of its negations."""
    match tree:
        case Leaf(alias):
            return frozenset({alias})
        case Shared(_, aliases):
            return aliases
        case SeqJoin(left, right) | AndJoin(left, right):
            return bound(left) | bound(right)
        case OrMerge(parts) | Latest(parts):
            return frozenset().union(*map(bound, parts))
        case NSeq(part) | NegTop(part) | Passed(part):
            return bound(part)
        case KSeq(start, closures, end):
            sides = [bound(side) for side in (start, end) if side is not None]
            return frozenset(closure.alias for closure in closures).union(*sides)
