"""In which blocks a condition can hold for some event: never false where one does.

Conditions are two-valued: a comparison with null is false, and NOT of it is true. So a condition is
asked for both truths: may it hold, and may it fail? What is not a comparison of one attribute with
constants may always do either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engines.access.blocks import Blocks, Bounds, Mask
from optimizer.ir.implication import EXACT
from optimizer.ir.pattern import ANY_TYPE, Symbol
from workloads import expressions as ex
from workloads.workload import Stream

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Whether x op c can hold for some x from least to greatest.
_MAY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "=": lambda least, greatest, c: (least <= c) & (greatest >= c),
    "!=": lambda least, greatest, c: (least != c) | (greatest != c),
    "<": lambda least, greatest, c: least < c,
    "<=": lambda least, greatest, c: least <= c,
    ">": lambda least, greatest, c: greatest > c,
    ">=": lambda least, greatest, c: greatest >= c,
}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class PossibleEvents:
    """Where events of symbols can be among blocks; each condition is asked once."""

    def __init__(self, blocks: Blocks, stream: Stream) -> None:
        self._blocks, self._stream = blocks, stream
        self._found: dict[tuple[ex.Expression, bool], Mask] = {}

    def symbol(self, symbol: Symbol) -> Mask:
        """The blocks that may have an event of a symbol."""
        found = self.type(symbol.type)
        for predicate in symbol.predicates:
            found = found & self.holds(predicate)
        return found

    def type(self, name: str) -> Mask:
        """The blocks that may have an event of a type, by its name or by its condition."""
        stream = self._stream
        if name == ANY_TYPE:
            return self._all()
        found = np.zeros(len(self._blocks), bool)
        if stream.type is not None:
            named = ex.Comparison("=", ex.Attribute("", stream.type), ex.Literal(name))
            bounds = self._blocks.columns.get(stream.type)
            is_text = bounds is None or bounds.kind == "string"
            # A type of another kind is compared by its text.
            found = self.holds(named) if is_text else ~found
        condition = stream.types.get(name)
        return found if condition is None else found | self.holds(condition)

    def holds(self, condition: ex.Expression, truth: bool = True) -> Mask:
        """The blocks in which the condition may be that of some event."""
        place = (condition, truth)
        if place not in self._found:
            self._found[place] = self._may(condition, truth)
        return self._found[place]

    def _may(self, condition: ex.Expression, truth: bool) -> Mask:
        by_values = self._by_values(condition, truth)
        if by_values is not None:
            return by_values
        match condition:
            case ex.Logical(operator, parts):
                each = [self.holds(part, truth) for part in parts]
                return _every(each) if (operator == "AND") == truth else _any(each)
            case ex.Not(operand):
                return self.holds(operand, not truth)
            case ex.Comparison(operator, ex.Attribute(_, name), other):
                return self._compared(name, operator, other, truth)
            case ex.Comparison(operator, other, ex.Attribute(_, name)):
                return self._compared(name, _MIRRORED[operator], other, truth)
            case ex.Membership(ex.Attribute() as operand, values, False) if truth:
                tests = [self.holds(ex.Comparison("=", operand, value)) for value in values]
                return _any(tests) if tests else self._none()
            case ex.TextTest("STARTS WITH", ex.Attribute(_, name), patterns, False, False) if truth:
                prefixes = [_text(pattern) for pattern in patterns]
                known = [self._prefixed(name, text) for text in prefixes if text is not None]
                return _any(known) if prefixes and len(known) == len(prefixes) else self._all()
            case ex.IsNull(ex.Attribute(_, name), negated):
                return self._null(name, truth != negated)
            case _:
                return self._all()

    def _all(self) -> Mask:
        return np.ones(len(self._blocks), bool)

    def _none(self) -> Mask:
        return np.zeros(len(self._blocks), bool)

    def _by_values(self, condition: ex.Expression, truth: bool) -> Mask | None:
        """Asked of each value of a column that has few: whatever the condition says of it."""
        names = ex.attributes(condition)
        if len(names) != 1 or not isinstance(condition, ex.CONDITIONS):
            return None
        bounds = self._blocks.columns.get(next(iter(names)))
        if bounds is None or bounds.sets is None or bounds.values is None:
            return None
        held = _values_that_hold(condition, next(iter(names)), bounds.values, truth)
        if held is None:
            return None
        bits = np.uint64(sum(1 << place for place, holds in enumerate(held[:-1]) if holds))
        found: Mask = (bounds.sets & bits) != 0
        if held[-1]:  # of a null
            found = found | (bounds.nulls != 0)
        return found

    def _compared(self, name: str, operator: str, other: ex.Expression, truth: bool) -> Mask:
        bounds, constant = self._blocks.columns.get(name), _constant(other)
        if bounds is None or constant is None:
            return self._all()
        if not truth and bounds.kind == "float":
            return self._all()  # a NaN compares false
        sign = operator if truth else _OPPOSITE[operator]
        if constant.value is None:
            return self._none() if truth else self._all()
        if not _is_comparable(bounds, constant.value):
            return self._all()
        held = np.asarray(_MAY[sign](bounds.least, bounds.greatest, constant.value), bool)
        found: Mask = (held | ~bounds.known | _inexact(bounds, constant.value)) & ~bounds.empty
        return found if truth else found | (bounds.nulls != 0)

    def _prefixed(self, name: str, prefix: str) -> Mask:
        """Texts that start so lie from the prefix to before what comes after all of them."""
        bounds = self._blocks.columns.get(name)
        if bounds is None or bounds.kind != "string":
            return self._all()
        cut = np.array([value[: len(prefix)] for value in bounds.least], object)
        held = np.asarray((cut <= prefix) & (bounds.greatest >= prefix), bool)
        found: Mask = (held | ~bounds.known) & ~bounds.empty
        return found

    def _null(self, name: str, wanted: bool) -> Mask:
        bounds = self._blocks.columns.get(name)
        if bounds is None or bounds.kind == "float":
            return self._all()
        found: Mask = bounds.nulls != 0 if wanted else ~bounds.empty
        return found


def _every(masks: Sequence[Mask]) -> Mask:
    found: Mask = np.logical_and.reduce(masks)
    return found


def _any(masks: Sequence[Mask]) -> Mask:
    found: Mask = np.logical_or.reduce(masks)
    return found


def _text(pattern: ex.Expression) -> str | None:
    found = _constant(pattern)
    return found.value if found is not None and isinstance(found.value, str) else None


def _constant(expression: ex.Expression) -> ex.Literal | None:
    match expression:
        case ex.Literal():
            return expression
        case ex.Negative(ex.Literal(int() | float() as value)) if not isinstance(value, bool):
            return ex.Literal(-value)
        case _:
            return None


def _is_comparable(bounds: Bounds, value: ex.Value) -> bool:
    match bounds.kind:
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case _:
            return type(value) in (int, float)


def _inexact(bounds: Bounds, value: ex.Value) -> Mask | bool:
    """Where numbers are compared as doubles, which do not tell them apart."""
    if bounds.kind not in ("int", "float"):
        return False
    assert isinstance(value, int | float)
    if bounds.kind == "int" and bounds.is_exact and isinstance(value, int):
        return False
    if abs(value) >= EXACT:
        return True
    if bounds.kind == "float":
        return False
    far: Mask = (np.abs(bounds.least) >= EXACT) | (np.abs(bounds.greatest) >= EXACT)
    return far


def _values_that_hold(
    condition: ex.Expression, name: str, values: tuple[str, ...], truth: bool
) -> list[bool] | None:
    """Whether the condition is that of each value, and last of a null."""
    from engines.reference.values import Row, value

    try:
        return [
            bool(value(condition, {"": (Row((), 0, {name: one}),)})) == truth
            for one in (*values, None)
        ]
    except (TypeError, ValueError, KeyError, AttributeError):
        return None  # a condition that is not for texts
