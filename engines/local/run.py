"""`run_local`: every query of a workload, one after the other, over columns of events."""

from __future__ import annotations

import pyarrow as pa

from engines.events import Events
from engines.local.aggregates import aggregate_rows
from engines.local.columns import Columns
from engines.local.keys import KeyTexts
from engines.local.layout import arrange
from engines.local.matches import match_rows
from engines.local.scan import Arranged, Limits, Scan
from engines.results import Results, aggregate_schema, match_schema
from optimizer.ir.pattern import events as components
from optimizer.ir.query import BoundWorkload, Construction, Query
from workloads.errors import SheafError, TooLargeError, UnsupportedError
from workloads.syntax import All

DEFAULT_LIMITS = Limits()


def run_local(workload: BoundWorkload, events: Events, limits: Limits = DEFAULT_LIMITS) -> Results:
    """All results of a workload, in no particular order."""
    aggregates = [aggregate_schema(events.time_type).empty_table()]
    matches = [match_schema(events.time_type).empty_table()]
    if len(events):
        columns = Columns(workload, events)
        arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged] = {}
        for query in workload.queries:
            try:
                table = _run_query(query, columns, arrangements, limits)
            except UnsupportedError as error:
                raise _named(error, query) from error
            (matches if isinstance(query.output, Construction) else aggregates).append(table)
    return Results(pa.concat_tables(aggregates), pa.concat_tables(matches))


def _run_query(
    query: Query,
    columns: Columns,
    arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged],
    limits: Limits,
) -> pa.Table:
    events = columns.events
    # Only ALL puts simultaneous events into one group, whose order then shows.
    settled = any(isinstance(e.quantifier, All) for e in components(query.pattern))
    how = (query.key, query.window.is_count, settled)
    if how not in arrangements:
        arrangements[how] = Arranged(arrange(events, *how), columns)
    arranged = arrangements[how]
    scan = Scan(arranged, query.window.ticks(events.tick), query.name, limits)
    keys = KeyTexts(events, arranged.layout, query.key)
    if isinstance(query.output, Construction):
        return match_rows(query, scan, keys)
    return aggregate_rows(query, scan, keys)


def _named(error: UnsupportedError, query: Query) -> SheafError:
    """The error with the query's name in front, where it does not say it yet."""
    text = str(error)
    if text.startswith(f"query {query.name} "):
        return error
    kind = TooLargeError if isinstance(error, TooLargeError) else UnsupportedError
    return kind(f"query {query.name}: {text}")
