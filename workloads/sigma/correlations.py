"""Correlations of Sigma as queries: counts of events or values, and rules that occur together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sigma.correlations import (
    CorrelationConditionAND,
    CorrelationConditionItem,
    CorrelationConditionNOT,
    SigmaCorrelationCondition,
    SigmaCorrelationConditionOperator,
    SigmaCorrelationRule,
    SigmaCorrelationType,
    SigmaExtendedCorrelationCondition,
    SigmaRuleReference,
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
MOST_WAYS = 20  # in which so many of its rules are some of them
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class CorrelationError(Exception):
    """A correlation that no query says."""


@dataclass(frozen=True)
class RulePart:
    """What a correlation takes of a rule: the type of the events, and the condition on them.

    Rows of another correlation are such events, too, which have the `fields` of its key.
    """

    kind: str
    condition: ex.Expression | None = None
    fields: tuple[str, ...] | None = None


def correlation_query(
    rule: SigmaCorrelationRule,
    name: str,
    parts: Mapping[str, RulePart],
    column: Callable[[str], str],
    sequence: str | None,
    into: str | None = None,
) -> sx.Query:
    """The query of a correlation of rules, given by what it calls them; raises `CorrelationError`.

    `event_count` counts at each event; `temporal` and `temporal_ordered` give the events that
    occur together, and a match's description of its rule. With `into` other correlations read it.
    """
    made = _Pattern(rule, parts, column)
    kind = rule.type
    ordered = kind is SigmaCorrelationType.TEMPORAL_ORDERED
    output: sx.Aggregates | sx.Return
    pattern: sx.Pattern
    strategy: sx.Strategy = "any"
    if ordered or kind is SigmaCorrelationType.TEMPORAL:
        pattern = made.together("SEQ" if ordered else "AND")
        output = sx.Return(tuple(made.items(sequence, into is not None)))
        if ordered and made.is_plain:
            strategy = "next"
    elif kind is SigmaCorrelationType.EVENT_COUNT:
        pattern = made.either()
        count = ex.Call("count", None)
        output = sx.Aggregates((count,), _having(rule.condition, count), ("COUNT(*)",))
    elif kind in OF_VALUES:
        if len(parts) > 1:
            raise CorrelationError("it is of values of several rules, which are no one type")
        value = _value(rule, column)
        pattern = made.either()
        output = sx.Aggregates((value,), _having(rule.condition, value), (print_expression(value),))
    else:
        raise CorrelationError(f"correlations of type {kind.name.lower()} are not taken")
    keys, tied = made.keys()
    labels: tuple[sx.KeyLabel, ...] = ()
    if isinstance(output, sx.Aggregates) and into is None:
        labels = tuple(_labels(rule, {*keys, *(key.name for key in tied)}))
    return sx.Query(
        name=name,
        pattern=pattern,
        within=_timespan(rule),
        output=output,
        where=made.condition(),
        partition_by=keys,
        tied_keys=tied,
        key_labels=labels,
        strategy=strategy,
        into=into,
    )


@dataclass
class _Pattern:
    """The components of a correlation's query, each with the rule that it stands for."""

    rule: SigmaCorrelationRule
    parts: Mapping[str, RulePart]
    column: Callable[[str], str]
    used: dict[str, str] = field(default_factory=dict)  # by alias
    negated: set[str] = field(default_factory=set)

    def together(self, operator: sx.Operator) -> sx.Pattern:
        """Rules that occur together, as the condition says; without one, all of them."""
        condition = self.rule.condition
        if isinstance(condition, SigmaExtendedCorrelationCondition):
            found = self._said(condition.parsed, operator)
            if isinstance(found, sx.Negation):
                raise CorrelationError("its condition holds where nothing occurs")
            return found
        names = list(self.parts)
        number = _fewest(condition, len(names))
        if len(names) < 2:
            raise CorrelationError("a temporal correlation needs two rules")
        ways = list(itertools.combinations(names, number))
        if len(ways) > MOST_WAYS:
            raise CorrelationError(
                f"{number} of its {len(names)} rules is more than {MOST_WAYS} ways"
            )
        found_ways = [self._joined(operator, [self._component(n) for n in way]) for way in ways]
        return self._joined("OR", found_ways)

    def either(self) -> sx.Pattern:
        """An event of any of the rules."""
        return self._joined("OR", [self._component(name) for name in self.parts])

    @staticmethod
    def _joined(operator: sx.Operator, parts: Sequence[sx.Pattern]) -> sx.Pattern:
        return parts[0] if len(parts) == 1 else sx.Operation(operator, tuple(parts))

    def _component(self, name: str) -> sx.Component:
        alias = ALIAS if len(self.parts) == 1 else f"{ALIAS}_{len(self.used) + 1}"
        self.used[alias] = name
        return sx.Component(self.parts[name].kind, alias)

    def _said(
        self, node: CorrelationConditionItem | SigmaRuleReference, operator: sx.Operator
    ) -> sx.Pattern:
        match node:
            case SigmaRuleReference():
                return self._component(node.reference)
            case CorrelationConditionNOT(args=[inner]):
                before = set(self.used)
                found = self._said(inner, operator)
                if isinstance(found, sx.Negation):
                    return found.part
                self.negated |= self.used.keys() - before
                return sx.Negation(found)
            case CorrelationConditionAND(args=inner):
                parts = [self._said(part, operator) for part in inner]
                if all(isinstance(part, sx.Negation) for part in parts):
                    raise CorrelationError("its condition holds where nothing occurs")
                return sx.Operation(operator, tuple(parts))
            case _:
                parts = [self._said(part, operator) for part in node.args]
                if any(isinstance(part, sx.Negation) for part in parts):
                    raise CorrelationError("its condition holds where nothing occurs")
                return sx.Operation("OR", tuple(parts))

    @property
    def is_plain(self) -> bool:
        """Is each rule there once, and is none of them a correlation?"""
        made = any(part.fields is not None for part in self.parts.values())
        return not made and not self.negated and sorted(self.used.values()) == sorted(self.parts)

    def condition(self) -> ex.Expression | None:
        """What the rules ask of their events."""
        asked = [
            ex.rename(condition, {ALIAS: alias})
            for alias, name in self.used.items()
            if (condition := self.parts[name].condition) is not None
        ]
        if len(asked) < 2:
            return asked[0] if asked else None
        return ex.Logical("AND", tuple(asked))

    def keys(self) -> tuple[tuple[str, ...], tuple[sx.TiedKey, ...]]:
        """The columns of the group, and those of which each rule has its own."""
        keys: dict[str, None] = {}
        tied: list[sx.TiedKey] = []
        for name in self.rule.group_by or ():
            columns = self._columns(name)
            if len(set(columns.values())) == 1:
                keys |= dict.fromkeys(columns.values())
            else:
                parts = tuple(ex.Attribute(alias, each) for alias, each in columns.items())
                tied.append(sx.TiedKey(parts, name))
        return tuple(keys), tuple(tied)

    def _columns(self, name: str) -> dict[str, str]:
        """The column that each component has for a field of the group."""
        alias = self.rule.aliases.aliases.get(name)
        named = {} if alias is None else alias.mapping
        own = {str(reference.reference): other for reference, other in named.items()}
        found: dict[str, str] = {}
        for component, rule in self.used.items():
            wanted, fields = own.get(rule, name), self.parts[rule].fields
            known = self.column(wanted) if fields is None or wanted not in fields else wanted
            if fields is not None and known not in fields:
                raise CorrelationError(
                    f"it groups by {wanted}, by which the correlation {rule} does not"
                )
            found[component] = known
        return found

    def items(self, sequence: str | None, is_read: bool) -> Iterator[sx.Item]:
        """What a match returns: of each event its number and the fields of the group.

        Other correlations read rows by names that all differ, and have the key as it is.
        """
        columns = [self._columns(name) for name in self.rule.group_by or ()]
        for alias, rule in self.used.items():
            if alias in self.negated:
                continue
            is_row = self.parts[rule].fields is not None
            own = ["time" if is_row else sequence] if is_row or sequence else []
            keys = [] if is_read else [each[alias] for each in columns]
            for name in dict.fromkeys([*own, *keys]):
                assert name is not None
                yield sx.Item(ex.Attribute(alias, name), f"{alias}_{name}" if is_read else None)
            if not own and not keys and not is_read:
                yield sx.Item(alias)
        from workloads.sigma.rules import described

        yield from described(self.rule)


