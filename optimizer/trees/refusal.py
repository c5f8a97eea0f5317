"""What the tree engine does not take."""

from __future__ import annotations

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Event, Neg, Pattern, Proj, positive_events, walk
from optimizer.ir.query import Aggregation, Query
from optimizer.places import places
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import One

MAX_CHOICES = 64  # ways to read the ORs of a pattern; each has a tree of its own


def refusal(query: Query) -> str | None:
    """Why a query is not run as a tree; None where it is."""
    aggregates = isinstance(query.output, Aggregation)
    for node in walk(query.pattern):
        if isinstance(node, Event) and not isinstance(node.quantifier, One):
            return f"{node.alias} is a group of events"
        if isinstance(node, Proj):
            return "some of its components only have to exist"
    try:
        choices = alternatives(query.pattern)
    except TooLargeError:
        return "its ORs can be read in too many ways"
    if len(choices) > MAX_CHOICES:
        return f"its ORs can be read in {len(choices):,} ways"
    for pattern in choices:
        for place in places(pattern):
            if isinstance(place.leaf, Neg):
                if aggregates and place.gap.at_edge:
                    return "a negation looks at each window that is aggregated"
                reason = _nested(place.leaf, query.conditions)
                if reason is not None:
                    return reason
    return None


def _nested(negation: Neg, conditions: tuple[ex.Expression, ...]) -> str | None:
    """What is negated is found by itself, so nothing in it may depend on what is around."""
    inner = alternatives(negation.part)
    if len(inner) > MAX_CHOICES:
        return f"the ORs of a negation can be read in {len(inner):,} ways"
    for choice in inner:
        own = _aliases(choice)
        for place in places(choice):
            if not isinstance(place.leaf, Neg):
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


def _aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(pattern))
