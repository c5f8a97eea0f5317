"""A query as baselines take it: sequences in sequences, and comparisons of two components.

Components are numbered: those of the query's sequence first, then those of each negation in it,
and so on. What does not fit has a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Seq,
    alternatives,
)
from optimizer.ir.query import Construction, Query
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printing import print_expression
from workloads.syntax import One, Plus

# `nested` finds all results of a negated sequence, as published, and `nested first` only one.
Way = OneOf["stacks", "configurations", "nested", "nested first"]


@dataclass(frozen=True)
class Node:
    """A sequence of components, the first of which has number `first`.

    It is negated in the node `parent`, in the gap before its component `gap`; 0 is the query's.
    """

    events: tuple[Event, ...]
    first: int
    parent: int = 0
    gap: int = 0


@dataclass(frozen=True)
class Outline:
    """The sequences of a query, the outer one first, and what it asks of two components each."""

    pattern: Pattern
    nodes: tuple[Node, ...]
    conditions: tuple[ex.Comparison, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """All components by number."""
        return tuple(event for node in self.nodes for event in node.events)

    @property
    def number(self) -> dict[str, int]:
        """The numbers of components by alias."""
        return {event.alias: i for i, event in enumerate(self.events)}


def refusal(query: Query, way: Way) -> str | None:
    """Why a way does not take a query; None where it does."""
    try:
        outline(query, way)
    except UnsupportedError as error:
        return str(error)
    return None


def outline(query: Query, way: Way) -> Outline:
    """The query in numbers; raises `UnsupportedError` where the way does not take it."""
    if not isinstance(query.output, Construction):
        raise UnsupportedError("it aggregates its matches")
    readings = alternatives(query.pattern)
    if len(readings) != 1:
        raise UnsupportedError("it has an OR")
    nodes = _Nodes(way)
    nodes.add(readings[0], 0, 0)
    found = tuple(nodes.found)
    conditions = tuple(_condition(c, found) for c in query.conditions)
    return Outline(readings[0], found, conditions)


@dataclass
class _Nodes:
    way: Way
    found: list[Node] = field(default_factory=list)

    def add(self, pattern: Pattern, parent: int, gap: int) -> None:
        parts = pattern.parts if isinstance(pattern, Seq) else (pattern,)
        events = tuple(part for part in parts if isinstance(part, Event))
        negations = [(i, part) for i, part in enumerate(parts) if isinstance(part, Neg)]
        if len(events) + len(negations) < len(parts):
            raise UnsupportedError("it is more than a sequence of events and negations")
        own = len(self.found)
        for event in events:
            if isinstance(event.quantifier, One):
                continue
            if not isinstance(event.quantifier, Plus) or self.way != "configurations" or own:
                raise UnsupportedError(f"{event.alias} is a group of events")
            if negations:
                raise UnsupportedError("it has groups of events and negations")
        first = sum(len(node.events) for node in self.found)
        self.found.append(Node(events, first, parent, gap))
        for i, negation in negations:
            before = sum(isinstance(part, Event) for part in parts[:i])
            if own and before in (0, len(events)):
                raise UnsupportedError("a negation in a negation is at its edge")
            inner = alternatives(negation.part)
            if len(inner) != 1:
                raise UnsupportedError("an OR is negated")
            if not isinstance(inner[0], Event) and self.way in ("stacks", "configurations"):
                raise UnsupportedError("more than an event is negated")
            self.add(inner[0], own, before)


def _condition(condition: ex.Expression, nodes: tuple[Node, ...]) -> ex.Comparison:
    """A comparison of a value of one component with one of another."""
    if isinstance(condition, ex.Comparison):
        sides = [ex.aliases(condition.left), ex.aliases(condition.right)]
        groups = {
            event.alias
            for node in nodes
            for event in node.events
            if not isinstance(event.quantifier, One)
        }
        if all(len(s) == 1 for s in sides) and sides[0] != sides[1]:
            if not groups & (sides[0] | sides[1]):
                return condition
            raise UnsupportedError(f"{print_expression(condition)} reads a group of events")
    raise UnsupportedError(
        f"{print_expression(condition)} does not compare a value of one component with one of "
        "another"
    )
