"""One pass over events that tests them against the symbols of all queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.symbol_sets import (
    AttributeClasses,
    Int32s,
    Mask,
    SymbolSets,
    allowed_by,
    constants_of,
    intervals,
    joined,
    real_breaks,
    samples_of_real,
    samples_of_whole,
    whole_breaks,
)
from engines.columns.vectors import Vector, evaluate, truth
from kernels.texts.cpu import number_texts
from optimizer.ir.pattern import Symbol
from optimizer.ir.read_columns import constant_attribute
from workloads import expressions as ex
from workloads.workload import Stream

_INTERVALS = ("int", "float", "bool", "string")  # kinds whose values are looked up


class SymbolPass:
    """The conditions of symbols, put together by what they read of an event."""

    def __init__(self, columns: Columns, stream: Stream, symbols: Sequence[Symbol]) -> None:
        self._columns, self._stream, self._symbols = columns, stream, symbols
        self._types: dict[str, list[int]] = {}  # by name, their symbols
        self._lookups: dict[str, list[tuple[int, ex.Expression]]] = {}  # by attribute
        self._others: dict[ex.Expression | str, list[int]] = {}  # conditions, or names of types
        for place, symbol in enumerate(symbols):
            self._add_type(place, symbol.type)
            for predicate in symbol.predicates:
                self._add(place, predicate)

    def _add_type(self, place: int, name: str) -> None:
        condition = self._stream.types.get(name)
        if condition is None:
            self._types.setdefault(name, []).append(place)
        elif condition == ex.Literal(True):
            return  # every event is of it, and no type column need be looked at for that
        elif self._stream.type is not None and name in self._type_codes()[1]:
            self._others.setdefault(name, []).append(place)
        else:
            self._add(place, condition)

    def _add(self, place: int, condition: ex.Expression) -> None:
        for part in ex.conjuncts(condition):
            name = constant_attribute(part)
            if name is not None and self._kind(name) in _INTERVALS:
                self._lookups.setdefault(name, []).append((place, part))
            else:
                self._others.setdefault(part, []).append(place)

    def _kind(self, name: str) -> str:
        return "string" if self._columns.is_text(name) else self._columns.vector(name).kind

    def sets(self) -> SymbolSets:
        """The symbols of each event."""
        return joined(self._symbols, self._attributes(), len(self._columns.events))

    def _attributes(self) -> Iterator[AttributeClasses]:
        if self._types:
            yield self._by_type()
        for name, tests in self._lookups.items():
            yield self._by_value(name, tests)
        for condition, places in self._others.items():
            if isinstance(condition, str):
                holds = self._of_type(condition)
            else:
                holds = self._columns.test(condition)
            allowed = np.ones((3, len(self._symbols)), bool)
            allowed[0, places] = False
            yield AttributeClasses(holds.astype(np.int32), allowed)

    # --- types ------------------------------------------------------------------------------------

    def _by_type(self) -> AttributeClasses:
        """Types by the name in the column of types; none where the stream has no such column."""
        named = list(self._types)
        if self._stream.type is None:
            numbers = np.zeros(len(self._columns.events), np.int32)
        else:
            numbers = self._type_numbers(named)
        allowed = np.ones((len(named) + 2, len(self._symbols)), bool)
        allowed[:, [place for places in self._types.values() for place in places]] = False
        for number, places in enumerate(self._types.values(), 1):
            allowed[number, places] = True
        return AttributeClasses(numbers, allowed)

    def _type_numbers(self, named: Sequence[str]) -> Int32s:
        """For each event the number of its type among the named ones, from 1 on."""
        events, type_ = self._columns.events, self._stream.type
        assert type_ is not None
        column = events.column(type_)
        if self._columns.is_text(type_) or not _is_plain_string(column.type):
            codes, names = self._type_codes()
            number = {name: i for i, name in enumerate(named, 1)}
            # The last entry is for events without a type, whose code is -1.
            return np.array([*(number.get(n, 0) if n else 0 for n in names), 0], np.int32)[codes]
        texts = [name.encode() for name in named]
        offsets = np.cumsum([0, *map(len, texts)])
        data = np.frombuffer(b"".join(texts), np.uint8)
        # Where all events have one type, the same piece of memory comes again and again.
        known: dict[tuple[object, ...], Int32s] = {}
        parts = []
        for chunk in filter(len, column.chunks):
            where = (None if each is None else each.address for each in chunk.buffers())
            place = (*where, chunk.offset, len(chunk))
            if place not in known:
                part = known[place] = np.empty(len(chunk), np.int32)
                number_texts(*_bytes_of(chunk), offsets, data, np.arange(1, len(texts) + 1), part)
                if chunk.null_count:
                    part[np.asarray(pc.is_null(chunk))] = 0
            parts.append(known[place])
        if len(known) < len(parts):
            ends = {int(end) for part in known.values() for end in (part.min(), part.max())}
            if len(ends) == 1:
                return np.broadcast_to(np.int32(ends.pop()), len(column))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)

    def _type_codes(self) -> tuple[Int32s, list[str | None]]:
        assert self._stream.type is not None
        numbers, values = self._columns.events.codes(self._stream.type)
        return numbers, [None if v is None else str(v) for v in values.to_pylist()]

    def _of_type(self, name: str) -> Mask:
        """Which events are of a type by the column of types, or by the type's condition."""
        codes, names = self._type_codes()
        condition = self._stream.types[name]
        assert condition is not None
        found: Mask = np.array([*(n == name for n in names), False])[codes]
        return found | self._columns.test(condition)

    # --- attributes -------------------------------------------------------------------------------

    def _by_value(self, name: str, tests: list[tuple[int, ex.Expression]]) -> AttributeClasses:
        """Conditions that compare one attribute with constants: a look-up of its value."""
        columns = self._columns
        constants = [value for _, condition in tests for value in constants_of(condition)]
        if columns.is_text(name):
            codes = [columns.texts.code(value) for value in constants if isinstance(value, str)]
            breaks = whole_breaks(codes)
            places = intervals(columns.text_places(name), breaks, None)
            numbers = np.append(places, np.int32(-1))[columns.events.codes(name).numbers]
            samples = Vector("string", samples_of_whole(breaks))
        else:
            vector = columns.vector(name)
            if vector.kind == "bool":
                numbers = vector.values.astype(np.int32)
                if vector.nulls is not None:
                    numbers[vector.nulls] = -1
                samples = Vector("bool", np.array([False, True]))
            elif vector.kind == "int":
                breaks = whole_breaks(constants)
                values = samples_of_whole(breaks)
                numbers = intervals(vector.values, breaks, vector.nulls)
                most = max(vector.bound, *map(abs, values.tolist()))
                samples = Vector("int", values, None, most)
            else:
                doubles = real_breaks(constants)
                numbers = intervals(vector.values, doubles, vector.nulls)
                samples = Vector("float", samples_of_real(doubles))
        samples = _with_null(samples)

        def holds(condition: ex.Expression) -> Mask:
            found = truth(evaluate(condition, lambda node: samples, columns.texts))
            return np.broadcast_to(found, samples.values.shape)

        allowed = allowed_by(tests, len(self._symbols), len(samples.values), holds)
        return AttributeClasses(numbers, allowed)


def _with_null(samples: Vector) -> Vector:
    values: npt.NDArray[Any] = np.append(samples.values, samples.values[:1])
    nulls = np.zeros(len(values), bool)
    nulls[-1] = True
    return Vector(samples.kind, values, nulls, samples.bound)


def _is_plain_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Where each text of an array begins, and the last one ends, and the bytes of all."""
    _, offsets, data = texts.buffers()
    width = np.int32 if pa.types.is_string(texts.type) else np.int64
    ends = np.zeros(1, width) if offsets is None else np.frombuffer(offsets, width)
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends[texts.offset : texts.offset + len(texts) + 1], bytes_
