"""Conditions with `prev(a.x)`, which compare an event with the one just before it, checked."""

from __future__ import annotations

from optimizer.bind.scope import QueryScope
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError


def check_prev(scope: QueryScope, condition: ex.Expression) -> None:
    """`prev` looks back in one group; under STRATEGY STRICT, from any component."""
    aliases: set[str] = set()
    for node in ex.walk(condition):
        if not isinstance(node, ex.Call):
            continue
        if node.function != ex.PREV:
            raise QueryError(
                f"'{node.function}' of a whole group stands beside prev, which is of two events",
                node.span,
                "write two conditions",
            )
        if not isinstance(node.argument, ex.Attribute):
            raise QueryError("prev takes alias.attribute", node.span, "such as prev(a.price)")
        aliases.add(node.argument.alias)
    if len(aliases) > 1:
        raise QueryError(
            f"a condition looks back from {' and '.join(sorted(aliases))}",
            condition.span,
            "look back from one component in each condition",
        )
    (alias,) = aliases
    component = scope.components[alias]
    single = isinstance(component.quantifier, sx.One)
    if single and scope.query.strategy != "strict":
        raise QueryError(
            f"prev looks back in a group, and '{alias}' is a single event",
            condition.span,
            f"make it a group: '{component.type}+ {alias}'; or write STRATEGY STRICT, under which "
            "it is the event bound just before",
        )
    for named in sorted(ex.aliases(condition)):
        if scope.scopes[named]:
            raise QueryError(
                f"prev stands in a condition on '{named}', which is negated",
                condition.span,
                "look back only in what occurs",
            )
