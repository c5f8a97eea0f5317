"""Are the values of a condition of kinds that can be compared?

Kinds come from the declared attributes, and within one query from how an attribute is used:
compared with a number here, it cannot be compared with a string there.
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads import expressions as ex
from workloads.errors import QueryError, Span

_FAMILY = {"int": "number", "float": "number", "string": "string", "bool": "bool", "time": "time"}
_ORDERED = ("number", "string", "time")


class KindChecker:
    """Checks expressions one after the other, remembering what they say of each attribute."""

    def __init__(self, declared: Mapping[str, str]) -> None:
        self._known: dict[str, str] = {name: _FAMILY[kind] for name, kind in declared.items()}

    def check(self, expression: ex.Expression) -> None:
        """Raise `QueryError` where two values cannot be compared or computed with."""
        for node in ex.walk(expression):
            match node:
                case ex.Comparison(operator, left, right):
                    self._agree(left, right, node.span)
                    kind = self.kind(left) or self.kind(right)
                    if operator not in ("=", "!=") and kind is not None and kind not in _ORDERED:
                        raise QueryError(f"values of kind {kind} have no order", node.span)
                case ex.Membership(operand, values):
                    for value in values:
                        self._agree(operand, value, node.span)
                case ex.Arithmetic(operator, left, right):
                    for side in (left, right):
                        self._expect(side, "number", f"'{operator}'")
                case ex.Negative(operand):
                    self._expect(operand, "number", "'-'")
                case ex.Call(function, ex.Attribute() as argument) if function in ("sum", "avg"):
                    self._expect(argument, "number", function)
                case ex.Logical(_, parts):
                    for part in parts:
                        _expect_condition(part)
                case ex.Not(operand):
                    _expect_condition(operand)
                case _:
                    pass

    def kind(self, expression: ex.Expression) -> str | None:
        """The kind of a value, or None where nothing is known about it."""
        match expression:
            case ex.Literal(value):
                return _literal_kind(value)
            case ex.Attribute(_, name):
                return self._known.get(name)
            case ex.Arithmetic() | ex.Negative():
                return "number"
            case ex.Call("count" | "sum" | "avg"):
                return "number"
            case ex.Call(_, argument) if argument is not None:
                return self.kind(argument)
            case _:
                return "bool"

    def _agree(self, left: ex.Expression, right: ex.Expression, span: Span) -> None:
        first, second = self.kind(left), self.kind(right)
        if first is not None and second is not None and first != second:
            raise QueryError(
                f"a {first} cannot be compared with a {second}",
                span,
                self._why(left, first) or self._why(right, second),
            )
        for side, other in ((left, second), (right, first)):
            if isinstance(side, ex.Attribute) and other is not None:
                self._known[side.name] = other

    def _expect(self, expression: ex.Expression, wanted: str, user: str) -> None:
        found = self.kind(expression)
        if found is not None and found != wanted:
            raise QueryError(
                f"{user} takes a {wanted}, not a {found}",
                expression.span,
                self._why(expression, found),
            )
        if isinstance(expression, ex.Attribute):
            self._known[expression.name] = wanted

    def _why(self, expression: ex.Expression, kind: str) -> str | None:
        if isinstance(expression, ex.Attribute):
            return f"'{expression.name}' is a {kind} by its declaration or by an earlier use"
        return None


def _literal_kind(value: ex.Value) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "bool"
        case str():
            return "string"
        case _:
            return "number"


def _expect_condition(expression: ex.Expression) -> None:
    literal = isinstance(expression, ex.Literal) and isinstance(expression.value, bool)
    if not isinstance(expression, ex.CONDITIONS) and not literal:
        raise QueryError("this is a value, not a condition", expression.span, "compare it with one")


def check_condition(expression: ex.Expression, checker: KindChecker) -> None:
    """A whole condition: true or false at its top, and its values comparable."""
    _expect_condition(expression)
    checker.check(expression)
