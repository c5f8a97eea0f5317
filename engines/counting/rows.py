"""Counted queries as result rows: keys, times, HAVING, and counts that are no longer exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.arranged import Arranged
from engines.columns.evaluate import evaluate
from engines.columns.keys import KeyTexts
from engines.columns.vectors import Vector, truth
from engines.counting.product import Counted, Plan, count, value_columns
from engines.how import USUAL, How
from engines.results import aggregate_schema
from optimizer.ir.query import Aggregation, Query, whole_ticks
from workloads import expressions as ex

MAX_ROWS = 20_000_000  # that are made room for at once


def counted_rows(
    queries: Sequence[Query], arranged: Arranged, how: How = USUAL
) -> list[pa.Table] | None:
    """The rows of countable queries of one key, window and slide; None where they cannot be made.

    `None` means that this stream does not allow it (see `product.count`), not that nothing matched.
    """
    tables: list[pa.Table] = []
    window, slide = queries[0].window, queries[0].slide or 0
    tick = arranged.columns.events.tick
    width = window.ticks(tick)
    if slide and not window.is_count:
        slide = whole_ticks(slide, tick, "slide")
    for part in _parts(queries, arranged):
        counted = count(
            Plan(part), arranged.columns, arranged.layout, width, slide, window.is_count, how
        )
        if counted is None:
            return None
        order = np.argsort(counted.query, kind="stable")
        ends = np.searchsorted(counted.query[order], np.arange(len(part) + 1))
        for q, query in enumerate(part):
            rows = order[ends[q] : ends[q + 1]]
            tables.append(_table(query, counted, rows, arranged))
    return tables


def _parts(queries: Sequence[Query], arranged: Arranged) -> Iterator[list[Query]]:
    """The queries, in parts whose rows find room at once."""
    part: list[Query] = []
    room = 0
    for query in queries:
        triggers = Plan([query]).terms[0].triggers
        rows = sum(int(arranged.columns.instances(symbol).sum()) for symbol in triggers)
        if part and room + rows > MAX_ROWS:
            yield part
            part, room = [], 0
        part.append(query)
        room += rows
    yield part


def _table(
    query: Query, counted: Counted, rows: npt.NDArray[np.int64], arranged: Arranged
) -> pa.Table:
    output = query.output
    assert isinstance(output, Aggregation)
    columns = value_columns(query)

    def result(function: str, operand: ex.Expression | None) -> Vector:
        if not isinstance(operand, ex.Attribute):
            if counted.exact[rows].all():
                return Vector("int", counted.counts[rows].astype(np.int64), None, 2**63 - 1)
            return Vector("float", counted.approximate[rows])
        kind = "sum" if function == "avg" else function
        at = columns[kind, operand.alias, operand.name]
        values = counted.values[rows, at]
        if kind != "sum":
            return Vector("float", values, np.isinf(values))
        number = counted.values[rows, at + 1]
        nulls = number == 0
        if function == "avg":
            values = values / np.where(nulls, 1.0, number)
        return Vector("float", values, nulls)

    if output.having is not None:
        having = evaluate(
            output.having,
            _no_attribute,
            arranged.columns.text_code,
            lambda call: result(call.function, call.argument),
        )
        rows = rows[np.broadcast_to(truth(having), len(rows))]
    layout, events = arranged.layout, arranged.columns.events
    last = counted.row[rows]
    by_time = query.slide is not None and not query.window.is_count
    ticks = counted.boundary[rows] if by_time else layout.ticks[last]
    key = KeyTexts(events, layout, query.key).of(layout.partition[last])
    seq = pa.nulls(len(rows), pa.int64())
    if events.sequence is not None and query.slide is None:
        seq = pa.array(events.sequence[layout.order[last]])
    parts = []
    for item in output.items:
        is_count = item.function == "count"
        found = result(item.function, item.operand)
        values = counted.approximate[rows] if is_count else found.values.astype(np.float64)
        exact = counted.exact[rows]
        whole = pa.array(counted.counts[rows].astype(np.int64), mask=~exact)
        parts.append(
            pa.table(
                {
                    "query": pa.repeat(pa.scalar(query.name), len(rows)),
                    "key": key,
                    "time": events.times(ticks),
                    "seq": seq,
                    "aggregate": pa.repeat(pa.scalar(item.text), len(rows)),
                    "value": pa.array(values, mask=None if is_count else found.nulls),
                    "count": whole if is_count else pa.nulls(len(rows), pa.int64()),
                    "exact": pa.array(exact) if is_count else pa.repeat(pa.scalar(True), len(rows)),
                },
                schema=aggregate_schema(events.time_type),
            )
        )
    return pa.concat_tables(parts)


def _no_attribute(node: ex.Attribute) -> Vector:
    raise AssertionError(f"HAVING compares aggregates, not {node.alias}.{node.name}")
