"""`SEQ(A) -> A`; likewise AND and OR of one part.

Always holds: one part has nothing to be ordered with, joined with or chosen from.
"""

from __future__ import annotations

from optimizer.ir.pattern import (
    And,
    Neg,
    Or,
    Pattern,
    Seq,
)
from optimizer.rewrite.rule import NodeContext

NAME = "unwrap"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    match node:
        case Seq((part,)) | And((part,)) | Or((part,)) if not isinstance(part, Neg):
            return part
        case _:
            return None
