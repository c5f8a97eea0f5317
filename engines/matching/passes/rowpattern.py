"""Runs MATCH_RECOGNIZE: rows in order, bitmaps, matches, measures, SELECT, rows of results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from engines.input.event_table import Events
from engines.matching.passes.input import PassInput
from engines.matching.rowpattern.inline_rows import check_rows
from engines.matching.rowpattern.live_search import Search, searched
from engines.matching.rowpattern.measures import GivenRows, MatchColumns, given_rows
from engines.matching.rowpattern.ordered_table import OrderedTable, Rows
from engines.matching.rowpattern.search import FoundMatches
from engines.matching.rowpattern.selection import SelectedRows, selected
from engines.program import PassUnit
from engines.results.chunks import RowChunk
from engines.results.json_text import joined, json_column, json_text
from engines.results.measured import MeasuredChunk
from engines.results.tables import coded_schema, match_schema, one_text
from optimizer.ir.query import Query, RowPattern
from optimizer.ir.recognition import Recognition


def recognize(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The rows of queries that are clauses MATCH_RECOGNIZE; what they read alike is made once."""
    tables: dict[object, OrderedTable] = {}
    for query in unit.queries:
        output = query.output
        assert isinstance(output, RowPattern)
        clause = output.recognition
        place = (clause.partition, clause.order, clause.filter)
        check_rows(clause, given.columns.events)
        search = searched(given.columns, clause, given.context.until, tables.get(place))
        tables[place] = search.table
        yield _chunk(query, clause, search, given.columns.events)


def _chunk(query: Query, clause: Recognition, search: Search, events: Events) -> RowChunk:
    table, found = search.table, search.found
    rows = given_rows(clause, found)
    measured = MatchColumns(table, clause, found, rows)
    alone = len(rows) - len(rows.match)
    given: dict[str, pa.Array] = {}
    for name, measure in clause.measures:
        values = measured.values(measure)
        given[name] = pa.concat_arrays([values, pa.nulls(alone, values.type)]) if alone else values
    names = events.names
    places = pa.array(rows.row)
    for name in _read(clause, names):
        given.setdefault(name, table.column(name).take(places))
    chosen = selected(clause, given, names, len(rows))
    made = _table(query, clause, table, found, rows, chosen, events)
    return MeasuredChunk(query.name, made, is_new=True)


def _read(clause: Recognition, names: list[str]) -> list[str]:
    """The columns of the input that the clause gives and that are read."""
    known = set(names)
    given = [n for n in clause.given_columns(names) if n in known or n in clause.columns]
    measures = {name for name, _ in clause.measures}
    return [name for name in given if name not in measures]


def _table(
    query: Query,
    clause: Recognition,
    table: OrderedTable,
    found: FoundMatches,
    rows: GivenRows,
    chosen: SelectedRows,
    events: Events,
) -> pa.Table:
    """The rows of results."""
    start, end = _spans(table, found, rows, chosen)
    keys = pa.nulls(len(chosen), pa.string())
    if query.key and len(chosen):
        at = pa.array(rows.row[chosen.sources[chosen.bounds[:-1]]])
        parts = {name: table.column(name).take(at) for name in query.key}
        keys = _objects(parts, len(chosen))
    schema = match_schema(events.time_type)
    made = {
        "query": one_text(query.name, len(chosen)),
        "key": keys.dictionary_encode(),
        "start": events.times(start),
        "end": events.times(end),
        "time": events.times(end),
        "match": _objects(chosen.columns, len(chosen)),
    }
    return pa.table(made, schema=coded_schema(schema))


def _spans(
    table: OrderedTable, found: FoundMatches, rows: GivenRows, chosen: SelectedRows
) -> tuple[Rows, Rows]:
    """The times of the first and the last row of what each row of results comes from."""
    first = rows.row.copy()
    last = rows.row.copy()
    first[: len(rows.match)] = found.first[rows.match]
    last[: len(rows.match)] = first[: len(rows.match)] + np.maximum(found.length[rows.match] - 1, 0)
    starts, ends = table.times[first][chosen.sources], table.times[last][chosen.sources]
    if len(chosen.sources) == len(chosen):
        return starts, ends
    whole = table.times if len(table) else np.zeros(1, np.int64)
    bounds = list(zip(chosen.bounds[:-1].tolist(), chosen.bounds[1:].tolist(), strict=True))
    return (
        np.array([starts[a:b].min() if b > a else whole.min() for a, b in bounds], np.int64),
        np.array([ends[a:b].max() if b > a else whole.max() for a, b in bounds], np.int64),
    )


def _objects(columns: dict[str, pa.Array] | object, size: int) -> pa.Array:
    """JSON objects of columns, row by row."""
    assert isinstance(columns, dict)
    parts: list[pa.Array | str] = []
    for place, (name, values) in enumerate(columns.items()):
        parts.append(("{" if place == 0 else ",") + json_text(name) + ":")
        parts.append(json_column(values))
    if not parts:
        return pa.array(["{}"] * size, pa.string())
    return joined(*parts, "}")
