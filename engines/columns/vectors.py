"""Columns of values with nulls, and expressions evaluated over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.texts import TextCodes, apply, hold, of_several, pair_holds
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.expressions import COMPARE, COMPUTE

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
VectorKind: TypeAlias = Literal[
    "int", "float", "string", "bool", "time", "object", "null", "list", "text"
]

LARGEST_INT = 2**63 - 1
EXACT_DOUBLE = 2**53
_NUMBERS = ("int", "float", "bool", "object")


@dataclass(frozen=True, eq=False, slots=True)
class Vector:
    """Values of one kind; a single value stands for a column of equal ones.

    Strings are codes of the workload's dictionary and times are ticks, so that both compare as
    integers do; a text that a function of several values makes is itself. `nulls` is None where
    there are none; under a null the value means nothing. Of lists the values are numbers of these
    in `lists`.
    """

    kind: VectorKind
    values: Array
    nulls: Mask | None = None
    bound: int = 0  # of integers: no value is larger than this, sign apart
    lists: ListValues | None = None
    tick: int = 0  # of times: the nanoseconds that 1 stands for

    def take(self, rows: npt.NDArray[np.int64]) -> Vector:
        """The values at the given places."""
        nulls = None if self.nulls is None else self.nulls[rows]
        return Vector(self.kind, self.values[rows], nulls, self.bound, self.lists, self.tick)

    def between(self, rows: slice) -> Vector:
        """The values of some rows that stand together."""
        nulls = None if self.nulls is None else self.nulls[rows]
        return Vector(self.kind, self.values[rows], nulls, self.bound, self.lists, self.tick)

    def present(self) -> Mask:
        """Where there is a value."""
        if self.nulls is None:
            return np.ones(self.values.shape, bool)
        return ~self.nulls


@dataclass(frozen=True, eq=False, slots=True)
class ListValues:
    """The values of lists, one list after the other, and where each begins and ends."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    values: Vector


def over_lists(test: Callable[..., Mask], *vectors: Vector) -> Mask:
    """Where a test of some vectors holds; with a list, where it does for one of its values."""
    place = next((i for i, vector in enumerate(vectors) if vector.kind == "list"), None)
    if place is None:
        return test(*vectors)
    one = vectors[place]
    owner, members = _members(one)
    expanded = [v if not v.values.ndim else v.take(owner) for v in vectors]
    expanded[place] = members
    found = np.zeros(len(one.values), bool)
    found[owner[over_lists(test, *expanded)]] = True
    return found


