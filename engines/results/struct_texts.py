"""Matches that are structs as JSON text, for those who read the rows in other formats.

What each query returns is in the metadata of the rows' schema, as `MatchStructs` put it there.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.results.json_text import joined, json_column, json_text
from engines.results.row_texts import NumberedTexts, Piece, put_together
from engines.results.structs import RETURNED, ReturnedNames
from engines.results.tables import match_schema


def table_with_texts(rows: pa.Table) -> pa.Table:
    """The same rows with matches as JSON text."""
    place = rows.schema.get_field_index("match")
    if place < 0 or not pa.types.is_struct(rows.schema.types[place]):
        return rows
    none = match_schema(rows.schema.field("time").type).empty_table()
    batches = (with_texts(batch, rows.schema) for batch in rows.combine_chunks().to_batches())
    return pa.concat_tables([none, *(pa.Table.from_batches([batch]) for batch in batches)])


def with_texts(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with matches as JSON text; `schema` is that of the file they are in."""
    place = rows.schema.get_field_index("match")
    if place < 0 or not pa.types.is_struct(rows.schema.types[place]):
        return rows
    returned: ReturnedNames = json.loads((schema.metadata or {})[RETURNED])
    queries = pc.dictionary_encode(rows.column("query"))
    codes = np.asarray(queries.indices)
    texts, order = [pa.array([], pa.string())], [np.zeros(0, np.int64)]
    for code, query in enumerate(queries.dictionary.to_pylist()):
        mine = np.flatnonzero(codes == code)
        order.append(mine)
        texts.append(_texts(rows.column(place).take(pa.array(mine)), returned[query]))
    back = np.empty(rows.num_rows, np.int64)
    back[np.concatenate(order)] = np.arange(rows.num_rows)
    column = pa.concat_arrays(texts).take(pa.array(back))
    names = match_schema(pa.int64()).names
    assert rows.schema.names == names
    columns = [column if name == "match" else rows.column(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _texts(matches: pa.StructArray, returned: dict[str, tuple[str, list[str] | None]]) -> pa.Array:
    """Matches of one query, of which absent events are left out."""
    pieces: list[Piece] = []
    every = np.arange(len(matches), dtype=np.int32)
    for field, (name, attributes) in returned.items():
        column = matches.field(field)
        if attributes is None:
            pieces += [f",{json_text(name)}:", NumberedTexts(json_column(column), every)]
            continue
        if pa.types.is_list(column.type):
            objects = _objects(column.values, attributes)
            lists = pa.ListArray.from_arrays(column.offsets, objects)
            objects = joined("[", pc.binary_join(lists, ","), "]")
        else:
            objects = _objects(column, attributes)
        present = np.asarray(column.is_valid())
        label = NumberedTexts(pa.array([f",{json_text(name)}:"]), np.where(present, 0, -1))
        pieces += [label, NumberedTexts(objects, np.where(present, every, -1))]
    members = put_together(pieces, len(matches))
    return joined("{", pc.utf8_slice_codeunits(members, 1), "}")


def _objects(events: pa.StructArray, attributes: list[str]) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for name in attributes:
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        pieces.append(json_column(events.field(name)))
    return joined(*pieces, "}")
