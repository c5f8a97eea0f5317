"""Events taken once for each value of a key that differs by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.layout import Rows
from engines.input.event_table import Events, is_list
from engines.results.json_text import json_column
from optimizer.ir.keys import ComponentKey
from workloads.errors import UnsupportedError


def by_component_keys(events: Events, keys: Sequence[ComponentKey]) -> tuple[Events, Rows]:
    """The events, each once for each combination of values that it has in columns of the keys;
    and of each the row that it had.

    They stay in order. A column for each key has the value, as it is written in results, and one
    for each of its columns whether that has the value. Where a column is a list, each of its values
    counts.
    """
    rows: Rows = np.arange(len(events))
    found = [_KeyValues.of(events, key) for key in keys]
    codes: list[Rows] = []
    for values in found:
        sizes = np.diff(values.starts)[rows]
        places = np.repeat(np.arange(len(rows)), sizes)
        inside = np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        own = values.codes[values.starts[rows[places]] + inside]
        rows, codes = rows[places], [*(one[places] for one in codes), own]
    table = events.table.take(pa.array(rows))
    for key, values, own in zip(keys, found, codes, strict=True):
        table = table.append_column(key.added_column, values.texts.take(pa.array(own)))
        for column, pairs in values.members.items():
            member = np.isin(rows * len(values.texts) + own, pairs)
            table = table.append_column(key.member_column(column), pa.array(member))
    taken = replace(
        events,
        table=table,
        ticks=events.ticks[rows],
        sequence=None if events.sequence is None else events.sequence[rows],
        _part_of=None,
    )
    return taken, rows


class _KeyValues(NamedTuple):
    """The values of a key as numbers: those of each row, and the rows and values of each column.

    `codes[starts[i] : starts[i + 1]]` are those of row `i`, each once. Members are numbers too: the
    row times the number of values, plus the value.
    """

    starts: Rows
    codes: Rows
    texts: pa.Array
    members: dict[str, Rows]

    @staticmethod
    def of(events: Events, key: ComponentKey) -> _KeyValues:
        names = key.read_columns
        rows, values = zip(*(listed_values(events, name) for name in names), strict=True)
        encoded = pc.dictionary_encode(_joined(key, names, values))
        texts = json_column(encoded.dictionary)
        codes = np.asarray(pc.fill_null(encoded.indices, len(texts))).astype(np.int64)
        texts = pa.concat_arrays([texts.cast(pa.string()), pa.array(["null"])])
        members: dict[str, Rows] = {}
        start = 0
        for name, own in zip(names, rows, strict=True):
            mine = codes[start : start + len(own)]
            start += len(own)
            if not key.optional:  # null is no value
                own, mine = own[mine < len(texts) - 1], mine[mine < len(texts) - 1]
            members[name] = np.unique(own * len(texts) + mine)
        pairs = np.unique(np.concatenate(list(members.values())))
        counts = np.bincount(pairs // len(texts), minlength=len(events))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return _KeyValues(starts, pairs % len(texts), texts, members)


def listed_values(events: Events, name: str) -> tuple[Rows, pa.Array]:
    """The values of a column, and the row of each; of lists, each of theirs."""
    column = events.column(name).combine_chunks()
    if not is_list(column.type):
        return np.arange(len(events)), column
    lists = column.cast(pa.large_list(column.type.value_type))
    # A list that is null has the value null.
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    rows = np.repeat(np.arange(len(events)), sizes)
    null = np.flatnonzero(np.asarray(pc.is_null(lists)))
    values = pa.concat_arrays([pc.list_flatten(lists), pa.nulls(len(null), lists.type.value_type)])
    return np.concatenate([rows, null]), values


def _joined(key: ComponentKey, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """All values in one array, of the type that all have or can be written as."""
    try:
        schemas = [pa.schema([("value", column.type)]) for column in columns]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        joined = pa.concat_arrays([column.cast(kind) for column in columns])
    except pa.ArrowException as error:
        kinds = ", ".join(f"{n} is {c.type}" for n, c in zip(names, columns, strict=True))
        raise UnsupportedError(
            f"the columns of the key '{key.name}' have types that cannot be compared: {kinds}; "
            "declare them under the stream's 'attributes'"
        ) from error
    return pc.add(joined, 0.0) if pa.types.is_floating(kind) else joined  # zeros of both signs
