"""One spelling for each predicate, so that equal predicates are equal values."""

from __future__ import annotations

from workloads import expressions as ex
from workloads.printer import print_expression

_MIRRORED: dict[ex.ComparisonOperator, ex.ComparisonOperator] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def canonical(expression: ex.Expression) -> ex.Expression:
    """The same condition with `>` turned into `<`, sides of `=` and parts of AND and OR in order.

    `5 < a.x -> a.x > 5` where one side is constant; without spans.
    """
    match expression:
        case ex.Comparison(operator, left, right):
            first, second = canonical(left), canonical(right)
            if _rank(first) > _rank(second):
                return ex.Comparison(_MIRRORED[operator], second, first)
            return ex.Comparison(operator, first, second)
        case ex.Logical(operator, parts):
            flat = [
                inner
                for part in map(canonical, parts)
                for inner in (
                    part.parts
                    if isinstance(part, ex.Logical) and part.operator == operator
                    else (part,)
                )
            ]
            ordered = ordered_unique(flat)
            return ordered[0] if len(ordered) == 1 else ex.Logical(operator, ordered)
        case ex.Not(operand):
            return ex.Not(canonical(operand))
        case ex.Negative(operand):
            return ex.Negative(canonical(operand))
        case ex.Arithmetic(arithmetic, left, right):
            return ex.Arithmetic(arithmetic, canonical(left), canonical(right))
        case ex.IsNull(operand, negated):
            return ex.IsNull(canonical(operand), negated)
        case ex.Membership(operand, values, negated):
            listed = {print_expression(v): ex.Literal(v.value) for v in values}
            return ex.Membership(
                canonical(operand), tuple(listed[k] for k in sorted(listed)), negated
            )
        case ex.Call(function, argument):
            return ex.Call(function, None if argument is None else canonical(argument))
        case ex.Attribute(alias, name):
            return ex.Attribute(alias, name)
        case ex.Literal(value):
            return ex.Literal(value)
        case ex.Equivalence(names):
            return ex.Equivalence(tuple(sorted(set(names))))


def ordered_unique(expressions: list[ex.Expression]) -> tuple[ex.Expression, ...]:
    """Each once, in the order of their spelling."""
    by_text = {print_expression(e): e for e in expressions}
    return tuple(by_text[text] for text in sorted(by_text))


def _rank(expression: ex.Expression) -> tuple[bool, str]:
    """Constants last, then by spelling."""
    return isinstance(expression, ex.Literal), print_expression(expression)
