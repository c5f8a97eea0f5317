"""Aggregate queries: the matches of each window, counted and added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.aggregate_inputs import PartResults, combined, counts_of
from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.columns.vectors import Vector, broadcast, evaluate, truth
from engines.matching.aggregate.tallies import CollectedValues, Tally, WindowTally, tally_of
from engines.matching.aggregate.windows import (
    Reports,
    SlideWindows,
    TriggerWindows,
    Windows,
    somewhere,
    window_columns,
)
from engines.matching.stepwise.bind import distinct
from engines.matching.stepwise.plan import Mode, plan_choice, window_mode
from engines.matching.stepwise.steps import Frame, Name, QueryScan, Slot, run_steps
from engines.results.json_text import KeyTexts, with_fixed
from engines.results.tables import aggregate_schema
from optimizer.ir.aggregates import COUNTS, AggregatePart, Form, aggregate_parts
from optimizer.ir.pattern import (
    Pattern,
    alternatives,
    events,
    last_events,
    unkept,
)
from optimizer.ir.produced import ENDED, STARTED
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
    query: Query,
    scan: QueryScan,
    keys: KeyTexts,
    found: Iterable[MatchColumns] | None = None,
    windows: Windows | None = None,
) -> Iterator[pa.Table]:
    """The rows of an aggregate query, in tables of bounded size.

    `found` are its matches where they are known, each with the windows that it is in. `windows` are
    its windows where they are others than its width and slide say.
    """
    assert isinstance(query.output, Aggregation)
    patterns = alternatives(query.pattern)
    if windows is None:
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
        return TriggerWindows(scan, last, _opens(query, scan))
    ranked = query.window.is_count
    slide = query.slide
    if not ranked:
        slide = whole_ticks(query.slide, scan.columns.events.tick, "slide")
    symbols = {e.symbol for e in events(query.pattern)}
    return SlideWindows(scan, symbols, slide, ranked, opens=_opens(query, scan))


def _opens(query: Query, scan: QueryScan) -> Rows | None:
    """The position at which each event starts; None where that is its own."""
    if not query.lasting:
        return None
    began, ended = (scan.arranged.vector(name).values for name in (STARTED, ENDED))
    opens: Rows = scan.layout.position - (ended - began) // scan.columns.events.tick
    return opens


def _add_matches(
    query: Query, pattern: Pattern, scan: QueryScan, windows: Windows, totals: _Totals
) -> None:
    """Find the matches of an OR-free pattern and add each to the windows that it is in."""
    mode = window_mode(pattern)
    whole = query.pattern if query.strategy == "next" else None
    plan = plan_choice(pattern, query.conditions, mode, windows, next_of=whole)
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
        self._scan, self._windows = scan, len(windows)
        self._matches = WindowTally(len(windows))
        kinds: dict[tuple[ex.Expression, Form], set[str]] = {}
        for part in aggregate_parts(output):
            kinds.setdefault((part.operand, part.form), set()).add(part.kind)
        own = {of: names for of, names in kinds.items() if len(ex.aliases(of[0])) == 1}
        self._tallies: dict[tuple[ex.Expression, Form], Tally] = {}
        for (operand, form), names in own.items():
            column = AggregatePart("sum", form, operand).column
            self._tallies[operand, form] = tally_of(
                len(windows), scan.arranged.input(column), names
            )
        self._kinds = {of: names for of, names in kinds.items() if of not in own}
        # Of several components, values of matches: they are added up when all are known.
        self._collected = {operand: CollectedValues() for operand, _ in self._kinds}

    @property
    def aliases(self) -> frozenset[str]:
        """The components whose values are aggregated."""
        operands = [*(operand for operand, _ in self._tallies), *self._collected]
        return frozenset(alias for operand in operands for alias in ex.aliases(operand))

    def add(self, frame: Frame) -> None:
        """Add matches, each to a range of windows."""
        start, stop = frame.column(Slot.START), frame.column(Slot.STOP)
        self._matches.add(start, stop)
        for (operand, _), tally in self._tallies.items():
            (alias,) = ex.aliases(operand)
            if not frame.binds(alias):
                continue
            if frame.is_group(alias):
                group = frame.group(alias)
                tally.add(group.rows, start[group.owner], stop[group.owner])
            else:
                tally.add(frame.column(alias), start, stop)
        for operand, values in self._collected.items():
            if all(map(frame.binds, ex.aliases(operand))):
                owner, found = self._values(frame, operand)
                values.add(found, start[owner], stop[owner])

    def _values(self, frame: Frame, operand: ex.Expression) -> tuple[Rows, Vector]:
        """A value for each choice of an event of each group, and the match that it is of."""
        owner = np.arange(frame.size)
        rows: dict[str, Rows] = {}
        for alias in sorted(ex.aliases(operand)):
            if frame.is_group(alias):
                group = frame.group(alias).take(owner)
                rows = {other: places[group.owner] for other, places in rows.items()}
                owner, rows[alias] = owner[group.owner], group.rows
            else:
                rows[alias] = frame.column(alias)[owner]

        def attribute(node: ex.Attribute) -> Vector:
            return self._scan.arranged.vector(node.name).take(rows[node.alias])

        found = evaluate(operand, attribute, self._scan.columns.texts)
        return owner, broadcast(found, len(owner))

    def counts(self) -> Rows:
        return self._matches.counts()

    def result(self, function: str, operand: ex.Expression | None) -> Vector:
        """An aggregate, for each window."""
        if operand is None:
            counts = self.counts()
            return Vector("int", counts, None, int(counts.max(initial=0)))
        return combined(function, operand, self._part, self._decoded)

    def _part(self, part: AggregatePart) -> PartResults:
        of = (part.operand, part.form)
        if of not in self._tallies:
            collected = self._collected[part.operand]
            self._tallies[of] = collected.tally(self._windows, part.form, self._kinds[of])
        return self._tallies[of].result(part.kind)

    def _decoded(self, part: AggregatePart, numbers: Vector) -> Vector:
        return self._scan.columns.decoded(part.column, numbers)


def _tables(
    query: Query,
    output: Aggregation,
    scan: QueryScan,
    windows: Windows,
    totals: _Totals,
    keys: KeyTexts,
) -> Iterator[pa.Table]:
    """A row for each aggregate of each window that passes HAVING, and has a match unless empty ones
    are asked for.
    """
    shown = totals.counts() >= (0 if query.empty_rows else 1)
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
        whole, sure = pa.nulls(len(times), pa.int64()), pa.repeat(pa.scalar(True), len(times))
        if item.function in COUNTS:
            whole, sure = counts_of(result)
        columns = {
            "query": pa.repeat(pa.scalar(query.name), len(times)),
            "key": key,
            "time": times,
            "seq": seq,
            "aggregate": pa.repeat(pa.scalar(item.text), len(times)),
            "value": pa.array(result.values.astype(np.float64), mask=result.nulls),
            "count": whole,
            "exact": sure,
        }
        parts.append(pa.table(columns, schema=aggregate_schema(events.time_type)))
    return pa.concat_tables(parts)


def _no_attribute(node: ex.Attribute) -> Vector:
    raise AssertionError(f"HAVING compares aggregates, not {node.alias}.{node.name}")
