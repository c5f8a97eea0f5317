"""The rows of a workload: partitions, windows, triggers, and what is returned of each match."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engines.reference.meaning import Matcher, Region, Test, extent
from engines.reference.shape import alternatives, existential, last_events, waits
from engines.reference.values import Binding, Row, in_order, over, value
from engines.results.json_text import json_text
from optimizer.ir.pattern import Pattern, positive_events
from optimizer.ir.query import (
    Aggregate,
    BoundWorkload,
    Construction,
    MatchLimit,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnValue,
    whole_ticks,
)
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.syntax import One
from workloads.workload import NANOSECONDS, Stream

EXACT = 2**63 - 1
Result = dict[str, Any]


def run(
    workload: BoundWorkload,
    rows: Sequence[Mapping[str, Any]],
    ticks: Sequence[int] | None = None,
    tick: int | None = None,
) -> list[Result]:
    """All result rows of a workload, as dictionaries with the columns of docs/semantics.md#rows.

    `rows` are events as column values. Their times are taken from `ticks`, `tick` nanoseconds each;
    by default from the time column, in the stream's unit. `key` and `match` are plain objects.
    """
    stream = workload.stream
    times = [row[stream.time] for row in rows] if ticks is None else ticks
    unit = NANOSECONDS[stream.unit] if tick is None else tick
    events = [_row(stream, row, time) for row, time in zip(rows, times, strict=True)]
    steps = itertools.count()
    for query in workload.queries:
        if query.strategy != "any":
            raise UnsupportedError(f"query {query.name}: STRATEGY {query.strategy.upper()}")
    return [
        {"query": query.name, "key": key} | row
        for query in workload.queries
        for key, part in _partitions(query, events)
        for row in _results(query, stream, part, set(rows[0]), unit, steps)
    ]


def matches_of(
    query: Query, stream: Stream, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, tuple[int, ...]]]:
    """The matches of a query over rows of one partition: for each, alias to indices of rows."""
    events = [_row(stream, row, row[stream.time]) for row in rows]
    number = {id(event.values): i for i, event in enumerate(events)}
    width = query.window.ticks(NANOSECONDS[stream.unit])
    matcher = Matcher(stream, query.conditions, _ordered(query, events), width, itertools.count())
    return [
        {
            alias: tuple(number[id(row.values)] for row in in_order(group))
            for alias, group in match.items()
        }
        for alternative in alternatives(query.pattern)
        for match in matcher.matches(alternative)
    ]


def _row(stream: Stream, values: Mapping[str, Any], time: int) -> Row:
    key = (time,) if stream.sequence is None else (time, values[stream.sequence])
    return Row(key, time, _Fields({**values, "time": values.get("time", values[stream.time])}))


class _Fields(dict[str, Any]):
    """An event's values by name, and those inside of structs by path."""

    def __missing__(self, name: str) -> Any:
        parts = name.split(".")
        for count in range(len(parts) - 1, 0, -1):
            found = self.get(".".join(parts[:count]))
            if isinstance(found, Mapping):
                return _Fields(found)[".".join(parts[count:])]
        return None


def _ordered(query: Query, events: list[Row]) -> list[Row]:
    """The partition's events in order; for a count window, with their ranks as positions."""
    ordered = sorted(events, key=lambda e: e.key)
    if not query.window.is_count:
        return ordered
    keys = [e.key for e in ordered]
    return [Row(e.key, keys.index(e.key) + 1, e.values) for e in ordered]


