"""Result rows of queries that return matches, from buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engines.columns.layout import Rows, partition_codes
from engines.columns.vectors import broadcast
from engines.results import match_schema
from engines.text import joined, json_column, json_text, repeated
from engines.trees.buffers import Buffer
from engines.trees.conditions import value
from engines.trees.picked import Picked, Places
from optimizer.ir.pattern import Pattern
from optimizer.ir.query import Construction, Query, ReturnAlias, ReturnAttribute, ReturnValue
from optimizer.places import waits
from workloads import expressions as ex

# An event's text may have a thousand characters or so, and a column of texts takes 2**31.
EVENTS_AT_ONCE = 1_000_000


def match_tables_of(
    query: Query,
    pattern: Pattern,
    aliases: tuple[str, ...],
    picked: Picked,
    width: int,
    matches: Buffer,
) -> list[pa.Table]:
    """The rows of matches of one OR-free reading of a query's pattern."""
    step = max(1, EVENTS_AT_ONCE // max(1, len(aliases)))
    parts = [matches]
    if len(matches) > step:
        cuts = range(0, len(matches), step)
        parts = [matches.take(np.arange(i, min(i + step, len(matches)))) for i in cuts]
    return [_table(query, pattern, aliases, picked, width, part) for part in parts]


def _table(
    query: Query,
    pattern: Pattern,
    aliases: tuple[str, ...],
    picked: Picked,
    width: int,
    matches: Buffer,
) -> pa.Table:
    events = picked.columns.events
    start, end = picked.ticks(matches.first), picked.ticks(matches.last)
    ticks = end
    if waits(pattern):
        ticks = _closing(picked, matches.first, width) if picked.layout else start + width
    columns = {
        "query": repeated(query.name, len(matches)),
        "key": _keys(picked, matches.first),
        "start": events.times(start),
        "end": events.times(end),
        "time": events.times(ticks),
        "match": _match_texts(query, aliases, picked, matches),
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
    return _object_texts(used, list(picked.key), picked).take(pa.array(place))


def _match_texts(
    query: Query, aliases: tuple[str, ...], picked: Picked, matches: Buffer
) -> pa.Array:
    """The returned items of each match as a JSON object; those of absent aliases left out."""
    assert isinstance(query.output, Construction)
    fields: dict[str, list[str]] = {}  # of the events under a name; in the order of RETURN
    sources: dict[str, str] = {}
    values: dict[str, ex.Expression] = {}
    for item in query.output.items:
        match item:
            case ReturnAlias(alias, name) if alias in aliases:
                fields[name or alias] = list(picked.columns.events.table.column_names)
                sources[name or alias] = alias
            case ReturnAttribute(alias, attribute) if alias in aliases:
                fields.setdefault(alias, []).append(attribute)
                sources[alias] = alias
            case ReturnValue(expression, name):
                fields[name] = []
                values[name] = expression
            case _:
                pass
    columns = dict(zip(aliases, matches.columns, strict=True))
    objects = _objects(
        picked, [(columns[sources[name]], names) for name, names in fields.items() if names]
    )
    pieces: list[pa.Array | str] = []
    for name in fields:
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        if name in values:
            pieces.append(_value_texts(values[name], aliases, picked, matches))
        else:
            pieces.append(objects.pop(0))
    if not pieces:
        return repeated("{}", len(matches))
    return joined(*pieces, "}")


def _objects(picked: Picked, wanted: list[tuple[Places, list[str]]]) -> list[pa.Array]:
    """Events as JSON objects; each event that occurs is written once for all that want it."""
    found: list[pa.Array | None] = [None] * len(wanted)
    for i, (_, names) in enumerate(wanted):
        if found[i] is not None:
            continue
        alike = [j for j, (_, others) in enumerate(wanted) if others == names]
        used = np.zeros(len(picked), bool)
        for j in alike:
            used[wanted[j][0]] = True
        places = np.flatnonzero(used)
        texts = _object_texts(picked.row[places], names, picked)
        number = np.empty(len(picked), np.int32)
        number[places] = np.arange(len(places))
        for j in alike:
            found[j] = texts.take(pa.array(number[wanted[j][0]]))
    return found


def _object_texts(rows: Rows, names: list[str], picked: Picked) -> pa.Array:
    """Columns of rows of the table as JSON objects."""
    taken = pa.array(rows)
    pieces: list[pa.Array | str] = []
    for name in names:
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        pieces.append(json_column(picked.columns.events.column(name).take(taken)))
    return joined(*pieces, "}")


def _value_texts(
    expression: ex.Expression, aliases: tuple[str, ...], picked: Picked, matches: Buffer
) -> pa.Array:
    if not ex.aliases(expression) <= set(aliases):
        return repeated("null", len(matches))
    numbers = {alias: str(i) for i, alias in enumerate(aliases)}
    vector = broadcast(value(ex.rename(expression, numbers), picked, matches), len(matches))
    if vector.kind == "object":
        present = vector.present()
        return pa.array(
            [json_text(v) if p else "null" for v, p in zip(vector.values, present, strict=True)]
        )
    return json_column(picked.columns.values(vector))
