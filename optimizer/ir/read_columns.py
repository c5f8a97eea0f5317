"""What queries read of events: columns, and conditions that compare one of them with constants."""

from __future__ import annotations

from optimizer.ir.pattern import events
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
        expressions = list(query.conditions)
        expressions += [p for event in events(query.pattern) for p in event.symbol.predicates]
        expressions += [
            condition
            for event in events(query.pattern)
            if (condition := stream.types.get(event.symbol.type)) is not None
        ]
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
