"""Numbers of events that engines add up or compare to aggregate values, and values from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.vectors import EXACT_DOUBLE, LARGEST_INT, Array, Vector, compute
from engines.input.event_table import Events
from optimizer.ir.aggregates import SPREADS, AggregatePart, Form, InputColumn, parts_of
from workloads import expressions as ex
from workloads.errors import UnsupportedError

Int64s = npt.NDArray[np.int64]
_LARGEST_SQUARED = 2**31 - 1  # whole numbers that have a whole square in 64 bits


@dataclass(frozen=True, eq=False, slots=True)
class AggregateInput:
    """A number for each event; `values` by number where they stand for values."""

    numbers: Vector
    values: Vector | None = None

    def between(self, rows: slice) -> AggregateInput:
        """Those of some rows that stand together."""
        return AggregateInput(self.numbers.between(rows), self.values)

    def decoded(self, numbers: Vector) -> Vector:
        """The values that some of the numbers stand for."""
        assert self.values is not None
        if numbers.kind == "null":
            return numbers
        nulls = numbers.nulls
        places = numbers.values if nulls is None else np.where(nulls, 0, numbers.values)
        found = self.values.take(places.astype(np.int64))
        return Vector(found.kind, found.values, nulls, found.bound)


def why_uncountable(column: InputColumn, numbers: Vector) -> str | None:
    """Why an aggregate of a column cannot be counted; None where it can."""
    if numbers.kind == "float" and np.isinf(numbers.values).any():
        return f"'{column}' has an infinite value"
    if numbers.kind not in ("int", "bool", "null", "float"):
        return f"'{column}' is not a number"
    return None


def aggregate_input(form: Form, value: Vector, events: Events) -> AggregateInput:
    """The numbers of a form, made of a value of each event."""
    match form:
        case "value":
            return AggregateInput(_plain(value))
        case "present":
            return AggregateInput(Vector("int", _fixed(value.present().astype(np.int64)), None, 1))
        case "first" | "last":
            number = _plain(value)
            if not _is_number(number):
                return AggregateInput(number)
            return _places(number, events, last=form == "last")
        case "centered":
            return AggregateInput(centered(_plain(value)))
        case "squared":
            return AggregateInput(squared(centered(_plain(value))))
        case "code":
            return AggregateInput(codes(value))


def formed(form: Form, value: Vector) -> Vector:
    """The same of values that are no events' own."""
    match form:
        case "present":
            return Vector("int", value.present().astype(np.int64), None, 1)
        case "centered":
            return centered(_plain(value))
        case "squared":
            return squared(centered(_plain(value)))
        case "code":
            return codes(value)
        case _:
            return _plain(value)


def _is_number(vector: Vector) -> bool:
    return vector.kind in ("int", "float", "bool")


def _fixed(values: Array) -> Array:
    """Values as columns of events have them, which kernels are compiled for."""
    found = np.ascontiguousarray(values)
    found.flags.writeable = False
    return found


def _plain(vector: Vector) -> Vector:
    """A value as it is; whole numbers that were computed as objects in 64 bits, if they fit."""
    if vector.kind != "object":
        return vector
    known = vector.values[vector.present()]
    if any(isinstance(v, float) for v in known):
        values = np.where(vector.present(), vector.values, 0.0).astype(np.float64)
        return Vector("float", _fixed(values), vector.nulls)
    most = max((abs(v) for v in known), default=0)
    if most > LARGEST_INT:
        raise UnsupportedError("an aggregated value is a whole number beyond 64 bits")
    values = np.where(vector.present(), vector.values, 0).astype(np.int64)
    return Vector("int", _fixed(values), vector.nulls, most)


def _places(value: Vector, events: Events, last: bool) -> AggregateInput:
    """The place of each event in order; of simultaneous ones the least value comes first, or last
    where the last place is asked for.
    """
    size = len(value.values)
    order = np.arange(size)
    begins = np.ones(size, bool)
    np.not_equal(events.ticks[1:], events.ticks[:-1], out=begins[1:])
    if events.sequence is not None:
        begins[1:] |= events.sequence[1:] != events.sequence[:-1]
    if not begins.all():
        moment = np.cumsum(begins)
        tied = ~begins
        tied[:-1] |= ~begins[1:]
        rows = np.flatnonzero(tied)
        compared = value.values[rows].astype(np.float64 if value.kind == "float" else np.int64)
        order[rows] = rows[np.lexsort((-compared if last else compared, moment[rows]))]
    places = np.empty(size, np.int64)
    places[order] = np.arange(size)
    return AggregateInput(
        Vector("int", _fixed(places), value.nulls, max(1, size)),
        Vector(value.kind, value.values[order], None, value.bound),
    )


