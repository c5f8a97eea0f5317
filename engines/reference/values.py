"""Values and conditions over bound events, one at a time."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

from engines.reference.texts import of_several, of_value, text_test
from workloads import expressions as ex

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """An event: compared by identity, ordered by `key` (time, then sequence where there is one).

    What a query made has a `start`: it is before what starts when it has ended.
    """

    key: tuple[int, ...]
    position: int  # its time, or its rank for a window counted in events
    values: Mapping[str, Any]
    start: int | None = None

    @property
    def opens(self) -> int:
        """Where a window must begin before, to hold it."""
        return self.position if self.start is None else self.start

    def before(self, other: Row) -> bool:
        """Has it ended when another starts?"""
        if self.start is None and other.start is None:
            return self.key < other.key
        return self.key[0] < other.opens


Binding = dict[str, tuple[Row, ...]]


def true(condition: ex.Expression, bound: Binding) -> bool:
    """A condition; for each event of a group that it speaks of event by event."""
    looks_back = ex.prev_alias(condition)
    if looks_back is not None:
        return all(
            holds_behind(condition, looks_back, e, before, bound)
            for e, before in neighbours(bound[looks_back])
        )
    if ex.has_group_call(condition):
        return bool(value(condition, bound))
    names = sorted(ex.aliases(condition))
    return all(
        value(condition, {name: (row,) for name, row in zip(names, choice, strict=True)})
        for choice in itertools.product(*(bound[name] for name in names))
    )


def neighbours(group: tuple[Row, ...]) -> Iterator[tuple[Row, Row]]:
    """The events of a group that are not first, each with those of it just before."""
    for e in group:
        earlier = [other for other in group if other.key < e.key]
        latest = max((other.key for other in earlier), default=None)
        yield from ((e, other) for other in earlier if other.key == latest)


def holds_behind(condition: ex.Expression, alias: str, e: Row, before: Row, bound: Binding) -> bool:
    """A condition with `prev`, of an event of a component and the one just before it."""

    def change(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Call) and isinstance(node.argument, ex.Attribute):
            return ex.Attribute(f"before {alias}", node.argument.name)
        return node

    two: Binding = {alias: (e,), f"before {alias}": (before,)}
    return true(ex.transform(condition, change), bound | two)


def value(
    expression: ex.Expression,
    bound: Binding,
    aggregate: Callable[[ex.Call], Any] | None = None,
) -> Any:
    """The value of an expression; `aggregate` gives that of a call where matches are aggregated."""

    def of(part: ex.Expression) -> Any:
        return value(part, bound, aggregate)

    match expression:
        case ex.Literal(constant):
            return constant
        case ex.Attribute(alias, name):
            return bound[alias][0].values[name]
        case ex.Call() if aggregate is not None:
            return aggregate(expression)
        case ex.Call(function, ex.Attribute(alias, name)):
            return over([row.values[name] for row in in_order(bound[alias])], function)
        case ex.Nanoseconds(operand, tick):
            return nanoseconds(of(operand), tick)
        case ex.Negative(operand):
            return None if (number := of(operand)) is None else -number
        case ex.Arithmetic(symbol, left, right):
            a, b = of(left), of(right)
            null = a is None or b is None or (symbol in "/%" and b == 0)
            return None if null else _COMPUTE[symbol](a, b)
        case ex.Comparison(symbol, left, right):
            return any(_COMPARE[symbol](a, b) for a in each(of(left)) for b in each(of(right)))
        case ex.Membership(operand, literals, negated):
            listed = [v.value for v in literals if v.value is not None]
            return any((one in listed) != negated for one in each(of(operand)))
        case ex.Function(name, operand, constants):
            found = of(operand)
            if isinstance(found, list):
                return [of_value(name, one, constants) for one in found]
            return of_value(name, found, constants)
        case ex.JointFunction(name, arguments):
            return of_several(name, [of(argument) for argument in arguments])
        case ex.TextTest(test, operand, patterns, every, negated):
            asked = [each(of(pattern)) for pattern in patterns]
            if negated and not all(asked):
                return False  # compared with a null
            together = all if every else any
            return any(
                together(any(text_test(test, one, p) for p in some) for some in asked) != negated
                for one in each(of(operand))
            )
        case ex.EntryTest(_, condition):
            return any(value(condition, entry) for entry in _entries(expression, bound))
        case ex.IsNull(operand, negated):
            return (of(operand) is None) != negated
        case ex.Not(operand):
            return not of(operand)
        case ex.Logical("AND", parts):
            return all(of(part) for part in parts)
        case ex.Logical(_, parts):
            return any(of(part) for part in parts)
        case _:
            raise AssertionError(f"not an expression of a bound query: {expression}")


def _entries(test: ex.EntryTest, bound: Binding) -> Iterator[Binding]:
    """The bound events, for each entry of a list with the entry's own fields in place of lists."""
    alias = test.listed.alias
    row = bound[alias][0]
    nodes = [node for node in ex.walk(test.condition) if isinstance(node, ex.Attribute)]
    read = {node.name: row.values[node.name] for node in nodes if node.alias == alias}
    fields = {n: v for n, v in read.items() if test.has(n) and isinstance(v, list)}
    for place in range(max(map(len, fields.values()), default=0)):
        own = {name: values[place] for name, values in fields.items()}
        yield {**bound, alias: (replace(row, values=read | own),)}


