"""Where a job's events come from, and where its rows go."""

import json
import os
import subprocess
import sys
import time
import zipfile
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engines import devices
from engines.input.batches import FileSource
from engines.input.event_table import Faults, from_table
from engines.limits import BadRowError, EventsError, ResultsError
from engines.local.run import event_chunks
from engines.program import RunContext
from engines.results.tables import Results
from engines.spark.batch import landing, splits, tasks
from engines.spark.batch.job import JobError, SpreadSettings, run_batch
from engines.spark.batch.progress import BatchProgress
from engines.spark.batch.source import open_source, open_table
from engines.spark.batch.targets import (
    FileTarget,
    FirstRowsTarget,
    FolderTarget,
    TableTarget,
    target_for,
)
from engines.spark.runtime import code_archive as shipping
from engines.spark.stream.source import open_live_source
from optimizer.bind.binder import load_bound
from tests.differential.test_slices import multiset
from tests.running import How, run_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = [
    "QUERY n PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*), SUM(b.x) WITHIN 9 ms",
    "QUERY m PATTERN SEQ(A a, B b) WHERE [user] AND a.x > 30 RETURN a.x WITHIN 4 ms",
]
WORKLOAD = load_bound(
    {
        "name": "t",
        "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
        "queries": QUERIES,
    }
)
PROGRAM = How().program(WORKLOAD)
STREAM = WORKLOAD.stream


def events(rows: int = 400) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([i // 2 for i in range(rows)], pa.int64()),
            "seq": pa.array(range(rows), pa.int64()),
            "kind": pa.array(["AB"[i % 2] for i in range(rows)]),
            "user": pa.array([f"u{i // 2 % 3}" for i in range(rows)]),
            "x": pa.array([(i * 7) % 50 for i in range(rows)], pa.int64()),
        }
    )


def expected(table: pa.Table) -> Any:
    return multiset([run_local(WORKLOAD, from_table(table, STREAM))])


def read(names: list[str]) -> Results:
    return Results(*(pq.read_table(name) for name in names))


# --- sources -------------------------------------------------------------------------------------


def with_bad_rows(path: Path) -> None:
    """400 good rows, and three that are none, in more splits than one."""
    pyarrow.csv.write_csv(events(), path)
    lines = path.read_text().splitlines()
    lines[101:101] = ["x,1,A,u0,3", "7,7,A"]  # of the data rows the 101st and 102nd
    lines[303:303] = [",5,B,u1,3"]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "LEAST_BYTES", 1_500)


@pytest.mark.usefixtures("small_splits")
def test_bad_rows_are_counted_as_the_local_engine_counts_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    path = tmp_path / "e.csv"
    with_bad_rows(path)
    here = Faults("skip")
    local = FileSource(str(path), STREAM, here)
    good = pa.concat_tables([b.table for b in local.batches(local.schema.names)])
    source = open_source(str(path), STREAM, Faults("skip"))
    assert len(source.splits) > 3
    done = run_batch(spark, PROGRAM, source, FileTarget(str(tmp_path / "r.parquet")))
    assert source.faults.counts == here.counts
    assert here.total == 3
    assert source.faults.first == here.first
    assert "row 101, column 'ts'" in str(here.first)
    assert done.events == 400
    assert multiset([read(done.names)]) == expected(good)


@pytest.mark.usefixtures("small_splits")
def test_a_bad_row_ends_the_job_with_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    with_bad_rows(path)
    (tmp_path / "r").mkdir()
    source = open_source(str(path), STREAM)
    with pytest.raises(BadRowError, match=r"'.*e\.csv', row (101|102|303)\b"):
        run_batch(spark, PROGRAM, source, FileTarget(str(tmp_path / "r" / "r.csv")))
    assert not list((tmp_path / "r").iterdir())


