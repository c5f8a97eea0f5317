"""Records of any schema of Avro become the columns that their values are."""

import datetime as dt
import itertools
import json
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.limits import EventsError
from engines.wire.avro import AvroReader
from tests.engines.wire.avro_writer import blocks, encoded, whole


def record(*fields: tuple[str, Any], name: str = "Event") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def read(schema: Any, bodies: list[bytes], others: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    reader = AvroReader(json.dumps(schema), [json.dumps(other) for other in others])
    data = np.frombuffer(b"xx" + b"".join(bodies), np.uint8)
    ends = 2 + np.cumsum([len(body) for body in bodies], dtype=np.int64)
    starts = ends - np.array([len(body) for body in bodies], np.int64)
    table, good, faults = reader.read(data, starts, ends)
    assert table.schema == reader.schema
    return table.to_pylist(), good.tolist(), faults


def rounded(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, width=32),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
}
Typed = tuple[Any, st.SearchStrategy[Any], Any]  # a schema, its values, what of a value is read
DROPPED = object()
NUMBERS = itertools.count()
LAST: Typed = ("int", PRIMITIVES["int"], lambda value: value)  # without columns there are no rows


def kept(fields: dict[str, Typed], value: dict[str, Any]) -> dict[str, Any]:
    """What columns have of a record."""
    found = {name: read(value[name]) for name, (_, _, read) in fields.items()}
    return {name: each for name, each in found.items() if each is not DROPPED}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> Typed:
    """A schema with its values."""
    kind = draw(st.sampled_from([*PRIMITIVES, "null", "enum", "fixed", "union"] + ["deep"] * depth))
    if kind in PRIMITIVES:
        return kind, PRIMITIVES[kind], lambda value: value
    if kind == "null":
        return kind, st.none(), lambda value: DROPPED
    name = f"T{next(NUMBERS)}"  # one type, one name
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": kind, "name": name, "symbols": symbols}, st.sampled_from(symbols), str
    if kind == "fixed":
        return {"type": kind, "name": name, "size": 3}, st.binary(min_size=3, max_size=3), bytes
    if kind == "union":
        inner = draw(st.sampled_from(list(PRIMITIVES)))
        branches = draw(st.permutations([inner, "null"]))
        return branches, st.one_of(st.none(), PRIMITIVES[inner]), lambda value: value
    schema, values, read = draw(typed(depth - 1))
    if draw(st.booleans()):  # a list or a map, which no column has
        if draw(st.booleans()):
            several = st.lists(values, max_size=3)
            return {"type": "array", "items": schema}, several, lambda value: DROPPED
        pairs = st.dictionaries(st.text(max_size=2), values, max_size=3)
        return {"type": "map", "values": schema}, pairs, lambda value: DROPPED
    fields = {"p": (schema, values, read), "q": ("int", PRIMITIVES["int"], lambda value: value)}
    inside = st.fixed_dictionaries({n: v for n, (_, v, _) in fields.items()})
    nested = record(*((n, s) for n, (s, _, _) in fields.items()), name=name)
    return nested, inside, lambda value: kept(fields, value)


@settings(deadline=None)
@given(data=st.data(), columns=st.lists(typed(), min_size=1, max_size=4))
def test_any_records(data: st.DataObject, columns: list[Typed]) -> None:
    fields = {**{f"c{i}": each for i, each in enumerate(columns)}, "last": LAST}
    schema = record(*((name, schema) for name, (schema, _, _) in fields.items()))
    values = data.draw(
        st.lists(st.fixed_dictionaries({n: v for n, (_, v, _) in fields.items()}), max_size=4)
    )
    rows, good, faults = read(schema, [encoded(schema, value) for value in values])
    assert rows == [kept(fields, value) for value in values]
    assert (all(good), faults) == (True, {})


@settings(deadline=None)
@given(data=st.data(), columns=st.lists(typed(), min_size=1, max_size=3))
def test_other_libraries_write_what_is_read(data: st.DataObject, columns: list[Typed]) -> None:
    fastavro = pytest.importorskip("fastavro")
    import io

    fields = {**{f"c{i}": each for i, each in enumerate(columns)}, "last": LAST}
    schema = record(*((name, schema) for name, (schema, _, _) in fields.items()))
    value = data.draw(st.fixed_dictionaries({n: v for n, (_, v, _) in fields.items()}))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    assert read(schema, [out.getvalue()])[0] == [kept(fields, value)]


