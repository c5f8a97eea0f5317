"""Events from tables and files, and what is said about those that cannot be read."""

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engines.input.batches import FileSource, read_events
from engines.input.event_table import Faults, column_kinds, from_table
from engines.limits import EventsError
from workloads.workload import Stream

STREAM = Stream(time="ts", type="kind", unit="ms")
IN_NANOSECONDS = Stream(time="ts", type="kind", unit="ns")
NUMBERED = Stream(time="ts", type="kind", sequence="seq")
TABLE = pa.table({"ts": [3, 1, 2], "kind": ["A", "B", "C"], "x": [1.5, None, 2.0]})


def test_rows_are_sorted_by_time() -> None:
    events = from_table(TABLE, STREAM)
    assert events.ticks.tolist() == [1, 2, 3]
    assert events.table.column("kind").to_pylist() == ["B", "C", "A"]
    assert events.sequence is None
    assert (len(events), events.tick, events.time_type) == (3, 10**6, pa.int64())


def test_equal_times_are_sorted_by_sequence() -> None:
    table = pa.table({"ts": [1, 1, 0], "kind": ["A", "B", "C"], "seq": [2, 1, 5]})
    events = from_table(table, NUMBERED)
    assert events.table.column("kind").to_pylist() == ["C", "B", "A"]
    assert events.sequence is not None
    assert events.sequence.tolist() == [5, 1, 2]


def test_equal_times_without_sequence_stay_in_their_order() -> None:
    table = pa.table({"ts": [1, 0, 1], "kind": ["A", "B", "C"]})
    assert from_table(table, STREAM).table.column("kind").to_pylist() == ["B", "A", "C"]


@pytest.mark.parametrize(
    ("kind", "tick", "result"),
    [
        (pa.int32(), 10**6, pa.int64()),
        (pa.uint8(), 10**6, pa.int64()),
        (pa.timestamp("s"), 10**9, pa.timestamp("s")),
        (pa.timestamp("ms", "Europe/Berlin"), 10**6, pa.timestamp("ms", "Europe/Berlin")),
        (pa.timestamp("us"), 10**3, pa.timestamp("us")),
        (pa.timestamp("ns"), 1, pa.timestamp("ns")),
        (pa.date32(), 86_400 * 10**9, pa.date32()),
    ],
)
def test_times_of_every_type(kind: pa.DataType, tick: int, result: pa.DataType) -> None:
    smaller = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    times = pa.array([5, 7], smaller).cast(kind)
    events = from_table(pa.table({"ts": times, "kind": ["A", "B"]}), STREAM)
    assert events.ticks.tolist() == [5, 7]
    assert (events.tick, events.time_type) == (tick, result)
    assert events.times(np.array([5, 7])).type == result


def test_time_is_the_time_column_unless_there_is_one_of_that_name() -> None:
    events = from_table(TABLE, STREAM)
    assert events.column("time").to_pylist() == [1, 2, 3]
    named = from_table(TABLE.append_column("time", pa.array(["a", "b", "c"])), STREAM)
    assert named.column("time").to_pylist() == ["b", "c", "a"]


def test_what_is_not_a_number_is_null_and_reals_are_doubles() -> None:
    table = pa.table(
        {
            "ts": [1, 2],
            "kind": pa.array(["A", "A"]).dictionary_encode(),
            "x": pa.array([float("nan"), 1.5], pa.float32()),
            "d": pa.array([1, 2], pa.decimal128(5, 2)),
            "u": pa.array([2**64 - 1, 1], pa.uint64()),
        }
    )
    events = from_table(table, STREAM)
    assert events.column("x").to_pylist() == [None, 1.5]
    assert events.column("d").type == events.column("u").type == pa.float64()
    assert events.column("kind").type == pa.string()


def test_decimals_are_the_doubles_that_are_written_alike() -> None:
    texts = ["2.30", "1.10", "0.07", "9007199254740993.00", None]
    exact = [None if text is None else Decimal(text) for text in texts]
    table = pa.table(
        {"ts": range(5), "kind": ["A"] * 5, "d": pa.array(exact, pa.decimal128(20, 2))}
    )
    found = from_table(table, STREAM).column("d").to_pylist()
    assert found == [2.3, 1.1, 0.07, 9007199254740992.0, None]


