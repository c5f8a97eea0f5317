"""Matches of a Spark job that are structs, in files, folders, tables and memory."""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from engines.results.structs import match_structs
from engines.results.tables import Results
from engines.spark.batch.job import SpreadSettings, run_batch
from engines.spark.batch.packing import packed_struct
from engines.spark.batch.source import open_source
from engines.spark.batch.targets import FirstRowsTarget, target_for
from optimizer.bind.binder import load_bound
from tests.differential.test_structs import check
from tests.running import How
from workloads.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKLOAD = load_bound(
    {
        "name": "t",
        "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
        "queries": [
            "QUERY n PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*) WITHIN 9 ms",
            "QUERY m PATTERN SEQ(A a, B b) WHERE [user] AND a.x > 30 RETURN a.x, b WITHIN 4 ms",
            "QUERY g PATTERN SEQ(A a, B+ b) WHERE a.x > 40 RETURN a.user, b.x, b.at, "
            "sum(b.x) AS total WITHIN 3 ms",
        ],
    }
)
STREAM, PROGRAM = WORKLOAD.stream, How().program(WORKLOAD)
SPREADS = (SpreadSettings(spread="time", stretches=3), SpreadSettings(spread="shuffle", buckets=3))


def events(rows: int = 400) -> pa.Table:
    start = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
    moments = [start + datetime.timedelta(milliseconds=1500 * i) for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array([i // 2 for i in range(rows)], pa.int64()),
            "seq": pa.array(range(rows), pa.int64()),
            "kind": ["AB"[i % 2] for i in range(rows)],
            "user": [None if i % 11 == 0 else f"ü{i // 2 % 3}" for i in range(rows)],
            "x": pa.array([(i * 7) % 50 for i in range(rows)], pa.int64()),
            "at": pa.array(moments, pa.timestamp("ms", "UTC")),
            "small": pa.array([i % 9 for i in range(rows)], pa.uint8()),
        }
    )


@pytest.fixture
def stored(tmp_path: Path) -> str:
    pq.write_table(events(), tmp_path / "events.parquet", row_group_size=100)
    return str(tmp_path / "events.parquet")


def arrow_file(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()


@pytest.mark.parametrize("settings", SPREADS)
def test_rows_are_those_of_the_reference(
    spark: "SparkSession", tmp_path: Path, stored: str, settings: SpreadSettings
) -> None:
    expected = run_oracle(WORKLOAD, from_table(events(), STREAM))
    structs = match_structs(WORKLOAD, events().schema)

    def landed(target: Any) -> Any:
        return run_batch(spark, PROGRAM, open_source(stored, STREAM), target, settings=settings)

    for ending, reading in ((".parquet", pq.read_table), (".arrow", arrow_file)):
        done = landed(target_for(f"{tmp_path}/rows{ending}", True, True, structs))
        check(Results(*(reading(Path(name)) for name in done.names)), expected)
    landed(target_for(f"{tmp_path}/folder/", True, True, structs))
    parts = [pq.read_table(tmp_path / "folder" / kind) for kind in ("aggregates", "matches")]
    order = [(name, "ascending") for name in ("query", "key", "time", "start", "end")]
    check(Results(parts[0], parts[1].sort_by(order)), expected)
    shown = landed(FirstRowsTarget(2**62, structs)).first
    check(shown, expected)
    done = landed(target_for("table:structs", True, True, structs))
    tables = [spark.table(name.removeprefix("table:")) for name in done.names]
    assert tables[1].select("match.m_b.x").count() == expected.matches.num_rows
    found = [table.toArrow() for table in tables]
    kind = structs.whole if structs is not None else None
    matches = found[1].column("match").cast(kind)
    rows = found[1].set_column(5, pa.field("match", kind), matches)
    rows = rows.replace_schema_metadata(shown.matches.schema.metadata)
    check(Results(found[0], rows.sort_by(order)), expected)
    for name in done.names:
        spark.sql(f"DROP TABLE {name.removeprefix('table:')}")


def test_a_table_takes_no_nanoseconds() -> None:
    kind = pa.struct({"a": pa.list_(pa.struct({"t": pa.timestamp("ns")}))})
    with pytest.raises(UnsupportedError, match="nanoseconds"):
        packed_struct(kind)
