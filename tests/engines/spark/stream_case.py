"""A stream of events in files, what a job finds in them, and what it is to find."""

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq

from engines.input.event_table import column_kinds, from_table
from engines.spark.stream.checkpoint import read_manifest
from engines.spark.stream.job import (
    StreamOptions,
    StreamProgress,
    finish_stream,
    start_stream,
)
from engines.spark.stream.source import (
    open_live_source,
)
from optimizer.bind.binder import bind
from optimizer.ir.query import BoundWorkload
from tests.differential.test_slices import COLUMNS
from tests.running import How, run_local
from workloads.loading import load_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq", "lateness": "20 ms"}
QUERIES = [
    "QUERY keyed PATTERN SEQ(A a, !C c, B b) PARTITION BY user AGG COUNT(*), SUM(b.x) WITHIN 40 ms",
    "QUERY finer PATTERN SEQ(A a, B b) WHERE [user, item] AGG COUNT(*) WITHIN 90 ms SLIDE 10 ms",
    "QUERY other PATTERN SEQ(A a, B b) PARTITION BY item RETURN a, b.x WITHIN 30 ms",
    "QUERY whole PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x RETURN a.x, c.time WITHIN 9 ms",
    "QUERY ranked PATTERN SEQ(A a, C c) PARTITION BY user AGG COUNT(*) WITHIN 5 EVENTS",
    "QUERY none PATTERN SEQ(A a, !B b) WHERE [user] RETURN a.x WITHIN 15 ms",
    "QUERY apart PATTERN SEQ(A a, B b) PARTITION BY user STRATEGY NEXT "
    "AFTER MATCH SKIP PAST LAST EVENT RETURN a.x, b.x WITHIN 20 ms",
    "QUERY few PATTERN SEQ(A a, B b) PARTITION BY user RETURN a.x SUPPRESS 25 ms WITHIN 12 ms",
]
LATE = 20  # milliseconds
SCHEMA = pa.schema(COLUMNS | {"seq": pa.int64()})


def sample(rows: int = 240, seed: int = 1) -> pa.Table:
    """Ties, nulls in keys and values; in an order in which no event is too late."""
    chance = random.Random(seed)
    times = [i // 2 - 30 for i in range(rows)]  # some before 1970
    order = sorted(range(rows), key=lambda i: times[i] + chance.random() * (LATE - 1))
    return pa.table(
        {
            "ts": pa.array([times[i] for i in order], pa.int64()),
            "seq": pa.array([i // 3 for i in order], pa.int64()),
            "kind": pa.array([chance.choice("ABC") for _ in order]),
            "user": pa.array([None if i % 11 == 0 else f"u{i % 4}" for i in order]),
            "item": pa.array([None if i % 7 == 0 else i % 3 for i in order], pa.int64()),
            "x": pa.array([None if i % 13 == 0 else i for i in order], pa.int64()),
        }
    )


def document(queries: list[str] = QUERIES, **stream: Any) -> dict[str, Any]:
    return {"name": "t", "stream": STREAM | stream, "queries": queries}


class Case:
    """A folder that events come into, and the stream over it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.events, self.folder, self.options = folder / "events in", folder, options
        self.out = str(folder / "out")
        self.events.mkdir()
        self.seen: list[StreamProgress] = []
        self.tables: list[pa.Table] = []

    def arrive(self, *tables: pa.Table, ending: str = "parquet") -> None:
        """Files, the older first whatever the clock says."""
        for table in tables:
            number = len(self.tables)
            file = self.events / f"{number}.{ending}"
            if ending == "parquet":
                pq.write_table(table, file)
            elif ending == "csv":
                pyarrow.csv.write_csv(table, file)
            else:
                lines = (json.dumps(row) + "\n" for row in table.to_pylist())
                file.write_text("".join(lines))
            os.utime(file, (10**9 + number, 10**9 + number))
            self.tables.append(table)

    def bound(self, queries: list[str], **stream: Any) -> BoundWorkload:
        workload = load_workload(document(queries, **stream))
        manifest = read_manifest(str(self.folder / "state"))
        self.source = open_live_source(
            str(self.events), workload.stream, known=manifest and manifest.schema
        )
        self.workload = bind(workload, column_kinds(self.source.schema))
        return self.workload

    def run(
        self, spark: "SparkSession", queries: list[str] = QUERIES, **stream: Any
    ) -> tuple[str, ...]:
        """All that is there; gives the queries that started afresh."""
        self.bound(queries, **stream)
        return self.start(spark)

    def start(self, spark: "SparkSession") -> tuple[str, ...]:
        options = {"buckets": 3, "files_per_batch": 1, "once": True} | self.options
        self.settings = StreamOptions(str(self.folder / "state"), self.out, **options)
        program = How().program(self.workload)
        job = start_stream(spark, program, self.source, self.settings, told=self.seen.append)
        job.wait()
        return job.takeover.afresh

    def finish(self, spark: "SparkSession") -> None:
        program = How().program(self.workload)
        self.seen.append(finish_stream(spark, program, self.source, self.settings))

    def rows(self, kind: str) -> Counter[Any]:
        return rows(pyarrow.dataset.dataset(self.folder / "out" / kind).to_table())

    def expected(self, kind: str, until: int | None = None) -> Counter[Any]:
        """What the local engine gives, as far as it is certain at a time."""
        table = pa.concat_tables(self.tables)
        results = run_local(self.workload, from_table(table, self.workload.stream))
        return rows(certain(getattr(results, kind), until))


def certain(table: pa.Table, until: int | None) -> pa.Table:
    if until is None:
        return table
    return table.filter(pa.array([row["time"] <= until for row in table.to_pylist()], pa.bool_()))


def rows(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.items()) for row in table.to_pylist())


def pieces(table: pa.Table, number: int) -> list[pa.Table]:
    size = -(-table.num_rows // number)
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]