def test_a_table_of_spark_is_a_source(spark: "SparkSession", tmp_path: Path) -> None:
    table = events()
    spark.createDataFrame(table.to_pandas()).createOrReplaceTempView("stored_events")
    source = open_table(spark, "table:stored_events", STREAM)
    done = run_batch(spark, PROGRAM, source, FileTarget(str(tmp_path / "r.parquet")))
    assert done.events == 400
    assert multiset([read(done.names)]) == expected(table)
    with pytest.raises(EventsError, match="none_such"):
        open_table(spark, "table:none_such", STREAM)


def test_rows_of_a_table_that_are_no_events(spark: "SparkSession", tmp_path: Path) -> None:
    frame = spark.createDataFrame(events().to_pandas()).selectExpr(
        "IF(seq = 7, NULL, ts) AS ts", "IF(seq = 8, NULL, seq) AS seq", "kind", "user", "x"
    )
    frame.createOrReplaceTempView("bad_events")
    with pytest.raises(BadRowError, match=r"1 with a null time, 1 with a null sequence number"):
        open_table(spark, "table:bad_events", STREAM)
    faults = Faults("skip")
    source = open_table(spark, "table:bad_events", STREAM, faults)
    done = run_batch(spark, PROGRAM, source, FileTarget(str(tmp_path / "r.parquet")))
    assert faults.counts == {"null time": 1, "null sequence number": 1}
    assert done.events == 398
    good = pa.concat_tables([events().slice(0, 7), events().slice(9)])
    assert multiset([read(done.names)]) == expected(good)


# --- targets -------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> str:
    pq.write_table(events(), tmp_path / "events.parquet", row_group_size=100)
    return str(tmp_path / "events.parquet")


IN_PARTS = SpreadSettings(spread="time", stretches=3)


def test_a_folder_gets_the_files_of_the_tasks(
    spark: "SparkSession", tmp_path: Path, stored: str
) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # the second time it takes the place of the first
        target = target_for(f"{out}/", True, True)
        assert isinstance(target, FolderTarget)
        done = run_batch(spark, PROGRAM, open_source(stored, STREAM), target, settings=IN_PARTS)
    assert done.names == [str(out)]
    assert sorted(p.name for p in (out / "aggregates").iterdir()) == [
        f"part-0000{i}.parquet" for i in range(3)
    ]
    found = Results(*(pq.read_table(out / kind) for kind in ("aggregates", "matches")))
    assert multiset([found]) == expected(events())
    assert {p.name for p in tmp_path.iterdir()} == {"events.parquet", "out"}


def test_a_table_of_spark_is_a_target(spark: "SparkSession", stored: str) -> None:
    told: list[BatchProgress] = []
    target = target_for("table:found", True, True)
    assert isinstance(target, TableTarget)
    source = open_source(stored, STREAM)
    done = run_batch(spark, PROGRAM, source, target, settings=IN_PARTS, told=told.append)
    assert done.names == ["table:found_aggregates", "table:found_matches"]
    found = Results(*(spark.table(n.removeprefix("table:")).toArrow() for n in done.names))
    assert multiset([found]) == expected(events())
    assert done.numbers == (found.aggregates.num_rows, found.matches.num_rows)
    assert {t.name for t in spark.catalog.listTables() if "partial" in t.name} == set()
    # The last that is told is what was done.
    assert (told[-1].read, told[-1].rows_in) == (done.read, sum(done.taken))
    assert told[-1].taken == dict.fromkeys((q.name for q in WORKLOAD.queries), told[-1].rows_in)
    assert told[-1].rows_out == done.rows
    parts = [progress.part for progress in told]
    assert parts == sorted(parts)
    assert parts[-1] == 1
    for name in done.names:
        spark.sql(f"DROP TABLE {name.removeprefix('table:')}")


