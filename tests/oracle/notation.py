"""Streams and results in the notation of the papers: `a1 b2 b3 c5`, letter for type, time behind.

An event may carry attributes: `a1(x=3,id=7)`. Two events of one type and time are told apart by
a mark behind the time: `b2 b2'`.
"""

from __future__ import annotations

import re
from typing import Any

from engines.reference import matches_of, run
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload

_EVENT = re.compile(r"([A-Za-z]+)(\d+)('*)(?:\(([^)]*)\))?")


def rows(stream: str) -> list[dict[str, Any]]:
    """The events of a stream in notation; `name` is how each was written."""
    found = []
    for letters, time, mark, attributes in _EVENT.findall(stream):
        row: dict[str, Any] = {
            "ts": int(time),
            "type": letters[0].upper() + letters[1:],
            "name": letters + time + mark,
        }
        for pair in filter(None, attributes.split(",")):
            name, value = pair.split("=")
            row[name.strip()] = None if value == "null" else int(value)
        found.append(row)
    columns = {column for row in found for column in row}
    return [{column: row.get(column) for column in columns} for row in found]


def workload(*queries: str, **stream: Any) -> BoundWorkload:
    """A workload over streams in notation, in seconds."""
    document = {
        "stream": {"time": "ts", "unit": "s", "type": "type", **stream},
        "queries": list(queries),
    }
    return load_bound(document)


def matches(
    pattern: str, stream: str, within: str = "100 s", where: str = "", **kw: Any
) -> list[str]:
    """The matches of a pattern, each as its events in order, sorted."""
    condition = f"WHERE {where}" if where else ""
    bound = workload(f"PATTERN {pattern} {condition} AGG COUNT(*) WITHIN {within}", **kw)
    events = rows(stream)
    found = []
    for match in matches_of(bound.queries[0], bound.stream, events):
        numbers = sorted(i for group in match.values() for i in group)
        found.append(" ".join(sorted((events[i]["name"] for i in numbers), key=_time_of)))
    return sorted(found)


def counts(pattern: str, stream: str, within: str = "100 s", where: str = "", **kw: Any) -> Any:
    """COUNT(*) at each trigger, as a dictionary of time to count; with keys, key to that."""
    condition = f"WHERE {where}" if where else ""
    bound = workload(f"PATTERN {pattern} {condition} AGG COUNT(*) WITHIN {within}", **kw)
    result: dict[Any, dict[int, int]] = {}
    for row in run(bound, rows(stream)):
        key = tuple(row["key"].values()) if row["key"] else None
        result.setdefault(key, {})[row["time"]] = row["count"]
    return result.get(None, {}) if set(result) <= {None} else result


def _time_of(name: str) -> tuple[int, str]:
    return int(re.findall(r"\d+", name)[0]), name
