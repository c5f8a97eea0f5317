"""What a query gives of its matches, checked: aggregates, or items of each match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import get_args

from optimizer.bind.conditions import canonical, check_condition
from optimizer.bind.funnels import bound_funnel
from optimizer.bind.scope import QueryScope
from optimizer.bind.windows import check_duration
from optimizer.ir.aggregates import SPREADS
from optimizer.ir.query import (
    SUPPRESSED,
    Aggregate,
    AggregateFunction,
    Aggregation,
    Construction,
    EmptyGroup,
    MatchLimit,
    ReturnAlias,
    ReturnAttribute,
    ReturnEvents,
    ReturnItem,
    ReturnValue,
)
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, did_you_mean
from workloads.printing import print_aggregate
from workloads.situations.syntax import Situations
from workloads.sql.statement import Statement

AGGREGATES: tuple[AggregateFunction, ...] = get_args(AggregateFunction)
_OF_NUMBERS = ("sum", "avg", *SPREADS)


def bound_output(scope: QueryScope) -> Aggregation | Construction:
    assert not isinstance(scope.query.output, Statement)  # which is bound by itself
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
            if scope.query.skip == "past last event":
                limit = None  # no two of its matches end at one moment
            return _construction(scope, returned, limit)
        case sx.Funnel() as funnel:
            return bound_funnel(scope, funnel)
        case Situations():
            raise AssertionError("bound by clauses of its own")


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
    function = next((known for known in AGGREGATES if known == item.function), None)
    if function is None:
        names = [name.upper() for name in AGGREGATES if " " not in name]
        raise QueryError(
            f"unknown aggregate '{item.function}'; known are {', '.join(names)}",
            item.span,
            did_you_mean(item.function, AGGREGATES, alike=0.75)
            or "RETURN what it is computed from, and compute it from the matches",
        )
    if item.argument is None:
        if function == "count":
            return Aggregate(function, None, text or "COUNT(*)")
        raise QueryError(f"{function.upper()} takes a value", item.span, "such as a.x, or a.x * 2")
    operand = _aggregated_value(scope, function, item.argument)
    bound = canonical(operand)
    return Aggregate(function, bound, text or print_aggregate(ex.Call(function, bound)))


def _aggregated_value(
    scope: QueryScope, function: AggregateFunction, value: ex.Expression
) -> ex.Expression:
    """The value of each match that is aggregated, checked."""
    if isinstance(value, ex.CONDITIONS):
        raise QueryError("an aggregate takes values, and this is a condition", value.span)
    calls = [node for node in ex.walk(value) if isinstance(node, ex.Call)]
    if calls:
        raise QueryError(
            "an aggregate stands inside another",
            calls[0].span,
            "of a group each event counts: SUM(b.x) adds up all of them",
        )
    _check_single(value)
    scope.check_names(value)
    named = sorted(ex.aliases(value))
    if not named:
        raise QueryError("a constant is aggregated", value.span, "COUNT(*) counts matches")
    for alias in named:
        scope.check_returnable(alias, value.span, "aggregated")
    if len(named) > 1 and function in ("first", "last"):
        raise QueryError(
            f"{function.upper()} goes by the moment of an event, and {named[0]} and {named[1]} "
            "have one each",
            value.span,
            "use values of one component",
        )
    value = scope.without_durations(value)
    if function in _OF_NUMBERS:
        scope.kinds.check_number(value, function)
    scope.kinds.check(value)
    return value


def _check_single(value: ex.Expression) -> None:
    for node in ex.walk(value):
        if isinstance(node, ex.JointFunction):
            raise QueryError(
                f"{node.name} of several values goes in conditions",
                node.span,
                "return the values themselves",
            )


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
    for item in with_every(items, [a for a, path in scope.scopes.items() if not path]):
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
    empty = tuple(_empty_groups(scope.query.pattern, None))
    return Construction(tuple(dict.fromkeys(bound)), first, empty_groups=empty)


def _empty_groups(pattern: sx.Pattern, part: frozenset[str] | None) -> Iterator[EmptyGroup]:
    """The groups that may have no event; `part` are the components of their part of an OR."""
    match pattern:
        case sx.Component(quantifier=sx.One()):
            pass
        case sx.Component(optional=True):
            yield EmptyGroup(pattern.name, part and part - {pattern.name})
        case sx.Operation("OR", parts):
            for one in parts:
                yield from _empty_groups(one, frozenset(_positive_names(one)))
        case sx.Operation(_, parts):
            for one in parts:
                yield from _empty_groups(one, part)
        case _:
            pass


def _positive_names(pattern: sx.Pattern) -> Iterator[str]:
    match pattern:
        case sx.Component():
            yield pattern.name
        case sx.Operation(_, parts):
            for part in parts:
                yield from _positive_names(part)
        case _:
            pass


def with_every(items: Iterable[sx.Item], names: Iterable[str]) -> list[sx.Item]:
    """The items, with all of some names in place of `*`."""
    return [
        one
        for item in items
        for one in ([item] if item.value is not None else [replace(item, value=n) for n in names])
    ]


def _item(scope: QueryScope, item: sx.Item) -> ReturnItem:
    value = item.value
    assert value is not None  # `*` is spelled out
    if isinstance(value, str):
        if value not in scope.components:
            raise QueryError(f"unknown alias '{value}'", item.span, scope.alias_hint(value))
        scope.check_returnable(value, item.span, "returned")
        return ReturnAlias(value, item.name)
    if isinstance(value, ex.Equivalence):
        return _events(scope, value, item)
    scope.check_names(value)
    for alias in ex.aliases(value):
        scope.check_returnable(alias, item.span, "returned")
    if isinstance(value, ex.Attribute) and item.name is None:
        return ReturnAttribute(value.alias, value.name)
    if isinstance(value, ex.CONDITIONS):
        raise QueryError("RETURN takes values of events, and constants", item.span)
    _check_single(value)
    scope.check_calls(value)
    scope.check_group_values(value, item.span)
    value = scope.without_durations(value)
    scope.kinds.check(value)
    if item.name is None:
        raise QueryError("a computed value needs a name", item.span, "add AS and a name for it")
    return ReturnValue(canonical(value), item.name)


def _events(scope: QueryScope, listed: ex.Equivalence, item: sx.Item) -> ReturnEvents:
    """A list of the events of single components."""
    if item.name is None:
        raise QueryError("a list of events needs a name", item.span, "add AS and a name for it")
    for alias in listed.attributes:
        if alias not in scope.components:
            raise QueryError(f"unknown alias '{alias}'", item.span, scope.alias_hint(alias))
        scope.check_returnable(alias, item.span, "returned")
        if not isinstance(scope.components[alias].quantifier, sx.One):
            raise QueryError(
                f"'{alias}' is a group, and a list has single events",
                item.span,
                f"return {alias} by itself",
            )
    return ReturnEvents(listed.attributes, item.name)


def _place(item: ReturnItem) -> tuple[str, bool]:
    """The name that an item stands under, and whether fields of an event do so there."""
    match item:
        case ReturnAttribute(alias, _):
            return alias, True
        case ReturnAlias(alias, name):
            return name or alias, name is None
        case ReturnValue(_, name) | ReturnEvents(_, name):
            return name, False


# --- which matches are given ----------------------------------------------------------------------


def with_picks(
    scope: QueryScope, output: Aggregation | Construction, key: tuple[str, ...]
) -> Aggregation | Construction:
    """What is returned, with what is left out; and of a match how many were for it."""
    query, returned = scope.query, scope.query.output
    if not isinstance(returned, sx.Return) or not isinstance(output, Construction):
        return output
    for clause, given in (("SUPPRESS", returned.suppress), ("KEEP", returned.keep)):
        if given and (isinstance(query.pattern, sx.Join) or query.session):
            _report(scope, clause, f"{clause} is not taken with JOIN and SESSION", "leave it out")
    if returned.keep and key:
        _report(
            scope,
            "KEEP",
            "KEEP counts the matches of all keys together",
            "leave the key out; with STRATEGY LATEST, name it by component: "
            "PARTITION BY (a.x, b.x) AS x",
        )
    suppress, items = returned.suppress, output.items
    if suppress is None:
        return replace(output, keep=returned.keep)
    check_duration(scope, suppress, "time of SUPPRESS")
    if suppress.is_count:
        _report(scope, "SUPPRESS", "SUPPRESS takes a time", "such as SUPPRESS 10 min")
    if any(getattr(item, "name", None) == "suppressed" for item in items):
        _report(scope, "SUPPRESS", "'suppressed' is what SUPPRESS returns", "use another name")
    counted = (*items, ReturnValue(SUPPRESSED, "suppressed"))
    return replace(output, items=counted, suppress=int(suppress.size), keep=returned.keep)


def _report(scope: QueryScope, clause: str, message: str, hint: str) -> None:
    scope.report(QueryError(message, scope.query.span_of(clause), hint))
