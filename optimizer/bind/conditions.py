"""Conditions: the kinds of their values, one canonical form and order, and the keys that they
make.
"""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.ir.pattern import Pattern, events
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, SheafError, Span
from workloads.printing import print_expression
from workloads.texts import check_patterns

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
    try:
        return expression.known_canonical
    except AttributeError:
        return expression.keep("known_canonical", _canonical(expression))


def _canonical(expression: ex.Expression) -> ex.Expression:
    match expression:
        case ex.Comparison(operator, left, right):
            return canonical_node(ex.Comparison(operator, canonical(left), canonical(right)))
        case ex.Logical(operator, parts):
            return canonical_node(ex.Logical(operator, tuple(map(canonical, parts))))
        case ex.Not(operand):
            return ex.Not(canonical(operand))
        case ex.Negative(operand):
            return ex.Negative(canonical(operand))
        case ex.Arithmetic(arithmetic, left, right):
            return ex.Arithmetic(arithmetic, canonical(left), canonical(right))
        case ex.IsNull(operand, negated):
            return ex.IsNull(canonical(operand), negated)
        case ex.Membership(operand, values, negated):
            return canonical_node(ex.Membership(canonical(operand), values, negated))
        case ex.Function(name, operand, constants):
            return ex.Function(name, canonical(operand), constants)
        case ex.EntryTest(listed, condition):
            return ex.EntryTest(ex.Attribute(listed.alias, listed.name), canonical(condition))
        case ex.JointFunction(name, arguments):
            return ex.JointFunction(name, tuple(map(canonical, arguments)))
        case ex.TextTest(test, operand, patterns, every, negated):
            known = tuple(p if isinstance(p, ex.Literal) else canonical(p) for p in patterns)
            return canonical_node(ex.TextTest(test, canonical(operand), known, every, negated))
        case ex.Nanoseconds(operand, tick):
            return ex.Nanoseconds(canonical(operand), tick)
        case ex.DurationLiteral(amount, unit):
            return ex.DurationLiteral(amount, unit)
        case ex.Call(function, argument):
            return ex.Call(function, None if argument is None else canonical(argument))
        case ex.Attribute(alias, name):
            return ex.Attribute(alias, name)
        case ex.Literal(value):
            return ex.Literal(value)
        case ex.Equivalence(names):
            return ex.Equivalence(tuple(sorted(set(names))))


def canonical_node(expression: ex.Expression) -> ex.Expression:
    """The same for an expression whose parts are canonical, and which has no span."""
    match expression:
        case ex.Comparison(operator, left, right) if _rank(left) > _rank(right):
            return ex.Comparison(_MIRRORED[operator], right, left)
        case ex.Logical(operator, parts):
            flat = [
                inner
                for part in parts
                for inner in (
                    part.parts
                    if isinstance(part, ex.Logical) and part.operator == operator
                    else (part,)
                )
            ]
            ordered = ordered_unique(flat)
            return ordered[0] if len(ordered) == 1 else ex.Logical(operator, ordered)
        case ex.Membership(operand, values, negated):
            listed = {print_expression(v): ex.Literal(v.value) for v in values}
            return ex.Membership(operand, tuple(listed[k] for k in sorted(listed)), negated)
        case ex.TextTest(test, operand, patterns, every, negated):
            kept = {
                print_expression(p): ex.Literal(p.value) if isinstance(p, ex.Literal) else p
                for p in patterns
            }
            ordered_patterns = tuple(kept[k] for k in sorted(kept))
            every = every and len(ordered_patterns) > 1
            return ex.TextTest(test, operand, ordered_patterns, every, negated)
        case _:
            return expression


def ordered_unique(expressions: list[ex.Expression]) -> tuple[ex.Expression, ...]:
    """Each once, in the order of their spelling."""
    by_text = {print_expression(e): e for e in expressions}
    return tuple(by_text[text] for text in sorted(by_text))


def _rank(expression: ex.Expression) -> tuple[bool, str]:
    """Constants last, then by spelling."""
    return isinstance(expression, ex.Literal), print_expression(expression)


def tied_attributes(
    pattern: Pattern, conditions: list[ex.Expression]
) -> tuple[list[str], list[ex.Expression]]:
    """The attributes that chains of equalities tie over the whole pattern, and what remains."""
    aliases = {event.alias for event in events(pattern)}
    ties: dict[str, list[tuple[str, str]]] = {}
    for condition in conditions:
        name = _tie(condition)
        if name is not None:
            first, second = sorted(ex.aliases(condition))
            ties.setdefault(name, []).append((first, second))
    tied = [name for name, edges in ties.items() if _reached(edges) == aliases]
    return tied, [c for c in conditions if _tie(c) not in tied]


