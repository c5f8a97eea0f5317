"""`SEQ(A, OR(B, C), D) -> OR(SEQ(A, B, D), SEQ(A, C, D))`; likewise AND over OR.

Holds by the meaning of OR: choose one of its parts and read the pattern with that part in its
place. Precondition: the whole has no more than `MAX_DISJUNCTS` alternatives; inside a negation,
where each becomes a negation of its own with conditions of its own, `MAX_NEGATED`. NEEL, table III.
"""

from __future__ import annotations

import itertools

from optimizer.ir.pattern import (
    And,
    Neg,
    Or,
    Pattern,
    Seq,
    with_parts,
)
from optimizer.rewrite.body import count_alternatives
from optimizer.rewrite.rule import NodeContext

NAME = "distribute"
MAX_DISJUNCTS = 1_024
MAX_NEGATED = 32


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not isinstance(node, (Seq, And)):
        return None
    if not any(isinstance(part, Or) for part in node.parts) or too_many(node, place):
        return None
    choices = [part.parts if isinstance(part, Or) else (part,) for part in node.parts]
    return Or(tuple(with_parts(node, chosen) for chosen in itertools.product(*choices)))


def too_many(node: Pattern, place: NodeContext) -> bool:
    """Would the pattern, or the negation that the node stands in, fall into too many parts?"""
    path = (*place.ancestors, node)
    negations = [i for i, ancestor in enumerate(path) if isinstance(ancestor, Neg)]
    if negations:
        return count_alternatives(path[negations[-1] + 1]) > MAX_NEGATED
    return place.alternatives > MAX_DISJUNCTS
