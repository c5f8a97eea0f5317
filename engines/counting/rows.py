"""Counted queries as result rows: keys, times, HAVING, and counts that are no longer exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.account import Account
from engines.columns.aggregate_inputs import PartResults, combined, counts_of
from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.columns.vectors import Vector, evaluate, truth
from engines.counting import aseq, chopconnect, fenwick, pretree, runs, sem
from engines.counting.folds import count_folds
from engines.counting.letters import spans_of
from engines.counting.panes import count_panes
from engines.counting.product import CountingPlan, CountResult, count, value_columns
from engines.devices import DeviceRequest
from engines.program import CountingUnit
from engines.results.json_text import KeyTexts, encoded, with_fixed
from engines.results.tables import (
    aggregate_schema,
    coded_schema,
    no_numbers,
    no_text,
    one_text,
)
from kernels.groups import Spans
from optimizer.ir.aggregates import COUNTS, AggregatePart
from optimizer.ir.query import Aggregation, Query
from workloads import expressions as ex

Selected: TypeAlias = slice | npt.NDArray[np.int64]
ON_CPU = DeviceRequest()
ALL_EVALUATIONS = 2**62


Runner: TypeAlias = Callable[
    [CountingUnit, CountingPlan, ArrangedEvents, DeviceRequest], "CountResult | None"
]


def counted_rows(
    unit: CountingUnit,
    arranged: ArrangedEvents,
    device: DeviceRequest = ON_CPU,
    account: Account | None = None,
    outputs: Mapping[str, str] | None = None,
    most: int = ALL_EVALUATIONS,
) -> Iterator[tuple[Query, pa.Table]] | None:
    """The rows of the queries of a unit, in tables of at most so many evaluations; None where its
    engine cannot make them of this stream. Texts that repeat are dictionaries.

    `outputs` are the operators that making the rows of each query is charged to.
    """
    account = account or Account()
    with account.charge(unit.operator):
        counted = RUNNERS[unit.engine](unit, CountingPlan(unit.queries), arranged, device)
    if counted is None:
        return None
    account.count(unit.operator, counted.events, len(counted.group))
    with account.charge(unit.operator):
        places = _Batch(counted, arranged, unit.queries[0])
    return result_tables(unit.queries, counted, places, account, outputs, most)


def _product(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    return count(plan, arranged.columns, arranged.layout, *_spans(unit, arranged), device)


def _aseq(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    return aseq.count(plan, arranged.columns, arranged.layout, *_spans(unit, arranged))


def _pretree(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    return pretree.count(plan, arranged.columns, arranged.layout, *_spans(unit, arranged))


def _chopconnect(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    spans = _spans(unit, arranged)
    return chopconnect.count(plan, arranged.columns, arranged.layout, *spans, unit.lengths)


def _spans(unit: CountingUnit, arranged: ArrangedEvents) -> tuple[Spans, bool]:
    """The windows and slides of a unit's queries, and whether they count events."""
    spans = spans_of(unit.queries, arranged.columns.events.tick)
    return spans, unit.queries[0].window.is_count


