"""`run_local`: the queries of a workload over columns of events.

Aggregate queries that can be are counted together (`engines.counting`). The others, and those that
return matches, construct them: in trees of joins (`engines.trees`), or where that does not take a
query one component after the other (`engines.joins`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from engines.columns.arranged import Arranged
from engines.columns.instances import Columns
from engines.columns.keys import KeyTexts
from engines.columns.layout import arrange
from engines.counting.rows import counted_rows, panes_rows
from engines.events import Events
from engines.how import USUAL, Counted, How
from engines.joins.aggregates import Found, aggregate_rows
from engines.joins.matches import match_rows
from engines.joins.scan import Limits, Scan
from engines.partial import Ledger
from engines.results import Results, aggregate_schema, match_schema
from engines.trees import tree_tables
from engines.trees.adaptive import Adaptive
from optimizer.automaton import countable
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Aggregation, BoundWorkload, Construction, Query
from workloads import expressions as ex
from workloads.errors import SheafError, TooLargeError, UnsupportedError
from workloads.syntax import All

DEFAULT_LIMITS = Limits()


def run_local(
    workload: BoundWorkload,
    events: Events,
    limits: Limits = DEFAULT_LIMITS,
    how: How = USUAL,
    adaptive: Adaptive | None = None,
    ledger: Ledger | None = None,
) -> Results:
    """All results of a workload, in no particular order.

    `adaptive` has the plans of the batches before, where these events are one of several, and
    `ledger` the queries that were stopped in them, which are left out.
    """
    if ledger is None:
        ledger = Ledger()
    aggregates = [aggregate_schema(events.time_type).empty_table()]
    matches = [match_schema(events.time_type).empty_table()]
    if len(events):
        columns = Columns(workload, events)
        arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged] = {}
        counted = _count(workload.queries, columns, arrangements, how) if how.counting else {}
        aggregates += [table for tables in counted.values() for table in tables]
        constructing = [
            query
            for query in workload.queries
            if query.name not in counted and query.name not in ledger.stopped
        ]

        def aggregate(query: Query, found: Iterable[Found]) -> pa.Table:
            return _run_query(query, columns, arrangements, limits, found)

        detected = tree_tables(
            constructing, columns, limits, how, aggregate, adaptive=adaptive, ledger=ledger
        )
        for query in constructing:
            if query.name in ledger.stopped:
                continue
            try:
                table = detected.get(query.name)
                if table is None:
                    table = _run_query(query, columns, arrangements, limits)
            except UnsupportedError as error:
                raise _named(error, query) from error
            (matches if isinstance(query.output, Construction) else aggregates).append(table)
    return Results(pa.concat_tables(aggregates), pa.concat_tables(matches))


def _count(
    queries: Sequence[Query],
    columns: Columns,
    arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged],
    how: How,
) -> dict[str, list[pa.Table]]:
    """The rows of the queries that are counted without constructing their matches, by name."""
    able = {
        query.name: query
        for query in queries
        if countable(query) is None and _aggregates_numbers(query, columns)
    }
    planned = how.groups if how.sharing else None
    groups = _unplanned(able.values(), how) if planned is None else _planned(able, planned)
    found: dict[str, list[pa.Table]] = {}
    if planned is None:
        members = [group for group, _ in groups]
        found = _count_by_panes(members, columns, arrangements, how)
    for group, by in groups:
        if group[0].name in found:
            continue
        arranged = _arranged(group[0], columns, arrangements)
        lengths = dict(zip(by.queries, by.lengths, strict=False))
        try:
            if by.engine == "panes":
                tables = panes_rows(group, arranged, always=True)
            else:
                engine = by.engine if how.device == "cpu" else "product"  # which devices have
                tables = counted_rows(group, arranged, how, engine, lengths)
        except UnsupportedError as error:
            raise _named(error, group[0]) from error
        if tables is not None:
            found |= {query.name: [table] for query, table in zip(group, tables, strict=True)}
    return found


Groups = list[tuple[list[Query], Counted]]


def _unplanned(queries: Iterable[Query], how: How) -> Groups:
    """Queries of one key, window and slide together, or each alone."""
    together: dict[Hashable, list[Query]] = {}
    for query in queries:
        place = (query.key, query.window, query.slide) if how.sharing else query.name
        together.setdefault(place, []).append(query)
    return [(group, Counted((), "product")) for group in together.values()]


def _planned(able: Mapping[str, Query], planned: Sequence[Counted]) -> Groups:
    """The groups of a plan, as far as their queries can be counted on these events."""
    groups: Groups = []
    for by in planned:
        group = [able[name] for name in by.queries if name in able]
        if by.engine == "panes":
            groups += [(group, by)] if group else []
            continue
        alike: dict[Hashable, list[Query]] = {}
        for query in group:
            alike.setdefault((query.key, query.window, query.slide), []).append(query)
        groups += [(same, by) for same in alike.values()]
    return groups


def _count_by_panes(
    groups: Sequence[Sequence[Query]],
    columns: Columns,
    arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged],
    how: How,
) -> dict[str, list[pa.Table]]:
    """The rows of queries that slide in time, whatever their windows, where panes are cheaper.

    Only without an OpenCL device, which has a kernel for one window and slide.
    """
    if not how.sharing or how.device != "cpu":
        return {}
    by_key: dict[Hashable, list[Query]] = {}
    for group in groups:
        if group[0].slide is not None and not group[0].window.is_count:
            by_key.setdefault(group[0].key, []).extend(group)
    found: dict[str, list[pa.Table]] = {}
    for queries in by_key.values():
        try:
            tables = panes_rows(queries, _arranged(queries[0], columns, arrangements))
        except UnsupportedError:
            continue  # counted apart, the query at fault is named
        if tables is not None:
            found |= {query.name: [table] for query, table in zip(queries, tables, strict=True)}
    return found


def _aggregates_numbers(query: Query, columns: Columns) -> bool:
    """Does it aggregate finite numbers only?

    Where not, its matches are constructed: that says what is wrong with a text, and tells an
    infinite minimum from none.
    """
    assert isinstance(query.output, Aggregation)
    read = [item.operand for item in query.output.items if item.operand is not None]
    names = {operand.name for operand in read}
    if query.output.having is not None:
        names |= ex.attributes(query.output.having)
    vectors = [columns.vector(name) for name in names]
    return all(
        v.kind in ("int", "bool", "null") or (v.kind == "float" and not np.isinf(v.values).any())
        for v in vectors
    )


def _arranged(
    query: Query,
    columns: Columns,
    arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged],
) -> Arranged:
    # Only ALL puts simultaneous events into one group, whose order then shows.
    settled = any(isinstance(e.quantifier, All) for e in components(query.pattern))
    how = (query.key, query.window.is_count, settled)
    if how not in arrangements:
        arrangements[how] = Arranged(arrange(columns.events, *how), columns)
    return arrangements[how]


def _run_query(
    query: Query,
    columns: Columns,
    arrangements: dict[tuple[tuple[str, ...], bool, bool], Arranged],
    limits: Limits,
    found: Iterable[Found] | None = None,
) -> pa.Table:
    events = columns.events
    arranged = _arranged(query, columns, arrangements)
    scan = Scan(arranged, query.window.ticks(events.tick), query.name, limits)
    keys = KeyTexts(events, arranged.layout, query.key)
    if isinstance(query.output, Construction):
        return match_rows(query, scan, keys)
    return aggregate_rows(query, scan, keys, found)


def _named(error: UnsupportedError, query: Query) -> SheafError:
    """The error with the query's name in front, where it does not say it yet."""
    text = str(error)
    if text.startswith(f"query {query.name} "):
        return error
    kind = TooLargeError if isinstance(error, TooLargeError) else UnsupportedError
    return kind(f"query {query.name}: {text}")
