"""Sessions, windows of events, windows from the first event, joins of events and MATCH_RECOGNIZE on
Spark's streams: the rows of the stored stream, for any order of arrival and restarts.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.engines.spark.test_spark_stream import Case, pieces, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

PATTERN = (
    "SELECT user, n, low, first FROM t MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES "
    "MATCH_NUMBER() AS n, LAST(DOWN.x) AS low, FIRST(ts) AS first AFTER MATCH SKIP PAST LAST ROW "
    "PATTERN (DOWN+ UP) DEFINE DOWN AS kind = 'A' OR PREV(kind) = 'A', UP AS kind = 'B')"
)
QUERIES: list[Any] = [
    "QUERY visits PATTERN SEQ(A a, B b) PARTITION BY user AGG COUNT(*), SUM(b.x) "
    "WITHIN SESSION 3 ms",
    "QUERY left PATTERN SEQ(A a, !B b) PARTITION BY item RETURN a WITHIN SESSION 2 ms",
    "QUERY counted PATTERN SEQ(A a, B b) PARTITION BY user RETURN a.x, b.x WITHIN 3 EVENTS OF (A)",
    "QUERY slid PATTERN SEQ(A a, C c) PARTITION BY user AGG COUNT(*) "
    "WITHIN 6 EVENTS OF (A, C) SLIDE 4 EVENTS",
    "QUERY begun PATTERN A a PARTITION BY user AGG COUNT(*), SUM(a.x) "
    "WITHIN 8 ms SLIDE 8 ms WINDOWS FROM FIRST EMPTY ROWS",
    "QUERY pairs PATTERN LEFT JOIN(A l WITHIN 5 ms, B r WITHIN 3 EVENTS) "
    "PARTITION BY user RETURN l.x, r.x",
    {"name": "falls", "sql": PATTERN},
]


def test_windows_with_clocks_of_their_own_give_the_rows_of_the_stored_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = sample(180)
    # No two rows have one place in ORDER BY.
    table = table.set_column(1, "seq", pa.array(range(table.num_rows), pa.int64()))
    first, second, third = pieces(table, 3)
    case = Case(tmp_path)
    case.arrive(first, second)
    case.run(spark, QUERIES)
    before = case.rows("aggregates") + case.rows("matches")
    names = Counter(dict(row)["query"] for row in before.elements())
    assert len(names) == len(QUERIES)  # rows of each are certain before the stream ends
    case.arrive(third)
    assert case.run(spark, QUERIES) == ()  # all go on with their state
    case.finish(spark)
    for kind in ("aggregates", "matches"):
        assert case.rows(kind) == case.expected(kind)
    assert any('"user":null' in (dict(row)["key"] or "") for row in case.rows("matches"))
