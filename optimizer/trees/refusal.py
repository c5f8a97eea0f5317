"""What the tree engine does not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Event, Neg, Pattern, Proj, Symbol, walk
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Aggregation, Query
from optimizer.places import Place, places
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.trees.best import best_tree
from optimizer.trees.negated import depends, negated_choices
from optimizer.trees.tree import TreeError
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import All, One

MAX_CHOICES = 64  # ways to read the ORs of a pattern; each has a tree of its own


def refusal(query: Query) -> str | None:
    """Why a query is not run as a tree; None where it is."""
    aggregates = isinstance(query.output, Aggregation)
    for node in walk(query.pattern):
        if isinstance(node, Proj):
            return "some of its components only have to exist"
    try:
        choices = alternatives(query.pattern)
    except TooLargeError:
        return "its ORs can be read in too many ways"
    if len(choices) > MAX_CHOICES:
        return f"its ORs can be read in {len(choices):,} ways"
    for pattern in choices:
        if not _has_tree(query, pattern):
            return "its groups are tied across each other"
        for place in places(pattern):
            if isinstance(place.leaf, Neg):
                if aggregates and place.gap.at_edge and not _shortens(place, place.leaf, query):
                    return "a negation looks at each window that is aggregated"
                if any(len(alternatives(n.part)) > MAX_CHOICES for n in _negations(place.leaf)):
                    return "the ORs of a negation can be read in too many ways"
            elif aggregates and place.gap.at_edge and isinstance(place.leaf.quantifier, All):
                return f"{place.leaf.alias} is all that each window has, which is aggregated"
    return None


def _shortens(place: Place, negation: Neg, query: Query) -> bool:
    """Does it rule out all windows before or behind some event?

    Not where it depends on the window in other ways; nor anywhere in it unless single events are
    negated: of several, each end of a window could leave out one.
    """
    choices = negated_choices(negation, query.conditions)
    singles = all(isinstance(c, Event) and isinstance(c.quantifier, One) for c in choices)
    return (singles or not place.gap.anywhere) and not depends(negation, query.conditions)


def _negations(pattern: Pattern) -> Iterator[Neg]:
    return (node for node in walk(pattern) if isinstance(node, Neg))


class _Even(Statistics):
    """Every event and every condition is as good as any other."""

    def rate(self, symbol: Symbol) -> float:
        return 1.0

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        return KeyStatistics(1.0, 1.0)

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        return 0.5


def _has_tree(query: Query, pattern: Pattern) -> bool:
    """Is there an order in which each group is bound with all that its events are tied to?"""
    groups = [e for e in components(pattern) if not isinstance(e.quantifier, One)]
    if len(groups) < 2:
        return True
    named = {event.alias for event in components(pattern)}
    conditions = tuple(c for c in query.conditions if ex.aliases(c) <= named)
    try:
        asked = replace(query, pattern=pattern, conditions=conditions)
        best_tree(asked, _Even(events=1, span=1.0))
    except TreeError:
        return False
    return True
