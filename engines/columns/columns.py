"""Columns of values with nulls, expressions evaluated over them, and the instances of symbols."""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.layout import KeyOrders
from engines.columns.symbol_sets import SymbolSets, joined
from engines.input.event_table import Events
from optimizer.ir import query as ir
from optimizer.ir.query import BoundWorkload, Construction, Query, ReturnValue
from workloads import syntax as ex
from workloads.errors import UnsupportedError
from workloads.syntax import COMPARE, COMPUTE

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
VectorKind: TypeAlias = Literal["int", "float", "string", "bool", "time", "object", "null"]

LARGEST_INT = 2**63 - 1
EXACT_DOUBLE = 2**53
_NUMBERS = ("int", "float", "bool", "object")


@dataclass(frozen=True, eq=False, slots=True)
class Vector:
    """Values of one kind; a single value stands for a column of equal ones.

    Strings are codes of the workload's dictionary and times are ticks, so that both compare as
    integers do. `nulls` is None where there are none; under a null the value means nothing.
    """

    kind: VectorKind
    values: Array
    nulls: Mask | None = None
    bound: int = 0  # of integers: no value is larger than this, sign apart

    def take(self, rows: npt.NDArray[np.int64]) -> Vector:
        """The values at the given places."""
        nulls = None if self.nulls is None else self.nulls[rows]
        return Vector(self.kind, self.values[rows], nulls, self.bound)

    def between(self, rows: slice) -> Vector:
        """The values of some rows that stand together."""
        nulls = None if self.nulls is None else self.nulls[rows]
        return Vector(self.kind, self.values[rows], nulls, self.bound)

    def present(self) -> Mask:
        """Where there is a value."""
        if self.nulls is None:
            return np.ones(self.values.shape, bool)
        return ~self.nulls


def broadcast(vector: Vector, size: int) -> Vector:
    """A constant as a column; a column as it is."""
    nulls = vector.nulls
    if nulls is not None:
        nulls = np.broadcast_to(nulls, size)
    return Vector(vector.kind, np.broadcast_to(vector.values, size), nulls, vector.bound)


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
    elif "object" in (left.kind, right.kind) or _would_round(left, right):
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
TextCode = Callable[[str], int]


def evaluate(
    expression: ex.Expression,
    attribute: AttributeReader,
    text_code: TextCode,
    call: CallReader | None = None,
) -> Vector:
    """The value of an expression; `attribute` and `call` give those of its leaves."""

    def of(part: ex.Expression) -> Vector:
        return evaluate(part, attribute, text_code, call)

    match expression:
        case ex.Literal(value):
            return _constant(value, text_code)
        case ex.Attribute():
            return attribute(expression)
        case ex.Call():
            assert call is not None
            return call(expression)
        case ex.Negative(operand):
            return negative(of(operand))
        case ex.Arithmetic(symbol, left, right):
            return compute(symbol, of(left), of(right))
        case ex.Comparison(comparison, left, right):
            return compare(comparison, of(left), of(right))
        case ex.Membership(operand, literals, negated):
            return _membership(of(operand), [of(v) for v in literals], negated)
        case ex.IsNull(operand, negated):
            vector = of(operand)
            absent = np.zeros(vector.values.shape, bool) if vector.nulls is None else vector.nulls
            return boolean(~absent if negated else absent)
        case ex.Not(operand):
            return boolean(~truth(of(operand)))
        case ex.Logical(connective, parts):
            return _logical(connective, [truth(of(part)) for part in parts])
        case ex.Equivalence():
            raise AssertionError("an equivalence is a partition key once a query is bound")


def _constant(value: ex.Value, text_code: TextCode) -> Vector:
    match value:
        case None:
            return NULL
        case bool():
            return boolean(np.array(value))
        case str():
            return Vector("string", np.array(text_code(value), np.int64))
        case _:
            return number(value)


def _membership(operand: Vector, literals: list[Vector], negated: bool) -> Vector:
    member: Mask = np.zeros(operand.values.shape, bool)
    for literal in literals:
        member = member | compare("=", operand, literal).values
    if negated:
        member = ~member
    return boolean(member if operand.nulls is None else member & ~operand.nulls)


def _logical(connective: str, parts: list[Mask]) -> Vector:
    found = parts[0]
    for part in parts[1:]:
        found = found & part if connective == "AND" else found | part
    return boolean(found)


_UNITS = ("s", "ms", "us", "ns")
_BITS = 16  # symbols whose sets are numbered at once


