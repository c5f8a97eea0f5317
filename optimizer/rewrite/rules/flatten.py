"""`SEQ(A, SEQ(B, C)) -> SEQ(A, B, C)`; likewise AND in AND and OR in OR.

Always holds: docs/semantics.md#patterns defines the nested form as its parts written in its place.
NEEL, table II.
"""

from __future__ import annotations

from optimizer.ir.pattern import (
    And,
    Or,
    Pattern,
    Seq,
    with_parts,
)
from optimizer.rewrite.rule import NodeContext

NAME = "flatten"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not isinstance(node, (Seq, And, Or)):
        return None
    kind = type(node)
    if not any(isinstance(part, kind) for part in node.parts):
        return None
    flat = [
        inner
        for part in node.parts
        for inner in (part.parts if isinstance(part, kind) else (part,))
    ]
    return with_parts(node, tuple(flat))
