"""The functions of SQL by their names, of values that are there: a null among them gives a null."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any


def remainder(left: Any, right: Any) -> Any:
    """What a division leaves, with the sign of what is divided; null for a division by zero."""
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.fmod(left, right)


def written(given: Any) -> str:
    """A value as a text."""
    if isinstance(given, bool):
        return "true" if given else "false"
    return str(given)


def _whole(number: Any, towards: Callable[[Any], int]) -> Any:
    return number if isinstance(number, int) else float(towards(number))


def _to_digits(number: Any, digits: int, rounding: str) -> Any:
    if isinstance(number, int):
        return number
    unit = Decimal(1).scaleb(-digits)
    return float(Decimal(repr(number)).quantize(unit, rounding))


def _round(number: Any, digits: int = 0) -> Any:
    return _to_digits(number, digits, ROUND_HALF_UP)


def _truncate(number: Any, digits: int = 0) -> Any:
    return _to_digits(number, digits, ROUND_DOWN)


def _substring(text: str, start: int, length: int | None = None) -> str:
    begin = start - 1 if start >= 0 else len(text) + start
    end = len(text) if length is None else begin + length
    return text[max(0, begin) : max(0, end)]


def _padded(text: str, size: int, filler: str, before: bool) -> str:
    missing = max(0, size - len(text))
    added = (filler * (missing // max(1, len(filler)) + 1))[:missing]
    return (added + text if before else text + added)[:size]


def _split_part(text: str, delimiter: str, number: int) -> str | None:
    parts = text.split(delimiter)
    return parts[number - 1] if 1 <= number <= len(parts) else None


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ABS": abs,
    "ROUND": _round,
    "TRUNCATE": _truncate,
    "FLOOR": lambda number: _whole(number, math.floor),
    "CEIL": lambda number: _whole(number, math.ceil),
    "SIGN": lambda number: (number > 0) - (number < 0),
    "SQRT": math.sqrt,
    "EXP": math.exp,
    "LN": math.log,
    "LOG10": math.log10,
    "LOG2": math.log2,
    "POWER": lambda number, exponent: float(number) ** exponent,
    "MOD": remainder,
    "GREATEST": lambda *given: max(given),
    "LEAST": lambda *given: min(given),
    "LOWER": str.lower,
    "UPPER": str.upper,
    "LENGTH": len,
    "REVERSE": lambda text: str.__getitem__(text, slice(None, None, -1)),
    "CONCAT": lambda *given: "".join(map(written, given)),
    "SUBSTRING": _substring,
    "LEFT": lambda text, size: _substring(text, 1, size),
    "RIGHT": lambda text, size: text[max(0, len(text) - size) :],
    "TRIM": lambda text: str.strip(text, " "),
    "LTRIM": lambda text: str.lstrip(text, " "),
    "RTRIM": lambda text: str.rstrip(text, " "),
    "LPAD": lambda text, size, filler=" ": _padded(text, size, filler, True),
    "RPAD": lambda text, size, filler=" ": _padded(text, size, filler, False),
    "REPLACE": lambda text, old, new="": str.replace(text, old, new),
    "STRPOS": lambda text, part: str.find(text, part) + 1,
    "STARTS_WITH": lambda text, part: str.startswith(text, part),
    "ENDS_WITH": lambda text, part: str.endswith(text, part),
    "SPLIT_PART": _split_part,
    "CARDINALITY": len,
}
