"""Protobuf: the columns of a message type, and messages read into them.

What no column can hold is left out: maps, and messages that have themselves inside.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from engines.limits import EventsError

_WELL_KNOWN = (duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPER = "google.protobuf.{}Value"
_WRAPPERS = {
    _WRAPPER.format(name)
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_KINDS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int64(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


class ProtobufReader:
    """Reads messages of a file of descriptors, in base64; `others` are those that it imports."""

    def __init__(self, text: str, others: Sequence[tuple[str, str]] = ()) -> None:
        self._text, self._others = text, tuple(others)

    @cached_property
    def _file(self) -> Any:
        pool = descriptor_pool.DescriptorPool()
        for module in _WELL_KNOWN:
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        known = {module.DESCRIPTOR.name for module in _WELL_KNOWN}
        try:
            for name, text in self._others:
                if name not in known:
                    self._add(pool, text, name)
            return pool.FindFileByName(self._add(pool, self._text, "message.proto"))
        except (TypeError, KeyError, ValueError, DecodeError) as error:
            raise EventsError(
                f"a message's Protobuf schema cannot be read: {error}; the registry has to give "
                "descriptors (format=serialized)"
            ) from error

    @staticmethod
    def _add(pool: descriptor_pool.DescriptorPool, text: str, name: str) -> str:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
        return name

    def message(self, path: Sequence[int]) -> MessageReader:
        """The reader of a message type, by its place in the file and in the types around it."""
        types = list(self._file.message_types_by_name.values())
        found: Descriptor | None = None
        for place in path:
            if not 0 <= place < len(types):
                raise IndexError(place)
            found = types[place]
            types = list(found.nested_types)
        assert found is not None
        return MessageReader(found)


class MessageReader:
    """Reads messages of a type."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._class = message_factory.GetMessageClass(descriptor)
        found = _columns(descriptor, ())
        self._columns = {name: take for name, (_, take) in found.items()}
        self.schema = pa.schema([(name, kind) for name, (kind, _) in found.items()])

    def read(self, bodies: Sequence[bytes]) -> tuple[pa.Table, list[int], dict[int, str]]:
        """The messages as rows, which of them are good, and what is wrong with the others."""
        messages, good, faults = [], [], {}
        for i, body in enumerate(bodies):
            try:
                messages.append(self._class.FromString(body))
                good.append(i)
            except DecodeError:
                faults[i] = "it is no message of its Protobuf type"
        columns = [
            pa.array([take(message) for message in messages], kind)
            for take, kind in zip(self._columns.values(), self.schema.types, strict=True)
        ]
        return pa.table(columns, schema=self.schema), good, faults


_Column = tuple[pa.DataType, Callable[[Any], Any]]


def _columns(descriptor: Descriptor, above: tuple[str, ...]) -> dict[str, _Column]:
    found = {}
    for field in descriptor.fields:
        column = _column(field, (*above, descriptor.full_name))
        if column is not None:
            found[str(field.name)] = column
    return found


def _column(field: FieldDescriptor, above: tuple[str, ...]) -> _Column | None:
    """A field's type, and what takes its value from a message; None where no column can hold it."""
    name = field.name
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    value = _of_message(field.message_type, above) if is_message else _of_field(field)
    if value is None:
        return None
    kind, convert = value
    if field.is_repeated:
        return pa.list_(kind), lambda message: [convert(each) for each in getattr(message, name)]
    if not field.has_presence:
        return kind, lambda message: convert(getattr(message, name))

    def take(message: Any) -> Any:
        return convert(getattr(message, name)) if message.HasField(name) else None

    return kind, take


def _of_field(field: FieldDescriptor) -> _Column:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        is_text = field.type == FieldDescriptor.TYPE_STRING
        return (pa.string() if is_text else pa.binary()), _same
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {value.number: value.name for value in field.enum_type.values}
        return pa.string(), lambda number: names.get(number, str(number))
    return _KINDS[field.cpp_type], _same


def _of_message(descriptor: Descriptor, above: tuple[str, ...]) -> _Column | None:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        unit = pa.timestamp("us", "UTC")
        return unit, lambda time: time.seconds * 1_000_000 + time.nanos // 1000
    if name in _WRAPPERS:
        kind, _ = _of_field(descriptor.fields_by_name["value"])
        return kind, lambda wrapper: wrapper.value
    if name in above or descriptor.GetOptions().map_entry:
        return None
    inside = _columns(descriptor, above)
    if not inside:
        return None
    kind = pa.struct([(column, kind) for column, (kind, _) in inside.items()])
    takes = [(column, take) for column, (_, take) in inside.items()]
    return kind, lambda message: {column: take(message) for column, take in takes}


def _same(value: Any) -> Any:
    return value
