"""`OR(C, A) -> OR(A, C)`; likewise the parts of AND, and negations in the same gap of a SEQ.

Always holds: their order means nothing. Positive parts come first, what stands under a Proj after
what does not, then by spelling without the aliases, then with them: the order they were written in
has no part in it.
"""

from __future__ import annotations

from optimizer.ir.pattern import (
    And,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    print_pattern,
    rename,
    with_parts,
)
from optimizer.rewrite.body import aliases, gaps
from optimizer.rewrite.rule import NodeContext

NAME = "canonical-order"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    match node:
        case And(parts) | Or(parts):
            ordered = tuple(sorted(parts, key=order))
        case Seq(parts):
            moved = list(parts)
            for gap in gaps(parts):
                moved[gap.start : gap.stop] = sorted(parts[gap.start : gap.stop], key=order)
            ordered = tuple(moved)
        case _:
            return None
    return None if ordered == parts else with_parts(node, ordered)


def order(pattern: Pattern) -> tuple[bool, bool, str, str]:
    """What parts whose order means nothing are sorted by."""
    nameless = rename(pattern, dict.fromkeys(aliases(pattern), ""))
    kind = isinstance(pattern, Neg), isinstance(pattern, Proj)
    return *kind, print_pattern(nameless), print_pattern(pattern)