def _partitions(query: Query, events: list[Row]) -> Iterator[tuple[Result | None, list[Row]]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for event in events:
        values = tuple(event.values[name] for name in query.key)
        if None not in values:
            found.setdefault(values, []).append(event)
    for values, part in found.items():
        own = dict(zip(query.key, values, strict=True))
        key = {name: own.get(name, fixed) for name, fixed in query.result_key}
        yield key or None, part


def _results(
    query: Query,
    stream: Stream,
    part: list[Row],
    columns: set[str],
    tick: int,
    steps: Iterator[int],
) -> Iterator[Result]:
    events = _ordered(query, part)
    matcher = Matcher(stream, query.conditions, events, query.window.ticks(tick), steps)
    choices = alternatives(query.pattern)
    output = query.output
    if isinstance(output, Construction):
        matches = [(choice, match) for choice in choices for match in matcher.matches(choice)]
        rows = [
            _times(query, choice, match, matcher)
            | {"match": _returned(query, output, match, columns)}
            for choice, match in matches
        ]
        if output.limit is not None:
            rows = _first(output.limit, [match for _, match in matches], rows)
        yield from rows
        return
    for time, seq, window in _windows(query, matcher, choices, tick):
        found = [match for choice in choices for match in matcher.matches(choice, window)]
        if found and (output.having is None or _having(output.having, found)):
            for item in output.items:
                yield {"time": time, "seq": seq} | _aggregate_row(item, found)


# --- aggregates --------------------------------------------------------------------------------


def _windows(
    query: Query, matcher: Matcher, choices: list[Pattern], tick: int
) -> Iterator[tuple[int, int | None, Region]]:
    """Each time at which an aggregate query is evaluated, with its sequence and its window."""

    def window(end: int, closed: Test) -> Region:
        def opened(e: Row) -> bool:
            return e.position > end - matcher.width

        return Region(opened, closed, lambda e: opened(e) and closed(e))

    events, is_count = matcher.events, query.window.is_count
    if query.slide is None:
        last = [e for choice in choices for e in last_events(choice, existential(choice))]
        triggers = {t.key: t for event in last for t in matcher.instances(event.symbol)}
        for key, t in triggers.items():
            seq = key[1] if matcher.stream.sequence is not None else None
            yield key[0], seq, window(t.position, lambda e, key=key: e.key <= key)  # type: ignore[misc]
        return
    slide = query.slide if is_count else whole_ticks(query.slide, tick, "slide")
    end = events[-1].position + (1 if is_count else matcher.width)
    for b in range(-(-events[0].position // slide) * slide, end, slide):
        time = max(e.key[0] for e in events if e.position <= b) if is_count else b
        yield time, None, window(b, lambda e, b=b: e.position <= b)  # type: ignore[misc]


def _aggregate(function: str, operand: ex.Expression | None, matches: list[Binding]) -> Any:
    if not isinstance(operand, ex.Attribute):
        return len(matches)
    name, alias = operand.name, operand.alias
    values = [row.values[name] for match in matches for row in match.get(alias, ())]
    return over(values, function)


def _having(condition: ex.Expression, matches: list[Binding]) -> bool:
    return bool(value(condition, {}, lambda c: _aggregate(c.function, c.argument, matches)))


def _aggregate_row(item: Aggregate, matches: list[Binding]) -> Result:
    result = _aggregate(item.function, item.operand, matches)
    is_count = item.function == "count"
    exact = not is_count or result <= EXACT
    return {
        "aggregate": item.text,
        "value": None if result is None else float(result),
        "count": result if is_count and exact else None,
        "exact": exact,
    }


# --- matches -----------------------------------------------------------------------------------


def _times(query: Query, choice: Pattern, match: Binding, matcher: Matcher) -> Result:
    first, last = extent(match)
    time = last.key[0]
    if waits(choice) and query.window.is_count:
        closing = [e for e in matcher.events if e.position >= first.position + matcher.width]
        time = (closing or matcher.events[-1:])[0].key[0]
    elif waits(choice):
        time = first.key[0] + matcher.width
    return {"start": first.key[0], "end": last.key[0], "time": time}


def _first(limit: MatchLimit, matches: list[Binding], rows: list[Result]) -> list[Result]:
    """Of the matches that end at one moment, the first by the moments of their events."""

    def place(number: int) -> tuple[list[list[Any]], str]:
        match = matches[number]
        moments = [[row.key for row in in_order(match.get(a, ()))] for a in limit.aliases]
        return moments, json_text(rows[number]["match"])

    by_end: dict[Any, list[int]] = {}
    for number, match in enumerate(matches):
        by_end.setdefault(extent(match)[1].key, []).append(number)
    chosen = [n for found in by_end.values() for n in sorted(found, key=place)[: limit.number]]
    return [rows[number] for number in sorted(chosen)]


def _returned(query: Query, output: Construction, match: Binding, columns: set[str]) -> Result:
    single = {e.alias for e in positive_events(query.pattern) if isinstance(e.quantifier, One)}
    result: Result = {}
    for item in output.items:
        match item:
            case ReturnAlias(alias, name) if alias in match:
                objects = [
                    {c: v for c, v in row.values.items() if c in columns}
                    for row in in_order(match[alias])
                ]
                result[name or alias] = objects[0] if alias in single else objects
            case ReturnAttribute(alias, attribute) if alias in match:
                values = [row.values[attribute] for row in in_order(match[alias])]
                blank: list[Result] = [{} for _ in values]
                found = result.setdefault(alias, blank[0] if alias in single else blank)
                for target, v in zip([found] if alias in single else found, values, strict=True):
                    target[attribute] = v
            case ReturnValue(expression, name):
                whole = ex.aliases(expression) <= match.keys()
                result[name] = value(expression, match) if whole else None
            case _:
                pass
    return result