def _tie(condition: ex.Expression) -> str | None:
    """The attribute of `a.x = b.x`; None for any other condition."""
    match condition:
        case ex.Comparison("=", ex.Attribute(a, x), ex.Attribute(b, y)) if x == y and a != b:
            return x
        case _:
            return None


def _reached(edges: list[tuple[str, str]]) -> set[str]:
    """The aliases that the edges connect to those of the first one."""
    reached = set(edges[0])
    while True:
        # One more step from what is reached; with few aliases nothing cleverer is needed.
        further = {alias for edge in edges if not reached.isdisjoint(edge) for alias in edge}
        if further <= reached:
            return reached
        reached |= further


def key_span(query: sx.Query, name: str) -> Span:
    """Where an attribute of the key is named: in PARTITION BY, or in brackets."""
    for named, span in zip(query.partition_by, query.partition_spans, strict=False):
        if named == name:
            return span
    for node in ex.walk(query.where) if query.where is not None else ():
        if isinstance(node, ex.Equivalence) and name in node.attributes:
            return node.span
    return Span(0, 0)


_FAMILY = {"int": "number", "float": "number", "string": "string", "bool": "bool", "time": "time"}
# What functions of several values take; `concat` takes any.
_TAKEN = {
    "slice": ("string", "number", "number"),
    "index_of": ("string", "string", "number"),
    "between": ("string", "string", "string", "bool"),
}
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
                case ex.TextTest(test, operand, patterns):
                    check_patterns(node)
                    self._expect(operand, "string", test)
                    for pattern in patterns:
                        if not isinstance(pattern, ex.Literal):
                            self._expect(pattern, "string", test)
                case ex.Function(name, operand) if name not in ("text", "number"):
                    self._expect(operand, "string", name)
                case ex.JointFunction(name, arguments) if name != "concat":
                    for argument, wanted in zip(arguments, _TAKEN[name], strict=False):
                        self._expect(argument, wanted, name)
                case ex.Arithmetic(operator, left, right):
                    for side in (left, right):
                        self._expect(side, "number", f"'{operator}'")
                case ex.Negative(operand):
                    self._expect(operand, "number", "'-'")
                case ex.DurationLiteral():
                    raise QueryError(
                        "a duration stands where none is taken",
                        node.span,
                        "WHERE and RETURN take them, such as b.time - a.time < 5 s",
                    )
                case ex.Call("sum" | "avg" as function, argument) if argument is not None:
                    self.check_number(argument, function)
                case ex.Logical(_, parts):
                    for part in parts:
                        _expect_condition(part)
                case ex.Not(operand):
                    _expect_condition(operand)
                case _:
                    pass

    def check_number(self, expression: ex.Expression, user: str) -> None:
        """Raise where something that takes numbers gets another value."""
        self._expect(expression, "number", user)

    def kind(self, expression: ex.Expression) -> str | None:
        """The kind of a value, or None where nothing is known about it."""
        match expression:
            case ex.Literal(value):
                return _literal_kind(value)
            case ex.Attribute(_, name):
                return self._known.get(name)
            case ex.Arithmetic() | ex.Negative() | ex.Nanoseconds():
                return "number"
            case ex.Call("count" | "count distinct" | "sum" | "avg") | ex.Function(
                "length" | "number"
            ):
                return "number"
            case ex.JointFunction("index_of"):
                return "number"
            case ex.Function() | ex.JointFunction():
                return "string"
            case ex.Call("var" | "stddev" | "var_pop" | "stddev_pop"):
                return "number"
            case ex.Call(function, argument) if argument is not None:
                # Of a function that there is not, as is said in its place, nothing is known.
                known = function in (*ex.GROUP_FUNCTIONS, ex.PREV, ex.PREVIOUS)
                return self.kind(argument) if known else None
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
            hint = self._why(expression, found)
            if wanted == "string" and found in ("number", "bool"):
                hint = f"write text({print_expression(expression)})"
            raise QueryError(f"{user} takes a {wanted}, not a {found}", expression.span, hint)
        if isinstance(expression, ex.Attribute):
            self._known[expression.name] = wanted

    def _why(self, expression: ex.Expression, kind: str) -> str | None:
        if kind == "time" and isinstance(expression, ex.Attribute):
            return "times go with durations, such as b.time - a.time < 5 s"
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


def is_readable(expression: ex.Expression) -> bool:
    """Is a condition the same again when it is read from its text?"""
    try:
        return read_condition(print_expression(expression)) == expression
    except SheafError:
        return False


def read_condition(text: object) -> ex.Expression:
    """The condition that a document has as a text."""
    from workloads.parser import parse_condition

    return canonical(parse_condition(str(text)))