def _members(one: Vector) -> tuple[Array, Vector]:
    """The values of lists one after the other, and the row that each belongs to."""
    assert one.lists is not None
    starts, sizes = one.lists.starts[one.values], (one.lists.ends - one.lists.starts)[one.values]
    if one.nulls is not None:
        sizes = np.where(one.nulls, 0, sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    inside = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return owner, one.lists.values.take(np.repeat(starts, sizes) + inside)


def broadcast(vector: Vector, size: int) -> Vector:
    """A constant as a column; a column as it is."""
    nulls = vector.nulls
    if nulls is not None:
        nulls = np.broadcast_to(nulls, size)
    values = np.broadcast_to(vector.values, size)
    return Vector(vector.kind, values, nulls, vector.bound, vector.lists, vector.tick)


def boolean(values: Mask) -> Vector:
    return Vector("bool", values)


def number(value: int | float) -> Vector:
    """A constant number."""
    if isinstance(value, float):
        return Vector("float", np.array(value, np.float64))
    if abs(value) > LARGEST_INT:
        return Vector("object", np.array(value, object))
    return Vector("int", np.array(value, np.int64), None, abs(value))


NULL = Vector("null", np.zeros((), bool), np.ones((), bool))


def truth(vector: Vector) -> Mask:
    """A condition's result: false where it is null."""
    values = vector.values.astype(bool, copy=False)
    return values if vector.nulls is None else values & ~vector.nulls


def either_null(left: Vector, right: Vector) -> Mask | None:
    if left.nulls is None or right.nulls is None:
        return right.nulls if left.nulls is None else left.nulls
    return left.nulls | right.nulls


def negative(operand: Vector) -> Vector:
    if operand.kind == "null":
        return NULL
    _numeric(operand)
    if operand.kind == "int" and operand.bound > LARGEST_INT:
        operand = _objects(operand)
    values = _widened(operand)
    # The negative of a single object would leave the array.
    return Vector(
        _number_kind(operand), np.asarray(-values, values.dtype), operand.nulls, operand.bound
    )


def nanoseconds(operand: Vector, tick: int) -> Vector:
    """Times in nanoseconds: timestamps, or numbers of ticks of so many."""
    if operand.kind == "null":
        return NULL
    if operand.kind == "time":
        most = max(
            abs(int(v)) for v in (operand.values.min(initial=0), operand.values.max(initial=0))
        )
        assert operand.tick
        tick, operand = operand.tick, Vector("int", operand.values, operand.nulls, most)
    return compute("*", operand, number(tick))


def compute(symbol: str, left: Vector, right: Vector) -> Vector:
    """Arithmetic; null where a side is null or the divisor zero."""
    if left.kind == "null" or right.kind == "null":
        return NULL
    _numeric(left)
    _numeric(right)
    nulls = either_null(left, right)
    if symbol in "/%":
        zero = np.asarray(right.values == 0)
        if zero.any():
            nulls = zero if nulls is None else nulls | zero
            right = Vector(right.kind, np.where(zero, 1, right.values), None, max(1, right.bound))
    whole = _number_kind(left) == _number_kind(right) == "int"
    bound = _bound(symbol, left, right)
    exact = bound <= LARGEST_INT and not (
        symbol == "/" and max(left.bound, right.bound) > EXACT_DOUBLE
    )
    if "object" in (left.kind, right.kind) or (whole and not exact):
        return _by_objects(COMPUTE[symbol], left, right, nulls)
    with np.errstate(all="ignore"):
        values = COMPUTE[symbol](_widened(left), _widened(right))
    if whole and symbol != "/":
        return Vector("int", values, nulls, bound)
    return Vector("float", values, nulls)


def compare(symbol: str, left: Vector, right: Vector) -> Vector:
    """A comparison; false where a side is null."""
    return boolean(_compared(symbol, left, right))


def _compared(symbol: str, left: Vector, right: Vector) -> Mask:
    shape = np.broadcast_shapes(left.values.shape, right.values.shape)
    if left.kind == "null" or right.kind == "null":
        return np.zeros(shape, bool)
    nulls = either_null(left, right)
    if not _comparable(left, right):
        if symbol not in ("=", "!="):
            raise UnsupportedError(
                f"'{symbol}' compares a {left.kind} with a {right.kind}, which have no order"
            )
        found = np.full(shape, symbol == "!=")
    elif left.kind in ("object", "text") or right.kind == "object" or _would_round(left, right):
        result = _by_objects(COMPARE[symbol], left, right, nulls)
        found = result.values.astype(bool)
    else:
        found = np.asarray(COMPARE[symbol](left.values, right.values))
    return found if nulls is None else found & ~nulls


def _comparable(left: Vector, right: Vector) -> bool:
    return left.kind == right.kind or (left.kind in _NUMBERS and right.kind in _NUMBERS)


def _would_round(left: Vector, right: Vector) -> bool:
    """Is an integer that no double can hold compared with a double?"""
    kinds = {left.kind, right.kind}
    return kinds == {"int", "float"} and max(left.bound, right.bound) > EXACT_DOUBLE


def _numeric(vector: Vector) -> None:
    if vector.kind not in _NUMBERS:
        raise UnsupportedError(f"arithmetic takes numbers, and this is a {vector.kind}")


def _number_kind(vector: Vector) -> VectorKind:
    return "int" if vector.kind == "bool" else vector.kind


def _widened(vector: Vector) -> Array:
    return vector.values.astype(np.int64) if vector.kind == "bool" else vector.values


def _bound(symbol: str, left: Vector, right: Vector) -> int:
    first, second = (max(v.bound, 1) if v.kind == "bool" else v.bound for v in (left, right))
    match symbol:
        case "*":
            return first * second
        case "%":
            return second
        case "/":
            return 0
        case _:
            return first + second


def _objects(vector: Vector) -> Vector:
    values = vector.values
    converted = np.empty(values.shape, object)
    converted[...] = values.tolist() if values.ndim else values.item()
    return Vector("object", converted, vector.nulls)


def _by_objects(
    function: Callable[[Any, Any], Any], left: Vector, right: Vector, nulls: Mask | None
) -> Vector:
    """The same on Python objects, one by one: for integers beyond what arrays can hold."""
    first, second = np.broadcast_arrays(_objects(left).values, _objects(right).values)
    values = np.zeros(first.shape, object)
    present = np.ones(first.shape, bool) if nulls is None else ~np.broadcast_to(nulls, first.shape)
    if first.ndim:
        values[present] = [
            function(a, b) for a, b in zip(first[present], second[present], strict=True)
        ]
    elif present:
        values[()] = function(first[()], second[()])
    return Vector("object", values, nulls)


AttributeReader = Callable[[ex.Attribute], Vector]
CallReader = Callable[[ex.Call], Vector]


def evaluate(
    expression: ex.Expression,
    attribute: AttributeReader,
    texts: TextCodes,
    call: CallReader | None = None,
) -> Vector:
    """The value of an expression; `attribute` and `call` give those of its leaves."""

    def of(part: ex.Expression) -> Vector:
        return evaluate(part, attribute, texts, call)

    def apart(part: ex.Expression) -> Vector:
        """A value that is looked into: a constant may be no text of the events."""
        return spelled(part, of(part), texts) if isinstance(part, ex.Literal) else of(part)

    match expression:
        case ex.Literal(value):
            return _constant(value, texts)
        case ex.Attribute():
            return attribute(expression)
        case ex.Call():
            assert call is not None
            return call(expression)
        case ex.Nanoseconds(operand, tick):
            return nanoseconds(of(operand), tick)
        case ex.Negative(operand):
            return negative(of(operand))
        case ex.Arithmetic(symbol, left, right):
            return compute(symbol, of(left), of(right))
        case ex.Comparison(comparison, left, right):
            sides = _alike((left, right), (of(left), of(right)), texts)
            return boolean(over_lists(partial(_compared, comparison), *sides))
        case ex.Membership(operand, literals, negated):
            every = (operand, *literals)
            member, *listed = _alike(every, [of(part) for part in every], texts)
            return boolean(over_lists(partial(_membership, listed, negated), member))
        case ex.Function(name, operand, constants):
            return _function(name, constants, apart(operand), texts)
        case ex.JointFunction(name, arguments):
            return joint(name, [spelled(part, of(part), texts) for part in arguments])
        case ex.TextTest(_, operand, patterns):
            asked = (operand, *(p for p in patterns if not isinstance(p, ex.Literal)))
            fields = _alike(asked, [apart(part) for part in asked], texts)
            tested = partial(_text_test, expression, texts)
            return boolean(over_lists(tested, *fields))
        case ex.EntryTest():
            return boolean(_some_entry(expression, attribute, texts))
        case ex.IsNull(operand, negated):
            vector = of(operand)
            absent = np.zeros(vector.values.shape, bool) if vector.nulls is None else vector.nulls
            return boolean(~absent if negated else absent)
        case ex.Not(operand):
            return boolean(~truth(of(operand)))
        case ex.Logical(connective, parts):
            return _logical(connective, [truth(of(part)) for part in parts])
        case ex.DurationLiteral():
            raise AssertionError("a duration is a number once a query is bound")
        case ex.Equivalence():
            raise AssertionError("an equivalence is a partition key once a query is bound")


def _some_entry(test: ex.EntryTest, attribute: AttributeReader, texts: TextCodes) -> Mask:
    """Where an entry of a list fits a condition: fields of its structs are lists of one length."""
    nodes = {node for node in ex.walk(test.condition) if isinstance(node, ex.Attribute)}
    read = {node: attribute(node) for node in nodes}
    fields = {
        node: _members(vector)
        for node, vector in read.items()
        if vector.kind == "list" and node.alias == test.listed.alias and test.has(node.name)
    }
    found = np.zeros(max((len(v.values) for v in read.values()), default=1), bool)
    if fields:
        owner, _ = next(iter(fields.values()))
        entries = {
            node: fields[node][1] if node in fields else vector.take(owner)
            for node, vector in read.items()
        }
        holds = truth(evaluate(test.condition, entries.__getitem__, texts))
        found[owner[np.broadcast_to(holds, len(owner))]] = True
    return found


def _constant(value: ex.Value, texts: TextCodes) -> Vector:
    match value:
        case None:
            return NULL
        case bool():
            return boolean(np.array(value))
        case str():
            return Vector("string", np.array(texts.code(value), np.int64))
        case _:
            return number(value)


def _membership(literals: list[Vector], negated: bool, operand: Vector) -> Mask:
    member: Mask = np.zeros(operand.values.shape, bool)
    for literal in literals:
        member = member | compare("=", operand, literal).values
    if negated:
        member = ~member
    return member if operand.nulls is None else member & ~operand.nulls


def _function(name: str, constants: tuple[int, ...], operand: Vector, texts: TextCodes) -> Vector:
    """A function of each value: worked out once for each distinct one."""
    if operand.kind == "null":
        return operand
    if operand.kind == "list":
        assert operand.lists is not None
        lists = operand.lists
        members = _function(name, constants, lists.values, texts)
        inner = ListValues(lists.starts, lists.ends, members)
        return Vector("list", operand.values, operand.nulls, 0, inner)
    if name == "number" and operand.kind in ("int", "float", "object"):
        return operand
    shape = operand.values.shape
    flat = operand.values.reshape(-1)
    absent = np.zeros(shape, bool) if operand.nulls is None else operand.nulls
    if operand.kind == "string" and name in ex.FUNCTIONS_TO_TEXTS:
        codes, unknown = texts.changed(name, constants, flat)
        return Vector("string", codes.reshape(shape), absent | unknown.reshape(shape))
    if operand.kind == "string":
        distinct_values, numbers = texts.distinct(flat)
        given = texts.texts(distinct_values)
    elif operand.kind == "text":
        numbers, given = np.arange(len(flat)), pa.array(flat, pa.string())
    elif operand.kind in ("int", "bool", "float") and name == "text":
        distinct_values, numbers = np.unique(flat, return_inverse=True)
        given = pa.array(distinct_values)
    elif name in ("text", "number"):
        return Vector("null", np.zeros(shape, bool), np.ones(shape, bool))
    else:
        raise UnsupportedError(f"{name} takes a text, and this is a {operand.kind}")
    found = apply(name, constants, given)
    numbers = numbers.reshape(shape)
    nulls = absent | np.asarray(pc.is_null(found))[numbers]
    if operand.kind == "text" and pa.types.is_string(found.type):
        return Vector("text", _texts_in(found, shape), nulls)
    if pa.types.is_string(found.type):
        return Vector("string", texts.codes(found)[numbers], nulls)
    values = np.asarray(pc.fill_null(found, 0))[numbers]
    if pa.types.is_floating(found.type):
        return Vector("float", values, nulls)
    return Vector("int", values, nulls, int(np.abs(values).max(initial=0)))


def _text_test(test: ex.TextTest, texts: TextCodes, operand: Vector, *fields: Vector) -> Mask:
    """A test, once for each distinct text, or pair of texts."""
    shape = np.broadcast_shapes(operand.values.shape, *(f.values.shape for f in fields))
    if operand.kind == "null":
        return np.zeros(shape, bool)
    if any(vector.kind not in ("string", "text", "null") for vector in (operand, *fields)):
        raise UnsupportedError(f"{test.operator} takes texts, and this is a {operand.kind}")
    constant = tuple(p for p in test.patterns if isinstance(p, ex.Literal))
    together = np.logical_and if test.every else np.logical_or
    parts: list[Mask] = []
    if constant:
        plain = ex.TextTest(test.operator, test.operand, constant, test.every)
        flat = operand.values.reshape(-1)
        if operand.kind == "text":
            found = hold(plain, pa.array(flat, pa.string()))
        else:
            codes, numbers = texts.distinct(flat)
            found = hold(plain, texts.texts(codes))[numbers]
        parts.append(found.reshape(operand.values.shape))
    known = operand.present()
    for other in fields:
        parts.append(np.broadcast_to(_pairs_hold(test.operator, texts, operand, other), shape))
        known = known & other.present() if test.negated else known
    if test.negated and any(p.value is None for p in constant):
        return np.zeros(shape, bool)
    found = reduce(together, parts)
    return np.broadcast_to((found != test.negated) & known, shape)


def _pairs_hold(operator: str, texts: TextCodes, left: Vector, right: Vector) -> Mask:
    shape = np.broadcast_shapes(left.values.shape, right.values.shape)
    if right.kind == "null":
        return np.zeros(shape, bool)
    if left.kind == "text":
        firsts, seconds = (v.reshape(-1) for v in np.broadcast_arrays(left.values, right.values))
        tested = [
            one is not None and two is not None and pair_holds(operator, one, two)
            for one, two in zip(firsts, seconds, strict=True)
        ]
        return np.array(tested, bool).reshape(shape) & left.present() & right.present()
    pairs = np.stack(np.broadcast_arrays(left.values, right.values), -1).reshape(-1, 2)
    distinct_pairs, numbers = np.unique(pairs, axis=0, return_inverse=True)
    firsts = texts.texts(distinct_pairs[:, 0]).to_pylist()
    seconds = texts.texts(distinct_pairs[:, 1]).to_pylist()
    found = np.array(
        [pair_holds(operator, one, two) for one, two in zip(firsts, seconds, strict=True)], bool
    )
    return found[numbers.reshape(-1)].reshape(shape) & left.present() & right.present()


def _logical(connective: str, parts: list[Mask]) -> Vector:
    found = parts[0]
    for part in parts[1:]:
        found = found & part if connective == "AND" else found | part
    return boolean(found)


# --- texts that functions of several values make -------------------------------------------------


def spelled(part: ex.Expression, vector: Vector, texts: TextCodes) -> Vector:
    """A value with texts for codes of texts."""
    if isinstance(part, ex.Literal) and isinstance(part.value, str):
        return Vector("text", np.array(part.value, object))
    if vector.kind == "list":
        assert vector.lists is not None
        lists = vector.lists
        inner = ListValues(lists.starts, lists.ends, spelled(part, lists.values, texts))
        return Vector("list", vector.values, vector.nulls, 0, inner)
    if vector.kind != "string":
        return vector
    shape = vector.values.shape
    found = texts.texts(vector.values.reshape(-1))
    return Vector("text", _texts_in(found, shape), vector.nulls)


def _texts_in(found: pa.Array, shape: tuple[int, ...]) -> Array:
    values = np.empty(len(found), object)
    values[:] = found.to_pylist()
    return values.reshape(shape)


def _alike(
    parts: Sequence[ex.Expression], vectors: Sequence[Vector], texts: TextCodes
) -> Sequence[Vector]:
    """Values that are compared: where one is a text, all texts are, and none a code."""
    kinds = {v.kind if v.lists is None else v.lists.values.kind for v in vectors}
    if "text" not in kinds:
        return vectors
    return [spelled(part, vector, texts) for part, vector in zip(parts, vectors, strict=True)]


def joint(name: str, arguments: Sequence[Vector]) -> Vector:
    """A function of several values, row by row; null with a null and with a list."""
    shape = np.broadcast_shapes(*(vector.values.shape for vector in arguments))
    nulls = np.zeros(shape, bool)
    for vector in arguments:
        nulls |= vector.kind in ("null", "list", "time")
        if vector.nulls is not None:
            nulls |= vector.nulls
    columns = [np.broadcast_to(vector.values, shape).reshape(-1) for vector in arguments]
    absent = nulls.reshape(-1)
    values = np.empty(len(absent), object)
    for row in np.flatnonzero(~absent).tolist():
        given = [column[row] for column in columns]
        values[row] = of_several(
            name, [v.item() if isinstance(v, np.generic) else v for v in given]
        )
    absent = np.array([value is None for value in values], bool)
    if name != "index_of":
        return Vector("text", values.reshape(shape), absent.reshape(shape))
    numbers = np.where(absent, 0, values).astype(np.int64)
    bound = int(numbers.max(initial=0))
    return Vector("int", numbers.reshape(shape), absent.reshape(shape), bound)