def test_logical_types_are_times_dates_and_decimals() -> None:
    schema = record(
        ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
        ("us", {"type": "long", "logicalType": "timestamp-micros"}),
        ("here", {"type": "long", "logicalType": "local-timestamp-millis"}),
        ("day", ["null", {"type": "int", "logicalType": "date"}]),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("id", {"type": "string", "logicalType": "uuid"}),
    )
    body = whole(1500) + whole(-1) + whole(0) + whole(1) + whole(-1) + whole(2) + b"\xff\x85"
    rows, _, faults = read(schema, [body + whole(1) + b"u"])
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert faults == {}
    assert rows == [
        {
            "ms": epoch + dt.timedelta(milliseconds=1500),
            "us": epoch - dt.timedelta(microseconds=1),
            "here": dt.datetime(1970, 1, 1),
            "day": dt.date(1969, 12, 31),
            "price": Decimal("-1.23"),
            "id": "u",
        }
    ]


def test_names_are_found_in_their_namespaces_and_in_schemas_that_are_referred_to() -> None:
    place = {**record(("x", "int"), name="Place"), "namespace": "other"}
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    schema = {
        **record(("k", kind), ("from", "other.Place"), ("again", "Kind"), ("k3", "own.Kind")),
        "namespace": "own",
    }
    body = whole(0) + whole(5) + whole(1) + whole(0)
    rows, _, _ = read(schema, [body], others=(place,))
    assert rows == [{"k": "A", "from": {"x": 5}, "again": "B", "k3": "A"}]


def test_unions_of_like_things_are_one_column_and_others_none() -> None:
    schema = record(
        ("number", ["null", "int", "long"]),
        ("mixed", ["int", "string"]),
        ("either", [record(("x", "int"), name="P"), record(("y", "int"), name="Q")]),
        ("last", "int"),
    )
    bodies = [
        whole(1) + whole(7) + whole(1) + whole(2) + b"ab" + whole(0) + whole(1) + whole(3),
        whole(2) + whole(2**40) + whole(0) + whole(9) + whole(1) + whole(1) + whole(4),
        whole(0) + whole(0) + whole(9) + whole(1) + whole(1) + whole(5),
    ]
    rows, _, faults = read(schema, bodies)
    assert faults == {}
    assert rows == [
        {"number": 7, "last": 3},
        {"number": 2**40, "last": 4},
        {"number": None, "last": 5},
    ]


def test_what_is_wrong_with_a_record_is_said_of_it_alone() -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    day = {"type": "int", "logicalType": "date"}
    schema = record(("t", "string"), ("k", kind), ("d", day), ("n", ["null", "int"]))
    good = whole(1) + b"a" + whole(0) + whole(1) + whole(0)
    bodies = {
        good: None,
        good[:-1]: "ends in the middle",
        good + b"\x00": "goes on behind",
        whole(1) + b"\xff" + good[2:]: "not UTF-8",
        whole(1) + b"a" + whole(1) + good[3:]: "no symbol",
        good[:3] + whole(2**40) + whole(0): "further away",
        good[:-1] + whole(2): "names a branch",
        whole(-1) + good: "negative length",
        b"": "ends in the middle",
    }
    rows, ok, faults = read(schema, list(bodies))
    assert ok == [why is None for why in bodies.values()]
    assert rows[0] == {"t": "a", "k": "A", "d": dt.date(1970, 1, 2), "n": None}
    for row, why in enumerate(bodies.values()):
        assert (why or "") in faults.get(row, "")


def test_blocks_of_an_array_that_cannot_be_are_no_endless_work() -> None:
    schema = record(("a", {"type": "array", "items": "null"}), ("n", "int"))
    bodies = [
        blocks(2, b"") + whole(1),
        whole(2**62) + b"\x00",
        whole(-(2**63)) + whole(1) + b"\x00",
    ]
    rows, ok, _ = read(schema, bodies)
    assert ok == [True, False, False]
    assert rows[0] == {"n": 1}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array", "items": "int"}, "no record"),
        (record(("self", ["null", "Event"])), "has itself inside"),
        (record(("x", "nonsense")), "a type 'nonsense'"),
    ],
)
def test_schemas_without_columns_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(EventsError, match=why):
        AvroReader(json.dumps(schema))


def test_columns_are_known_before_there_is_a_record() -> None:
    reader = AvroReader(json.dumps(record(("a", "int"), ("b", record(("c", "string"), name="B")))))
    assert reader.schema == pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