class Columns:
    """What the queries of a workload read of its events, each column converted once.

    All strings share one sorted dictionary. The code of its i-th entry is 2i + 1, so that a
    constant that is not in it takes the even number between its neighbours and compares right.
    Testing events against symbols is charged to `operator`.
    """

    def __init__(
        self,
        workload: BoundWorkload,
        events: Events,
        account: Account | None = None,
        operator: str = "conditions",
    ) -> None:
        self.events = events
        self.counts: dict[ir.Symbol, int] = {}  # of instances, as far as they are known
        self.orders = KeyOrders(events)
        self._account, self._operator = account or Account(), operator
        self._wider: tuple[Columns, slice] | None = None
        self._stream = workload.stream
        self._vectors: dict[str, Vector] = {}
        self._masks: dict[ir.Symbol, Mask] = {}
        self._found_sets: list[SymbolSets] = []
        self._named = tuple({e.symbol: 0 for q in workload.queries for e in ir.events(q.pattern)})
        with self._account.charge(self._operator):
            self._read_texts(workload)

    def part(self, first: int, end: int) -> Columns:
        """The same of the events from a row to before another; what is made of all is theirs."""
        if first == 0 and end == len(self.events):
            return self
        found = copy.copy(self)
        found.events = self.events.part(first, end)
        found.orders = KeyOrders(found.events, (self.orders, first))
        found._wider = (self, slice(first, end))
        found._vectors, found._masks, found.counts = {}, {}, {}
        return found

    def _read_texts(self, workload: BoundWorkload) -> None:
        events = self.events
        names = sorted(_read_names(workload) & {*events.table.column_names, "time"})
        kinds = {name: events.column(name).type for name in names}
        self._strings = {n for n, kind in kinds.items() if _is_string(kind)}
        self._unit = max(
            (k.unit if pa.types.is_timestamp(k) else "s" for k in kinds.values() if _is_time(k)),
            key=_UNITS.index,
            default="s",
        )
        found: set[str] = set()
        for name in self._strings:
            found.update(v for v in events.codes(name).values.to_pylist() if v is not None)
        self._dictionary = sorted(found)

    def text_code(self, text: str) -> int:
        """Where a string stands among the codes."""
        place = bisect.bisect_left(self._dictionary, text)
        present = place < len(self._dictionary) and self._dictionary[place] == text
        return 2 * place + 1 if present else 2 * place

    def values(self, vector: Vector) -> pa.Array:
        """A computed vector as values for people: codes as strings, ticks as times."""
        mask = vector.nulls
        match vector.kind:
            case "null":
                return pa.nulls(len(vector.values))
            case "string":
                indices = pa.array(vector.values // 2, pa.int64(), mask=mask)
                return pa.array(self._dictionary or [""], pa.string()).take(indices)
            case "time":
                return pa.array(vector.values, pa.int64(), mask=mask).cast(pa.timestamp(self._unit))
            case "object":
                return vector.values  # may be beyond 64 bits: written one by one
            case _:
                return pa.array(vector.values, mask=mask)

    def vector(self, name: str) -> Vector:
        """A column, in the order of the table."""
        if name not in self._vectors:
            if self._wider is not None:
                columns, rows = self._wider
                self._vectors[name] = columns.vector(name).between(rows)
            else:
                with self._account.charge(self._operator):
                    self._vectors[name] = self._convert(name)
        return self._vectors[name]

    def instances(self, symbol: ir.Symbol) -> Mask:
        """Which events are of a symbol's type and satisfy its predicates."""
        if self._wider is not None:
            columns, rows = self._wider
            return columns.instances(symbol)[rows]
        if symbol not in self._masks:
            with self._account.charge(self._operator):
                found = self._masks[symbol] = self._found((symbol,)).instances(symbol)
                self.counts[symbol] = int(np.count_nonzero(found))
        return self._masks[symbol]

    def symbol_sets(
        self, symbols: Sequence[ir.Symbol]
    ) -> tuple[npt.NDArray[np.integer], list[frozenset[ir.Symbol]]]:
        """For each event the number of the set of symbols that it is an instance of, and the sets.

        The symbols of all queries are found together when any are first asked for.
        """
        if self._wider is not None:
            columns, rows = self._wider
            codes, sets = columns.symbol_sets(symbols)
            return codes[rows], sets
        with self._account.charge(self._operator):
            found = self._found(symbols).only(symbols) or self._numbered_sets(symbols)
            if any(symbol not in self.counts for symbol in symbols):
                numbers = np.bincount(found[0], minlength=len(found[1])).tolist()
                for symbol in symbols:
                    self.counts[symbol] = sum(
                        number for has, number in zip(found[1], numbers, strict=True)
                        if symbol in has
                    )  # fmt: skip
        return found

    def _found(self, symbols: Sequence[ir.Symbol]) -> SymbolSets:
        """The symbols of all events, these among them."""
        for known in self._found_sets:
            if all(symbol in known.places for symbol in symbols):
                return known
        asked: Sequence[ir.Symbol] = symbols
        if not self._found_sets:
            asked = list(dict.fromkeys([*self._named, *symbols]))
        from engines.columns.symbol_pass import SymbolPass

        try:
            made = SymbolPass(self, self._stream, asked).sets()
        except UnsupportedError:
            if asked is symbols:
                raise
            # Only who asks for the symbol that cannot be tested is to know.
            self._found_sets.append(joined((), (), len(self.events)))
            return self._found(symbols)
        self._found_sets.append(made)
        return made

    def _numbered_sets(
        self, symbols: Sequence[ir.Symbol]
    ) -> tuple[npt.NDArray[np.int64], list[frozenset[ir.Symbol]]]:
        """The same of some symbols, where all symbols together have too many sets."""
        codes = np.zeros(len(self.events), np.int64)
        meanings: list[frozenset[ir.Symbol]] = [frozenset()]
        for start in range(0, len(symbols), _BITS):
            part = symbols[start : start + _BITS]
            mask = np.zeros(len(codes), np.int64)
            for bit, symbol in enumerate(part):
                mask |= self._found((symbol,)).instances(symbol).astype(np.int64) << bit
            sets, mask = distinct(mask)
            pairs, codes = distinct(codes * len(sets) + mask)
            kinds = [frozenset(s for b, s in enumerate(part) if bits >> b & 1) for bits in sets]
            meanings = [meanings[p // len(sets)] | kinds[p % len(sets)] for p in pairs.tolist()]
        return codes, meanings

    def is_text(self, name: str) -> bool:
        """Is it a column of texts that conditions read?"""
        return name in self._strings

    def text_places(self, name: str) -> npt.NDArray[np.int64]:
        """The codes of the distinct texts of a column, in the order of its numbers."""
        values = self.events.codes(name).values
        texts = pa.array(self._dictionary, pa.string())
        places = np.asarray(pc.index_in(values.cast(pa.string()), value_set=texts))
        return 2 * places.astype(np.int64) + 1

    def test(self, condition: ex.Expression) -> Mask:
        """A condition on single events, for every row of the table."""
        vector = evaluate(condition, lambda node: self.vector(node.name), self.text_code)
        return np.broadcast_to(truth(vector), len(self.events))

    def _convert(self, name: str) -> Vector:
        column = self.events.column(name)
        kind = column.type
        nulls = None
        if column.null_count:
            nulls = np.asarray(pc.is_null(column))
        if pa.types.is_null(kind):
            return Vector("null", np.zeros(len(column), bool), nulls)
        if name in self._strings:
            return Vector("string", self._string_codes(name), nulls)
        if _is_time(kind):
            target = pa.timestamp(self._unit, getattr(kind, "tz", None))
            ticks = np.asarray(pc.fill_null(column.cast(target).cast(pa.int64()), 0))
            return Vector("time", ticks, nulls)
        if pa.types.is_boolean(kind):
            return Vector("bool", np.asarray(pc.fill_null(column, False)), nulls)
        if pa.types.is_integer(kind):
            values = np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
            bound = max(abs(int(v)) for v in (values.min(initial=0), values.max(initial=0)))
            return Vector("int", values, nulls, bound)
        if pa.types.is_floating(kind):
            return Vector("float", np.asarray(pc.fill_null(column, 0.0)), nulls)
        raise UnsupportedError(
            f"the column '{name}' has type {kind}: its values can be returned but not compared"
        )

    def _string_codes(self, name: str) -> npt.NDArray[np.int64]:
        # The last entry is for null.
        return np.append(self.text_places(name), 1)[self.events.codes(name).numbers]


def distinct(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct numbers in order, and the place of each among them; quick for small ones."""
    most = int(numbers.max(initial=0))
    if most >= 1 << 20:
        return np.unique(numbers, return_inverse=True)
    present = np.zeros(most + 1, np.bool_)
    present[numbers] = True
    if present.all():
        return np.arange(most + 1), numbers
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


def _is_string(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _read_names(workload: BoundWorkload) -> set[str]:
    """The attributes that any expression of a workload reads."""
    expressions: list[ex.Expression] = [c for c in workload.stream.types.values() if c is not None]
    for query in workload.queries:
        expressions += _expressions(query)
    return {name for expression in expressions for name in ex.attributes(expression)}


def _expressions(query: Query) -> Iterable[ex.Expression]:
    yield from query.conditions
    for event in ir.events(query.pattern):
        yield from event.symbol.predicates
    if isinstance(query.output, Construction):
        yield from (i.value for i in query.output.items if isinstance(i, ReturnValue))
    else:
        yield from (i.operand for i in query.output.items if i.operand is not None)
        if query.output.having is not None:
            yield query.output.having
