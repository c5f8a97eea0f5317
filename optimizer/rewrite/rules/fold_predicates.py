"""`B[1 < 2 AND x > 1 + 1] -> B[x > 2]`

Always holds: constants are computed as an engine would, in two-valued logic. A predicate that is
constantly false is left as the only one: the event never occurs.
"""

from __future__ import annotations

from optimizer.bind.conditions import ordered_unique
from optimizer.ir.pattern import Event, Pattern, Symbol
from optimizer.rewrite.body import FALSE
from optimizer.rewrite.folding import TRUE, fold
from optimizer.rewrite.rule import NodeContext
from workloads import expressions as ex

NAME = "fold-predicates"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not isinstance(node, Event) or not node.symbol.predicates:
        return None
    folded = [c for p in node.symbol.predicates for c in ex.conjuncts(fold(p)) if c != TRUE]
    predicates = (FALSE,) if FALSE in folded else ordered_unique(folded)
    if predicates == node.symbol.predicates:
        return None
    return Event(Symbol(node.symbol.type, predicates), node.alias, node.quantifier)
