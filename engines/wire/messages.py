"""Messages that begin with the number of their schema (Confluent's wire format), as columns.

    0, four bytes of the schema's number, the record

What is wrong with one message is a fault of it; what is wrong with the registry stops the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.input.event_table import Fault
from engines.input.line_files import Parsed, parse_json
from engines.input.time_texts import time_reader
from engines.limits import EventsError
from engines.wire.avro import AvroReader
from engines.wire.json_schema import json_columns
from engines.wire.protobuf import MessageReader, ProtobufReader
from engines.wire.registry import AVRO, JSON, PROTOBUF, NoSchemaError, RegisteredSchema, Registry
from kernels.registry import kernel
from workloads.workload import Stream

HEAD = 5  # bytes before a record
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bodies = tuple[Bytes, Int64s, Int64s]  # bytes, and where each message's record begins and ends


def registered_columns(registry: Registry, topic: str) -> pa.Schema:
    """The columns of a topic's messages, as their schema says now."""
    found = registry.latest(f"{topic}-value")
    if found.kind == JSON:
        return json_columns(found.text)
    if found.kind == AVRO:
        return _avro(found).schema
    return _message(found, (0,)).schema


def read_messages(
    values: pa.Array, registry: Registry, schema: pa.Schema, stream: Stream
) -> Parsed:
    """Messages as the columns of `schema`, their numbers from 0, and what is wrong with others."""
    data, starts, ends = _places(values)
    framed = ends - starts >= HEAD
    framed[framed] = data[starts[framed]] == 0
    faults = [
        Fault(int(i) + 1, "no schema", "it does not begin with the number of a schema")
        for i in np.flatnonzero(~framed)
    ]
    numbers = np.zeros(len(values), np.int64)
    for place in range(1, HEAD):
        numbers[framed] = numbers[framed] << 8 | data[starts[framed] + place]
    tables, rows = [schema.empty_table()], [np.zeros(0, np.int64)]
    for number in np.unique(numbers[framed]).tolist():
        mine = np.flatnonzero(framed & (numbers == number))
        try:
            found = registry.schema(number)
        except NoSchemaError:
            told = f"the registry at {registry.place} has no schema {number}, which it begins with"
            faults += [Fault(int(i) + 1, "unknown schema", told) for i in mine]
            continue
        for table, own, wrong in _of_schema(
            found, (data, starts[mine] + HEAD, ends[mine]), schema, stream
        ):
            tables.append(table)
            rows.append(mine[own])
            faults += [Fault(int(mine[f.row - 1]) + 1, f.kind, f.message, f.column) for f in wrong]
    order = np.argsort(np.concatenate(rows), kind="stable")
    table = pa.concat_tables(tables).take(pa.array(order))
    return table, np.concatenate(rows)[order], sorted(faults)


def _places(values: pa.Array) -> Bodies:
    """The bytes of messages, and where each begins and ends."""
    values = values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return content, ends[:-1].copy(), ends[1:].copy()


def _of_schema(
    found: RegisteredSchema,
    bodies: Bodies,
    schema: pa.Schema,
    stream: Stream,
) -> Iterator[Parsed]:
    """Messages that are of one schema; rows are numbered among them."""
    if found.kind == JSON:
        block, empty = _lines(bodies)
        told = "it has nothing behind its number"
        faults = [Fault(int(i) + 1, "not readable", told) for i in np.flatnonzero(empty)]
        kept = np.flatnonzero(~empty)
        parsed: Parsed = schema.empty_table(), np.zeros(0, np.int64), []
        if len(kept):
            parsed = parse_json(block, schema, stream)
        table, rows, wrong = parsed
        faults += [Fault(int(kept[f.row - 1]) + 1, f.kind, f.message, f.column) for f in wrong]
        yield table, kept[rows], faults
    elif found.kind == AVRO:
        table, good, bad = _avro(found).read(*bodies)
        faults = [Fault(i + 1, "not readable", why) for i, why in bad.items()]
        rows = np.flatnonzero(good)
        table, kept, wrong = fitted(table.filter(pa.array(good)), rows, schema, stream)
        yield table, kept, [*faults, *wrong]
    elif found.kind == PROTOBUF:
        yield from _protobuf(found, bodies, schema, stream)
    else:
        raise EventsError(
            f"a schema of the registry is of the kind '{found.kind}'; known are "
            f"{AVRO}, {JSON} and {PROTOBUF}"
        )


