"""Matches of situations that have ended are those that SQL finds: gaps and islands, then joins."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from optimizer.bind.binder import load_bound
from tests.running import run_local

# Each relation by end points of A and B.
CONDITIONS = {
    "before": "a.until < b.start",
    "meets": "a.until = b.start",
    "overlaps": "a.start < b.start AND b.start < a.until AND a.until < b.until",
    "finished by": "a.start < b.start AND a.until = b.until",
    "contains": "a.start < b.start AND b.until < a.until",
    "starts": "a.start = b.start AND a.until < b.until",
    "equals": "a.start = b.start AND a.until = b.until",
    "started by": "a.start = b.start AND b.until < a.until",
    "during": "b.start < a.start AND a.until < b.until",
    "finishes": "b.start < a.start AND a.until = b.until",
    "overlapped by": "b.start < a.start AND a.start < b.until AND b.until < a.until",
    "met by": "b.until = a.start",
    "after": "b.until < a.start",
}
ISLANDS = """
    SELECT k, min(ts) AS start, any_value(ends) AS until FROM (
        SELECT k, ts, min(CASE WHEN NOT {on} THEN ts END) OVER (
            PARTITION BY k ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS ends,
            {on} AS is_on FROM events)
    WHERE is_on AND ends IS NOT NULL GROUP BY k, ends"""


def stream(seed: int) -> pa.Table:
    draw, size = np.random.default_rng(seed), 400
    lengths = draw.integers(1, 7, (2, size))
    on = [np.repeat(np.arange(size) % 2, each)[:size] for each in lengths]
    noisy = draw.integers(0, 8, size) == 0
    columns = {"ts": np.arange(size), "kind": ["E"] * size, "k": draw.integers(0, 3, size)}
    return pa.table(columns | {"a": on[0], "b": np.where(noisy, 1 - on[1], on[1])})


@pytest.mark.parametrize("relation", CONDITIONS)
def test_sql_finds_the_same(relation: str) -> None:
    text = (
        f"QUERY q DEFINE A AS a = 1 AT LEAST 3 s, B AS b = 1 AT MOST 40 s PATTERN A {relation} B "
        "PARTITION BY k RETURN A, B WITHIN 60 s EMIT COMPLETE"
    )
    workload = load_bound(
        {"name": "w", "stream": {"time": "ts", "unit": "s", "type": "kind"}, "queries": [text]}
    )
    number = 0
    for seed in range(3):
        events = stream(seed)
        found = run_local(workload, from_table(events, workload.stream)).matches.to_pylist()
        rows = []
        for row in found:
            match, key = json.loads(row["match"]), json.loads(row["key"])
            rows.append((key["k"], *match["A"].values(), *match["B"].values()))
        expected = duckdb.sql(
            f"""WITH a AS ({ISLANDS.format(on="a = 1")}), b AS ({ISLANDS.format(on="b = 1")})
            SELECT a.k, a.start, a.until, b.start, b.until FROM a JOIN b ON a.k = b.k
            WHERE {CONDITIONS[relation]} AND a.until - a.start >= 3 AND b.until - b.start <= 40
            AND greatest(a.until, b.until) - least(a.start, b.start) < 60"""
        ).fetchall()
        assert sorted(rows) == sorted(expected)
        number += len(rows)
    assert number or relation == "equals"
