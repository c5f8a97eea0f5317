"""Aggregate queries: the matches of each window, counted and added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.columns.vectors import Vector, broadcast, evaluate, truth
from engines.matching.aggregate.windows import (
    Reports,
    SlideWindows,
    TriggerWindows,
    ValueTally,
    Windows,
    WindowTally,
    somewhere,
    window_columns,
)
from engines.matching.stepwise.bind import distinct
from engines.matching.stepwise.plan import Mode, plan_choice, window_mode
from engines.matching.stepwise.steps import Frame, Name, QueryScan, Slot, run_steps
from engines.results.json_text import KeyTexts, with_fixed
from engines.results.tables import aggregate_schema
from optimizer.ir.pattern import (
    Pattern,
    alternatives,
    events,
    last_events,
    unkept,
)
from optimizer.ir.query import Aggregation, Query, whole_ticks
from workloads import expressions as ex


class MatchColumns(NamedTuple):
    """Matches by places: `rows` are the rows of the table that the places stand for.

    `first` and `last` are the places of each match's first and last event. Windows that hold the
    place `since`, or `until`, do not have the match; -1 for none.
    """

    rows: Rows
    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    columns: dict[str, npt.NDArray[np.int32] | EventGroups]
    since: npt.NDArray[np.int32] | None = None
    until: npt.NDArray[np.int32] | None = None


def aggregate_rows(
    query: Query, scan: QueryScan, keys: KeyTexts, found: Iterable[MatchColumns] | None = None
) -> Iterator[pa.Table]:
    """The rows of an aggregate query, in tables of bounded size.

    `found` are its matches where they are known, each with the windows that it is in.
    """
    assert isinstance(query.output, Aggregation)
    patterns = alternatives(query.pattern)
    windows = _windows(query, scan, patterns)
    totals = _Totals(query.output, scan, windows)
    if found is not None:
        _add_found(found, scan, windows, totals)
    else:
        for pattern in patterns:
            _add_matches(query, pattern, scan, windows, totals)
    yield from _tables(query, query.output, scan, windows, totals, keys)


def _add_found(
    found: Iterable[MatchColumns], scan: QueryScan, windows: Windows, totals: _Totals
) -> None:
    """Add matches, each to the windows that it is in."""
    place = np.full(len(scan.columns.events), -1)
    place[scan.layout.order] = np.arange(len(scan.layout))
    known: Rows | None = None
    for matches in found:
        if matches.rows is not known:
            known = matches.rows
            rows = place[known]
            entered, left = windows.entered(rows), windows.left(rows)
        start, stop = entered[matches.last], left[matches.first]
        if matches.since is not None:
            later = np.maximum(start, left[matches.since])
            start = np.where(matches.since < 0, start, later)
        if matches.until is not None:
            sooner = np.minimum(stop, entered[matches.until])
            stop = np.where(matches.until < 0, stop, sooner)
        columns: dict[Name, Rows] = {Slot.START: start, Slot.STOP: stop}
        groups: dict[str, EventGroups] = {}
        for alias in totals.aliases & matches.columns.keys():
            column = matches.columns[alias]
            if isinstance(column, EventGroups):
                groups[alias] = EventGroups(column.offsets, rows[column.rows])
            else:
                columns[alias] = rows[column]
        totals.add(somewhere(Frame(len(matches.first), columns, groups)))


def _windows(query: Query, scan: QueryScan, patterns: Sequence[Pattern]) -> Windows:
    if query.slide is None:
        last = [event for p in patterns for event in last_events(p, unkept(p))]
        return TriggerWindows(scan, last)
    ranked = query.window.is_count
    slide = query.slide
    if not ranked:
        slide = whole_ticks(query.slide, scan.columns.events.tick, "slide")
    return SlideWindows(scan, {e.symbol for e in events(query.pattern)}, slide, ranked)


def _add_matches(
    query: Query, pattern: Pattern, scan: QueryScan, windows: Windows, totals: _Totals
) -> None:
    """Find the matches of an OR-free pattern and add each to the windows that it is in."""
    mode = window_mode(pattern)
    plan = plan_choice(pattern, query.conditions, mode, windows)
    if mode is Mode.GIVEN:
        columns = window_columns(windows, np.arange(len(windows)))
        columns |= {Slot.LOW: columns[Slot.OPENING], Slot.HIGH: columns[Slot.CLOSING]}
        seed = Frame(len(windows), columns)
    else:
        seed = Frame(1, {Slot.LOW: np.array([0]), Slot.HIGH: np.array([len(scan.layout)])})
    found: Iterable[Frame] = run_steps(plan.steps, scan, seed)
    if plan.unkept:
        found = distinct(found, plan.kept, (Slot.START, Slot.STOP), scan)
    for frame in found:
        totals.add(frame)


class _Totals:
    """What the aggregates of a query, those of HAVING included, are made from."""

    def __init__(self, output: Aggregation, scan: QueryScan, windows: Windows) -> None:
        self._scan = scan
        self._matches = WindowTally(len(windows))
        calls = [ex.Call(item.function, item.operand) for item in output.items]
        if output.having is not None:
            calls += [node for node in ex.walk(output.having) if isinstance(node, ex.Call)]
        functions: dict[ex.Attribute, set[str]] = {}
        for call in calls:
            if isinstance(call.argument, ex.Attribute):
                functions.setdefault(call.argument, set()).add(call.function)
        self._values = {
            operand: ValueTally(len(windows), scan.arranged.vector(operand.name), names)
            for operand, names in functions.items()
        }

    @property
    def aliases(self) -> frozenset[str]:
        """The components whose values are aggregated."""
        return frozenset(operand.alias for operand in self._values)

    def add(self, frame: Frame) -> None:
        """Add matches, each to a range of windows."""
        start, stop = frame.column(Slot.START), frame.column(Slot.STOP)
        self._matches.add(start, stop)
        for operand, tally in self._values.items():
            if not frame.binds(operand.alias):
                continue
            if frame.is_group(operand.alias):
                group = frame.group(operand.alias)
                tally.add(group.rows, start[group.owner], stop[group.owner])
            else:
                tally.add(frame.column(operand.alias), start, stop)

    def counts(self) -> Rows:
        return self._matches.counts()

    def result(self, function: str, operand: ex.Expression | None) -> Vector:
        """An aggregate, for each window."""
        if not isinstance(operand, ex.Attribute):
            counts = self.counts()
            return Vector("int", counts, None, int(counts.max(initial=0)))
        return self._values[operand].result(function)


def _tables(
    query: Query,
    output: Aggregation,
    scan: QueryScan,
    windows: Windows,
    totals: _Totals,
    keys: KeyTexts,
) -> Iterator[pa.Table]:
    """A row for each aggregate of each window that has a match and passes HAVING."""
    shown = totals.counts() > 0
    if output.having is not None:
        having = evaluate(
            output.having,
            _no_attribute,
            scan.columns.texts,
            lambda call: totals.result(call.function, call.argument),
        )
        shown = shown & truth(broadcast(having, len(windows)))
    results = [totals.result(item.function, item.operand) for item in output.items]
    for reports in windows.reports(np.flatnonzero(shown), scan.limits.chunk):
        yield _table(query, output, scan, reports, results, keys)


def _table(
    query: Query,
    output: Aggregation,
    scan: QueryScan,
    reports: Reports,
    results: Sequence[Vector],
    keys: KeyTexts,
) -> pa.Table:
    """The rows of some reports; `results` are the aggregates of each window."""
    events = scan.columns.events
    key = with_fixed(keys.of(reports.partition), query)
    times = events.times(reports.ticks)
    seq = pa.nulls(len(times), pa.int64())
    if events.sequence is not None and reports.row is not None:
        seq = pa.array(events.sequence[scan.layout.order[reports.row]])
    parts = []
    for item, found in zip(output.items, results, strict=True):
        result = found.take(reports.window)
        is_count = item.function == "count"
        columns = {
            "query": pa.repeat(pa.scalar(query.name), len(times)),
            "key": key,
            "time": times,
            "seq": seq,
            "aggregate": pa.repeat(pa.scalar(item.text), len(times)),
            "value": pa.array(result.values.astype(np.float64), mask=result.nulls),
            "count": pa.array(result.values) if is_count else pa.nulls(len(times), pa.int64()),
            "exact": pa.repeat(pa.scalar(True), len(times)),
        }
        parts.append(pa.table(columns, schema=aggregate_schema(events.time_type)))
    return pa.concat_tables(parts)


def _no_attribute(node: ex.Attribute) -> Vector:
    raise AssertionError(f"HAVING compares aggregates, not {node.alias}.{node.name}")
