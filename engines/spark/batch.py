"""A workload over stored events as one Spark job.

Every event goes to a bucket of keys, once for each way of keying that the queries need; a bucket
is what the local engine then runs over. Which bucket a key is in never shows in the results.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.needed import needed_columns
from engines.events import Events, from_table
from engines.how import USUAL, How
from engines.local.run import run_local
from engines.results import Results, aggregate_schema, match_schema, sorted_results
from engines.spark.source import Source, unpack
from kernels import product
from optimizer.automaton import countable
from optimizer.ir.query import BoundWorkload, Query
from workloads.errors import SheafError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Buckets for each core: enough that uneven ones even out, few enough that each is worth a call.
BUCKETS_PER_CORE = 4

Key = tuple[str, ...]

# Aggregate rows and match rows in one table, times as ticks.
PACKED = (
    ("query", "string"),
    ("key", "string"),
    ("time", "bigint"),
    ("seq", "bigint"),
    ("aggregate", "string"),
    ("value", "double"),
    ("count", "bigint"),
    ("exact", "boolean"),
    ("start", "bigint"),
    ("end", "bigint"),
    ("match", "string"),
)
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


class JobError(SheafError):
    """What Spark says went wrong with a job."""


def run_batch(
    session: SparkSession,
    workload: BoundWorkload,
    source: Source,
    buckets: int | None = None,
    how: How = USUAL,
) -> tuple[Results, int]:
    """All results of a workload, sorted, and the number of events read."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    # What the engine cannot do is said here, before anything is started. The kernels are compiled
    # and cached here too, for the workers to load: they must not all write that cache at once.
    first = source.events.table.slice(0, 1)
    run_local(workload, from_table(first, workload.stream))
    if any(countable(query) is None for query in workload.queries):
        product.warm()
    routes = plan_routes(workload.queries)
    columns = needed_columns(workload, source.schema.names)
    worker = _Worker(
        tuple(replace(workload, queries=queries) for queries in routes.values()),
        pa.schema([source.schema.field(name) for name in columns]),
        how,
    )

    def evaluate(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        return worker.run(key[0].as_py(), table)

    counted = Observation("events")
    events = source.frame(session, columns).observe(counted, sf.count(sf.lit(1)).alias("number"))
    place = {name: f"c{i}" for i, name in enumerate(columns)}
    place.setdefault("time", place[workload.stream.time])
    number = buckets or BUCKETS_PER_CORE * session.sparkContext.defaultParallelism
    routed = _routed(events, [[place[name] for name in key] for key in routes], number)
    schema = ", ".join(f"`{name}` {kind}" for name, kind in PACKED)
    try:
        packed = routed.groupBy("route", "bucket").applyInArrow(evaluate, schema).toArrow()
        read = int(counted.get["number"])
    except (PySparkException, Py4JError) as error:
        raise JobError(said(error)) from error
    return sorted_results(_unpacked(packed, source.events)), read


def plan_routes(queries: tuple[Query, ...]) -> dict[Key, tuple[Query, ...]]:
    """Queries by the key that their events are spread by.

    `user` also serves queries keyed by `user, item`: the engine tells the finer keys apart.
    """
    keys = sorted({frozenset(query.key) for query in queries}, key=lambda k: (len(k), sorted(k)))
    chosen: list[frozenset[str]] = []
    for key in keys:
        if not any(other and other <= key for other in chosen):
            chosen.append(key)
    routes: dict[Key, tuple[Query, ...]] = {}
    for query in queries:
        wanted = frozenset(query.key)
        key = next(k for k in chosen if k == wanted or (k and k <= wanted))
        name = tuple(sorted(key))
        routes[name] = (*routes.get(name, ()), query)
    return routes


def _routed(events: DataFrame, routes: list[list[str]], buckets: int) -> DataFrame:
    """Each event once for each route that it takes, with the number of the route and a bucket."""
    from pyspark.sql import functions as sf

    def target(route: int, columns: list[str]) -> Column:
        if not columns:
            return sf.struct(sf.lit(route).alias("route"), sf.lit(0).alias("bucket"))
        bucket = sf.pmod(sf.xxhash64(*columns), sf.lit(buckets)).cast("int")
        here = sf.struct(sf.lit(route).alias("route"), bucket.alias("bucket"))
        keyed = sf.lit(True)
        for column in columns:
            keyed = keyed & sf.col(column).isNotNull()
        return sf.when(keyed, here)  # an event without a key is in no partition

    targets = sf.array_compact(
        sf.array(*(target(route, columns) for route, columns in enumerate(routes)))
    )
    spread = events.withColumn("target", sf.explode(targets))
    return spread.select("target.route", "target.bucket", *events.columns)


@dataclass(frozen=True)
class _Worker:
    """What runs on an executor: the queries of each route, and the columns that arrive."""

    routes: tuple[BoundWorkload, ...]
    schema: pa.Schema
    how: How = USUAL

    def run(self, route: int, table: pa.Table) -> pa.Table:
        # Spark runs a worker on each core: a device that is the processor takes one for each.
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
        workload = self.routes[route]
        events = from_table(unpack(table, self.schema), workload.stream)
        return _packed(run_local(workload, events, how=self.how))


def _packed(results: Results) -> pa.Table:
    tables = []
    for table in (results.aggregates, results.matches):
        columns = []
        for name, kind in PACKED:
            if name not in table.column_names:
                columns.append(pa.nulls(table.num_rows, _ARROW[kind]))
                continue
            column = table.column(name)
            if pa.types.is_date32(column.type):
                column = column.cast(pa.int32())
            columns.append(column.cast(_ARROW[kind]))
        tables.append(pa.Table.from_arrays(columns, [name for name, _ in PACKED]))
    return pa.concat_tables(tables)


def _unpacked(packed: pa.Table, events: Events) -> Results:
    is_aggregate = pc.is_valid(packed["aggregate"])

    def rows(keep: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
        table = packed.filter(keep)
        columns = []
        for field in schema:
            column = table.column(field.name)
            if field.name in ("time", "start", "end"):
                column = events.times(column.to_numpy())
            columns.append(column)
        return pa.Table.from_arrays(columns, schema=schema)

    return Results(
        rows(is_aggregate, aggregate_schema(events.time_type)),
        rows(pc.invert(is_aggregate), match_schema(events.time_type)),
    )


def said(error: Exception) -> str:
    """The last line of a Python traceback in Spark's message, or the first line of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, text = line.partition(": ")
        if colon and name.endswith("Error") and " " not in name:
            return text if name.startswith(("engines.", "workloads.")) else line
    return f"Spark: {lines[0] if lines else type(error).__name__}"
