"""What the tree engine does not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Event, Neg, Pattern, Proj, Symbol, positive_events, walk
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Aggregation, Query
from optimizer.places import Place, places
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.trees.best import best_tree
from optimizer.trees.negated import negated_choices
from optimizer.trees.tree import TreeError
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import All, One, Plus

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
                if aggregates and place.gap.anywhere and not _only_singles(place.leaf, query):
                    return "a negation looks at each window that is aggregated"
                reason = _nested(place.leaf, query.conditions)
                if reason is not None:
                    return reason
            elif aggregates and place.gap.at_edge and isinstance(place.leaf.quantifier, All):
                return f"{place.leaf.alias} is all that each window has, which is aggregated"
    return None


def _only_singles(negation: Neg, query: Query) -> bool:
    """Are single events negated? Of several, each end of a window could leave out one."""
    choices = negated_choices(negation, query.conditions)
    return all(isinstance(c, Event) and isinstance(c.quantifier, One) for c in choices)


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


def _nested(negation: Neg, conditions: tuple[ex.Expression, ...]) -> str | None:
    """What is negated is found by itself, so nothing in it may depend on what is around."""
    inner = negated_choices(negation, conditions)
    if len(inner) > MAX_CHOICES:
        return f"the ORs of a negation can be read in {len(inner):,} ways"
    for choice in inner:
        own = _aliases(choice)
        for place in places(choice):
            if isinstance(place.leaf, Event):
                reason = _grouped(place, place.leaf, own, conditions)
                if reason is not None:
                    return reason
                continue
            if place.gap.at_edge:
                return "a negation in a negation looks at what is around the outer one"
            within = {e.alias for e in walk(place.leaf) if isinstance(e, Event)}
            for condition in conditions:
                named = ex.aliases(condition)
                if named & within and not named <= within | own:
                    return "a negation in a negation is tied to what is around the outer one"
            reason = _nested(place.leaf, conditions)
            if reason is not None:
                return reason
    return None


def _grouped(
    place: Place, event: Event, own: frozenset[str], conditions: tuple[ex.Expression, ...]
) -> str | None:
    """Which events are in a group of a negation must not depend on what is around that."""
    if isinstance(event.quantifier, One | Plus):
        return None
    if isinstance(event.quantifier, All) and place.gap.at_edge:
        return f"{event.alias} is all that a negation's gap has"
    for condition in conditions:
        named = ex.aliases(condition)
        if event.alias in named and not named <= own and not ex.has_group_call(condition):
            return f"which events are in {event.alias} depends on what is around a negation"
    return None


def _aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(pattern))
