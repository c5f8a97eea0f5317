"""`AND(!B, !C) -> !OR(B, C)`, as a part of SEQ or AND.

Precondition: nothing but negations in it. Fewer operators, and a disjunction is cheaper than a
conjunction: ZStream, section 5.2.1, expressions 1 and 2.
"""

from __future__ import annotations

from optimizer.ir.pattern import (
    And,
    Neg,
    Pattern,
    Seq,
)
from optimizer.rewrite.body import disjunction, only_negations
from optimizer.rewrite.rule import NodeContext

NAME = "join-negations"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not isinstance(place.parent, (Seq, And)):
        return None
    if not isinstance(node, And) or not only_negations(node):
        return None
    # An inner AND of negations has been joined already: children come first.
    return Neg(disjunction(tuple(part.part for part in node.parts if isinstance(part, Neg))))
