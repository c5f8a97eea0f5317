"""`!SEQ(B+ b, C) -> !SEQ(B b, C)`; likewise `ALL B` and `B^1`, anywhere inside a negation.

Only whether it matches counts there, and a group exists where one event of it does.
Preconditions: no condition aggregates over the group, none is asked in a negation further inside
(it holds for each event of the group, so a larger group can fail it where a single event does not);
not both sides of the group bound something else (`!X` or `ALL E`), since its first event bounds one
and its last event the other; and for `ALL B` no AND, where a group that takes everything leaves
nothing to the other parts.
"""

from __future__ import annotations

from itertools import pairwise

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    walk,
)
from optimizer.rewrite.body import aliases, conditions_on, only_negations
from optimizer.rewrite.rule import NodeContext
from workloads import expressions as ex
from workloads.syntax import All, Exactly, Plus

NAME = "single-in-negation"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not isinstance(node, Event) or place.is_positive:
        return None
    start = max(i for i, above in enumerate(place.ancestors) if isinstance(above, Neg))
    negation = place.ancestors[start]
    path = (*place.ancestors[start + 1 :], node)
    match node.quantifier:
        case Exactly(1):
            allowed = True
        case Plus():
            allowed = _bounds_one_side(path)
        case All():
            allowed = _bounds_one_side(path) and not any(isinstance(n, And) for n in path)
        case _:
            return None
    if not allowed or _asked_as_a_group(node.alias, negation, place):
        return None
    return Event(node.symbol, node.alias)


def _asked_as_a_group(alias: str, negation: Pattern, place: NodeContext) -> bool:
    inside = frozenset(
        name
        for inner in walk(negation)
        if isinstance(inner, Neg) and inner is not negation
        for name in aliases(inner)
    )
    return any(
        ex.has_group_call(condition) or ex.aliases(condition) & inside
        for condition in conditions_on(place.conditions, frozenset({alias}))
    )


def _bounds_one_side(path: tuple[Pattern, ...]) -> bool:
    """Is at most one of the group's two ends the end of something else?"""
    left = right = False
    for above, part in pairwise(path):
        match above:
            case Seq(parts):
                if any(isinstance(p, (Seq, Or, Proj)) for p in parts):
                    return False  # not flat yet: what stands beside the group is not settled
                index = next(i for i, p in enumerate(parts) if p is part)
                left = left or (index > 0 and _is_bounded(parts[index - 1]))
                right = right or (index + 1 < len(parts) and _is_bounded(parts[index + 1]))
            case And(parts):
                if len(parts) == 1:
                    return False
            case _:
                return False
    return not (left and right)


def _is_bounded(part: Pattern) -> bool:
    """Does what it means depend on where its neighbours are?"""
    if isinstance(part, Event):
        return isinstance(part.quantifier, All)
    return only_negations(part)
