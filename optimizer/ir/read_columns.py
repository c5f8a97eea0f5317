"""What queries read of events: columns, conditions that compare one of them with constants, and
conditions on texts.

A symbol speaks of texts where a condition of it tests a text, or what a function makes of a value.
The events of such symbols are found by an index of conditions, the others by attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from optimizer.ir.pattern import Symbol, events
from optimizer.ir.query import BoundWorkload, ReturnAttribute
from workloads import expressions as ex


def columns_of(workload: BoundWorkload) -> dict[str, str]:
    """The columns of the stream that the queries read, with their kinds where these are known."""
    stream = workload.stream
    found = {stream.time: "time"}
    if stream.type is not None:
        found[stream.type] = "string"
    if stream.sequence is not None:
        found[stream.sequence] = "int"
    read: set[str] = set()
    for query in workload.queries:
        read.update(query.key)
        read.update(column for key in query.tied_key for _, column in key.columns)
        read.update(*(key.tested_columns for key in query.groups))
        expressions = list(query.conditions)
        expressions += [p for event in events(query.pattern) for p in event.symbol.predicates]
        named = (*(event.symbol.type for event in events(query.pattern)), *query.window.of)
        expressions += [said for name in named if (said := stream.types.get(name)) is not None]
        for item in query.output.items:
            operand = getattr(item, "operand", None) or getattr(item, "value", None)
            if operand is not None:
                expressions.append(operand)
            if isinstance(item, ReturnAttribute):
                read.add(item.attribute)
        read.update(*map(ex.attributes, expressions))
    for name in sorted(read - found.keys() - {"time"}):
        found[name] = stream.attributes.get(name, "any")
    return found


def constant_attribute(condition: ex.Expression) -> str | None:
    """The attribute that a condition compares with constants alone; None for any other one."""
    names: set[str] = set()
    return names.pop() if _is_constant_test(condition, names) and len(names) == 1 else None


def _is_constant_test(condition: ex.Expression, names: set[str]) -> bool:
    match condition:
        case ex.Comparison(_, ex.Attribute(_, name), other) | ex.Comparison(
            _, other, ex.Attribute(_, name)
        ):
            names.add(name)
            return _constant(other) is not None
        case ex.Membership(ex.Attribute(_, name), _) | ex.IsNull(ex.Attribute(_, name)):
            names.add(name)
            return True
        case ex.Not(operand):
            return _is_constant_test(operand, names)
        case ex.Logical(_, parts):
            return all(_is_constant_test(part, names) for part in parts)
        case _:
            return False


def _constant(expression: ex.Expression) -> ex.Literal | None:
    if isinstance(expression, ex.Negative):
        expression = expression.operand
    return expression if isinstance(expression, ex.Literal) else None


@dataclass(frozen=True, slots=True)
class TextConditions:
    """How many different atomic conditions symbols have, and how often they ask for one."""

    conditions: int
    asked: int
    attributes: int


def conditions_with_type(
    symbol: Symbol, types: Mapping[str, ex.Expression | None]
) -> tuple[ex.Expression, ...]:
    """What an event must satisfy to be of a symbol, where the workload says what its type is."""
    condition = types.get(symbol.type)
    return symbol.predicates if condition is None else (*symbol.predicates, condition)


def text_conditions(
    symbols: Iterable[Symbol], types: Mapping[str, ex.Expression | None]
) -> TextConditions | None:
    """The atomic conditions of the symbols that speak of texts; None where there are none such."""
    found: set[ex.Expression] = set()
    asked = 0
    for symbol in symbols:
        conditions = conditions_with_type(symbol, types)
        if ex.speak_of_texts(conditions):
            own = {atom for condition in conditions for atom in _atoms(condition)}
            asked += len(own)
            found |= own
    if not found:
        return None
    names = frozenset().union(*map(ex.attributes, found))
    return TextConditions(len(found), asked, len(names))


def _atoms(condition: ex.Expression) -> Iterator[ex.Expression]:
    match condition:
        case ex.Not(operand):
            yield from _atoms(operand)
        case ex.Logical(_, parts):
            for part in parts:
                yield from _atoms(part)
        case _:
            yield condition
