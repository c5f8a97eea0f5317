"""Avro: the columns of a schema's records, and records read into them.

What no column can hold is read over: arrays, maps, and unions of unlike things.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.limits import EventsError
from kernels.records import cpu as steps
from kernels.registry import kernel

Int64s = npt.NDArray[np.int64]
MAX_DEPTH = steps.MAX_DEPTH
_DIGITS = Context(prec=1000)

_FAULTS = {
    steps.TORN: "it ends in the middle of a value",
    steps.NO_BRANCH: "it names a branch that its union does not have",
    steps.TOO_LONG: "it has a number of more than 64 bits",
    steps.NO_LENGTH: "it has a text of negative length",
    steps.MORE: "it goes on behind its last value",
}
_STEPS = {
    "int": steps.LONG,
    "long": steps.LONG,
    "float": steps.FLOAT,
    "double": steps.DOUBLE,
    "boolean": steps.BOOL,
    "string": steps.TEXT,
    "bytes": steps.TEXT,
    "enum": steps.LONG,
    "fixed": steps.BYTES_OF,
}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}


@dataclass(frozen=True)
class _Leaf:
    """A column that records have a value for, or a null; `number` is its place for the kernel."""

    kind: str
    schema: Mapping[str, Any]
    number: int


@dataclass(frozen=True)
class _Struct:
    fields: Mapping[str, _Leaf | _Struct]
    number: int


@dataclass
class AvroReader:
    """Reads records that were written by a schema; `others` are those that it refers to."""

    text: str
    others: Sequence[str] = ()
    _named: dict[str, Any] = field(default_factory=dict)
    _program: list[tuple[int, int, int]] = field(default_factory=list)
    _targets: list[int] = field(default_factory=list)
    _columns: int = 0

    def __post_init__(self) -> None:
        for other in self.others:
            self._note_names(json.loads(other), "")
        schema = json.loads(self.text)
        self._note_names(schema, "")
        record = self._resolved(schema, "")[0]
        if not isinstance(record, dict) or record.get("type") != "record":
            raise EventsError("a message's schema is no record of Avro; events have columns")
        found = self._compile(record, "", 0)
        assert isinstance(found, _Struct)
        self._fields = found.fields
        self.schema = pa.schema([(name, _type(each)) for name, each in self._fields.items()])

    def read(
        self, data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s
    ) -> tuple[pa.Table, npt.NDArray[np.bool_], dict[int, str]]:
        """The records as rows, which of them are good, and what is wrong with the others."""
        size = len(starts)
        numbers, lengths = (np.zeros((self._columns, size), np.int64) for _ in range(2))
        valid, status = np.zeros((self._columns, size), np.bool_), np.zeros(size, np.int8)
        program = np.array(self._program, np.int64).reshape(-1, 3)
        kernel("read_records", "numba")(
            data, starts, ends, program, np.array([*self._targets, 0], np.int64), numbers, lengths,
            valid, status,
        )  # fmt: skip
        faults = {int(i): _FAULTS[int(status[i])] for i in np.flatnonzero(status)}
        valid[:, status != steps.GOOD] = False
        read = _Read(data, numbers, lengths, valid, faults)
        columns = {name: read.column(each) for name, each in self._fields.items()}
        good = np.ones(size, np.bool_)
        good[list(faults)] = False
        return pa.table(columns, schema=self.schema), good, faults

    # --- names ---------------------------------------------------------------------------------

    def _note_names(self, schema: Any, space: str) -> None:
        """Know each type that has a name by that."""
        if isinstance(schema, list):
            for each in schema:
                self._note_names(each, space)
        if not isinstance(schema, dict):
            return
        if isinstance(schema.get("type"), dict | list):
            self._note_names(schema["type"], space)
        if schema.get("type") in ("record", "error", "enum", "fixed"):
            name = _full_name(schema, space)
            self._named[name] = schema
            space = name.rpartition(".")[0]
        for part in schema.get("fields", ()):
            self._note_names(part["type"], space)
        for part in ("items", "values"):
            self._note_names(schema.get(part), space)

    def _resolved(self, schema: Any, space: str) -> tuple[Any, str]:
        """A schema as an object or a list of branches, and the namespace inside of it."""
        while isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            schema = schema["type"]
        if isinstance(schema, str):
            name = schema if "." in schema or not space else f"{space}.{schema}"
            schema = self._named.get(name, self._named.get(schema, {"type": schema}))
        if isinstance(schema, dict) and "name" in schema:
            space = _full_name(schema, space).rpartition(".")[0]
        return schema, space

    # --- programs ------------------------------------------------------------------------------

    def _compile(self, given: Any, space: str, depth: int) -> _Leaf | _Struct | None:
        """Add the steps that read a value; gives the column that has it."""
        schema, space = self._resolved(given, space)
        if depth > MAX_DEPTH:
            raise EventsError("a message's schema has itself inside, so it has no columns")
        if isinstance(schema, list):
            return self._union(schema, space, depth)
        kind = str(schema["type"])
        if kind in ("record", "error"):
            number = self._column()
            self._program.append((steps.HERE, number, 0))
            found = {}
            for part in schema["fields"]:
                column = self._compile(part["type"], space, depth + 1)
                if column is not None:
                    found[str(part["name"])] = column
            return _Struct(found, number)
        if kind == "null":
            return None
        if kind not in _STEPS:
            self._loop(schema, kind, space, depth)
            return None
        number = self._column()
        self._program.append((_STEPS[kind], number, int(schema.get("size", 0))))
        return _Leaf(kind, schema, number)

    def _loop(self, schema: Any, kind: str, space: str, depth: int) -> None:
        """Read over blocks of items."""
        if kind not in ("array", "map"):
            raise EventsError(f"a message's schema has a type '{kind}', which Avro does not have")
        start = len(self._program)
        self._program.append((steps.BLOCK, -1, 0))
        if kind == "map":
            self._program.append((steps.TEXT, -1, 0))
        first = len(self._program)
        self._compile(schema["values" if kind == "map" else "items"], space, depth + 1)
        self._program[first:] = [(step, -1, number) for step, _, number in self._program[first:]]
        self._program.append((steps.AGAIN, -1, start))
        self._program[start] = (steps.BLOCK, -1, len(self._program))

    def _union(self, branches: list[Any], space: str, depth: int) -> _Leaf | _Struct | None:
        at = len(self._targets)
        self._targets += [len(branches)] + [0] * len(branches)
        self._program.append((steps.UNION, -1, at))
        found: list[_Leaf | _Struct] = []
        jumps = []
        for i, branch in enumerate(branches):
            self._targets[at + 1 + i] = first = len(self._program)
            column = self._compile(branch, space, depth + 1)
            is_null = self._resolved(branch, space)[0] == {"type": "null"}
            if found and column is not None and _is_alike(found[0], column):
                self._program[first:] = [
                    (step, found[0].number, about) for step, _, about in self._program[first:]
                ]
            elif column is not None or not is_null:
                found.append(column or _Struct({}, -1))  # which is no column, and like no other
            jumps.append(len(self._program))
            self._program.append((steps.JUMP, -1, 0))
        for jump in jumps:
            self._program[jump] = (steps.JUMP, -1, len(self._program))
        only = found[0] if len(found) == 1 else None
        return None if isinstance(only, _Struct) and only.number < 0 else only

    def _column(self) -> int:
        self._columns += 1
        return self._columns - 1


@dataclass(frozen=True)
class _Read:
    """What was read of records, as columns; `faults` gets what is wrong with values."""

    data: npt.NDArray[np.uint8]
    numbers: Int64s
    lengths: Int64s
    valid: npt.NDArray[np.bool_]
    faults: dict[int, str]

    def column(self, of: _Leaf | _Struct) -> pa.Array:
        valid = self.valid[of.number]
        if isinstance(of, _Struct):
            if not of.fields:
                return pa.array([{} if here else None for here in valid], pa.struct([]))
            children = [self.column(each) for each in of.fields.values()]
            return pa.StructArray.from_arrays(children, list(of.fields), mask=pa.array(~valid))
        kind, numbers = _type(of), self.numbers[of.number]
        if of.kind == "enum":
            return self._symbols(of, numbers, valid)
        if of.kind in ("string", "bytes", "fixed"):
            return self._texts(of, kind, valid)
        if of.kind == "float":
            return pa.array(numbers.astype(np.int32).view(np.float32), mask=~valid)
        if of.kind == "double":
            return pa.array(numbers.view(np.float64), mask=~valid)
        if of.kind == "boolean":
            return pa.array(numbers != 0, mask=~valid)
        if pa.types.is_date32(kind):
            far = valid & (numbers != numbers.astype(np.int32))
            self._tell(far, "it has a date that is further away than dates go")
            return pa.array(numbers.astype(np.int32), mask=~valid | far).cast(kind)
        return pa.array(numbers, mask=~valid).cast(kind)

    def _symbols(self, of: _Leaf, numbers: Int64s, valid: npt.NDArray[np.bool_]) -> pa.Array:
        symbols = pa.array([str(each) for each in of.schema["symbols"]], pa.string())
        unknown = valid & ((numbers < 0) | (numbers >= len(symbols)))
        self._tell(unknown, "it has a number that is no symbol of its enum")
        return symbols.take(pa.array(np.where(unknown, 0, numbers), mask=~valid | unknown))

    def _texts(self, of: _Leaf, kind: pa.DataType, valid: npt.NDArray[np.bool_]) -> pa.Array:
        lengths = np.where(valid, self.lengths[of.number], 0)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        taken = np.zeros(int(offsets[-1]), np.uint8)
        kernel("take_bytes", "numba")(self.data, self.numbers[of.number], offsets, taken)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(taken)]
        whole = pa.Array.from_buffers(pa.large_binary(), len(valid), buffers)
        values = pc.if_else(pa.array(valid), whole, pa.scalar(None, pa.large_binary()))
        if pa.types.is_decimal(kind):
            # Of any length, and rare: one by one.
            found = [None if v is None else _decimal(v, kind.scale) for v in values.to_pylist()]
            return pa.array(found, kind)
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            bad = np.array([v is not None and not _is_text(v) for v in values.to_pylist()])
            self._tell(bad, "it has a text that is not UTF-8")
            return pc.if_else(pa.array(bad), pa.scalar(None, pa.large_binary()), values).cast(kind)

    def _tell(self, bad: npt.NDArray[np.bool_], why: str) -> None:
        for row in np.flatnonzero(bad):
            self.faults.setdefault(int(row), why)


def _full_name(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema["name"])
    space = str(schema.get("namespace") or space)
    return name if "." in name or not space else f"{space}.{name}"


def _is_alike(one: _Leaf | _Struct, other: _Leaf | _Struct) -> bool:
    """Are both values of one column, read in the same way?"""
    if isinstance(one, _Struct) or isinstance(other, _Struct) or "enum" in (one.kind, other.kind):
        return False
    return bool(_type(one) == _type(other))


def _type(of: _Leaf | _Struct) -> pa.DataType:
    if isinstance(of, _Struct):
        return pa.struct([(name, _type(each)) for name, each in of.fields.items()])
    logical = str(of.schema.get("logicalType", ""))
    if of.kind == "int" and logical == "date":
        return pa.date32()
    if of.kind == "long" and "timestamp-" in logical and (unit := logical.split("-")[-1]) in _UNITS:
        return pa.timestamp(_UNITS[unit], None if logical.startswith("local-") else "UTC")
    if of.kind in ("bytes", "fixed"):
        precision, scale = int(of.schema.get("precision", 0)), int(of.schema.get("scale", 0))
        if logical == "decimal" and 0 < precision <= 38:
            return pa.decimal128(precision, scale)
        return pa.binary()
    return {
        "int": pa.int64(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "enum": pa.string(),
    }[of.kind]


def _decimal(value: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _DIGITS)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
