"""SUPPRESS and KEEP by their definition."""

from __future__ import annotations

from typing import Any

from engines.results.json_text import json_text
from optimizer.ir.query import Construction, Query, whole_ticks

Result = dict[str, Any]


def picked_rows(query: Query, rows: list[Result], tick: int) -> list[Result]:
    """The matches of a query that are given; `last` of a row is the moment of its last event."""
    output = query.output
    assert isinstance(output, Construction)
    ordered = sorted(rows, key=lambda row: (row["time"], row.pop("last"), json_text(row["match"])))
    if output.suppress is not None:
        ordered = _not_suppressed(ordered, whole_ticks(output.suppress, tick, "time of SUPPRESS"))
    for kept in output.keep:
        ordered = ordered[: kept.number] if kept.end == "first" else ordered[-kept.number :]
    return ordered


def _not_suppressed(ordered: list[Result], width: int) -> list[Result]:
    given: list[Result] = []
    last: dict[str, Result] = {}
    for row in ordered:
        before = last.get(json_text(row["key"]))
        if before is not None and row["time"] - before["time"] < width:
            before["match"]["suppressed"] += 1
            continue
        given.append(row)
        last[json_text(row["key"])] = row
    return given
