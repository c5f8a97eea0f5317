"""Result rows of a baseline, to compare it with what a query means."""

from __future__ import annotations

import pyarrow as pa

from engines.account import Account
from engines.columns.columns import Columns
from engines.matching.trees.buffers import Buffer, SelectedEvents, first_of, last_of
from engines.matching.trees.run import MatchReading, TreeMatches
from engines.results.tables import match_schema, plain
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Query
from tests.benchmarks.rivals.outline import Way
from tests.benchmarks.rivals.ways import Matches, find


def baseline_rows(query: Query, columns: Columns, way: Way) -> pa.Table:
    """The match rows of a query; raises `UnsupportedError` where the way does not take it."""
    picked, width = picked_for(query, columns)
    tables = [match_schema(columns.events.time_type).empty_table()]
    found = find(query, picked, width, way)
    if len(found):
        reading = MatchReading(found.pattern, found.aliases, picked, width)
        matches = TreeMatches(query, reading, buffer_of(found), Account(), "rows")
        tables += map(plain, matches.tables())
    return pa.concat_tables(tables)


def picked_for(query: Query, columns: Columns) -> tuple[SelectedEvents, int]:
    """The events that a query looks at, and its window in their positions."""
    width = query.window.ticks(columns.events.tick)
    symbols = dict.fromkeys(event.symbol for event in components(query.pattern))
    return SelectedEvents(columns, query.key, query.window.is_count, symbols, width), width


def buffer_of(found: Matches) -> Buffer:
    """Matches as a buffer of the tree engine."""
    columns = tuple(found.columns())
    return Buffer(columns, first_of(columns[0]), last_of(columns[-1]))
