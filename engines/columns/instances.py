"""The events' columns as vectors, and which events are instances of which symbol."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.evaluate import evaluate
from engines.columns.vectors import Mask, Vector, truth
from engines.events import Events
from kernels.texts import number_texts
from optimizer.ir import pattern as ir
from optimizer.ir.query import BoundWorkload, Construction, Query, ReturnValue
from workloads import expressions as ex
from workloads.errors import UnsupportedError

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
        self._account, self._operator = account or Account(), operator
        with self._account.charge(self._operator):
            self._read_texts(workload)

    def _read_texts(self, workload: BoundWorkload) -> None:
        events = self.events
        self._stream = workload.stream
        self._vectors: dict[str, Vector] = {}
        self._masks: dict[ir.Symbol, Mask] = {}
        self._types: dict[str, Mask] = {}
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
            found.update(v for v in pc.unique(events.column(name)).to_pylist() if v is not None)
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
            with self._account.charge(self._operator):
                self._vectors[name] = self._convert(name)
        return self._vectors[name]

    def instances(self, symbol: ir.Symbol) -> Mask:
        """Which events are of a symbol's type and satisfy its predicates."""
        if symbol not in self._masks:
            with self._account.charge(self._operator):
                found = self._of_type(symbol.type)
                for predicate in symbol.predicates:
                    found = found & self._test(predicate)
                self._masks[symbol] = found
                self.counts[symbol] = int(np.count_nonzero(found))
        return self._masks[symbol]

    def symbol_sets(
        self, symbols: Sequence[ir.Symbol]
    ) -> tuple[npt.NDArray[np.int64], list[frozenset[ir.Symbol]]]:
        """For each event the number of the set of symbols that it is an instance of, and the sets.

        Types that only the type column names cost nothing: its codes are the numbers.
        """
        with self._account.charge(self._operator):
            codes, sets = self._symbol_sets(symbols)
            if any(symbol not in self.counts for symbol in symbols):
                numbers = np.bincount(codes, minlength=len(sets)).tolist()
                for symbol in symbols:
                    self.counts[symbol] = sum(
                        number for found, number in zip(sets, numbers, strict=True)
                        if symbol in found
                    )  # fmt: skip
        return codes, sets

    def _symbol_sets(
        self, symbols: Sequence[ir.Symbol]
    ) -> tuple[npt.NDArray[np.int64], list[frozenset[ir.Symbol]]]:
        named: dict[str, list[ir.Symbol]] = {}
        tested = []
        for symbol in symbols:
            if symbol.predicates or self._stream.types.get(symbol.type) is not None:
                tested.append(symbol)
            else:
                named.setdefault(symbol.type, []).append(symbol)
        codes = np.zeros(len(self.events), np.int64)
        meanings: list[frozenset[ir.Symbol]] = [frozenset()]
        if self._stream.type is not None and named:
            found = {name: frozenset(symbols) for name, symbols in named.items()}
            meanings = list(dict.fromkeys([frozenset(), *found.values()]))
            codes = self._numbered(found, meanings)
        for start in range(0, len(tested), _BITS):
            part = tested[start : start + _BITS]
            mask = np.zeros(len(codes), np.int64)
            for bit, symbol in enumerate(part):
                mask |= self.instances(symbol).astype(np.int64) << bit
            sets, mask = distinct(mask)
            pairs, codes = distinct(codes * len(sets) + mask)
            kinds = [frozenset(s for b, s in enumerate(part) if bits >> b & 1) for bits in sets]
            meanings = [meanings[p // len(sets)] | kinds[p % len(sets)] for p in pairs.tolist()]
        return codes, meanings

    def _numbered(
        self, found: dict[str, frozenset[ir.Symbol]], meanings: list[frozenset[ir.Symbol]]
    ) -> npt.NDArray[np.int64]:
        """For each event the number of what its type means; 0 for types that are not named."""
        assert self._stream.type is not None
        column = self.events.column(self._stream.type)
        if hasattr(self, "_codes") or not _is_plain_string(column.type):
            indices, names = self._type_codes()
            # The last entry is for events without a type, whose code is -1.
            sets = [
                found.get(name, frozenset()) if name is not None else frozenset() for name in names
            ]
            return np.array([*map(meanings.index, sets), 0], np.int64)[indices]
        number = {meaning: i for i, meaning in enumerate(meanings)}
        texts = [name.encode() for name in found]
        offsets = np.cumsum([0, *map(len, texts)])
        data = np.frombuffer(b"".join(texts), np.uint8)
        numbers = np.array([number[meaning] for meaning in found.values()], np.int64)
        codes = np.empty(len(column), np.int64)
        done = 0
        for chunk in column.chunks:
            part = codes[done : done + len(chunk)]
            number_texts(*_bytes_of(chunk), offsets, data, numbers, part)
            if chunk.null_count:
                part[np.asarray(pc.is_null(chunk))] = 0
            done += len(chunk)
        return codes

    def _of_type(self, name: str) -> Mask:
        if name not in self._types:
            found = np.zeros(len(self.events), bool)
            if self._stream.type is not None:
                codes, names = self._type_codes()
                # The last entry is for events without a type, whose code is -1.
                found = np.array([*(n == name for n in names), False])[codes]
            condition = self._stream.types.get(name)
            if condition is not None:
                found = found | self._test(condition)
            self._types[name] = found
        return self._types[name]

    def _type_codes(self) -> tuple[npt.NDArray[np.int32], list[str | None]]:
        if not hasattr(self, "_codes"):
            assert self._stream.type is not None
            encoded = pc.dictionary_encode(self.events.column(self._stream.type))
            combined = encoded.combine_chunks()
            names = [None if v is None else str(v) for v in combined.dictionary.to_pylist()]
            self._codes = (np.asarray(pc.fill_null(combined.indices, -1)), names)
        return self._codes

    def _test(self, condition: ex.Expression) -> Mask:
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
            return Vector("string", self._string_codes(column), nulls)
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

    def _string_codes(self, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        places = pc.index_in(
            column.cast(pa.string()), value_set=pa.array(self._dictionary, pa.string())
        )
        return 2 * np.asarray(pc.fill_null(places, 0)).astype(np.int64) + 1


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


def _is_plain_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Where each text of an array begins, and the last one ends, and the bytes of all."""
    _, offsets, data = texts.buffers()
    width = np.int32 if pa.types.is_string(texts.type) else np.int64
    ends = np.zeros(1, width) if offsets is None else np.frombuffer(offsets, width)
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends[texts.offset : texts.offset + len(texts) + 1], bytes_


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
