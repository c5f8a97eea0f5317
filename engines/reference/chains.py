"""Rows of queries as events for other queries: `INTO Name`, by its definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from engines.reference.situations import Time
from engines.reference.values import Row
from optimizer.ir.produced import START, TYPE, ProducedType
from workloads.workload import Stream

LAST = 2**63 - 1  # the sequence number of what a query made: it comes last at its time

Fields = Callable[[dict[str, Any]], Mapping[str, Any]]


def produced_rows(
    made: ProducedType,
    results: Sequence[Mapping[str, Any]],
    stream: Stream,
    shown: Callable[[int], Any],
    fields: Fields,
) -> Iterator[Row]:
    """The events of a query's result rows; `shown` gives a tick as the stream's times are."""
    for result in results:
        end = result["end"] if "match" in result else result["time"]
        start = result["start"] if "match" in result else end
        values = {stream.time: shown(end), "time": shown(end), START: shown(start), TYPE: made.name}
        if stream.type is not None:
            values[stream.type] = made.name
        for field in made.fields:
            found = _value(field.path, result, field.name)
            values[field.name] = shown(found) if isinstance(found, Time) else found
        key = (end,) if stream.sequence is None else (end, LAST)
        yield Row(key, end, fields(values), start)


def _value(path: tuple[str, ...] | None, result: Mapping[str, Any], name: str) -> Any:
    if path is None:
        return result["key"][name]
    found = result.get("match", result)
    for part in path:
        found = found.get(part)
        if found is None:
            return None  # of a part of an OR that did not match
    return found


def times_like(value: Any, at: int, tick: int) -> Callable[[int], Any]:
    """What gives ticks as times of the kind of one of them; `value` is the time `at`."""
    if isinstance(value, datetime):
        return lambda ticks: value + timedelta(microseconds=(ticks - at) * tick // 1000)
    if isinstance(value, date):
        return lambda ticks: value + timedelta(days=ticks - at)
    return lambda ticks: ticks
