"""Partition keys as they stand in result rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engines.columns.layout import Layout, Rows
from engines.events import Events
from engines.text import joined, json_column, json_text


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
