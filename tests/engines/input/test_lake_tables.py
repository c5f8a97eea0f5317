"""Tables of Delta and Iceberg, written by their own libraries, are read as they are now."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import string
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sheaf
from api.describing.columns import profile_events
from engines.input.batches import read_events
from engines.input.event_table import from_table, list_files
from engines.input.lake_tables import table_kind
from engines.limits import EventsError
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from engines.spark.batch.job import run_batch
from engines.spark.batch.source import open_source
from engines.spark.batch.targets import FileTarget
from engines.spark.stream.source import open_live_source
from optimizer.bind.binder import load_bound
from tests.differential.test_slices import multiset
from tests.running import How, run_local
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM_TEXT = {"time": "ts", "unit": "s", "type": "kind"}
STREAM = Stream(time="ts", unit="s", type="kind")
DAYS = ["a b/ü", "x=1%"]


def day(number: int, rows: int = 4) -> pa.Table:
    """Events of a day, some of whose names are no names of folders."""
    at = range(100 * number, 100 * number + rows)
    return pa.table(
        {
            "ts": pa.array(at, pa.int64()),
            "kind": [("A", "B")[i % 2] for i in at],
            "day": [DAYS[number % 2] for _ in at],
            "on": pa.array([dt.date(2026, 1, 1 + number) if i % 4 else None for i in at]),
            "x": [i * 0.5 for i in at],
        }
    )


def shown(rows: pa.Table) -> list[str]:
    names = sorted(rows.column_names)
    return sorted(json.dumps([str(row[name]) for name in names]) for row in rows.to_pylist())


def read(folder: Path) -> pa.Table:
    return read_events(str(folder), STREAM).table


def refused(folder: Path) -> str:
    with pytest.raises(EventsError) as error:
        read(folder)
    return str(error.value)


# --- Delta ---------------------------------------------------------------------------------------


def delta(folder: Path, **options: Any) -> Any:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(folder, day(0), **options)
    deltalake.write_deltalake(folder, day(1), mode="append", **options)
    return deltalake.DeltaTable(folder)


@pytest.mark.parametrize("by", [None, ["day"], ["on", "day"]])
def test_a_table_of_delta_is_read_without_the_rows_that_it_no_longer_has(
    tmp_path: Path, by: list[str] | None
) -> None:
    table = delta(tmp_path / "t", partition_by=by)
    table.delete("ts = 102")
    table.update(predicate="ts = 1", updates={"x": "7.25"})
    stored = sum(pq.read_metadata(file).num_rows for file in (tmp_path / "t").rglob("*.parquet"))
    expected = table.to_pyarrow_table()
    assert stored > expected.num_rows == 7
    assert shown(read(tmp_path / "t")) == shown(expected)
    assert read(tmp_path / "t").schema.field("on").type == pa.date32()


def test_a_checkpoint_of_delta_and_columns_that_came_later_are_read(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = delta(tmp_path)
    table.create_checkpoint()
    more = day(2).append_column("y", pa.array([1, 2, 3, 4]))
    deltalake.write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    (tmp_path / "_delta_log" / "00000000000000000000.json").unlink()  # which it is in
    expected = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    assert expected.num_rows == 12
    assert shown(read(tmp_path)) == shown(expected)


def change_last_add(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    log = max((folder / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    change(next(line["add"] for line in lines if "add" in line))
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def set_protocol(folder: Path, features: list[str], **configuration: str) -> None:
    log = min((folder / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        if "metaData" in line:
            line["metaData"]["configuration"] = configuration
            columns = json.loads(line["metaData"]["schemaString"])
            for number, column in enumerate(columns["fields"]):
                column["metadata"] = {
                    "delta.columnMapping.id": number + 1,
                    "delta.columnMapping.physicalName": column["name"],
                }
            line["metaData"]["schemaString"] = json.dumps(columns)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def z85(data: bytes) -> str:
    digits = (
        string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    )
    numbers = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(digits[n // 85**k % 85] for n in numbers for k in (4, 3, 2, 1, 0))


def test_rows_of_delta_that_are_only_marked_as_deleted_are_not_read(tmp_path: Path) -> None:
    delta(tmp_path)
    set_protocol(tmp_path, ["deletionVectors"])
    assert read(tmp_path).num_rows == 8  # the table may have such marks, and has none
    # One row, number 1, in a bitmap as the protocol's text has it: its magic number, one bitmap of
    # rows below 2^32, with one container of one value.
    bitmap = struct.pack("<IQIIIHHIH2x", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 1)
    marks = {
        "storageType": "i",
        "pathOrInlineDv": z85(bitmap),
        "sizeInBytes": len(bitmap),
        "cardinality": 1,
    }
    change_last_add(tmp_path, lambda add: add.update(deletionVector=marks))
    assert "REORG TABLE" in refused(tmp_path)


def test_a_table_of_delta_whose_columns_are_mapped_is_refused(tmp_path: Path) -> None:
    delta(tmp_path)
    set_protocol(tmp_path, ["columnMapping"], **{"delta.columnMapping.mode": "name"})
    assert "column mapping" in refused(tmp_path)


def test_what_a_table_of_delta_needs_and_nobody_knows_is_refused(tmp_path: Path) -> None:
    delta(tmp_path)
    set_protocol(tmp_path, ["rowsUpsideDown"])
    assert "cannot be read from its files" in refused(tmp_path)


@pytest.mark.parametrize("place", ["../other.parquet", "file:///etc/x.parquet", "/etc/x.parquet"])
def test_a_table_has_all_of_its_files_in_its_folder(tmp_path: Path, place: str) -> None:
    delta(tmp_path / "t")
    change_last_add(tmp_path / "t", lambda add: add.update(path=place))
    assert "lies outside of its folder" in refused(tmp_path / "t")


def test_a_table_of_delta_without_rows_says_so(tmp_path: Path) -> None:
    delta(tmp_path).delete()
    assert "has no rows" in refused(tmp_path)


def test_a_broken_log_of_delta_is_told_of(tmp_path: Path) -> None:
    delta(tmp_path)
    max((tmp_path / "_delta_log").glob("*.json")).write_text("{")
    assert "cannot be read from its files" in refused(tmp_path)


def test_folders_inside_a_table_are_not_read_by_themselves(tmp_path: Path) -> None:
    delta(tmp_path, partition_by=["day"])
    inside = next(folder for folder in tmp_path.iterdir() if folder.name.startswith("day="))
    for path in (inside, tmp_path / "*" / "*.parquet", tmp_path.parent):
        with pytest.raises(EventsError, match="give this folder itself"):
            list_files(str(path))


# --- Iceberg -------------------------------------------------------------------------------------


def iceberg(folder: Path, partition: str | None = None) -> Any:
    pytest.importorskip("pyiceberg")
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("c", uri="sqlite://", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=day(0).schema)
    if partition is not None:
        with table.update_spec() as update:
            update.add_identity(partition)
    table.append(day(0))
    table.append(day(1))
    return table


@pytest.mark.parametrize("partition", [None, "day", "on"])
def test_a_table_of_iceberg_is_read_without_the_rows_that_it_no_longer_has(
    tmp_path: Path, partition: str | None
) -> None:
    table = iceberg(tmp_path, partition)
    table.delete("ts = 102")
    expected = table.scan().to_arrow()
    folder = tmp_path / "n" / "t"
    assert expected.num_rows == 7
    assert table_kind(folder) == "Iceberg"
    assert shown(read(folder)) == shown(expected)


def test_columns_of_iceberg_that_came_later_or_went_are_read_as_the_table_has_them(
    tmp_path: Path,
) -> None:
    from pyiceberg.types import LongType

    table = iceberg(tmp_path)
    with table.update_schema() as update:
        update.add_column("y", LongType())
        update.delete_column("x")
    table.append(day(2).drop_columns(["x"]).append_column("y", pa.array([1, 2, 3, 4])))
    expected = table.scan().to_arrow()
    assert set(expected.column_names) == {"ts", "kind", "day", "on", "y"}
    assert shown(read(tmp_path / "n" / "t")) == shown(expected)


def test_a_column_of_iceberg_that_was_renamed_or_replaced_is_not_read_by_its_name(
    tmp_path: Path,
) -> None:
    from pyiceberg.types import DoubleType

    table = iceberg(tmp_path / "a")
    with table.update_schema() as update:
        update.rename_column("x", "z")
    assert "column 'z' was renamed" in refused(tmp_path / "a" / "n" / "t")
    table = iceberg(tmp_path / "b")
    with table.update_schema() as update:
        update.delete_column("x")
    with table.update_schema() as update:
        update.add_column("x", DoubleType())
    assert "column 'x' was renamed, or dropped" in refused(tmp_path / "b" / "n" / "t")


def test_a_table_of_iceberg_that_was_moved_is_refused(tmp_path: Path) -> None:
    iceberg(tmp_path / "a")
    shutil.copytree(tmp_path / "a" / "n" / "t", tmp_path / "b")
    assert "lies outside of its folder" in refused(tmp_path / "b")


def test_the_newest_description_of_iceberg_holds_unless_there_are_two(tmp_path: Path) -> None:
    iceberg(tmp_path)
    inside = tmp_path / "n" / "t" / "metadata"
    newest = max(inside.glob("*.metadata.json"))
    shutil.copy(newest, inside / f"{newest.name.split('-')[0]}-other.metadata.json")
    assert "only its catalog knows" in refused(tmp_path / "n" / "t")
    # As tables without a catalog have it.
    shutil.copy(min(inside.glob("00001*.metadata.json")), inside / "v1.metadata.json")
    (inside / "version-hint.text").write_text("1")
    assert read(tmp_path / "n" / "t").num_rows == 4


def test_a_table_of_iceberg_without_rows_says_so(tmp_path: Path) -> None:
    iceberg(tmp_path).delete()
    assert "has no rows" in refused(tmp_path / "n" / "t")


# --- on their way --------------------------------------------------------------------------------


def test_the_columns_of_a_table_are_described(tmp_path: Path) -> None:
    delta(tmp_path, partition_by=["day"])
    found = profile_events(str(tmp_path))
    assert {column.name for column in found.columns} == {"ts", "kind", "day", "on", "x"}


def test_rows_of_queries_are_written_to_a_table_of_delta_by_its_library(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    workload = sheaf.load(
        {
            "name": "t",
            "stream": STREAM_TEXT,
            "queries": ["QUERY a PATTERN A a RETURN a.x WITHIN 1 s"],
        }
    )
    found = workload.plan(day(0)).run(day(0))["a"]
    deltalake.write_deltalake(tmp_path, found)
    assert (
        pa.table(deltalake.DeltaTable(tmp_path).to_pyarrow_table()).to_pylist() == found.to_pylist()
    )
    assert found.column("a_x").to_pylist() == [0.0, 1.0]


def test_queries_over_a_table_give_what_they_give_over_its_rows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    out = tmp_path_factory.mktemp("out")
    table = delta(tmp_path, partition_by=["day"])
    table.delete("ts = 102")
    queries = [
        "QUERY n PATTERN SEQ(A a, B b) PARTITION BY day AGG COUNT(*), SUM(b.x) WITHIN 9 s",
        "QUERY m PATTERN SEQ(A a, B b) WHERE a.day = 'x=1%' RETURN a.ts, b.day WITHIN 4 s",
    ]
    workload = load_bound({"name": "t", "stream": STREAM_TEXT, "queries": queries})
    events = from_table(table.to_pyarrow_table(), workload.stream)
    expected = run_oracle(workload, events)
    assert expected.aggregates.num_rows > 2
    assert expected.matches.num_rows > 0
    local = run_local(workload, read_events(str(tmp_path), workload.stream))
    assert multiset([local]) == multiset([expected])
    source = open_source(str(tmp_path), workload.stream)
    done = run_batch(spark, How().program(workload), source, FileTarget(str(out / "r.parquet")))
    rows = {Path(name).name: pq.read_table(name) for name in done.names}
    found = Results(rows["r.aggregates.parquet"], rows["r.matches.parquet"])
    assert multiset([found]) == multiset([expected])


def test_a_live_stream_does_not_follow_a_table(tmp_path: Path) -> None:
    delta(tmp_path / "table")
    with pytest.raises(EventsError, match="follows folders of files: run over the table without"):
        open_live_source(str(tmp_path / "table"), STREAM)
