"""Counting in SQL: what DuckDB and Spark make of the same queries.

Two statements for each query. The self-join constructs matches, as SQL without help does it, and
then counts those of each trigger's window. The other adds up counts by START after every join, as
A-Seq does, so that rows stay few. Both join on the number of the START's window besides times, for
an engine without that key compares every pair of rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.benchmarks.found import Found, found_rows
from tests.benchmarks.measuring import Measured, Row, Size, Variant, measure
from tests.benchmarks.queries import called
from tests.benchmarks.sql_matches import matches_in_sql
from tests.benchmarks.streams import TYPES, constructed, sequence, uniform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_LIMIT = 3e7  # matches that a self-join may construct
# Queries, events in a window, and events.
_CASES = (
    (1, 100, 100_000),
    (10, 100, 50_000),
    (50, 100, 20_000),
    (1, 1_000, 5_000),
    (10, 1_000, 5_000),
)
_NO_SPARK = {
    "small": "starting Spark takes longer than all the rest of this size",
    "full": "with several queries Spark takes most of a minute to plan and compile the joins",
}


class Asked(NamedTuple):
    """A sequence of types within a window."""

    parts: tuple[str, ...]
    width: int


def by_sql(size: Size) -> Iterator[Row]:
    """The product, DuckDB and Spark SQL on sequences of 4 to 8 out of 20 types, every trigger.

    All from events in memory to a table of counts, on the same cores; streams are small enough for
    self-joins to finish. "join" constructs matches, "prefixes" adds up counts after every join.
    Then matches themselves: from events in memory to a table of their events' times, in seconds of
    the clock on the wall; "to result rows" writes each match as JSON too. An engine is helped by
    joining on windows' numbers, as above; DuckDB is also given the join as one writes it. Our plans
    are made before.
    """
    cases = _CASES if size == "full" else ((2, 100, 1_000),)
    if size == "small":
        yield from (_row(size, *case, spark=None) for case in cases)
        yield from matches_in_sql(size, None)
        return
    from engines.spark.runtime.session import spark_session

    with spark_session() as spark:
        for case in cases:
            yield _row(size, *case, spark=spark)
        yield from matches_in_sql(size, spark)


def _row(size: Size, number: int, width: int, events: int, spark: SparkSession | None) -> Measured:
    from tests.benchmarks.planned import in_memory, planned, with_product
    from tests.benchmarks.ways import make_case, warm_up

    warm_up()
    draw = random.Random(number)
    drawn = [Asked(tuple(draw.sample(TYPES, draw.randint(4, 8))), width) for _ in range(number)]
    stream = uniform(TYPES, events)
    texts = [sequence(f"q{i}", query.parts, width) for i, query in enumerate(drawn)]
    case = make_case(texts, stream)
    plan = with_product(planned(case.workload, case.document, case.events))
    variants = {"product": in_memory(plan, case.workload, case.events)}
    matches = sum(constructed(len(query.parts), width, len(TYPES), events) for query in drawn)
    skipped = {}
    statements = {"join": by_joining(drawn), "prefixes": by_prefixes(drawn)}
    for engine, name in product(("DuckDB", "Spark"), statements):
        column = f"{engine} {name}"
        if name == "join" and matches > _LIMIT:
            skipped[column] = (
                f"would construct about {matches:.2g} matches; the limit is {_LIMIT:.2g}"
            )
        elif engine == "DuckDB":
            try:
                variants[column] = in_duckdb(statements[name], stream, width)
            except ModuleNotFoundError:
                skipped[column] = "duckdb is not installed"
        elif spark is None or number > 1:
            skipped[column] = _NO_SPARK[size]
        else:
            variants[column] = in_spark(spark, statements[name], stream, width)
    return Measured(
        "sql",
        "the same events for all",
        f"{called(number)}, window of {width:,}, {events:,} events",
        events,
        measure(variants, size),
        skipped,
    )


# --- statements ----------------------------------------------------------------------------------


def by_joining(queries: Sequence[Asked]) -> str:
    """All matches of each query, then those of each trigger's window."""
    return " UNION ALL ".join(_counted(i, query, _joined(query)) for i, query in enumerate(queries))


def by_prefixes(queries: Sequence[Asked]) -> str:
    """The same with counts by START and last event, added up after every join."""
    return " UNION ALL ".join(
        _counted(i, query, _added_up(query)) for i, query in enumerate(queries)
    )


def _joined(query: Asked) -> str:
    parts = query.parts
    joins = "".join(
        f" JOIN later e{j} ON e{j}.type = '{parts[j]}' AND e{j}.bucket = e0.bucket"
        f" AND e{j}.ts > e{j - 1}.ts AND e{j}.ts < e0.ts + {query.width}"
        for j in range(1, len(parts))
    )
    last = f"e{len(parts) - 1}.ts"
    return (
        f"SELECT e0.bucket AS bucket, e0.ts AS start, {last} AS at, COUNT(*) AS n FROM starts e0"
        f"{joins} WHERE e0.type = '{parts[0]}' GROUP BY e0.bucket, e0.ts, {last}"
    )


def _added_up(query: Asked) -> str:
    made = (
        f"SELECT bucket, ts AS start, ts AS at, 1 AS n FROM starts WHERE type = '{query.parts[0]}'"
    )
    for part in query.parts[1:]:
        made = (
            "SELECT c.bucket AS bucket, c.start AS start, e.ts AS at, CAST(SUM(c.n) AS BIGINT) AS n"
            f" FROM ({made}) c JOIN later e ON e.type = '{part}' AND e.bucket = c.bucket"
            f" AND e.ts > c.at AND e.ts < c.start + {query.width}"
            " GROUP BY c.bucket, c.start, e.ts"
        )
    return made


def _counted(number: int, query: Asked, matches: str) -> str:
    """A row for each trigger whose window holds matches."""
    return (
        f"SELECT {number} AS query, t.ts AS ts, CAST(SUM(m.n) AS BIGINT) AS n FROM ({matches}) m"
        f" JOIN later t ON t.type = '{query.parts[-1]}' AND t.bucket = m.bucket"
        f" AND t.ts >= m.at AND t.ts < m.start + {query.width} GROUP BY t.ts"
    )


def tables_for(stream: pa.Table, width: int) -> dict[str, pa.Table]:
    """`starts` with the number of the window that each event is in, and `later`: each event twice,
    by the windows of the STARTs that it can follow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bucket = pc.divide(stream.column("ts"), width)
    starts = stream.append_column("bucket", bucket)
    place = starts.num_columns - 1
    before = starts.set_column(place, "bucket", pc.subtract(bucket, 1))
    return {"starts": starts, "later": pa.concat_tables([starts, before])}


# --- engines -------------------------------------------------------------------------------------


def in_duckdb(statement: str, stream: pa.Table, width: int) -> Variant:
    """The statement on tables in DuckDB's memory."""
    import duckdb

    connection: Any = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    for name, table in tables_for(stream, width).items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")
    return Variant(lambda: connection.sql(statement).to_arrow_table(), _found)


def in_spark(spark: SparkSession, statement: str, stream: pa.Table, width: int) -> Variant:
    """The statement on tables that Spark has cached."""
    for name, table in tables_for(stream, width).items():
        frame = spark.createDataFrame(table.to_pandas()).cache()
        frame.count()
        frame.createOrReplaceTempView(name)
    return Variant(lambda: spark.sql(statement).toArrow(), _found)


def _found(table: pa.Table) -> Found:
    import numpy as np

    query, time, counts = (np.asarray(table.column(name), np.int64) for name in table.column_names)
    return found_rows(query, time, counts.astype(np.uint64))