def test_kinds_of_columns() -> None:
    schema = pa.schema(
        [
            ("i", pa.int8()),
            ("f", pa.float32()),
            ("d", pa.decimal128(5, 2)),
            ("s", pa.large_string()),
            ("e", pa.dictionary(pa.int8(), pa.string())),
            ("b", pa.bool_()),
            ("t", pa.timestamp("us")),
            ("n", pa.null()),
        ]
    )
    assert list(column_kinds(schema).values()) == [
        "int", "float", "float", "string", "string", "bool", "time", "float",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "stream", "said"),
    [
        ({"time_ms": [1]}, STREAM, ["no column 'ts'", "time column"]),
        ({"tS": [1], "kind": ["A"]}, STREAM, ["no column 'ts'", "did you mean 'tS'?"]),
        ({"ts": [1]}, STREAM, ["no column 'kind'", "type column", "there are ts"]),
        ({"at;kind": ["1;A"]}, STREAM, ["no column 'ts'", "separated by ';'"]),
        ({"other": []}, STREAM, ["no column 'ts'", "there are other"]),
        ({"ts": [1], "kind": ["A"]}, NUMBERED, ["no column 'seq'", "sequence column"]),
        ({"ts": [1, None], "kind": ["A", "B"]}, STREAM, ["row 2", "'ts' is null", "drop the row"]),
        (
            {"ts": [1, 2], "kind": ["A", "B"], "seq": [None, 1]},
            NUMBERED,
            ["row 1", "'seq' is null", "every event needs a sequence"],
        ),
        ({"ts": [1], "kind": ["A"], "seq": [1.5]}, NUMBERED, ["'seq' has type double", "integers"]),
        ({"ts": ["soon"], "kind": ["A"]}, STREAM, ["'ts' has type string", "T10:00:00"]),
        ({"ts": [1.5], "kind": ["A"]}, IN_NANOSECONDS, ["'ts' has type double"]),
        ({"ts": [True], "kind": ["A"]}, STREAM, ["'ts' has type bool"]),
        ({"ts": [datetime.time(1)], "kind": ["A"]}, STREAM, ["'ts' has type time64"]),
        ({"ts": [1, 2**62], "kind": ["A", "B"]}, STREAM, ["row 2", "out of range", "coarser"]),
    ],
)
def test_what_cannot_be_read_is_said(
    columns: dict[str, Any], stream: Stream, said: list[str]
) -> None:
    with pytest.raises(EventsError) as caught:
        from_table(pa.table(columns), stream, "events.csv")
    for part in ("events.csv", *said):
        assert part in str(caught.value)


def test_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1])] * 2, names=["ts", "ts"])
    with pytest.raises(EventsError, match="two columns are called 'ts'"):
        from_table(table, STREAM)


def test_an_unknown_attribute_is_said() -> None:
    with pytest.raises(EventsError, match="no column 'y'"):
        from_table(TABLE, STREAM).column("y")


def test_no_rows_at_all() -> None:
    for empty in (TABLE.slice(0, 0), pa.table({}), pa.table({"ts": pa.nulls(0)})):
        assert len(from_table(empty, STREAM)) == 0


# --- files -------------------------------------------------------------------------------------


def read_table(path: str, stream: Stream = STREAM) -> pa.Table:
    """All rows in the order that they are stored in."""
    source = FileSource(path, stream, Faults())
    return pa.concat_tables([b.table for b in source.batches(source.schema.names)])


def write(folder: Path, name: str, table: pa.Table = TABLE) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) for row in table.to_pylist()]
    match path.suffixes:
        case [".parquet"]:
            pq.write_table(table, path)
        case [".csv"]:
            pyarrow.csv.write_csv(table, path)
        case [".csv", ".gz"]:
            with gzip.open(path, "wb") as out:
                pyarrow.csv.write_csv(table, out)
        case _:
            path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "jsonl", "ndjson", "json"])
