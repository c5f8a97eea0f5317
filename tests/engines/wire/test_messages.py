"""Messages of a registry's schemas become the events that their JSON would be."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from engines.limits import EventsError
from engines.spark.stream.source import open_live_source
from engines.wire.messages import read_messages, registered_columns
from engines.wire.protobuf import ProtobufReader
from engines.wire.registry import Registry
from tests.engines.registry import Schemas, framed, registry
from tests.engines.wire.avro_writer import encoded
from workloads.workload import Stream

STREAM = Stream(time="ts", unit="ms", type="kind")
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "x", "type": ["null", "double"]},
    ],
}
# The same with another column and without one.
LATER = {**AVRO, "fields": [*AVRO["fields"][:2], {"name": "y", "type": "int"}]}
COLUMNS = pa.schema([("ts", pa.int64()), ("kind", pa.string()), ("x", pa.float64())])


@pytest.fixture
def schemas() -> Iterator[Schemas]:
    with registry() as found:
        yield found


def read(
    schemas: Schemas, messages: list[bytes], schema: pa.Schema = COLUMNS, stream: Stream = STREAM
) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    values = pa.array([b"before", *messages])[1:]  # part of a larger batch
    table, rows, faults = read_messages(values, Registry(schemas.address), schema, stream)
    assert table.schema == schema
    return table.to_pylist(), rows.tolist(), [(fault.row, fault.message) for fault in faults]


def test_messages_of_several_schemas_are_rows_in_their_order(schemas: Schemas) -> None:
    avro, later = schemas.add("t-value", AVRO), schemas.add("t-value", LATER)
    plain = schemas.add("t-value", {"type": "object"}, "JSON")
    messages = [
        framed(later, encoded(LATER, {"ts": 1, "kind": "B", "y": 1})),
        framed(avro, encoded(AVRO, {"ts": 2, "kind": "A", "x": 0.5})),
        framed(plain, b'{"ts": 3,\n "kind": "C", "x": 7}'),
        framed(avro, encoded(AVRO, {"ts": 4, "kind": "B", "x": None})),
    ]
    rows, numbers, faults = read(schemas, messages)
    assert faults == []
    assert numbers == [0, 1, 2, 3]
    assert [tuple(row.values()) for row in rows] == [
        (1, "B", None),
        (2, "A", 0.5),
        (3, "C", 7.0),
        (4, "B", None),
    ]


def test_what_is_no_message_is_a_fault_of_its_row(schemas: Schemas) -> None:
    avro = schemas.add("t-value", AVRO)
    plain = schemas.add("t-value", {"type": "object"}, "JSON")
    good = framed(avro, encoded(AVRO, {"ts": 1, "kind": "A", "x": 1.0}))
    messages = [
        good[:4],
        good,
        b"\x01" + good[1:],
        framed(99, b""),
        good[:-1],
        framed(plain, b"{"),
        framed(plain, b" "),
        framed(plain, b'{"ts": "x"}'),
        b"",
        good,
    ]
    rows, numbers, faults = read(schemas, messages)
    assert numbers == [1, 9]
    assert len(rows) == 2
    assert [row for row, _ in faults] == [1, 3, 4, 5, 6, 7, 8, 9]
    said = dict(faults)
    assert "does not begin with the number of a schema" in said[1]
    assert said[3] == said[9] == said[1]
    assert "has no schema 99" in said[4]
    assert "ends in the middle" in said[5]


def test_times_are_of_the_streams_unit_whatever_they_are_written_as(schemas: Schemas) -> None:
    number = schemas.add("t-value", AVRO)
    message = framed(number, encoded(AVRO, {"ts": 5000, "kind": "A", "x": None}))
    odd = framed(number, encoded(AVRO, {"ts": 5001, "kind": "A", "x": None}))
    seconds = Stream(time="ts", unit="s", type="kind")
    rows, _, faults = read(schemas, [odd, message], stream=seconds)
    assert [row["ts"] for row in rows] == [5]
    assert [row for row, _ in faults] == [1]  # which is no whole number of seconds
    plain = {**AVRO, "fields": [{"name": "ts", "type": "long"}, *AVRO["fields"][1:]]}
    number = schemas.add("t-value", plain)
    message = framed(number, encoded(plain, {"ts": 5, "kind": "A", "x": None}))
    timed = COLUMNS.set(0, pa.field("ts", pa.timestamp("ms")))
    (row,), _, _ = read(schemas, [message], timed, seconds)
    assert row["ts"].timestamp() == row["ts"].replace(microsecond=0).timestamp()
    assert row["ts"].second == 5


def test_values_that_a_column_cannot_have_are_faults(schemas: Schemas) -> None:
    texts = {**AVRO, "fields": [*AVRO["fields"][:2], {"name": "x", "type": "string"}]}
    number = schemas.add("t-value", texts)
    messages = [
        framed(number, encoded(texts, {"ts": i, "kind": "A", "x": x}))
        for i, x in enumerate(["1.5", "much", "2"])
    ]
    rows, numbers, faults = read(schemas, messages)
    assert [row["x"] for row in rows] == [1.5, 2.0]
    assert numbers == [0, 2]
    assert faults == [(2, "'much' is no double")]


# --- Protobuf ------------------------------------------------------------------------------------


def field(name: str, number: int, kind: int, of: str = "", **more: Any) -> Field:
    label = more.pop("label", Field.LABEL_OPTIONAL)
    return Field(name=name, number=number, type=kind, type_name=of or None, label=label, **more)


def event_file() -> descriptor_pb2.FileDescriptorProto:
    """`Other`, and `Event` with fields of all kinds, an enum, and `Place` of another file."""
    event = descriptor_pb2.DescriptorProto(
        name="Event",
        field=[
            field("ts", 1, Field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            field("kind", 2, Field.TYPE_ENUM, ".shop.Kind"),
            field("x", 3, Field.TYPE_DOUBLE, proto3_optional=True, oneof_index=0),
            field("n", 4, Field.TYPE_SINT64),
            field("place", 5, Field.TYPE_MESSAGE, ".shop.Place"),
            field("tags", 6, Field.TYPE_STRING, label=Field.LABEL_REPEATED),
            field("self", 7, Field.TYPE_MESSAGE, ".shop.Event"),
        ],
        oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_x")],
        nested_type=[
            descriptor_pb2.DescriptorProto(name="Inner", field=[field("n", 1, Field.TYPE_INT32)])
        ],
    )
    values = [descriptor_pb2.EnumValueDescriptorProto(name=n, number=i) for i, n in enumerate("AB")]
    return descriptor_pb2.FileDescriptorProto(
        name="event.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "place.proto"],
        message_type=[descriptor_pb2.DescriptorProto(name="Other"), event],
        enum_type=[descriptor_pb2.EnumDescriptorProto(name="Kind", value=values)],
    )


def place_file() -> descriptor_pb2.FileDescriptorProto:
    place = descriptor_pb2.DescriptorProto(
        name="Place", field=[field("country", 1, Field.TYPE_STRING)]
    )
    return descriptor_pb2.FileDescriptorProto(
        name="place.proto", package="shop", syntax="proto3", message_type=[place]
    )


def shown(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def registered(schemas: Schemas) -> int:
    schemas.add("place", shown(place_file()), "PROTOBUF")
    return schemas.add(
        "t-value", shown(event_file()), "PROTOBUF", refers=(("place.proto", "place"),)
    )


# Fields as the wire has them: the number and the kind of each, then its value.
STAMP = b"\x0a\x06\x08\x05\x10\xc0\x84\x3d"  # 5 s and 1,000,000 ns
EVENT = STAMP + b"\x10\x01" + b"\x19" + b"\x00" * 6 + b"\xe0\x3f" + b"\x20\x03"
EVENT += b"\x2a\x04\x0a\x02DE" + b"\x32\x01a\x32\x01b" + b"\x3a\x00"
AT_EVENT = b"\x02\x02"  # one place, 1, both zigzag


def test_messages_of_protobuf_are_rows(schemas: Schemas) -> None:
    number = registered(schemas)
    assert timestamp_pb2.Timestamp.FromString(STAMP[2:]).nanos == 1_000_000
    columns = pa.schema(
        [
            ("ts", pa.int64()),
            ("kind", pa.string()),
            ("x", pa.float64()),
            ("n", pa.int64()),
            ("place", pa.struct([("country", pa.string())])),
            ("tags", pa.list_(pa.string())),
        ]
    )
    messages = [framed(number, AT_EVENT + EVENT), framed(number, AT_EVENT + STAMP)]
    rows, _, faults = read(schemas, messages, columns)
    assert faults == []
    assert rows == [
        {
            "ts": 5001,
            "kind": "B",
            "x": 0.5,
            "n": -2,
            "place": {"country": "DE"},
            "tags": ["a", "b"],
        },
        # What is left out is its type's nothing, or null where it may be there or not.
        {"ts": 5001, "kind": "A", "x": None, "n": 0, "place": None, "tags": []},
    ]


def test_the_type_of_a_message_is_the_one_whose_place_it_says(schemas: Schemas) -> None:
    number = registered(schemas)
    columns = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
    inner, other = b"\x04\x02\x00" + b"\x08\x07", b"\x00"
    for head in (b"\x02\x04", b"\x04\x02\x09", b"\x05", b"\xff", b""):
        _, rows, faults = read(schemas, [framed(number, head)], columns)
        assert (rows, len(faults)) == ([], 1), head
    rows, _, faults = read(schemas, [framed(number, inner), framed(number, other)], columns)
    assert faults == []
    assert rows == [{"ts": None, "n": 7}, {"ts": None, "n": None}]
    torn = framed(number, AT_EVENT + EVENT[:5])
    assert "no message of its Protobuf type" in read(schemas, [torn], columns)[2][0][1]


def test_a_registry_that_gives_no_descriptors_is_told_of() -> None:
    with pytest.raises(EventsError, match="format=serialized"):
        ProtobufReader('syntax = "proto3";').message((0,))


# --- columns -------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "ts": {"type": "integer"},
        "kind": {"$ref": "#/definitions/kind"},
        "x": {"type": ["number", "null"]},
        "z": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
        "at": {"type": "object", "properties": {"country": {"type": "string"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "any": {},
        "either": {"type": ["string", "integer"]},
    },
    "definitions": {"kind": {"type": "string", "enum": ["A", "B"]}},
}


def test_the_columns_of_a_topic_are_those_of_its_schema_now(schemas: Schemas) -> None:
    there = Registry(schemas.address)
    schemas.add("avro-value", AVRO)
    schemas.add("avro-value", LATER)
    assert registered_columns(there, "avro").names == ["ts", "kind", "y"]
    schemas.add("json-value", SCHEMA, "JSON")
    assert registered_columns(there, "json") == pa.schema(
        [
            ("ts", pa.int64()),
            ("kind", pa.string()),
            ("x", pa.float64()),
            ("z", pa.bool_()),
            ("at", pa.struct([("country", pa.string())])),
            ("tags", pa.list_(pa.string())),
        ]
    )
    schemas.add("bare-value", {"type": "object"}, "JSON")
    with pytest.raises(EventsError, match=r"names no properties.*--schema or attributes"):
        registered_columns(there, "bare")


def test_a_live_source_has_the_columns_of_its_registry_unless_they_are_declared(
    schemas: Schemas,
) -> None:
    schemas.add("t-value", AVRO)
    source = open_live_source("kafka://h:1/t", STREAM, registry=schemas.address)
    assert source.schema.names == ["ts", "kind", "x"]
    assert source.schema.field("ts").type == pa.timestamp("ms", "UTC")
    declared = Stream(time="ts", unit="ms", type="kind", attributes={"x": "int"})
    source = open_live_source("kafka://h:1/t", declared, registry=schemas.address)
    assert source.schema.field("x").type == pa.int64()
    with pytest.raises(EventsError, match="no column 'when'"):
        open_live_source("kafka://h:1/t", Stream(time="when"), registry=schemas.address)


def test_a_registry_is_for_topics(schemas: Schemas, tmp_path: Any) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"ts": 1, "kind": "A"}))
    with pytest.raises(EventsError, match="for the messages of Kafka"):
        open_live_source(str(tmp_path), STREAM, registry=schemas.address)