def _panes(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    widths, slides = (numbers.tolist() for numbers in _spans(unit, arranged)[0])
    return count_panes(plan, arranged.columns, arranged.layout, widths, slides)


def _folds(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    spans, is_count = _spans(unit, arranged)
    windows = sem.window_spans(spans)
    return count_folds(unit.queries, arranged.columns, arranged.layout, windows, is_count)


def _sem(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    return sem.count(plan, arranged.columns, arranged.layout, *_spans(unit, arranged))


def _fenwick(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    return fenwick.count(plan, arranged.columns, arranged.layout, *_spans(unit, arranged))


def _runs(
    unit: CountingUnit, plan: CountingPlan, arranged: ArrangedEvents, device: DeviceRequest
) -> CountResult | None:
    return runs.count(plan, arranged.columns, arranged.layout, *_spans(unit, arranged))


RUNNERS: Mapping[str, Runner] = {
    "product": _product,
    "aseq": _aseq,
    "pretree": _pretree,
    "chopconnect": _chopconnect,
    "panes": _panes,
    "folds": _folds,
    "sem": _sem,
    "fenwick": _fenwick,
    "runs": _runs,
}


class ResultColumns(Protocol):
    """Key, time and sequence of results, and what their columns are made with."""

    columns: Columns

    def key(self, rows: Selected) -> pa.Array: ...
    def time(self, rows: Selected, query: Query) -> pa.Array: ...
    def seq(self, rows: Selected, query: Query) -> pa.Array: ...


def result_tables(
    queries: Sequence[Query],
    counted: CountResult,
    places: ResultColumns,
    account: Account | None = None,
    outputs: Mapping[str, str] | None = None,
    most: int = ALL_EVALUATIONS,
) -> Iterator[tuple[Query, pa.Table]]:
    """The result rows of each query, in tables of at most so many evaluations.

    Queries come in the order of their names, as rows are sorted.
    """
    account, outputs = account or Account(), outputs or {}
    ends = itertools.pairwise(counted.ends.tolist())
    named = sorted(zip(queries, ends, strict=True), key=lambda found: found[0].name)
    for query, (first, end) in named:
        output = outputs.get(query.name, query.name)
        tables = query_tables(query, first, end, counted, places, account, output, most)
        yield from ((query, table) for table in tables)


def query_tables(
    query: Query,
    first: int,
    end: int,
    counted: CountResult,
    places: ResultColumns,
    account: Account,
    output: str,
    most: int = ALL_EVALUATIONS,
) -> Iterator[pa.Table]:
    """The result rows of a query, which stand from `first` to before `end`, charged to `output`."""
    if first == end:  # of many queries over little of a stream, most
        account.count(output)
    for start in range(first, end, most):
        stop = min(end, start + most)
        with account.charge(output):
            table = _table(query, counted, slice(start, stop), places)
        account.count(output, stop - start, table.num_rows)
        yield table


class _Batch:
    """The places of results of one layout, looked up once for each group of events."""

    def __init__(self, counted: CountResult, arranged: ArrangedEvents, query: Query) -> None:
        self.columns = arranged.columns
        self._events, self._layout = arranged.columns.events, arranged.layout
        self._counted = counted
        self._keys = KeyTexts(self._events, self._layout, query.key) if query.key else None
        self._ticks = self._layout.ticks[counted.last]

    def key(self, rows: Selected) -> pa.Array:
        group = self._counted.group[rows]
        if self._keys is None:
            return no_text(len(group))
        return self._keys.codes(self._layout.partition[self._counted.last[group]])

    def time(self, rows: Selected, query: Query) -> pa.Array:
        if query.slide is not None and not query.window.is_count:
            return self._events.times(self._counted.boundary[rows])
        return self._events.times(self._ticks[self._counted.group[rows]])

    def seq(self, rows: Selected, query: Query) -> pa.Array:
        group = self._counted.group[rows]
        if query.slide is not None or self._events.sequence is None:
            return no_numbers(len(group), pa.int64())
        return pa.array(self._events.sequence[self._layout.order[self._counted.last[group]]])


def _table(query: Query, counted: CountResult, rows: Selected, places: ResultColumns) -> pa.Table:
    output = query.output
    assert isinstance(output, Aggregation)
    columns = value_columns(query)

    def part(of: AggregatePart) -> PartResults:
        at = columns[of]
        values = counted.values[rows, at]
        if of.kind == "distinct":
            return PartResults(Vector("float", values))
        if of.kind != "sum":
            return PartResults(Vector("float", values, np.isinf(values)))
        number = counted.values[rows, at + 1]
        return PartResults(Vector("float", values, number == 0), Vector("float", number))

    def decoded(of: AggregatePart, numbers: Vector) -> Vector:
        return places.columns.decoded(of.column, numbers)

    def result(function: str, operand: ex.Expression | None) -> Vector:
        if operand is not None:
            return combined(function, operand, part, decoded)
        if counted.exact[rows].all():
            return Vector("int", counted.counts[rows].view(np.int64), None, 2**63 - 1)
        return Vector("float", counted.approximate[rows])

    if output.having is not None:
        having = evaluate(
            output.having,
            _no_attribute,
            places.columns.texts,
            lambda call: result(call.function, call.argument),
        )
        assert isinstance(rows, slice)
        number = rows.stop - rows.start
        rows = rows.start + np.flatnonzero(np.broadcast_to(truth(having), number))
    key = encoded(with_fixed(places.key(rows), query))
    time, seq = places.time(rows, query), places.seq(rows, query)
    size = len(time)
    exact = counted.exact[rows]
    mask = None if exact.all() else ~exact
    schema = coded_schema(aggregate_schema(places.columns.events.time_type))
    parts = []
    for item in output.items:
        if item.operand is None:
            value = pa.array(counted.approximate[rows])
            whole = pa.array(counted.counts[rows].view(np.int64), mask=mask)
            sure = pa.array(exact)
        else:
            found = result(item.function, item.operand)
            value = pa.array(found.values.astype(np.float64), mask=found.nulls)
            whole, sure = pa.nulls(size, pa.int64()), pa.repeat(pa.scalar(True), size)
            if item.function in COUNTS:
                whole, sure = counts_of(found)
        name, text = one_text(query.name, size), one_text(item.text, size)
        made = [name, key, time, seq, text, value, whole, sure]
        parts.append(pa.Table.from_arrays(made, schema=schema))
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def _no_attribute(node: ex.Attribute) -> Vector:
    raise AssertionError(f"HAVING compares aggregates, not {node.alias}.{node.name}")
