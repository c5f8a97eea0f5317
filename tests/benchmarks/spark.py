"""The Spark job: against the local engine, against what one would write, and against many jobs."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.found import Found, found_results, found_rows
from tests.benchmarks.measuring import (
    BenchmarkError,
    Measured,
    Row,
    Said,
    Size,
    Variant,
    measure,
    timed,
)
from tests.benchmarks.planned import planned_for
from tests.benchmarks.queries import called
from tests.benchmarks.spark_others import KEYED, KIND, by_pandas, self_join
from tests.benchmarks.streams import STREAM, TYPES, sequence, uniform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from optimizer.plan.plan import Plan

_WIDTH = 1_000  # milliseconds, each with an event

# What one would write is tried with: events, keys, events of a key in a window, and whether SQL
# comes to an end.
OTHERS: dict[Size, list[tuple[int, int, int, bool]]] = {
    "small": [(2_000, 20, 10, True), (2_000, 20, 50, False)],
    "full": [
        (100_000, 200, 25, True),
        (100_000, 200, 100, True),
        (100_000, 200, 250, True),
        (1_000_000, 200, 1_000, False),
        (1_000_000, 20, 5_000, False),
    ],
}


@dataclass
class Spent:
    """Seconds of processors, by variant: of this process, or of all tasks."""

    cpu: dict[str, float] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)  # rows from storage


def by_spark(size: Size) -> Iterator[Row]:
    """Stored events to files of results: one Spark job, the local engine, and others.

    Sequences of 4 to 8 out of 20 types within 1,000 events, no key, results above a threshold. The
    session is started, and has run something, before; so are plans made, on a sample. What one
    would write counts three types by key: a self-join in Spark SQL, and a pandas function for each
    key.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        full = size == "full"
        case = _Case(folder, 20_000_000 if full else 20_000, 50 if full else 5)
        case.run_locally()
        if full:
            with running_session("local[1]") as session:
                case.run_job(session, "local[1]")
        with running_session("local[2]") as session:
            case.run_job(session, "local[2]")
            yield from case.rows()
            yield from _against_others(session, folder, size)
            yield from _against_many(session, folder, 1_000_000 if full else 5_000, size)


# --- the local engine --------------------------------------------------------------------------


class _Case:
    """One workload over the same events with the local engine and on one and two cores of Spark."""

    def __init__(self, folder: Path, events: int, number: int) -> None:
        self._folder, self._events, self._number = folder, events, number
        self._path = _stored(folder, events)
        self._plan = planned_for(_sequences(number), self._path)
        self._seconds: dict[str, float] = {}
        self._spent = Spent()
        self._found: Found | None = None

    def run_locally(self) -> None:
        self._measure(
            "local", lambda: _run_locally(self._plan, self._path, self._folder, self._spent)
        )

    def run_job(self, session: SparkSession, master: str) -> None:
        self._measure(
            master,
            lambda: run_job(session, self._plan, self._path, self._folder, master, self._spent),
        )

    def _measure(self, name: str, run: Callable[[], Path]) -> None:
        run()  # compiles, and fills caches
        path, self._seconds[name] = timed(run)
        found = _found(path)
        self._found = self._found or found
        if not found.agrees_with(self._found):
            raise BenchmarkError(f"{name} found {found}, but the local engine {self._found}")

    def rows(self) -> Iterator[Row]:
        seconds, cpu = self._seconds, self._spent.cpu
        case = called(self._number)
        yield Measured("spark", "a workload, file to file", case, self._events, seconds)
        per_core = cpu["local"] / cpu["local[2]"]
        text = "Seconds of processors: " + ", ".join(f"{n} {s:.1f}" for n, s in cpu.items())
        text += f"; for each of them tasks get through {per_core:.2f} times the local events."
        numbers: dict[str, float | None] = {"per core": per_core, **cpu}
        if "local[1]" in seconds:
            numbers["two cores"] = seconds["local[1]"] / seconds["local[2]"]
            text += f" Two cores are {numbers['two cores']:.2f} times as fast as one."
        yield Said("spark", text, numbers)


def _run_locally(plan: Plan, path: Path, folder: Path, spent: Spent) -> Path:
    from engines.execution import EventSource, RowSink
    from engines.run import run

    out, began = folder / "local.parquet", time.process_time()
    run(plan, EventSource(str(path)), RowSink(str(out)))
    spent.cpu["local"] = time.process_time() - began
    return out


def run_job(
    session: SparkSession, plan: Plan, path: Path, folder: Path, name: str, spent: Spent
) -> Path:
    """A job of a session that goes on; `engines.run.run` would start one for each."""
    from engines.input.event_table import column_kinds
    from engines.run import fitted, kinds_of
    from engines.spark.batch.job import run_batch
    from engines.spark.batch.source import open_source
    from engines.spark.batch.targets import FileTarget
    from workloads.loading import load_workload

    out = folder / "spark.parquet"
    workload = load_workload(plan.document)
    source = open_source(str(path), workload.stream)
    program = fitted(plan, source.schema, column_kinds(source.schema), workload, str(path))
    done = run_batch(session, program, source, FileTarget(str(out), *kinds_of(plan)))
    spent.cpu[name] = done.seconds["cpu"]
    spent.read[name] = spent.read.get(name, 0) + done.read
    return out