def centered(value: Vector) -> Vector:
    """Distances from one number near all of them: what is added up then hardly rounds."""
    if not _is_number(value):
        return value
    present = value.present()
    known = value.values[present]
    if value.kind != "float" and 2 * value.bound <= LARGEST_INT:
        whole = value.values.astype(np.int64)
        middle = round(float(known.astype(np.float64).mean())) if len(known) else 0
        return Vector("int", _fixed(whole - middle), value.nulls, value.bound + abs(middle))
    finite = known[np.isfinite(known)] if value.kind == "float" else known
    middle_real = float(finite[len(finite) // 2]) if len(finite) else 0.0
    with np.errstate(all="ignore"):
        return Vector("float", _fixed(value.values.astype(np.float64) - middle_real), value.nulls)


def squared(value: Vector) -> Vector:
    if not _is_number(value):
        return value
    if value.kind == "int" and value.bound <= _LARGEST_SQUARED:
        return Vector("int", _fixed(value.values * value.values), value.nulls, value.bound**2)
    with np.errstate(all="ignore"):
        real = value.values.astype(np.float64)
        return Vector("float", _fixed(real * real), value.nulls)


def codes(value: Vector) -> Vector:
    """A number from 0 on for each distinct value."""
    if value.kind == "list":
        raise UnsupportedError("COUNT(DISTINCT …) takes single values, and this is a list")
    if value.kind == "null":
        return value
    found = np.unique(value.values[value.present()], return_inverse=True)[1].reshape(-1)
    numbers = np.zeros(len(value.values), np.int64)
    numbers[value.present()] = found
    return Vector("int", _fixed(numbers), value.nulls, int(numbers.max(initial=0)))


# --- aggregates from their parts ------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class PartResults:
    """The results of an aggregate's part: of a sum also how many numbers there were."""

    found: Vector
    number: Vector | None = None


def combined(
    function: str,
    operand: ex.Expression,
    result: Callable[[AggregatePart], PartResults],
    decoded: Callable[[AggregatePart, Vector], Vector],
) -> Vector:
    """An aggregate of values, from the results of its parts."""
    parts = parts_of(function, operand)
    found = result(parts[0])
    match function:
        case "sum" | "min" | "max":
            return found.found
        case "avg":
            assert found.number is not None
            none = found.found.kind == "null"
            return found.found if none else compute("/", found.found, found.number)
        case "count" | "count distinct":
            return _number_of(found.found)
        case "first" | "last":
            return decoded(parts[0], found.found)
        case _:
            assert function in SPREADS
            return _spread(function, found, result(parts[1]))


def counts_of(found: Vector) -> tuple[pa.Array, pa.Array]:
    """The columns `count` and `exact` of a count of values."""
    size = len(found.values)
    if found.kind == "int":
        return pa.array(found.values), pa.repeat(pa.scalar(True), size)
    sure = found.values <= EXACT_DOUBLE
    return pa.array(np.where(sure, found.values, 0).astype(np.int64), mask=~sure), pa.array(sure)


def _number_of(found: Vector) -> Vector:
    """A count: of nothing it is 0."""
    values = found.values if found.nulls is None else np.where(found.nulls, 0, found.values)
    if found.kind == "float" and len(values) and float(values.max()) > EXACT_DOUBLE:
        return Vector("float", values)
    whole = values.astype(np.int64)
    return Vector("int", whole, None, int(whole.max(initial=0)))


def _spread(function: str, sums: PartResults, squares: PartResults) -> Vector:
    """The variance, or its root, of values; of a sample but for `…_pop`."""
    assert sums.number is not None
    if sums.found.kind == "null" or squares.found.kind == "null":
        return Vector("null", sums.found.values, np.ones(len(sums.found.values), bool))
    number = sums.number.values.astype(np.float64)
    least = 1 if function.endswith("_pop") else 2
    nulls = number < least
    total = np.where(nulls, 0.0, sums.found.values).astype(np.float64)
    square = np.where(nulls, 0.0, squares.found.values).astype(np.float64)
    counted = np.where(nulls, least, number)
    with np.errstate(all="ignore"):
        spread = (square - total * (total / counted)) / (counted - (least - 1))
        spread = np.where(spread < 0, 0.0, spread)
        if function.startswith("stddev"):
            spread = np.sqrt(spread)
    return Vector("float", spread, nulls)