def test_every_format(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, f"e.{ending}")
    assert read_table(path).to_pylist() == TABLE.to_pylist()
    assert read_events(path, STREAM).ticks.tolist() == [1, 2, 3]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_folders_and_globs_with_the_union_of_columns(tmp_path: Path, ending: str) -> None:
    more = pa.table({"ts": [9], "kind": ["Z"], "extra": [1]})
    write(tmp_path, f"data/a.{ending}")
    write(tmp_path, f"data/deep/b.{ending}", more)
    write(tmp_path, f"data/_hidden/c.{ending}", more)
    (tmp_path / "data" / "_SUCCESS").write_text("")
    for path in (tmp_path / "data", tmp_path / "data" / "**" / f"[ab].{ending}"):
        found = read_table(str(path))
        assert found.column("ts").to_pylist() == [3, 1, 2, 9]
        assert found.column("extra").to_pylist() == [None, None, None, 1]


def test_formats_mix_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet")
    write(tmp_path, "b.csv")
    assert read_table(str(tmp_path)).num_rows == 6


def test_partition_folders_are_columns(tmp_path: Path) -> None:
    write(tmp_path, "day=1/a.parquet")
    write(tmp_path, "day=2/a.parquet")
    found = read_events(str(tmp_path), STREAM)
    assert sorted(found.column("day").to_pylist()) == [1, 1, 1, 2, 2, 2]


def test_a_list_of_objects_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    path.write_text(json.dumps(TABLE.to_pylist(), indent=1))
    assert read_table(str(path)).to_pylist() == TABLE.to_pylist()


def test_empty_fields_are_null_and_quoted_ones_are_not(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text('ts,kind,name\n1,A,\n2,B,""\n3,NA,x\n')
    found = read_table(str(path))
    assert found.column("name").to_pylist() == [None, "", "x"]
    assert found.column("kind").to_pylist() == ["A", "B", "NA"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_column_may_turn_out_to_be_real_late(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"e.{ending}"
    rows = 150_000
    if ending == "csv":
        path.write_text("ts,x\n" + "1,10\n" * rows + "2,1.5\n")
    else:
        path.write_text('{"ts":1,"x":10}\n' * rows + '{"ts":2,"x":1.5}\n')
    assert read_table(str(path), Stream(time="ts")).column("x")[-1].as_py() == 1.5


@pytest.mark.parametrize("name", ["e.csv", "e.jsonl", "e.json"])
def test_empty_files_are_empty_streams(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert len(read_events(str(tmp_path / name), STREAM)) == 0


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, "e[1].csv")).num_rows == 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.csv", None, "there is no file"),
        ("e.txt", "a", "does not end in .parquet"),
        ("e.parquet", "no parquet", "cannot be read as Parquet"),
        ("e.csv", "ts,kind\n1,2\n1,2,3\n", "row 2: 3 fields, and not 2"),
        ("e.jsonl", "{not json", "cannot be read"),
        ("e.json", "[1, 2", "not a list of JSON objects"),
        ("e.json", "[1, 2]", "not a list of JSON objects"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(EventsError, match=said) as caught:
        read_table(str(path))
    assert name in str(caught.value)


def test_a_folder_without_events(tmp_path: Path) -> None:
    with pytest.raises(EventsError, match="has no file ending in"):
        read_table(str(tmp_path))


def test_files_whose_columns_disagree(tmp_path: Path) -> None:
    write(tmp_path, "a.csv")
    write(tmp_path, "b.csv", pa.table({"ts": [1], "kind": ["A"], "x": ["much"]}))
    with pytest.raises(EventsError, match="make them agree"):
        read_table(str(tmp_path))


def test_a_bad_row_is_said_with_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "e.csv", pa.table({"ts": [1, None], "kind": ["A", "B"]}))
    with pytest.raises(EventsError, match=r"e\.csv', row 2, column 'ts': it is null"):
        read_events(path, STREAM)