def _labels(rule: SigmaCorrelationRule, taken: Collection[str]) -> Iterator[sx.KeyLabel]:
    """What each row of a count says of its rule, in its key."""
    from workloads.sigma.rules import described

    for item in described(rule):
        name = str(item.name)
        while name in taken:
            name += "_"
        assert isinstance(item.value, ex.Literal)
        yield sx.KeyLabel(str(item.value.value), name)


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
    return ex.Call(function, ex.Function("number", attribute))


def _having(condition: Any, count: ex.Expression) -> ex.Expression:
    if not isinstance(condition, SigmaCorrelationCondition):
        raise CorrelationError("a count needs a condition such as 'gte: 10'")
    number = ex.Literal(condition.count)
    if condition.op is SigmaCorrelationConditionOperator.NEQ:
        return ex.Comparison("!=", count, number)
    return ex.Comparison(_OPERATORS[condition.op], count, number)


def _fewest(condition: Any, number: int) -> int:
    """How many of its rules have to occur, by a condition such as `gte: 2`."""
    if not isinstance(condition, SigmaCorrelationCondition):
        return number
    count, op = condition.count, condition.op
    if op is SigmaCorrelationConditionOperator.GT:
        count, op = count + 1, SigmaCorrelationConditionOperator.GTE
    exact = op is SigmaCorrelationConditionOperator.EQ and count == number
    if op is not SigmaCorrelationConditionOperator.GTE and not exact:
        raise CorrelationError("its condition asks that some of its rules do not occur")
    if not isinstance(count, int) or not 1 <= count <= number:
        raise CorrelationError(f"its condition asks for {count} of {number} rules")
    return count


def _timespan(rule: SigmaCorrelationRule) -> sx.Duration:
    span = rule.timespan
    if span.unit not in _SECONDS:
        raise CorrelationError(f"its timespan of {span.spec} has no fixed length")
    return sx.Duration(Decimal(span.count * _SECONDS[span.unit]), "s")