def test_the_first_rows_are_shown_and_all_are_counted(spark: "SparkSession", stored: str) -> None:
    done = run_batch(
        spark, PROGRAM, open_source(stored, STREAM), FirstRowsTarget(5), settings=IN_PARTS
    )
    whole = run_local(WORKLOAD, from_table(events(), STREAM))
    assert done.first is not None
    assert (done.first.aggregates.num_rows, done.first.matches.num_rows) == (5, 5)
    assert done.numbers == (whole.aggregates.num_rows, whole.matches.num_rows)
    assert set(done.first.aggregates["key"].to_pylist()) == {'{"user":"u0"}'}


def test_nothing_is_left_of_a_job_that_fails(
    spark: "SparkSession", tmp_path: Path, stored: str
) -> None:
    for target in (FileTarget(str(tmp_path / "r.parquet")), FolderTarget(str(tmp_path / "out/"))):
        source = open_source(stored, STREAM)
        assert source.splits  # known before the file goes
        Path(stored).rename(tmp_path / "gone")
        with pytest.raises((JobError, EventsError, BadRowError)):
            run_batch(spark, PROGRAM, source, target, settings=IN_PARTS)
        (tmp_path / "gone").rename(stored)
        assert {p.name for p in tmp_path.iterdir()} == {"events.parquet"}


def test_a_folder_that_an_executor_cannot_write_to_is_named(tmp_path: Path) -> None:
    files = landing.SortedFiles(str(tmp_path / "none"), ".parquet")
    rows = event_chunks(PROGRAM, from_table(events(), STREAM), RunContext())
    with pytest.raises(ResultsError, match="that the driver and all workers share"):
        list(files.landed(rows, landing.Report(0)))


# --- code and devices ----------------------------------------------------------------------------


