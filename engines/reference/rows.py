"""The rows of a workload: partitions, windows, triggers, and what is returned of each match."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engines.reference.chains import LAST, produced_rows, times_like
from engines.reference.component_keys import group_values, key_values, of_partition
from engines.reference.funnels import funnel_rows
from engines.reference.latest import latest_matches
from engines.reference.meaning import Matcher, Region, Test, extent
from engines.reference.picks import picked_rows
from engines.reference.row_pattern import TableRow, recognized
from engines.reference.selection import apart, asked_conditions, counting_matches
from engines.reference.shape import alternatives, existential, last_events, waits
from engines.reference.situations import situation_rows
from engines.reference.special_windows import joined_pairs, ranked_by, sessions
from engines.reference.values import Binding, Row, in_order, over, value
from engines.results.json_text import json_text
from optimizer.ir.keys import ComponentKey
from optimizer.ir.latest import latest_parts
from optimizer.ir.pattern import Neg, Pattern, Seq, positive_events
from optimizer.ir.produced import rounds_of
from optimizer.ir.query import (
    SUPPRESSED,
    Aggregate,
    Aggregation,
    BoundWorkload,
    Construction,
    MatchLimit,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnEvents,
    ReturnValue,
    RowPattern,
    SituationPattern,
    is_edge,
    is_funnel,
    picks_matches,
    whole_ticks,
)
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.syntax import One
from workloads.workload import NANOSECONDS, Stream

EXACT = 2**63 - 1
Result = dict[str, Any]
_EVERYWHERE = Region(lambda e: True, lambda e: True, lambda e: True)


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
    columns = set(rows[0]) if rows else set()
    shown = times_like(rows[0][stream.time], times[0], unit) if rows else times_like(0, 0, unit)
    types = {made.query: made for made in workload.produced}
    made: dict[str, list[Row]] = {}
    found: dict[str, list[Result]] = {}
    for query in itertools.chain.from_iterable(rounds_of(workload.queries)):
        seen = [*events, *(row for name in query.reads for row in made[name])]
        if isinstance(query.output, RowPattern):
            table = [TableRow(event.values, event.key[0], event.key) for event in seen]
            names = list(rows[0]) if rows else []
            given = recognized(query, table, names, unit, stream.time)
            found[query.name] = [{"query": query.name} | row for row in given]
            continue
        if is_funnel(query):
            width = query.window.ticks(unit)
            keyed = [
                (key, part, Matcher(stream, (), part, width, steps).instances)
                for key, part in _partitions(query, stream, events)
            ]
            given = funnel_rows(query, keyed, unit)
            found[query.name] = [{"query": query.name} | row for row in given]
            continue
        given = [
            {"query": query.name, "key": key} | row
            for key, part in _partitions(query, stream, seen)
            for row in _results(query, stream, part, columns, unit, steps)
        ]
        if picks_matches(query):
            given = list(picked_rows(query, given, unit))
        found[query.name] = given
        if query.into is not None:
            kind = types[query.name]
            made[query.into] = list(produced_rows(kind, given, stream, shown, _Fields))
    return [row for query in workload.written for row in found[query.name]]


def matches_of(
    query: Query, stream: Stream, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, tuple[int, ...]]]:
    """The matches of a query over rows of one partition: for each, alias to indices of rows."""
    events = [_row(stream, row, row[stream.time]) for row in rows]
    number = {id(event.values): i for i, event in enumerate(events)}
    width = query.window.ticks(NANOSECONDS[stream.unit])
    matcher = Matcher(
        stream, asked_conditions(query), _ordered(query, events), width, itertools.count()
    )
    return [
        {
            alias: tuple(number[id(row.values)] for row in in_order(group))
            for alias, group in match.items()
        }
        for alternative in alternatives(query.pattern)
        for match in counting_matches(query, alternative, matcher)
    ]


def event_rows(
    stream: Stream, rows: Sequence[Mapping[str, Any]], ticks: Sequence[int]
) -> list[Row]:
    """Events, given as column values, with their times."""
    return [_row(stream, values, time) for values, time in zip(rows, ticks, strict=True)]


def matcher_of(
    query: Query, stream: Stream, part: list[Row], tick: int, steps: Iterator[int]
) -> Matcher:
    """What finds the matches of a query among the events of a partition."""
    events = _ordered(query, part)
    if query.window.of:
        events = ranked_by(query, stream, events)
    return Matcher(stream, query.conditions, events, query.window.ticks(tick), steps)


class WindowEnd(NamedTuple):
    """When an aggregate is evaluated, as its row says."""

    time: int
    seq: int | None


def found_matches(
    query: Query,
    stream: Stream,
    part: list[Row],
    tick: int,
    steps: Iterator[int],
    at: WindowEnd | None = None,
) -> Iterator[Binding]:
    """The matches among the events of one partition, whatever is given of them.

    Those that an aggregate is over come once for each of its windows, or only those of one.
    """
    choices = alternatives(query.pattern)
    if query.join is not None:
        pairs = joined_pairs(query, query.join, stream, part, tick)
        yield from (pair.bound for pair in pairs)
    elif query.window.session:
        for session in sessions(query, stream, part, tick):
            width = session[-1].position - session[0].position + 1
            ends = session[-1].position + query.window.ticks(tick)
            if at is not None and ends != at.time:
                continue
            matcher = Matcher(stream, query.conditions, session, width, steps)
            returns = isinstance(query.output, Construction)
            region = None if returns else _EVERYWHERE
            yield from (m for choice in choices for m in matcher.matches(choice, region))
    elif query.strategy == "latest":
        matcher = matcher_of(query, stream, part, tick, steps)
        yield from (match for _, match in latest_matches(query, matcher))
    elif isinstance(query.output, Construction):
        matcher = matcher_of(query, stream, part, tick, steps)
        yield from (m for choice in choices for m in counting_matches(query, choice, matcher))
    elif part:
        matcher = matcher_of(query, stream, part, tick, steps)
        for time, seq, window in _windows(query, matcher, choices, tick):
            if at is not None and at != (time, seq):
                continue
            for choice in choices:
                yield from counting_matches(query, choice, matcher, window)


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
            if isinstance(found, list) and all(isinstance(o, Mapping | None) for o in found):
                path = ".".join(parts[count:])
                return [None if one is None else _Fields(one)[path] for one in found]
        return None


def _ordered(query: Query, events: list[Row]) -> list[Row]:
    """The partition's events in order; for a count window, with their ranks as positions."""
    ordered = sorted(events, key=lambda e: e.key)
    if not query.window.is_count:
        return ordered
    keys = [e.key for e in ordered]
    return [Row(e.key, keys.index(e.key) + 1, e.values) for e in ordered]