def nanoseconds(time: Any, tick: int) -> int | None:
    """A time in nanoseconds: a timestamp or a day, or a number of ticks of so many."""
    if isinstance(time, datetime):
        since = time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        whole = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
        return whole + int(getattr(since, "nanoseconds", 0))
    if isinstance(time, date):
        return (time - date(1970, 1, 1)).days * 86_400 * 10**9
    return None if time is None else time * tick


def each(found: Any) -> list[Any]:
    """The values that a comparison looks at: those of a list, and no null."""
    return [one for one in (found if isinstance(found, list) else [found]) if one is not None]


def in_order(group: tuple[Row, ...]) -> list[Row]:
    """A group in an order that does not depend on the order of arrival."""
    return sorted(group, key=lambda e: (e.key, repr(sorted(e.values.items()))))


def _float_sum(values: list[float]) -> float:
    """The sum, rounded once; infinite beyond the doubles."""
    if not all(map(math.isfinite, values)):
        return sum(values)
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _spread(function: str, known: list[Any]) -> float | None:
    """The variance of a sample, or with `_pop` of all there are, or its root.

    It is no number where a value is infinite, or where it is beyond the doubles itself.
    """
    number = len(known) if function.endswith("_pop") else len(known) - 1
    if number == 0:
        return None
    if not all(map(math.isfinite, known)):
        return math.nan
    exact = list(map(Fraction, known))
    mean = sum(exact, Fraction(0)) / len(exact)
    try:
        variance = float(sum(((v - mean) ** 2 for v in exact), Fraction(0)) / number)
    except OverflowError:
        return math.nan
    return math.sqrt(variance) if function.startswith("stddev") else variance


def over(values: list[Any], function: str) -> Any:
    """An aggregate of values; nulls are skipped, and nothing gives null (but a count 0)."""
    known = [v for v in values if v is not None]
    if function == "count":
        return len(known)
    if function == "count distinct":
        return len(set(known))
    if not known:
        return None
    total = sum if all(isinstance(v, int) for v in known) else _float_sum
    match function:
        case "sum":
            return total(known)
        case "avg":
            return total(known) / len(known)
        case "min":
            return min(known)
        case "max":
            return max(known)
        case "var" | "var_pop" | "stddev" | "stddev_pop":
            return _spread(function, known)
        case "first":
            return known[0]
        case _:
            return known[-1]