def test_code_unpacks_itself_where_it_arrives(tmp_path: Path) -> None:
    archive = shipping.pack_code(tmp_path)
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    assert "sheaf_code/kernels/product/kernel.cl" in names
    assert not any(name.startswith(("sheaf_code/api", "sheaf_code/tests")) for name in names)
    program = "import engines.results as r, kernels; print(r.__file__, kernels.__path__[0])"
    packages = [p for p in sys.path if p.endswith("site-packages")]
    said = subprocess.run(
        [Path(sys.executable).resolve(), "-S", "-c", program],
        env={"PYTHONPATH": ":".join([str(archive), *packages]), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (folder,) = tmp_path.glob("sheaf-code-*")
    assert said.split() == [
        str(folder / "engines" / "results" / "__init__.py"),
        str(folder / "kernels"),
    ]


def test_the_discovery_script_answers_as_spark_wants(tmp_path: Path) -> None:
    script = Path(landing.__file__).with_name("discover_gpus.sh")
    assert os.access(script, os.X_OK)
    answer = subprocess.run(
        [script],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        check=True,
    )
    found = json.loads(answer.stdout)
    gpus = [info for info in devices.opencl_devices()[0] if info.is_gpu]
    assert found == {"name": "gpu", "addresses": [str(i) for i in range(len(gpus))]}


def test_a_task_computes_on_the_device_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    two = tuple(devices.DeviceInfo("opencl", n, "", True, n) for n in ("first", "second"))
    monkeypatch.setattr(devices, "opencl_devices", lambda: (two, ""))
    request = devices.DeviceRequest("opencl")
    assert devices.opencl_handle(request) == "first"
    monkeypatch.setenv("SHEAF_OPENCL_DEVICE", "1")
    assert devices.opencl_handle(request) == "second"
    monkeypatch.setenv("SHEAF_OPENCL_DEVICE", "2")
    with pytest.raises(devices.DeviceError, match="there are 2 OpenCL devices"):
        devices.opencl_handle(request)


def test_the_address_that_spark_gives_a_task_is_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    class Given:
        def resources(self) -> dict[str, Any]:
            return {"gpu": pyspark.resource.ResourceInformation("gpu", ["3", "4"])}

    monkeypatch.setenv("SHEAF_OPENCL_DEVICE", "0")
    tasks.use_given_device()  # outside of a task
    assert os.environ["SHEAF_OPENCL_DEVICE"] == "0"
    monkeypatch.setattr(pyspark.TaskContext, "get", staticmethod(Given))
    tasks.use_given_device()
    assert os.environ["SHEAF_OPENCL_DEVICE"] == "3"


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_that_is_asked_to_end_leaves_nothing(tmp_path: Path) -> None:
    pq.write_table(events(400_000), tmp_path / "events.parquet", row_group_size=50_000)
    workload = {
        "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
        "queries": [q.replace("9 ms", "500 ms").replace("4 ms", "40 ms") for q in QUERIES],
    }
    (tmp_path / "w.json").write_text(json.dumps(workload))
    out = tmp_path / "out"
    out.mkdir()
    program = "from api.cli.main import main; main()"
    command = [sys.executable, "-c", program, "run", str(tmp_path / "w.json")]
    command += ["--engine", "spark"]
    command += ["--master", "local[1]", "--events", str(tmp_path / "events.parquet")]
    process = subprocess.Popen(
        [*command, "--out", str(out / "r.parquet")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        deadline = time.monotonic() + 150
        while not list(out.glob(".r.parquet.*/*.arrow")):  # a task is done, and others are not
            assert process.poll() is None, process.stdout and process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        began = time.monotonic()
        assert process.wait(60) != 0
        assert time.monotonic() - began < 20
    assert not list(out.iterdir())


EURO = {"time": "ts", "type": "kind", "format": "%d/%m/%Y %H:%M:%S"}
WRITTEN = load_bound(
    {
        "name": "t",
        "stream": EURO,
        "queries": ["QUERY n PATTERN SEQ(A a, B b) WHERE [user] AGG COUNT(*) WITHIN 9 s"],
    }
)


def test_times_in_a_format_are_read_as_the_local_engine_reads_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    start = datetime(2025, 3, 1)
    texts = [(start + timedelta(seconds=i // 2)).strftime(EURO["format"]) for i in range(400)]
    table = events().set_column(0, "ts", pa.array(texts))
    lines = [";".join(map(str, row.values())) for row in table.to_pylist()]
    path = tmp_path / "e.csv.zst"
    text = "\n".join([";".join(table.column_names), *lines])
    path.write_bytes(pa.compress(text.encode(), "zstd", asbytes=True))
    here = run_local(WRITTEN, from_table(table, WRITTEN.stream))
    wanted = Counter(map(repr, here.aggregates.drop_columns(["time"]).to_pylist()))
    assert wanted
    spark.createDataFrame(table.to_pandas()).createOrReplaceTempView("written_events")
    times = [t.replace(tzinfo=None) for t in here.aggregates.column("time").to_pylist()]
    for number, source in enumerate(
        (
            open_source(str(path), WRITTEN.stream),
            open_table(spark, "table:written_events", WRITTEN.stream),
        )
    ):
        target = FileTarget(str(tmp_path / f"r{number}.parquet"))
        done = run_batch(spark, How().program(WRITTEN), source, target)
        found = read(done.names).aggregates
        assert Counter(map(repr, found.drop_columns(["time"]).to_pylist())) == wanted
        assert sorted(found.column("time").to_pylist()) == sorted(times)


def test_a_folder_of_a_table_at_an_address_is_refused(
    spark: "SparkSession", tmp_path: Path
) -> None:
    pq.write_table(events(), tmp_path / "a.parquet")
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(EventsError, match=r"table \(Delta\).*table:NAME"):
        open_table(spark, f"file://{tmp_path}", STREAM)


def test_a_live_stream_is_no_folder_of_a_table_and_declares_times_in_its_format(
    tmp_path: Path,
) -> None:
    stream = replace(WRITTEN.stream, attributes={"user": "int"})
    live = open_live_source(str(tmp_path), stream)
    assert live.schema.field("ts").type == pa.timestamp("s")
    assert live.tick == 10**9
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(EventsError, match=r"table \(Delta\)"):
        open_live_source(str(tmp_path), stream)
