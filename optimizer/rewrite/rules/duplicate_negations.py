"""`SEQ(A, !B b, !B c, D) -> SEQ(A, !B b, D)`; likewise in AND.

Precondition: the two negated expressions are the same up to the names of their components, the
conditions on them included.
"""

from __future__ import annotations

from optimizer.ir.fingerprint import signature
from optimizer.ir.pattern import (
    And,
    Neg,
    Pattern,
    Seq,
    print_pattern,
    with_parts,
)
from optimizer.rewrite.body import gaps
from optimizer.rewrite.rule import NodeContext

NAME = "duplicate-negations"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    match node:
        case Seq(parts):
            runs = [list(gap) for gap in gaps(parts)]
        case And(parts):
            runs = [[i for i, part in enumerate(parts) if isinstance(part, Neg)]]
        case _:
            return None
    dropped: set[int] = set()
    for run in runs:
        if len(run) > 1:
            dropped |= _repeated(parts, run, place)
    if not dropped:
        return None
    return with_parts(node, tuple(p for i, p in enumerate(parts) if i not in dropped))


def _repeated(parts: tuple[Pattern, ...], run: list[int], place: NodeContext) -> set[int]:
    seen: set[str] = set()
    repeated: set[int] = set()
    for i in sorted(run, key=lambda i: print_pattern(parts[i])):
        text = signature(parts[i], place.conditions)
        if text in seen:
            repeated.add(i)
        seen.add(text)
    return repeated
