"""Result rows of queries that return matches, from buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engines.columns.grouped import Groups
from engines.columns.keys import with_fixed
from engines.columns.layout import Rows, partition_codes
from engines.columns.vectors import Vector
from engines.match_texts import Bound, match_texts, object_texts, parts
from engines.results import match_schema
from engines.text import repeated
from engines.trees.buffers import Buffer
from engines.trees.conditions import value
from engines.trees.picked import Picked, Places
from optimizer.ir.pattern import Pattern
from optimizer.ir.query import Construction, Query
from optimizer.places import waits
from workloads import expressions as ex


def match_tables_of(
    query: Query,
    pattern: Pattern,
    aliases: tuple[str, ...],
    picked: Picked,
    width: int,
    matches: Buffer,
) -> list[pa.Table]:
    """The rows of matches of one OR-free reading of a query's pattern."""
    groups = [column for column in matches.columns if isinstance(column, Groups)]
    singles = len(aliases) - len(groups)
    return [
        _table(query, pattern, aliases, picked, width, _part(matches, rows))
        for rows in parts(len(matches), singles, groups)
    ]


def _part(matches: Buffer, rows: Rows) -> Buffer:
    return matches if len(rows) == len(matches) else matches.take(rows)


def _table(
    query: Query,
    pattern: Pattern,
    aliases: tuple[str, ...],
    picked: Picked,
    width: int,
    matches: Buffer,
) -> pa.Table:
    assert isinstance(query.output, Construction)
    events = picked.columns.events
    start, end = picked.ticks(matches.first), picked.ticks(matches.last)
    ticks = end
    if waits(pattern):
        ticks = _closing(picked, matches.first, width) if picked.layout else start + width
    columns = {
        "query": repeated(query.name, len(matches)),
        "key": with_fixed(_keys(picked, matches.first), query),
        "start": events.times(start),
        "end": events.times(end),
        "time": events.times(ticks),
        "match": match_texts(query.output, _bound(aliases, picked, matches), picked.columns),
    }
    return pa.table(columns, schema=match_schema(events.time_type))


def _closing(picked: Picked, first: Places, width: int) -> Rows:
    """The time of the event whose rank closes a window, or else of the partition's last one."""
    layout = picked.layout
    assert layout is not None
    rows = picked.used[first]
    partition = layout.partition[rows]
    closing = layout.rows_until(partition, layout.position[rows] + width - 1)
    ticks: Rows = layout.ticks[np.minimum(closing, layout.starts[partition + 1] - 1)]
    return ticks


def _keys(picked: Picked, places: Places) -> pa.Array:
    """The key of each match as JSON: as the first event of its partition spells it."""
    if not picked.key:
        return pa.nulls(len(places), pa.string())
    used, place = np.unique(picked.row[places], return_inverse=True)
    if any(pa.types.is_floating(picked.columns.events.column(n).type) for n in picked.key):
        # Zeros of both signs are one key.
        codes, known = partition_codes(picked.columns.events, picked.key)
        assert codes is not None
        rows = np.arange(len(codes)) if known is None else np.flatnonzero(known)
        spelled, first = np.unique(codes[rows], return_index=True)
        used = rows[first[np.searchsorted(spelled, codes[used])]]
    return object_texts(used, picked.key, picked.columns.events).take(pa.array(place))


def _bound(aliases: tuple[str, ...], picked: Picked, matches: Buffer) -> Bound:
    numbers = {alias: str(i) for i, alias in enumerate(aliases)}
    columns: dict[str, Rows | Groups] = {}
    for alias, column in zip(aliases, matches.columns, strict=True):
        if isinstance(column, Groups):
            columns[alias] = Groups(column.offsets, picked.row[column.rows])
        else:
            columns[alias] = picked.row[column]

    def of(expression: ex.Expression) -> Vector:
        return value(ex.rename(expression, numbers), picked, matches)

    return Bound(len(matches), columns, of)
