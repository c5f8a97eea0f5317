"""Partition keys as they stand in result rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.layout import Layout, Rows
from engines.events import Events
from engines.text import joined, json_column, json_text, repeated
from optimizer.ir.query import Query


class KeyTexts:
    """The keys of a layout's partitions as JSON objects, each written when it is first needed."""

    def __init__(self, events: Events, layout: Layout, key: tuple[str, ...]) -> None:
        self._events, self._layout, self._key = events, layout, key

    def of(self, partitions: Rows) -> pa.Array:
        """The key of each given partition; null where there is none."""
        if not self._key:
            return pa.nulls(len(partitions), pa.string())
        used, place = np.unique(partitions, return_inverse=True)
        rows = pa.array(self._layout.order[self._layout.starts[used]])
        pieces: list[pa.Array | str] = []
        for name in self._key:
            pieces.append(("," if pieces else "{") + json_text(name) + ":")
            pieces.append(json_column(self._events.whole(name).take(rows)))
        return joined(*pieces, "}").take(pa.array(place))


def with_fixed(keys: pa.Array, query: Query) -> pa.Array:
    """Keys of a query's partitions as its results have them: with the attributes of `fixed_key`."""
    if not query.fixed_key:
        return keys
    named = query.result_key
    if not query.key:
        return repeated(json_text(dict(named)), len(keys))
    columns = [i for i, (_, value) in enumerate(named) if value is None]
    before, after = named[: columns[0]], named[columns[-1] + 1 :]
    if len(before) + len(after) == len(query.fixed_key):
        inner = pc.utf8_slice_codeunits(keys, 1, -1)
        first = "".join(f"{_member(name, value)}," for name, value in before)
        last = "".join(f",{_member(name, value)}" for name, value in after)
        return joined("{" + first, inner, last + "}")
    encoded = keys.dictionary_encode()
    texts = [_completed(text, named) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _member(name: str, value: str | None) -> str:
    return f"{json_text(name)}:{json_text(value)}"


def _completed(key: str, named: tuple[tuple[str, str | None], ...]) -> str:
    """One key with fixed attributes between its own, whose values stay as they are spelled."""
    decode = json.JSONDecoder().raw_decode
    members: list[str] = []
    place = 1
    for name, value in named:
        if value is not None:
            members.append(_member(name, value))
            continue
        _, colon = decode(key, place)
        _, end = decode(key, colon + 1)
        members.append(key[place:end])
        place = end + 1
    return "{" + ",".join(members) + "}"
