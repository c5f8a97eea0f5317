"""`WHERE a.x < b.x + (2 - 1) AND TRUE -> WHERE a.x < b.x + 1`

Precondition: the condition still speaks of the same components, and still aggregates over a group
or not, as before: that decides where and of what it is asked. Constantly true ones are dropped;
what a constantly false one does is for `false-conditions` and `never-disjuncts` to say.
"""

from __future__ import annotations

from optimizer.bind.conditions import ordered_unique
from optimizer.ir.pattern import Pattern
from optimizer.rewrite.folding import TRUE, fold
from optimizer.rewrite.rule import Edit, NodeContext
from workloads import expressions as ex

NAME = "fold-conditions"


def rewrite(node: Pattern, place: NodeContext) -> Edit | None:
    if not place.is_root:
        return None
    folded = ordered_unique([_folded(c) for c in place.conditions if fold(c) != TRUE])
    return None if folded == place.conditions else Edit(node, folded)


def _folded(condition: ex.Expression) -> ex.Expression:
    simpler = fold(condition)
    same_place = ex.aliases(simpler) == ex.aliases(condition)
    same_kind = ex.has_group_call(simpler) == ex.has_group_call(condition)
    return simpler if same_place and same_kind else condition
