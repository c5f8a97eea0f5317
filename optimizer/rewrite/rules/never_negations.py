"""`SEQ(A, !SEQ(B[FALSE], C), D) -> SEQ(A, D)`; likewise in AND.

Precondition: the negated expression never matches. One such negation stays, as `!B[FALSE]`, where
its mere presence means something: at the end of a SEQ it lets a match be reported when its window
closes; and in an AND of one other part, in a SEQ, it keeps what reaches to the ends of the window
(a first or last negation, `ALL E`) from being read as a part of that SEQ.
"""

from __future__ import annotations

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    positive_events,
    with_parts,
)
from optimizer.rewrite.body import FALSE, conditions_on, gaps, never, never_symbol, only_negations
from optimizer.rewrite.rule import NodeContext
from workloads.syntax import All

NAME = "never-negations"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not isinstance(node, (Seq, And)):
        return None
    parts = node.parts
    useless = [i for i, part in enumerate(parts) if isinstance(part, Neg) and never(part.part)]
    if not useless or all(map(only_negations, parts)):
        return None
    stays = _one_that_stays(node, useless, place)
    left = tuple(
        Neg(_bare(part, node, place)) if i == stays else part
        for i, part in enumerate(parts)
        if i == stays or i not in useless
    )
    return None if left == parts else with_parts(node, left)


def _one_that_stays(node: Seq | And, useless: list[int], place: NodeContext) -> int | None:
    if isinstance(node, And):
        rest = [part for i, part in enumerate(node.parts) if i not in useless]
        shields = len(rest) == 1 and place.in_seq and _reaches_out(rest[0])
        candidates = useless if shields else []
    else:
        last = next((gap for gap in gaps(node.parts) if gap.stop == len(node.parts)), range(0))
        candidates = list(last) if place.is_positive and set(last) <= set(useless) else []
    return min(candidates, key=lambda i: _impossible(node.parts[i]), default=None)


def _impossible(negation: Pattern) -> str:
    """The alias of a component that never occurs."""
    inner = negation.part if isinstance(negation, Neg) else negation
    return min(e.alias for e in positive_events(inner) if never_symbol(e.symbol))


def _bare(negation: Pattern, node: Seq | And, place: NodeContext) -> Event:
    """`B[FALSE]`, without conditions.

    Any type will do; one of the positive parts' does not depend on the order of rules.
    """
    kind = min(event.symbol.type for event in positive_events(node))
    alias = _impossible(negation)
    asked = conditions_on(place.conditions, frozenset({alias}))
    return Event(Symbol(kind, (FALSE,)), place.names.fresh(alias) if asked else alias)


def _reaches_out(pattern: Pattern) -> bool:
    """Would it mean something else as a part of a SEQ than in an AND?"""
    match pattern:
        case Event(_, _, quantifier):
            return isinstance(quantifier, All)
        case Neg():
            return True
        case Seq(parts):
            return _reaches_out(parts[0]) or _reaches_out(parts[-1])
        case And(parts):
            return len(parts) == 1 and _reaches_out(parts[0])
        case Or(parts):
            return any(map(_reaches_out, parts))
        case Proj(_, part):
            return _reaches_out(part)
