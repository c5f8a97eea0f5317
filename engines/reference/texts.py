"""Functions of texts and tests on them, by their definition."""

from __future__ import annotations

import ipaddress
from typing import Any

import re2


def of_value(name: str, operand: Any, constants: tuple[int, ...]) -> Any:
    """A function of one value; null of a null."""
    if operand is None:
        return None
    match name:
        case "lower":
            return "".join(character.lower()[0] for character in operand)
        case "upper":
            return "".join(map(_upper, operand))
        case "length":
            return len(operand)
        case "substring":
            # Characters are counted from 1, and those before the first one are counted too.
            start = constants[0]
            end = start + constants[1] if len(constants) > 1 else len(operand) + 1
            return "".join(c for i, c in enumerate(operand, 1) if start <= i < end)
        case "slice":
            return operand[slice(constants[0], constants[1] if len(constants) > 1 else None)]
        case "text":
            return _text(operand)
        case _:
            return _number(operand)


def of_several(name: str, given: list[Any]) -> Any:
    """A function of several values; null where one is null, a list, or of no kind for it."""
    if any(value is None or isinstance(value, list) for value in given):
        return None
    try:
        match name, given:
            case "concat", parts:
                texts = [_text(part) for part in parts]
                return None if None in texts else "".join(map(str, texts))
            case "slice", [str() as text, start, *stop]:
                return text[_whole(start) : _whole(stop[0]) if stop else None]
            case "index_of", [str() as text, str() as part, *start]:
                return text.index(part, *map(_whole, start))
            case "between", [str() as text, str() as left, str() as right, *greedy]:
                return _between(text, left, right, greedy == [True])
    except ValueError:
        return None
    return None


def _whole(number: Any) -> int:
    if not isinstance(number, int | float) or number % 1:
        raise ValueError
    return int(number)


def _between(text: str, left: str, right: str, greedy: bool) -> str:
    starts = [i for i in range(len(text) + 1) if text.startswith(left, i)][:1]
    for start in starts:
        begin = start + len(left)
        ends = [i for i in range(begin, len(text) + 1) if text.startswith(right, i)]
        if ends:
            return text[begin : max(ends) if greedy else min(ends)]
    return ""


def _upper(character: str) -> str:
    return next((c for c in (character.upper(), character.title()) if len(c) == 1), character)


def _text(value: Any) -> str | None:
    """A whole number in digits, a truth value as a word; null for what has no one spelling."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value) if isinstance(value, int | str) else None


def _number(value: Any) -> Any:
    """A number as it is; a text of digits, perhaps with a sign and a fraction, as a double."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if (
        not isinstance(value, str)
        or re2.fullmatch(r"[+-]?(\d{1,300}(\.\d*)?|\.\d+)", value) is None
    ):
        return None
    return float(value)


def text_test(test: str, text: str, pattern: str) -> bool:
    """One text and one pattern."""
    match test:
        case "CONTAINS":
            return pattern in text
        case "STARTS WITH":
            return text.startswith(pattern)
        case "ENDS WITH":
            return text.endswith(pattern)
        case "LIKE":
            return _like(text, pattern)
        case "MATCHES":
            return re2.search(pattern, text) is not None
        case _:
            return _in_network(text, pattern)


def _like(text: str, pattern: str) -> bool:
    """`%` is any number of characters, `_` is one; every other character is itself."""
    ends = {0}  # of the beginnings of the text that the pattern so far fits
    for character in pattern:
        if character == "%":
            ends = set(range(min(ends), len(text) + 1)) if ends else ends
        else:
            ends = {e + 1 for e in ends if e < len(text) and character in ("_", text[e])}
    return len(text) in ends


def _in_network(text: str, network: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address in ipaddress.ip_network(network, strict=False)