def _lines(bodies: Bodies) -> tuple[bytes, npt.NDArray[np.bool_]]:
    """Each message's record as a line, whatever lines it is written in, and which are empty."""
    data, starts, ends = bodies
    offsets = np.concatenate([[0], np.cumsum(ends - starts + 1)]).astype(np.int64)
    block = np.zeros(int(offsets[-1]), np.uint8)
    kernel("take_bytes", "numba")(data, starts - 1, offsets, block)  # with a byte of the number
    block[(block == ord("\n")) | (block == ord("\r"))] = ord(" ")
    block[offsets[:-1]] = ord("\n")
    written = np.concatenate([[0], np.cumsum(block > ord(" "))])[offsets]
    return block[1:].tobytes(), np.diff(written) == 0


def _protobuf(
    found: RegisteredSchema, given: Bodies, schema: pa.Schema, stream: Stream
) -> Iterator[Parsed]:
    """Messages of a file's types: which type is said by the places that each begins with."""
    bodies: dict[tuple[int, ...], list[tuple[int, bytes]]] = {}
    faults = []
    data, starts, ends = given
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            path, body = _path(data[start:end].tobytes())
            _message(found, path)
        except IndexError:
            told = "it does not say of which type of its Protobuf file it is"
            faults.append(Fault(i + 1, "not readable", told))
            continue
        bodies.setdefault(path, []).append((i, body))
    for path, each in bodies.items():
        numbers = np.array([i for i, _ in each], np.int64)
        table, good, bad = _message(found, path).read([body for _, body in each])
        faults += [Fault(int(numbers[i]) + 1, "not readable", why) for i, why in bad.items()]
        table, kept, wrong = fitted(table, numbers[good], schema, stream)
        faults += wrong
        yield table, kept, []
    yield schema.empty_table(), np.zeros(0, np.int64), faults


def _path(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """The places of a message's type, and the message; raises `IndexError` where it is torn."""

    def number(at: int) -> tuple[int, int]:
        bits = shift = 0
        while True:
            if shift > 63:
                raise IndexError(at)
            byte = body[at]
            bits, at, shift = bits | (byte & 127) << shift, at + 1, shift + 7
            if byte < 128:
                return (bits >> 1) ^ -(bits & 1), at

    count, at = number(0)
    if count == 0:  # in short for the first type
        return (0,), body[at:]
    if not 0 < count <= len(body):
        raise IndexError(count)
    path = []
    for _ in range(count):
        place, at = number(at)
        path.append(place)
    return tuple(path), body[at:]


@lru_cache(maxsize=1000)
def _avro(found: RegisteredSchema) -> AvroReader:
    return AvroReader(found.text, [text for _, text in found.references])


@lru_cache(maxsize=1000)
def _file(found: RegisteredSchema) -> ProtobufReader:
    return ProtobufReader(found.text, found.references)


@lru_cache(maxsize=1000)
def _message(found: RegisteredSchema, path: tuple[int, ...]) -> MessageReader:
    return _file(found).message(path)


# --- columns of messages as those of the stream ---------------------------------------------------


def fitted(table: pa.Table, rows: Int64s, schema: pa.Schema, stream: Stream) -> Parsed:
    """Rows, of these numbers, with the columns of `schema`; null where a message has none."""
    good = np.ones(len(rows), np.bool_)
    faults: list[Fault] = []
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        given = table.column(field.name).combine_chunks()
        column, bad = _fitted(given, field, stream)
        for i in np.flatnonzero(bad).tolist():
            told = f"{given[i].as_py()!r} is no {field.type}"
            faults.append(Fault(int(rows[i]) + 1, "wrong type", told, field.name))
        good &= ~bad
        columns.append(column)
    found = pa.table(columns, schema=schema)
    return (found, rows, []) if good.all() else (found.filter(pa.array(good)), rows[good], faults)


def _fitted(
    column: pa.Array, field: pa.Field, stream: Stream
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """A column as another type, null where a value is none of that, and where that is."""
    if field.name == stream.time:
        reader = time_reader(stream, field.type)
        if reader is not None and not pa.types.is_temporal(column.type):
            times, bad = reader.read(column, field.type)
            return times.cast(field.type), bad
        # A number of the stream's unit is a time, and the other way round.
        unit = pa.timestamp(stream.unit)
        if pa.types.is_timestamp(column.type) and pa.types.is_integer(field.type):
            return _cast(column, unit, pa.int64(), field.type)
        if pa.types.is_integer(column.type) and pa.types.is_timestamp(field.type):
            return _cast(column, pa.int64(), unit, field.type)
    return _cast(column, field.type)


def _cast(column: pa.Array, *kinds: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """A column as one type after the other."""
    bad = np.zeros(len(column), np.bool_)
    try:
        for kind in kinds:
            column = column.cast(kind)
        return column, bad
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(column) == 1:
            return pa.nulls(1, kinds[-1]), ~bad
        half = len(column) // 2  # to find which of them it is
        found = [_cast(part, *kinds) for part in (column.slice(0, half), column.slice(half))]
        columns, bads = zip(*found, strict=True)
        return pa.concat_arrays(columns), np.concatenate(bads)