def _partitions(
    query: Query, stream: Stream, events: list[Row]
) -> Iterator[tuple[Result | None, list[Row]]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    tied = [key for key in query.added_keys if isinstance(key, ComponentKey)]
    for event in events:
        values = tuple(event.values[name] for name in query.key)
        if None in values:
            continue
        if listed := next((n for n in query.key if isinstance(event.values[n], list)), None):
            raise UnsupportedError(
                f"'{listed}' has lists: their values can be returned, and lists compared with "
                "values, but not be keys"
            )
        # Of a key that differs by component, an event is in the partition of each of its values.
        for others in itertools.product(*(key_values(key, event) for key in tied)):
            found.setdefault((*values, *others), []).append(of_partition(event, tied, others))
    names = (*query.key, *(key.name for key in tied), *(key.name for key in query.groups))
    for values, part in found.items():
        # The whole partition is looked at for each group: once for each value of those that split.
        for others in itertools.product(*(group_values(key, stream, part) for key in query.groups)):
            own = dict(zip(names, (*values, *others), strict=True))
            key = {name: own.get(name, fixed) for name, fixed in query.result_key}
            yield key or None, [of_partition(event, query.groups, others) for event in part]


def _results(
    query: Query,
    stream: Stream,
    part: list[Row],
    columns: set[str],
    tick: int,
    steps: Iterator[int],
) -> Iterator[Result]:
    if query.join is not None:
        for pair in joined_pairs(query, query.join, stream, part, tick):
            assert isinstance(query.output, Construction)
            yield pair.times | {"match": _returned(query, query.output, pair.bound, columns)}
        return
    if query.window.session:
        for session in sessions(query, stream, part, tick):
            yield from _session_rows(query, stream, session, columns, tick, steps)
        return
    events = _ordered(query, part)
    if query.window.of:
        events = ranked_by(query, stream, events)
    width = 0 if is_edge(query) else query.window.ticks(tick)
    matcher = Matcher(stream, asked_conditions(query), events, width, steps)
    choices = alternatives(query.pattern)
    output = query.output
    if isinstance(output, SituationPattern):
        yield from situation_rows(query, events, matcher.instances, tick, steps)
        return
    if query.strategy == "latest":
        yield from _latest_rows(query, matcher, part, columns)
        return
    if isinstance(output, Construction):
        matches = [
            (choice, match)
            for choice in choices
            for match in counting_matches(query, choice, matcher)
        ]
        rows = [
            _times(query, choice, match, matcher)
            | {"match": _returned(query, output, match, columns)}
            for choice, match in matches
        ]
        if query.skips_past:
            left = apart(query, [match for _, match in matches], rows)
            matches, rows = [matches[i] for i in left], [rows[i] for i in left]
        if output.limit is not None:
            rows = _first(output.limit, [match for _, match in matches], rows)
        yield from rows
        return
    for time, seq, window in _windows(query, matcher, choices, tick):
        found = [
            match
            for choice in choices
            for match in counting_matches(query, choice, matcher, window)
        ]
        yield from _aggregate_rows(query, output, found, time, seq)


def _aggregate_rows(
    query: Query, output: Aggregation, found: list[Binding], time: int, seq: int | None
) -> Iterator[Result]:
    """The rows of a window with these matches."""
    shown = bool(found) or query.empty_rows
    if shown and (output.having is None or _having(output.having, found)):
        for item in output.items:
            yield {"time": time, "seq": seq} | _aggregate_row(item, found)


def _session_rows(
    query: Query,
    stream: Stream,
    session: list[Row],
    columns: set[str],
    tick: int,
    steps: Iterator[int],
) -> Iterator[Result]:
    """The rows of one session: its matches, or one row of aggregates when it ends."""
    width = session[-1].position - session[0].position + 1  # of a window that holds all of it
    matcher = Matcher(stream, asked_conditions(query), session, width, steps)
    ends = session[-1].position + query.window.ticks(tick)
    choices = alternatives(query.pattern)
    if isinstance(query.output, Aggregation):
        found = [match for choice in choices for match in matcher.matches(choice, _EVERYWHERE)]
        yield from _aggregate_rows(query, query.output, found, ends, None)
        return
    assert isinstance(query.output, Construction)
    for choice in choices:
        # As in other windows, a negation in an AND looks no further than the match's last event.
        for match in matcher.matches(choice):
            first, last = extent(match)
            time = ends if waits(choice) else last.key[0]
            yield {
                "start": first.key[0],
                "end": last.key[0],
                "time": time,
                "match": _returned(query, query.output, match, columns),
            }


# --- aggregates --------------------------------------------------------------------------------


def _windows(
    query: Query, matcher: Matcher, choices: list[Pattern], tick: int
) -> Iterator[tuple[int, int | None, Region]]:
    """Each time at which an aggregate query is evaluated, with its sequence and its window."""

    def window(end: int, closed: Test) -> Region:
        def opened(e: Row) -> bool:
            return e.opens > end - matcher.width

        return Region(opened, closed, lambda e: opened(e) and closed(e))

    events, is_count = matcher.events, query.window.is_count
    if query.slide is None:
        last = [e for choice in choices for e in last_events(choice, existential(choice))]
        triggers = {t.key: t for event in last for t in matcher.instances(event.symbol)}
        for key, t in triggers.items():
            seq = key[1] if matcher.stream.sequence is not None and key[1] != LAST else None
            yield key[0], seq, window(t.position, lambda e, key=key: e.key <= key)  # type: ignore[misc]
        return
    slide = query.slide if is_count else whole_ticks(query.slide, tick, "slide")
    if query.from_first:
        for opens in range(events[0].position, events[-1].position + 1, slide):
            b = opens + matcher.width - 1
            yield b, None, window(b, lambda e, b=b: e.position <= b)  # type: ignore[misc]
        return
    end = events[-1].position + (1 if is_count else matcher.width)
    for b in range(-(-events[0].position // slide) * slide, end, slide):
        time = max(e.key[0] for e in events if e.position <= b) if is_count else b
        yield time, None, window(b, lambda e, b=b: e.position <= b)  # type: ignore[misc]


def _aggregate(function: str, operand: ex.Expression | None, matches: list[Binding]) -> Any:
    if operand is None:
        return len(matches)
    names = sorted(ex.aliases(operand))
    bound = [
        dict(zip(names, choice, strict=True))
        for match in matches
        for choice in itertools.product(*(match.get(name, ()) for name in names))
    ]
    if function in ("first", "last"):
        # Of simultaneous ones the least value; a value of one component, whose events have moments.
        found = [(event[names[0]].key, value(operand, _alone(event))) for event in bound]
        known = [(key, number) for key, number in found if number is not None]
        moment = (min if function == "first" else max)((key for key, _ in known), default=None)
        return min((number for key, number in known if key == moment), default=None)
    return over([value(operand, _alone(event)) for event in bound], function)


def _alone(events: Mapping[str, Row]) -> Binding:
    return {name: (event,) for name, event in events.items()}


def _having(condition: ex.Expression, matches: list[Binding]) -> bool:
    return bool(value(condition, {}, lambda c: _aggregate(c.function, c.argument, matches)))


def _aggregate_row(item: Aggregate, matches: list[Binding]) -> Result:
    result = _aggregate(item.function, item.operand, matches)
    is_count = item.function in ("count", "count distinct")
    exact = not is_count or result <= EXACT
    return {
        "aggregate": item.text,
        "value": None if result is None else float(result),
        "count": result if is_count and exact else None,
        "exact": exact,
    }


def _latest_rows(
    query: Query, matcher: Matcher, part: list[Row], columns: set[str]
) -> Iterator[Result]:
    output, whole = query.output, latest_parts(query.pattern)
    assert isinstance(output, Construction)
    trailing = any(absence.behind == len(whole.stages) for absence in whole.absences)
    pattern = Seq((*whole.stages, Neg(whole.stages[0]))) if trailing else Seq(whole.stages)
    names = [name for name, _ in query.result_key]
    for values, match in latest_matches(query, matcher):
        own = [part[0].values[name] for name in query.key]
        yield _times(query, pattern, match, matcher) | {
            "key": dict(zip(names, [*own, *values], strict=True)) or None,
            "match": _returned(query, output, match, columns),
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
    start = min(row.opens if row.start is not None else row.key[0] for row in _bound(match))
    found = {"start": start, "end": last.key[0], "time": time}
    return found | {"last": last.key} if picks_matches(query) else found


def _bound(match: Binding) -> Iterator[Row]:
    return (row for group in match.values() for row in group)


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
    bound = match.keys()
    match = {g.alias: () for g in output.empty_groups if g.is_empty(bound)} | match
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
            case ReturnEvents(aliases, name):
                rows = [match[alias][0] for alias in aliases if alias in match]
                result[name] = [{c: v for c, v in r.values.items() if c in columns} for r in rows]
            case ReturnValue(expression, name) if expression == SUPPRESSED:
                result[name] = 0
            case ReturnValue(expression, name):
                whole = ex.aliases(expression) <= match.keys()
                result[name] = value(expression, match) if whole else None
            case _:
                pass
    return result
