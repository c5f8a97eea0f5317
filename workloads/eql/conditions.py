"""Conditions of EQL as conditions of Sheaf: operators, wildcards, and functions.

Texts compare with case, but for `:` and operators and functions with `~`. `*` is any number of
characters and `?` one, in `:` and `like` alone; a regular expression fits a whole text.

A field that is compared with a text, a number or a truth value is read as one, whatever the type of
its column: rules name fields of Elastic's schema, and columns of events have the types they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from workloads import expressions as ex
from workloads.eql.terms import EqlError
from workloads.errors import QueryError
from workloads.texts import check_patterns, lowered

TRUE, FALSE = ex.Literal(True), ex.Literal(False)


def condition(expression: ex.Expression) -> ex.Expression | None:
    """An expression as a condition; None where it always holds."""
    found = _truth(expression)
    return None if found == TRUE else found


def _truth(expression: ex.Expression) -> ex.Expression:
    match expression:
        case ex.Literal(bool()):
            return expression
        case ex.Literal(None):
            return FALSE
        case ex.Attribute():
            return _is_truth("=", expression, TRUE)
        case _ if isinstance(expression, ex.CONDITIONS):
            return expression
        case _:
            raise EqlError("a value stands where a condition is asked for")


def joined(operator: Any, parts: Sequence[ex.Expression]) -> ex.Expression:
    """Conditions put together by AND or OR, as far as they decide anything."""
    neutral, decisive = (TRUE, FALSE) if operator == "AND" else (FALSE, TRUE)
    kept = [part for part in map(_truth, parts) if part != neutral]
    if decisive in kept:
        return decisive
    if len(kept) < 2:
        return kept[0] if kept else neutral
    return ex.Logical(operator, tuple(kept))


def inverse(operand: ex.Expression) -> ex.Expression:
    found = _truth(operand)
    if isinstance(found, ex.Literal):
        return FALSE if found == TRUE else TRUE
    return ex.Not(found)


def compared(operator: str, left: ex.Expression, right: ex.Expression) -> ex.Expression:
    """`== != < <= > >=`; `= ` is the older spelling of the first."""
    word: Any = {"==": "=", "=": "="}.get(operator, operator)
    if isinstance(left, ex.Literal) and not isinstance(right, ex.Literal):
        mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
        return compared(mirrored.get(operator, operator), right, left)
    if isinstance(left, ex.CONDITIONS) and isinstance(right, ex.Literal):
        if word not in ("=", "!=") or not isinstance(right.value, bool):
            raise EqlError("a condition is compared with something else than true or false")
        return left if (word == "=") == right.value else inverse(left)
    if right == ex.Literal(None):
        if word not in ("=", "!="):
            return FALSE
        return ex.IsNull(left, word == "!=")
    if isinstance(left, ex.Literal):
        known = isinstance(right, ex.Literal) and left.value is not None
        return TRUE if known and ex.COMPARE[word](left.value, right.value) else FALSE  # type: ignore[union-attr]
    if isinstance(right, ex.Literal):
        if isinstance(right.value, bool) and word in ("=", "!="):
            return _is_truth(word, left, right)
        if _is_number(right):
            left = _number(left)
        elif word in ("=", "!="):
            left = _text(left)
    return ex.Comparison(word, left, right)


def _is_truth(word: Any, operand: ex.Expression, value: ex.Literal) -> ex.Expression:
    """A field that is true or false, or a text that says so."""
    if isinstance(operand, ex.Attribute):
        return ex.Comparison(word, _text(operand), ex.Literal("true" if value.value else "false"))
    return ex.Comparison(word, operand, value)


def _text(operand: ex.Expression) -> ex.Expression:
    return ex.Function("text", operand) if isinstance(operand, ex.Attribute) else operand


def _is_number(value: ex.Literal) -> bool:
    return isinstance(value.value, int | float) and not isinstance(value.value, bool)


def _number(operand: ex.Expression) -> ex.Expression:
    """A field as a number: one that is stored as a text is the number that it spells."""
    return ex.Function("number", operand) if isinstance(operand, ex.Attribute) else operand


def computed(operator: str, left: ex.Expression, right: ex.Expression) -> ex.Expression:
    """Arithmetic; of constants at once."""
    word: Any = operator
    match left, right:
        case ex.Literal(int() | float() as a), ex.Literal(int() | float() as b):
            if word in "/%" and b == 0:
                return ex.Literal(None)
            value = ex.COMPUTE[word](a, b)
            whole = isinstance(a, int) and isinstance(b, int)
            return ex.Literal(int(value) if whole else value)
    left, right = _number(left), _number(right)
    if operator == "/" and isinstance(right, ex.Literal) and isinstance(right.value, int):
        left = ex.Arithmetic("-", left, ex.Arithmetic("%", left, right))  # rounded down
    return ex.Arithmetic(word, left, right)


def member(operand: ex.Expression, values: Sequence[ex.Expression], nocase: bool) -> ex.Expression:
    """`in` and `in~`."""
    if nocase:
        operand, values = _lowered(operand, values), [_lowered(v, values) for v in values]
    listed = [v for v in values if isinstance(v, ex.Literal) and v.value is not None]
    truths = [v for v in listed if isinstance(v.value, bool)]
    listed = [v for v in listed if not isinstance(v.value, bool)]
    others = [compared("==", operand, v) for v in values if not isinstance(v, ex.Literal)]
    others += [_is_truth("=", operand, v) for v in truths]
    if any(v == ex.Literal(None) for v in values):
        others.append(ex.IsNull(operand))
    texts = [v for v in listed if isinstance(v.value, str)]
    numbers = [v for v in listed if not isinstance(v.value, str)]
    tests: list[ex.Expression] = []
    if texts:
        tests.append(ex.Membership(_text(operand), tuple(texts)))
    if numbers:
        tests.append(ex.Membership(_number(operand), tuple(numbers)))
    return joined("OR", [*tests, *others])


def patterned(
    operator: str, operand: ex.Expression, values: Sequence[ex.Expression]
) -> ex.Expression:
    """`:`, `like`, `regex`, and the last two with `~`."""
    nocase = operator == ":" or operator.endswith("~")
    if operator.startswith("regex"):
        return _checked(_regex(operand, values, nocase))
    plain: list[ex.Expression] = []
    tests: dict[ex.TextOperator, list[ex.Literal]] = {}
    for value in values:
        match value:
            case ex.Literal(str() as text):
                word, pattern = wildcard_test(text.lower() if nocase else text)
                if word is None:
                    plain.append(ex.Literal(pattern))
                else:
                    tests.setdefault(word, []).append(ex.Literal(pattern))
            case _:
                plain.append(value)
    read = operand
    if nocase:
        read = _lowered(operand, [*plain, *(p for some in tests.values() for p in some)])
        plain = [_lowered(v, [v]) for v in plain]
    found: list[ex.Expression] = []
    for word, patterns in tests.items():
        found.append(_checked(ex.TextTest(word, _text(read), tuple(patterns))))
    if plain:
        found.append(member(read, plain, nocase=False))
    return joined("OR", found)


def _lowered(operand: ex.Expression, values: Sequence[ex.Expression]) -> ex.Expression:
    """In lower case, where it is compared with no numbers and truth values alone."""
    if all(isinstance(v, ex.Literal) and not isinstance(v.value, str) for v in values):
        return operand
    return lowered(_text(operand))


def wildcard_test(text: str) -> tuple[ex.TextOperator | None, str]:
    """The test that a text with wildcards asks for, and its pattern; None where it has none."""
    inner = text.strip("*")
    if not re.search(r"[*?]", inner):
        if text == inner:
            return None, text
        if not inner:
            return "STARTS WITH", ""
        ahead, behind = text.startswith("*"), text.endswith("*")
        return "CONTAINS" if ahead and behind else "ENDS WITH" if ahead else "STARTS WITH", inner
    if "%" in text or "_" in text:
        wild = {"*": ".*", "?": "."}
        return "MATCHES", "(?s)^" + "".join(wild.get(c) or re.escape(c) for c in text) + "$"
    return "LIKE", text.replace("*", "%").replace("?", "_")


def _regex(operand: ex.Expression, values: Sequence[ex.Expression], nocase: bool) -> ex.TextTest:
    flags = "(?si)" if nocase else "(?s)"
    patterns = []
    for value in values:
        if not isinstance(value, ex.Literal) or not isinstance(value.value, str):
            raise EqlError("a regular expression is a text")
        patterns.append(ex.Literal(f"{flags}^(?:{value.value})$"))
    return ex.TextTest("MATCHES", _text(operand), tuple(patterns))


def _checked(test: ex.TextTest) -> ex.TextTest:
    try:
        check_patterns(test)
    except QueryError as error:
        raise EqlError(error.message) from None
    return test


# --- functions ------------------------------------------------------------------------------------

_TESTS: dict[str, ex.TextOperator] = {
    "startswith": "STARTS WITH",
    "endswith": "ENDS WITH",
    "stringcontains": "CONTAINS",
}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%"}


def called(name: str, arguments: list[ex.Expression]) -> ex.Expression:
    """A function of EQL; `~` behind its name ignores case."""
    word, nocase = name.rstrip("~").lower(), name.endswith("~")
    if word not in FUNCTIONS:
        raise EqlError(f"the function {name} is not taken")
    least, most, function = FUNCTIONS[word]
    if not least <= len(arguments) <= most:
        raise EqlError(f"{name} takes {least} to {most} arguments, not {len(arguments)}")
    return function(word, arguments, nocase)


def _text_test(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    operand, *patterns = map(_text, arguments)
    if nocase:
        operand, patterns = lowered(operand), [lowered(p) for p in patterns]
    return _checked(ex.TextTest(_TESTS[word], operand, tuple(patterns)))


def _cidr(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    operand, *networks = arguments
    if not all(isinstance(n, ex.Literal) and isinstance(n.value, str) for n in networks):
        raise EqlError("cidrMatch takes networks as texts")
    return _checked(ex.TextTest("IN CIDR", _text(operand), tuple(networks)))


def _wildcard(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    return patterned("like~" if nocase else "like", arguments[0], arguments[1:])


def _match(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    return patterned("regex~" if nocase else "regex", arguments[0], arguments[1:])


def _length(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    return ex.Function("length", _text(arguments[0]))


def _converted(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    if len(arguments) > 1:
        raise EqlError("number with a base is not taken")
    return ex.Function("text" if word == "string" else "number", arguments[0])


def _arithmetic(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    return computed(_ARITHMETIC[word], *arguments)


def _contains(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    return member(arguments[0], arguments[1:], nocase)


def _substring(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    operand, *bounds = arguments
    numbers = [b.value for b in bounds if isinstance(b, ex.Literal) and isinstance(b.value, int)]
    if len(numbers) < len(bounds):
        return ex.JointFunction("slice", (_text(operand), *bounds))
    return ex.Function("slice", _text(operand), tuple(numbers))


def _concat(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    return ex.JointFunction("concat", tuple(arguments))


def _searched(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    """`indexOf` and `between`, whose texts are the first two, or three."""
    name, texts = ("index_of", 2) if word == "indexof" else ("between", 3)
    if nocase and word == "between":
        raise EqlError("between~ is not taken: it gives back a text in its own case")
    given = [lowered(_text(a)) if nocase else _text(a) for a in arguments[:texts]]
    return ex.JointFunction(name, (*given, *arguments[texts:]))


def _array_search(word: str, arguments: list[ex.Expression], nocase: bool) -> ex.Expression:
    """`_arraysearch(list, $entry, condition)`: the condition holds for an entry of the list.

    A test of a list holds if it does for one of its values, so that one test of an entry is asked
    of the lists of its fields; several are asked of one entry after the other.
    """
    listed, variable, asked = arguments
    if not isinstance(listed, ex.Attribute) or not isinstance(variable, ex.Attribute):
        raise EqlError(f"{word} takes a field, a variable such as $entry, and a condition")
    test = _truth(asked)
    if isinstance(test, ex.Literal):
        raise EqlError(f"{word} asks nothing of an entry")

    def change(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Attribute) and _is_of(variable.name, node.name):
            return ex.Attribute(listed.alias, listed.name + node.name[len(variable.name) :])
        return node

    of_entry = ex.transform(test, change)
    return ex.EntryTest(listed, of_entry) if any(map(_is_joint, ex.walk(of_entry))) else of_entry


def _is_joint(node: ex.Expression) -> bool:
    """Does it differ for one entry from what its fields come to in any entries?"""
    match node:
        case ex.Not() | ex.IsNull() | ex.Logical("AND"):
            return True
        case _:
            return False


def _is_of(variable: str, name: str) -> bool:
    return name == variable or name.startswith(variable + ".")


def check_variables(condition: ex.Expression) -> None:
    """Refuse a variable that no list has."""
    for node in ex.walk(condition):
        if isinstance(node, ex.Attribute) and node.name.startswith("$"):
            raise EqlError(f"{node.name} stands outside of a search in a list")


Function = Callable[[str, list[ex.Expression], bool], ex.Expression]
MANY = 10_000
# By name in lower case: the fewest and the most arguments, and what it comes to.
FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    **dict.fromkeys(_TESTS, (2, MANY, _text_test)),
    **dict.fromkeys(_ARITHMETIC, (2, 2, _arithmetic)),
    "cidrmatch": (2, MANY, _cidr),
    "wildcard": (2, MANY, _wildcard),
    "match": (2, MANY, _match),
    "length": (1, 1, _length),
    "number": (1, 2, _converted),
    "string": (1, 1, _converted),
    "arraycontains": (2, MANY, _contains),
    "substring": (2, 3, _substring),
    "concat": (1, 100, _concat),
    "indexof": (2, 3, _searched),
    "between": (3, 4, _searched),
    **dict.fromkeys(("_arraysearch", "arraysearch"), (3, 3, _array_search)),
}
