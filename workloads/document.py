"""A workload as the document it can be loaded from again, whatever file it came from."""

from __future__ import annotations

from typing import Any

from workloads.model import Statistics, Stream, Workload
from workloads.printer import print_expression, print_query
from workloads.syntax import UNITS


def to_document(workload: Workload) -> dict[str, Any]:
    """Plain values that JSON can hold; `load_workload` gives the same workload back.

    Queries keep the text they were written in, so that errors still show it.
    """
    document: dict[str, Any] = {
        "name": workload.name,
        "stream": _stream(workload.stream),
        "queries": [query.text or print_query(query) for query in workload.queries],
    }
    if statistics := statistics_document(workload.statistics):
        document["statistics"] = statistics
    if workload.partial is not None:
        limit = workload.partial
        document["limits"] = {"partial_matches": limit.most, "on_limit": limit.on_limit}
    return document


def statistics_document(statistics: Statistics) -> dict[str, Any]:
    """What is known of a stream, as a workload has it under `statistics`."""
    document: dict[str, Any] = {}
    for key, values in (("rates", statistics.rates), ("selectivities", statistics.selectivities)):
        if values:
            document[key] = dict(values)
    if statistics.keys:
        document["keys"] = {
            name: {"cardinality": key.cardinality, "heaviest": key.heaviest}
            for name, key in statistics.keys.items()
        }
    for name in ("ties", "events", "span"):
        if (value := getattr(statistics, name)) is not None:
            document[name] = value
    return document


def print_nanoseconds(amount: int) -> str:
    """A length of time in the largest unit that it is a whole number of: `10 min`."""
    unit = max((u for u in UNITS if amount % UNITS[u] == 0), key=lambda u: UNITS[u])
    return f"{amount // UNITS[unit]} {unit}"


def _stream(stream: Stream) -> dict[str, Any]:
    document: dict[str, Any] = {"time": stream.time, "unit": stream.unit}
    if stream.type is not None:
        document["type"] = stream.type
    if stream.sequence is not None:
        document["sequence"] = stream.sequence
    if stream.types:
        document["types"] = {
            name: None if condition is None else print_expression(condition)
            for name, condition in stream.types.items()
        }
    if stream.attributes:
        document["attributes"] = dict(stream.attributes)
    if stream.lateness is not None:
        document["lateness"] = print_nanoseconds(stream.lateness)
    return document