# --- what one would write ----------------------------------------------------------------------


def _against_others(session: SparkSession, folder: Path, size: Size) -> Iterator[Row]:
    import pyarrow.parquet as pq

    for events, keys, held, with_sql in OTHERS[size]:
        width = held * keys  # milliseconds, each with an event
        path = folder / "keyed.parquet"
        pq.write_table(keyed_events(events, keys), path, row_group_size=max(1, events // 8))
        plan = planned_for({"stream": STREAM, "queries": [KEYED.format(width=width)]}, path)
        session.read.parquet(str(path)).createOrReplaceTempView("events")
        frame = session.table("events")
        variants = {
            "Spark job": Variant(
                partial(run_job, session, plan, path, folder, "job", Spent()), _found
            ),
            "pandas by key": Variant(by_pandas(frame, width).toArrow, _found_counts),
        }
        if with_sql:
            sql = session.sql(self_join(width))
            variants["SQL self-join"] = Variant(sql.toArrow, _found_counts)
        case = f"{events:,} events of {keys} keys, {held:,} in a window"
        skipped = {} if with_sql else {"SQL self-join": "hours: it grows with the window's cube"}
        seconds = measure(variants, size)
        yield Measured("spark", "what one would write", case, events, seconds, skipped)


def keyed_events(events: int, keys: int) -> pa.Table:
    """An event each millisecond, of one of three types and some keys."""
    import numpy as np
    import pyarrow as pa

    draw = np.random.default_rng(7)
    return pa.table(
        {
            "ts": np.arange(events),
            "type": pa.array(np.array(KIND)[draw.integers(0, len(KIND), events)]),
            "user": draw.integers(0, keys, events),
        }
    )


def _found_counts(table: pa.Table) -> Found:
    import numpy as np

    time_, counts = (np.asarray(table.column(name), np.int64) for name in ("ts", "n"))
    return found_rows(np.zeros(len(time_), np.int64), time_, counts.astype(np.uint64))


# --- one job for each query --------------------------------------------------------------------


def _against_many(session: SparkSession, folder: Path, events: int, size: Size) -> Iterator[Row]:
    path = _stored(folder, events)
    for number in (10, 50, 100) if size == "full" else (3,):
        document, spent = _sequences(number), Spent()
        together = planned_for(document, path)
        apart = [planned_for(document | {"queries": [text]}, path) for text in document["queries"]]
        one = partial(run_job, session, together, path, folder, "one job", spent)
        each = partial(_run_apart, session, apart, path, folder, spent)
        variants = {"one job": Variant(one, _found), "a job each": Variant(each, _found_all)}
        seconds: dict[str, float] = {}
        found: dict[str, Found] = {}
        for name, variant in variants.items():
            result, seconds[name] = timed(variant.run)
            found[name] = variant.found(result)
        if not found["one job"].agrees_with(found["a job each"]):
            raise BenchmarkError(f"one job found {found['one job']}, others {found['a job each']}")
        yield Measured("spark", "one job for all queries", called(number), events, seconds)
        stored = path.stat().st_size / events / 1e6
        read = {name: spent.read[name] * stored for name in variants}
        yield Said(
            "spark",
            f"{called(number)}: {seconds['one job']:.1f} s and {read['one job']:.0f} MB read in "
            f"one job, {seconds['a job each']:.1f} s and {read['a job each']:.0f} MB in {number}.",
            {f"MB in {name}": amount for name, amount in read.items()},
        )


def _run_apart(
    session: SparkSession, plans: Sequence[Plan], path: Path, folder: Path, spent: Spent
) -> list[Path]:
    found = []
    for i, plan in enumerate(plans):
        out = run_job(session, plan, path, folder, "a job each", spent)
        found.append(out.rename(folder / f"apart-{i}.parquet"))
    return found


# --- all of them -------------------------------------------------------------------------------


def _stored(folder: Path, events: int) -> Path:
    import pyarrow.parquet as pq

    path = folder / f"{events}.parquet"
    if not path.exists():
        rows = min(1_000_000, max(1, events // 8))
        pq.write_table(uniform(TYPES, events), path, row_group_size=rows)
    return path


def _sequences(number: int) -> dict[str, Any]:
    """The document of so many queries."""
    draw = random.Random(number)
    texts = [
        sequence(f"q{i}", draw.sample(TYPES, draw.randint(4, 8)), _WIDTH).replace(
            "COUNT(*)", "COUNT(*) HAVING COUNT(*) > 100000000"
        )
        for i in range(number)
    ]
    return {"stream": STREAM, "queries": texts}


@contextmanager
def running_session(master: str) -> Iterator[SparkSession]:
    """A session that has run something."""
    from engines.spark.runtime.session import spark_session

    with spark_session(master) as session:
        session.range(0, 4, 1, 4).mapInArrow(_passed_on, "id bigint").collect()
        yield session


def _passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _found(path: Path) -> Found:
    return _found_all([path])


def _found_all(paths: Sequence[Path]) -> Found:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from engines.results.tables import Results, match_schema

    aggregates = pa.concat_tables([pq.read_table(path) for path in paths])
    results = Results(aggregates, match_schema(pa.int64()).empty_table())
    return found_results(results, [f"q{i}" for i in range(1_000)])
