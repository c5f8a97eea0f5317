"""Conditions on texts as they are written: case ignored by lower case, patterns checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from workloads import expressions as ex
from workloads.errors import NOWHERE, QueryError, Span
from workloads.limits import MAX_LISTED

_WORDS = {"STARTS": "STARTS WITH", "ENDS": "ENDS WITH", "ILIKE": "LIKE"}
_PATTERNS_ONLY = ("LIKE", "MATCHES", "IN CIDR")


def lower(text: str) -> str:
    """A text in lower case, character by character: its length and what it contains stay."""
    if text.isascii():
        return text.lower()
    return "".join(character.lower()[0] for character in text)


def upper(text: str) -> str:
    """A text in upper case, character by character; one without a single such one stays."""
    if text.isascii():
        return text.upper()
    return "".join(map(_upper, text))


def _upper(character: str) -> str:
    for found in (character.upper(), character.title()):
        if len(found) == 1:
            return found
    return character


def lowered(operand: ex.Expression) -> ex.Expression:
    """A value in lower case; a constant at once."""
    match operand:
        case ex.Literal(str() as text, span):
            return ex.Literal(lower(text), span)
        case ex.Literal() | ex.Function("lower"):
            return operand
        case _:
            return ex.Function("lower", operand, (), operand.span)


def membership_without_case(found: ex.Membership) -> ex.Membership:
    values = tuple(lowered(value) for value in found.values)
    listed = tuple(value for value in values if isinstance(value, ex.Literal))
    return ex.Membership(lowered(found.operand), listed, found.negated, found.span)


def text_test(
    operand: ex.Expression,
    word: Any,
    with_: Any,
    every: bool,
    patterns: list[ex.Expression],
    negated: bool,
    nocase: bool,
    span: Span,
) -> ex.TextTest:
    """`operand [NOT] CONTAINS ANY (patterns) NOCASE`, from its words."""
    written = str(word).upper()
    needs_with = written in ("STARTS", "ENDS")
    if needs_with != (with_ is not None):
        right = f"{written} WITH" if needs_with else written
        raise QueryError(f"'{written}' is written {right} here", span, f"write a.x {right} 'text'")
    if len(patterns) > MAX_LISTED:
        raise QueryError(
            f"more than {MAX_LISTED:,} patterns", span, "leave some out, or split the query"
        )
    name = _WORDS.get(written, written)
    operator = next(known for known in get_args(ex.TextOperator) if known == name)
    if written == "ILIKE" or nocase:
        if operator == "MATCHES":
            patterns = [_ignoring_case(pattern) for pattern in patterns]
        else:
            operand = lowered(operand)
            patterns = [lowered(pattern) for pattern in patterns]
    return ex.TextTest(
        operator, operand, tuple(patterns), every and len(patterns) > 1, negated, span
    )


def _ignoring_case(pattern: ex.Expression) -> ex.Expression:
    if isinstance(pattern, ex.Literal) and isinstance(pattern.value, str):
        return ex.Literal("(?i)" + pattern.value, pattern.span)
    return pattern


def function(name: str, arguments: list[ex.Expression], span: Span) -> ex.Function:
    """`substring(operand, 2, 3)`, from its arguments."""
    operand, *rest = arguments
    least, most = ex.VALUE_FUNCTIONS[name]
    if not least <= len(rest) <= most:
        example = "substring(a.x, 2) or substring(a.x, 2, 5)" if most else f"{name}(a.x)"
        raise QueryError(f"{name} takes {_counted(least, most)}", span, f"write {example}")
    constants: list[int] = []
    for part in rest:
        if not (
            isinstance(part, ex.Literal) and type(part.value) is int and abs(part.value) < 2**31
        ):
            raise QueryError(
                f"{name} takes whole numbers for where it starts and how long it is",
                part.span,
                "write substring(a.x, 2, 5): five characters from the second on",
            )
        constants.append(part.value)
    return ex.Function(name, operand, tuple(constants), span)


def of_one_value(name: str, arguments: Sequence[ex.Expression]) -> bool:
    """Is it a function of one value, with constants behind it, if with any?"""
    rest = arguments[1:]
    return name in ex.VALUE_FUNCTIONS and all(isinstance(part, ex.Literal) for part in rest)


def joint_function(
    name: str, arguments: Sequence[ex.Expression], span: Span = NOWHERE
) -> ex.JointFunction:
    """`concat(a.x, b.y)`, from its arguments."""
    least, most = ex.JOINT_FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        raise QueryError(
            f"{name} takes {least} to {most} values, not {len(arguments)}",
            span,
            "write concat(a.x, '-', a.y), slice(a.x, 0, 5), index_of(a.x, 'text') or "
            "between(a.x, '(', ')')",
        )
    return ex.JointFunction(name, tuple(arguments), span)


def entry_test(arguments: Sequence[ex.Expression], span: Span = NOWHERE) -> ex.EntryTest:
    """`any_entry(a.calls, a.calls.name = 'x' AND a.calls.done)`, from its arguments."""
    match arguments:
        case [ex.Attribute() as listed, condition] if isinstance(condition, ex.CONDITIONS):
            return ex.EntryTest(listed, condition, span)
    raise QueryError(
        f"{ex.ANY_ENTRY} takes a list and a condition on its entries",
        span,
        "write any_entry(a.calls, a.calls.name = 'x' AND a.calls.size > 5)",
    )


def _counted(least: int, most: int) -> str:
    return "one value" if most == 0 else f"a value and {least} or {most} numbers"


def check_patterns(test: ex.TextTest) -> None:
    """Refuse a regular expression that is none, a network that is none, and patterns of fields."""
    for pattern in test.patterns:
        if not isinstance(pattern, ex.Literal):
            if test.operator in _PATTERNS_ONLY:
                raise QueryError(
                    f"{test.operator} takes a pattern in single quotes, not a field",
                    pattern.span,
                    "CONTAINS, STARTS WITH and ENDS WITH take fields too",
                )
            continue
        value = pattern.value
        if value is None:
            continue
        if not isinstance(value, str):
            raise QueryError(
                f"{test.operator} takes texts, and this is {value!r}",
                pattern.span,
                "write it in single quotes",
            )
        if test.operator == "MATCHES":
            _check_regex(value, pattern.span)
        elif test.operator == "IN CIDR":
            _check_network(value, pattern.span)


def _check_regex(text: str, span: Span) -> None:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise QueryError(
            f"no regular expression of RE2: {reason}",
            span,
            "RE2 has no look-around and no back-references; see github.com/google/re2/wiki/Syntax",
        ) from None


def _check_network(text: str, span: Span) -> None:
    import ipaddress

    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise QueryError(
            f"'{text[:60]}' is no network of addresses", span, "write it such as '10.0.0.0/8'"
        ) from None
