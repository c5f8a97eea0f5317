"""Symbols that no event is an instance of both of, as far as types and constants show it."""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.ir.pattern import Symbol
from optimizer.rewrite.folding import fold
from workloads import expressions as ex
from workloads.workload import Stream

Constants = dict[str, ex.Literal]


def exclusive(first: Symbol, second: Symbol, stream: Stream) -> bool:
    """Is it certain that no event of the stream is an instance of both?"""
    return all(
        _contradict(one, other)
        for one in _readings(first, stream)
        for other in _readings(second, stream)
    )


def _readings(symbol: Symbol, stream: Stream) -> list[Constants]:
    """What attributes are constant in an instance: by its type column, or by its type's condition.

    The type column is compared as text; so is a type's name.
    """
    asked = _constants(symbol.predicates)
    readings: list[Constants] = []
    if stream.type is not None:
        readings.append({**asked, stream.type: ex.Literal(symbol.type)})
    condition = stream.types.get(symbol.type)
    if condition is not None:
        readings.append({**_constants(ex.conjuncts(fold(condition))), **asked})
    return readings


def _constants(conditions: Iterable[ex.Expression]) -> Constants:
    found: Constants = {}
    for condition in conditions:
        match condition:
            case ex.Comparison("=", ex.Attribute(_, name), ex.Literal() as constant):
                found[name] = constant
    return found


def _contradict(one: Constants, other: Constants) -> bool:
    """Is there an attribute that would need two values of one kind at once?"""
    return any(
        type(value.value) is type(other[name].value) and value.value != other[name].value
        for name, value in one.items()
        if name in other and value.value is not None
    )
