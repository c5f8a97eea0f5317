"""The local engine gives what the reference gives, on random queries and streams."""

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from engines.events import Events, from_table
from engines.local import Limits, run_local
from engines.oracle import run_oracle
from engines.results import Results
from optimizer.ir.query import BoundWorkload
from tests.strategies import FLAT, SHAPE, Row, Shape, has_sequence, queries_with_rows

COLUMNS = {"ts": pa.int64(), "kind": pa.string(), "k": pa.int64(), "x": pa.int64(), "y": pa.int64()}


def events_of(workload: BoundWorkload, rows: list[Row]) -> Events:
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    return from_table(pa.Table.from_pylist(rows, pa.schema(columns)), workload.stream)


def comparable(results: Results) -> tuple[Counter[Any], Counter[Any]]:
    """Rows as a multiset; doubles to twelve digits, matches as the values they say."""
    return (
        Counter(tuple(map(_rounded, row.values())) for row in results.aggregates.to_pylist()),
        Counter(tuple(map(str, row.values())) for row in results.matches.to_pylist()),
    )


def _rounded(value: Any) -> Any:
    return f"{value:.12g}" if isinstance(value, float) else value


def check(workload: BoundWorkload, rows: list[Row], limits: Limits = Limits()) -> None:
    events = events_of(workload, rows)
    assert comparable(run_local(workload, events, limits)) == comparable(
        run_oracle(workload, events)
    )


@given(queries_with_rows())
@settings(max_examples=400)
def test_any_query(case: tuple[BoundWorkload, list[Row]]) -> None:
    check(*case)
