"""`SEQ(A, !OR(B, C), D) -> SEQ(A, !B, !C, D)`; likewise in AND.

Always holds: a negation of an OR negates each part (docs/semantics.md#negation). A component
that stands in several parts, as after a distribution, becomes one of its own in each, its
conditions with it.
"""

from __future__ import annotations

from collections import Counter

from optimizer.bind.conditions import canonical, ordered_unique
from optimizer.ir.pattern import (
    And,
    Neg,
    Or,
    Pattern,
    Seq,
    rename,
    with_parts,
)
from optimizer.rewrite.body import aliases
from optimizer.rewrite.rule import Edit, Names, NodeContext
from workloads import expressions as ex

NAME = "split-negation"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | Edit | None:
    if not isinstance(node, (Seq, And)):
        return None
    conditions = place.conditions
    parts: list[Pattern] = []
    for part in node.parts:
        if isinstance(part, Neg) and isinstance(part.part, Or):
            split, conditions = _split(part.part, conditions, place.names)
            parts += [Neg(inner) for inner in split]
        else:
            parts.append(part)
    if len(parts) == len(node.parts) and tuple(parts) == node.parts:
        return None
    return Edit(with_parts(node, tuple(parts)), conditions)


def _split(
    choice: Or, conditions: tuple[ex.Expression, ...], names: Names
) -> tuple[list[Pattern], tuple[ex.Expression, ...]]:
    """The parts under names that no two of them share, and the conditions on all of them."""
    own = [aliases(part) for part in choice.parts]
    everywhere = frozenset().union(*own)
    uses = Counter(alias for found in own for alias in found)
    shared = {alias for alias, count in uses.items() if count > 1}
    renamed = [{alias: names.fresh(alias) for alias in sorted(found & shared)} for found in own]
    result: list[ex.Expression] = []
    for condition in conditions:
        inside = ex.aliases(condition) & everywhere
        fits = [i for i, found in enumerate(own) if inside <= found]
        if not inside:
            result.append(condition)
            continue
        # One that speaks of two parts at once is never asked, and is left out. The original
        # stays as well: other alternatives may still have the component under its old name.
        if fits:
            result.append(condition)
            result += [canonical(ex.rename(condition, renamed[i])) for i in fits]
    parts = [rename(part, names_) for part, names_ in zip(choice.parts, renamed, strict=True)]
    return parts, ordered_unique(result)
