"""The brute-force reference over tables of events, for comparing other engines with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engines.input.event_table import Events
from engines.reference import run
from engines.reference.situations import Time
from engines.results.json_text import json_text
from engines.results.tables import Results, aggregate_schema, match_schema
from optimizer.ir.query import BoundWorkload


def run_oracle(workload: BoundWorkload, events: Events) -> Results:
    """All results of a workload, by brute force; small streams only."""
    rows = run(workload, events.table.to_pylist(), events.ticks.tolist(), events.tick)
    for row in rows:
        row["key"] = None if row["key"] is None else json_text(row["key"])
    matches = [
        row | {"match": json_text(_with_times(row["match"], events))}
        for row in rows
        if "match" in row
    ]
    aggregates = [row for row in rows if "match" not in row]
    return Results(
        _table(aggregates, aggregate_schema(events.time_type), events),
        _table(matches, match_schema(events.time_type), events),
    )


def _with_times(value: Any, events: Events) -> Any:
    """A match with the ends of situations as times of the stream."""
    if isinstance(value, Time):
        return events.times(np.array([value], np.int64))[0].as_py()
    if isinstance(value, dict):
        return {name: _with_times(inner, events) for name, inner in value.items()}
    return value


def _table(rows: list[dict[str, Any]], schema: pa.Schema, events: Events) -> pa.Table:
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.name in ("start", "end", "time"):
            columns.append(events.times(np.array(values, np.int64)))
        else:
            columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)
