"""Running statements over tables of rows, as tests of MATCH_RECOGNIZE want to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engines.input.event_table import Events, from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.running import run_local

STREAM = {"time": "ts", "unit": "s"}


def bound(*statements: str, stream: Mapping[str, Any] = STREAM) -> BoundWorkload:
    """Statements as the queries q1, q2, …"""
    queries = [{"name": f"q{i}", "sql": text} for i, text in enumerate(statements, 1)]
    return load_bound({"name": "sql", "stream": dict(stream), "queries": queries})


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table; those without a time get their number as one."""
    return pa.Table.from_pylist([{"ts": number, **row} for number, row in enumerate(rows)])


def column(name: str, values: Sequence[Any]) -> pa.Table:
    """A table of one column and the time."""
    return table([{name: value} for value in values])


def values_of(results: Results) -> list[Any]:
    """What the rows of matches hold, in an order that depends on nothing else."""
    found = [json.loads(text) for text in results.matches.column("match").to_pylist()]
    return sorted(([*row.values()] for row in found), key=repr)


def both(statement: str, events: pa.Table) -> list[Any]:
    """What a statement gives, which the engine and the reference must agree on."""
    workload = bound(statement)
    given: Events = from_table(events, workload.stream)
    found = values_of(run_local(workload, given))
    assert values_of(run_oracle(workload, given)) == found
    return found
