"""Queries that read one another's rows on Spark: as the local engine, however they are spread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engines.input.event_table import from_table
from engines.spark.stream.checkpoint import manifest_of
from optimizer.bind.binder import load_bound
from tests.differential.test_slices import multiset
from tests.engines.spark.stream_case import STREAM, Case, pieces, sample
from tests.engines.spark.test_spark_spread import BY_SHUFFLE, BY_TIME, ran
from tests.running import How, run_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

QUERIES = [
    "QUERY pairs PATTERN SEQ(A a, B b) PARTITION BY user RETURN a.x, b.x AS u WITHIN 9 ms INTO P",
    "QUERY after PATTERN SEQ(P p, !B n, C c) PARTITION BY user RETURN p.start, p.x, c.time "
    "WITHIN 30 ms",
    "QUERY counted PATTERN P p PARTITION BY user AGG COUNT(*), MAX(p.u) WITHIN 20 ms SLIDE 10 ms "
    "INTO N",
    "QUERY many PATTERN SEQ(N n, A a) WHERE n.count > 1 PARTITION BY user RETURN n.value, a.x "
    "WITHIN 15 ms",
    "QUERY again PATTERN SEQ((SEQ(A a, B b)){2,} g, C c) WHERE a.x < b.x PARTITION BY user "
    "RETURN b.x, c.time WITHIN 12 ms",
]
OF_ALL = [
    "QUERY alone PATTERN SEQ(A a, !C c) RETURN a.x WITHIN 4 ms INTO L",
    "QUERY follow PATTERN SEQ(L l, L m, C c) WHERE l.x < m.x RETURN l.x, c.time WITHIN 12 ms",
]


def test_rounds_in_stretches_and_in_buckets(spark: SparkSession, tmp_path: Path) -> None:
    table = sample().sort_by([("ts", "ascending"), ("seq", "ascending")])
    workload = load_bound({"name": "t", "stream": STREAM, "queries": [*QUERIES, *OF_ALL]})
    here = multiset([run_local(workload, from_table(table, workload.stream))])
    for how in (BY_TIME, BY_SHUFFLE):
        done, there = ran(spark, workload, table, how, tmp_path, group=40)
        assert multiset([there]) == here
        assert done.rows["after"]
        assert done.rows["many"]
        assert done.rows["follow"]
        assert done.rows["again"]


def test_a_live_stream_goes_on_with_what_chains_need(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(tmp_path)
    first, second = pieces(sample(), 2)
    case.arrive(first)
    case.run(spark, [*QUERIES, *OF_ALL])
    case.arrive(second)
    assert case.run(spark, [*QUERIES, *OF_ALL]) == ()  # no query starts afresh
    case.finish(spark)
    for kind in ("aggregates", "matches"):
        assert case.rows(kind) == case.expected(kind)
        assert case.rows(kind)


def test_a_changed_query_has_its_chain_begin_afresh() -> None:
    def digests(queries: list[str]) -> dict[str, str]:
        workload = load_bound({"name": "t", "stream": STREAM, "queries": queries})
        manifest = manifest_of(How().program(workload), sample().schema, 10**6, 2, 2)
        return {name: place.digest for name, place in manifest.queries.items()}

    before = digests([*QUERIES, *OF_ALL])
    changed = [text.replace("WITHIN 4 ms INTO", "WITHIN 6 ms INTO") for text in OF_ALL]
    after = digests([*QUERIES, *changed])
    assert {name for name in before if before[name] != after[name]} == {"alone", "follow"}
