"""What a query gives of its matches, checked: aggregates, or items of each match."""

from __future__ import annotations

from typing import cast

from optimizer.bind.conditions import canonical, check_condition
from optimizer.bind.scope import QueryScope
from optimizer.ir.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Construction,
    MatchLimit,
    ReturnAlias,
    ReturnAttribute,
    ReturnItem,
    ReturnValue,
)
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, did_you_mean

AGGREGATES = ("count", "sum", "avg", "min", "max")


def bound_output(scope: QueryScope) -> Aggregation | Construction:
    match scope.query.output:
        case sx.Aggregates(items, having, texts):
            bound = [
                _aggregate(scope, item, texts[i] if i < len(texts) else "")
                for i, item in enumerate(items)
            ]
            if having is not None:
                _check_having(scope, having)
            return Aggregation(
                tuple(b for b in bound if b is not None),
                None if having is None else canonical(having),
            )
        case sx.Return(returned, limit):
            return _construction(scope, returned, limit)


def _aggregate(scope: QueryScope, item: ex.Expression, text: str) -> Aggregate | None:
    try:
        return _checked_aggregate(scope, item, text)
    except QueryError as error:
        scope.report(error)
        return None


def _checked_aggregate(scope: QueryScope, item: ex.Expression, text: str) -> Aggregate:
    if not isinstance(item, ex.Call):
        raise QueryError(
            "AGG takes aggregates", item.span, "such as COUNT(*), SUM(a.x) or AVG(a.x)"
        )
    if item.function not in AGGREGATES:
        raise QueryError(
            f"unknown aggregate '{item.function}'; known are COUNT, SUM, AVG, MIN, MAX",
            item.span,
            did_you_mean(item.function, AGGREGATES, alike=0.75)
            or "RETURN what it is computed from, and compute it from the matches",
        )
    function = cast(AggregateFunction, item.function)
    if item.function == "count":
        if item.argument is not None:
            raise QueryError("COUNT counts matches", item.span, "write COUNT(*)")
        return Aggregate(function, None, text or "COUNT(*)")
    if not isinstance(item.argument, ex.Attribute):
        raise QueryError(f"{item.function.upper()} takes alias.attribute", item.span)
    scope.check_names(item.argument)
    scope.check_returnable(item.argument.alias, item.argument.span, "aggregated")
    scope.kinds.check(item if function in ("sum", "avg") else item.argument)
    operand = ex.Attribute(item.argument.alias, item.argument.name)
    default = f"{function.upper()}({operand.alias}.{operand.name})"
    return Aggregate(function, operand, text or default)


def _check_having(scope: QueryScope, having: ex.Expression) -> None:
    try:
        check_condition(having, scope.kinds)
        inside: set[int] = set()
        for node in ex.walk(having):
            if isinstance(node, ex.Call):
                _checked_aggregate(scope, node, "")
                inside.update(map(id, ex.walk(node)))
            elif isinstance(node, (ex.Attribute, ex.Equivalence)) and id(node) not in inside:
                raise QueryError("HAVING compares aggregates", node.span, "such as COUNT(*) > 10")
    except QueryError as error:
        scope.report(error)


def _construction(scope: QueryScope, items: tuple[sx.Item, ...], limit: int | None) -> Construction:
    bound: list[ReturnItem] = []
    taken: dict[str, bool] = {}  # top-level names; True where an alias' fields stand there
    for item in items:
        try:
            result = _item(scope, item)
            name, fields = _place(result)
            if name in taken and not (fields and taken[name]):
                raise QueryError(f"'{name}' is returned twice", item.span, "use AS")
        except QueryError as error:
            scope.report(error)
            continue
        taken[name] = fields
        bound.append(result)
    # A whole event goes before single fields of it, which then add its time at most.
    order = {name: i for i, name in enumerate(taken)}
    bound.sort(key=lambda item: (order[_place(item)[0]], isinstance(item, ReturnAttribute)))
    first = None if limit is None else MatchLimit(limit, tuple(scope.components))
    return Construction(tuple(dict.fromkeys(bound)), first)


def _item(scope: QueryScope, item: sx.Item) -> ReturnItem:
    value = item.value
    if isinstance(value, str):
        if value not in scope.components:
            raise QueryError(f"unknown alias '{value}'", item.span, scope.alias_hint(value))
        scope.check_returnable(value, item.span, "returned")
        return ReturnAlias(value, item.name)
    scope.check_names(value)
    for alias in ex.aliases(value):
        scope.check_returnable(alias, item.span, "returned")
    if isinstance(value, ex.Attribute) and item.name is None:
        return ReturnAttribute(value.alias, value.name)
    if isinstance(value, (*ex.CONDITIONS, ex.Literal)):
        raise QueryError("RETURN takes values of events", item.span)
    scope.check_calls(value)
    scope.check_group_values(value, item.span)
    scope.kinds.check(value)
    if item.name is None:
        raise QueryError("a computed value needs a name", item.span, "add AS and a name for it")
    return ReturnValue(canonical(value), item.name)


def _place(item: ReturnItem) -> tuple[str, bool]:
    """The name that an item stands under, and whether fields of an event do so there."""
    match item:
        case ReturnAttribute(alias, _):
            return alias, True
        case ReturnAlias(alias, name):
            return name or alias, name is None
        case ReturnValue(_, name):
            return name, False
