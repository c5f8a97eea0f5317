"""Correlations of Sigma as queries: counts of events or values, and rules that occur together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from sigma.correlations import (
    SigmaCorrelationCondition,
    SigmaCorrelationConditionOperator,
    SigmaCorrelationRule,
    SigmaCorrelationType,
)

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.printing import print_expression
from workloads.sigma.conditions import ALIAS

_OPERATORS: dict[SigmaCorrelationConditionOperator, ex.ComparisonOperator] = {
    SigmaCorrelationConditionOperator.LT: "<",
    SigmaCorrelationConditionOperator.LTE: "<=",
    SigmaCorrelationConditionOperator.GT: ">",
    SigmaCorrelationConditionOperator.GTE: ">=",
    SigmaCorrelationConditionOperator.EQ: "=",
}
OF_VALUES = (
    SigmaCorrelationType.VALUE_COUNT,
    SigmaCorrelationType.VALUE_SUM,
    SigmaCorrelationType.VALUE_AVG,
)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class CorrelationError(Exception):
    """A correlation that no query says."""


def correlation_query(
    rule: SigmaCorrelationRule,
    name: str,
    named: Sequence[str],
    parts: Sequence[tuple[str, ex.Expression | None]],
    column: Callable[[str], str],
    sequence: str | None,
) -> sx.Query:
    """The query of a correlation of rules of one event, each given by its type and condition.

    `event_count` counts at each event; `temporal` and `temporal_ordered` give the events that
    occur together, and a match's description of its rule.
    """
    from workloads.sigma.rules import described

    aliases = [f"{ALIAS}_{number}" for number in range(1, len(parts) + 1)]
    if len(parts) == 1:
        aliases = [ALIAS]
    keys, equalities = _keys(rule, named, aliases, column)
    where = [
        ex.rename(condition, {ALIAS: alias})
        for alias, (_, condition) in zip(aliases, parts, strict=True)
        if condition is not None
    ]
    components = tuple(
        sx.Component(kind, alias) for alias, (kind, _) in zip(aliases, parts, strict=True)
    )
    kind = rule.type
    ordered = kind is SigmaCorrelationType.TEMPORAL_ORDERED
    output: sx.Aggregates | sx.Return
    pattern: sx.Pattern
    if kind in (SigmaCorrelationType.TEMPORAL, SigmaCorrelationType.TEMPORAL_ORDERED):
        if len(parts) < 2:
            raise CorrelationError("a temporal correlation needs two rules")
        if not _asks_for_all(rule.condition, len(parts)):
            raise CorrelationError("its condition asks for some of its rules, not for all")
        pattern = sx.Operation("SEQ" if ordered else "AND", components)
        fields = dict.fromkeys([*([sequence] if sequence else []), *keys])
        items = [sx.Item(ex.Attribute(alias, field)) for alias in aliases for field in fields] or [
            sx.Item(alias) for alias in aliases
        ]
        output = sx.Return((*items, *described(rule)))
    elif kind is SigmaCorrelationType.EVENT_COUNT:
        if equalities:
            raise CorrelationError("its key is in columns that differ by rule")
        pattern = components[0] if len(parts) == 1 else sx.Operation("OR", components)
        count = ex.Call("count", None)
        output = sx.Aggregates((count,), _having(rule.condition, count), ("COUNT(*)",))
    elif kind in OF_VALUES:
        if equalities:
            raise CorrelationError("its key is in columns that differ by rule")
        if len(parts) > 1:
            raise CorrelationError("it is of values of several rules, which are no one type")
        value = _value(rule, column)
        pattern = components[0]
        output = sx.Aggregates((value,), _having(rule.condition, value), (print_expression(value),))
    else:
        raise CorrelationError(f"correlations of type {kind.name.lower()} are not taken")
    conditions = (*where, *equalities)
    whole = None
    if conditions:
        whole = conditions[0] if len(conditions) == 1 else ex.Logical("AND", conditions)
    return sx.Query(
        name=name,
        pattern=pattern,
        within=_timespan(rule),
        output=output,
        where=whole,
        partition_by=tuple(keys),
        strategy="next" if ordered else "any",
    )


def _keys(
    rule: SigmaCorrelationRule,
    named: Sequence[str],
    aliases: Sequence[str],
    column: Callable[[str], str],
) -> tuple[list[str], list[ex.Expression]]:
    """The columns of the key, and equalities for those that differ by rule."""
    keys: list[str] = []
    equalities: list[ex.Expression] = []
    for field in rule.group_by or ():
        alias = rule.aliases.aliases.get(field)
        if alias is None:
            keys.append(column(field))
            continue
        mapping = {str(reference.reference): name for reference, name in alias.mapping.items()}
        columns = [column(mapping.get(name, field)) for name in named]
        if len(set(columns)) == 1:
            keys.append(columns[0])
            continue
        first = ex.Attribute(aliases[0], columns[0])
        equalities += [
            ex.Comparison("=", first, ex.Attribute(other, name))
            for other, name in zip(aliases[1:], columns[1:], strict=True)
        ]
    return keys, equalities


def _value(rule: SigmaCorrelationRule, column: Callable[[str], str]) -> ex.Expression:
    """What a correlation of values compares: how many there are, their sum or their average."""
    condition = rule.condition
    field = condition.fieldref if isinstance(condition, SigmaCorrelationCondition) else None
    if isinstance(field, list) and len(field) == 1:
        (field,) = field
    if not isinstance(field, str):
        raise CorrelationError("its condition needs one field, such as 'field: User'")
    attribute = ex.Attribute(ALIAS, column(field))
    if rule.type is SigmaCorrelationType.VALUE_COUNT:
        return ex.Call("count distinct", attribute)
    function = "sum" if rule.type is SigmaCorrelationType.VALUE_SUM else "avg"
    return ex.Call(function, attribute)


def _having(condition: Any, count: ex.Expression) -> ex.Expression:
    if not isinstance(condition, SigmaCorrelationCondition):
        raise CorrelationError("a count needs a condition such as 'gte: 10'")
    number = ex.Literal(condition.count)
    if condition.op is SigmaCorrelationConditionOperator.NEQ:
        return ex.Comparison("!=", count, number)
    return ex.Comparison(_OPERATORS[condition.op], count, number)


def _asks_for_all(condition: Any, number: int) -> bool:
    """Is it without a condition, or `gte` the number of rules?"""
    if condition is None:
        return True
    return (
        isinstance(condition, SigmaCorrelationCondition)
        and condition.op is SigmaCorrelationConditionOperator.GTE
        and condition.count == number
    )


def _timespan(rule: SigmaCorrelationRule) -> sx.Duration:
    span = rule.timespan
    if span.unit not in _SECONDS:
        raise CorrelationError(f"its timespan of {span.spec} has no fixed length")
    return sx.Duration(Decimal(span.count * _SECONDS[span.unit]), "s")
