"""`OR(A a, B b) WHERE a.x < b.x -> OR(A a, B b)`

Precondition: no alternative has all the components of the condition, so it is never asked.
"""

from __future__ import annotations

from optimizer.ir.pattern import Pattern
from optimizer.rewrite.body import together
from optimizer.rewrite.rule import Edit, NodeContext
from workloads import expressions as ex

NAME = "vacuous-conditions"


def rewrite(node: Pattern, place: NodeContext) -> Edit | None:
    if not place.is_root:
        return None
    asked = tuple(c for c in place.conditions if together(node, ex.aliases(c)))
    return None if asked == place.conditions else Edit(node, asked)
