"""Rows that were asked for: of a query, of a key, in an order; a page at a time, in bounded memory.

Rows lie by query, key and time where a job is over, and by batch where it is a stream: that is the
order of their places. To filter or sort them, one pass reads the columns that decide and keeps as
many places as the page needs; a second reads the rows at those places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from api.jobs.rows import Rows, table_of
from workloads.errors import SheafError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Sort = OneOf["place", "time", "value"]

MAX_SORTED = 100_000  # rows up to the end of a page that is filtered or sorted
NEAR_ROWS = 20_000  # rows that are rather read than left out


class TooDeepError(SheafError):
    """A page of sorted rows lies too far behind."""


@dataclass(frozen=True)
class KeyFilter:
    """Keys that have a value, or all values of an object, as `key` says it."""

    given: str

    @property
    def wanted(self) -> dict[str, Any] | str:
        try:
            found = json.loads(self.given)
        except (ValueError, RecursionError):
            return self.given
        return found if isinstance(found, dict) else self.given

    def fits(self, key: dict[str, Any]) -> bool:
        wanted = self.wanted
        if isinstance(wanted, dict):
            return all(name in key and key[name] == value for name, value in wanted.items())
        return any(_plain(value) == wanted for value in key.values())

    def mask(self, keys: pa.Array) -> pa.Array:
        """Which of these keys, as JSON text, fit; a row without a key does not."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = keys.cast(pa.string())
        wanted = self.wanted
        values = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
        longest = max((v for v in values if isinstance(v, str)), key=len, default="")
        # Few keys have the text of the value in them: only those are looked into.
        part = json.dumps(longest, ensure_ascii=False)[1:-1]
        near = texts.filter(pc.fill_null(pc.match_substring(texts, part), False))
        good = [text for text in near.unique().to_pylist() if self.fits(json.loads(text))]
        return pc.fill_null(pc.is_in(texts, value_set=pa.array(good, pa.string())), False)


@dataclass(frozen=True)
class RowSelection:
    """Which rows, and in what order."""

    query: str | None = None
    key: KeyFilter | None = None
    sort: Sort = "place"
    descending: bool = False

    def page(self, rows: Rows, kind: str, offset: int, limit: int) -> tuple[pa.Table, int]:
        """The rows of a kind from one place of the selection on, and how many it has in all."""
        if self.key is not None or self.sort != "place":
            return self._chosen(rows, kind, offset, limit)
        total = rows.total(kind, self.query)
        first = min(offset, total)
        last = min(first + limit, total)
        if not self.descending:
            return table_of(rows, kind, self.query, first, last), total
        return _reversed(table_of(rows, kind, self.query, total - last, total - first)), total

    def pieces(self, rows: Rows, kind: str, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The rows of the selection from one to another, as they lie, a piece at a time."""
        if self.key is None:
            yield from rows.pieces(kind, self.query, first, last)
            return
        at = 0
        for batch in rows.pieces(kind, self.query, 0, rows.total(kind, self.query)):
            fitting = batch.filter(self.key.mask(batch.column("key")))
            start, stop = max(first - at, 0), min(last - at, fitting.num_rows)
            if start < stop:
                yield fitting.slice(start, stop - start)
            at += fitting.num_rows
            if at >= last:
                return

    def _chosen(self, rows: Rows, kind: str, offset: int, limit: int) -> tuple[pa.Table, int]:
        import numpy as np

        end = offset + limit
        if end > MAX_SORTED:
            raise TooDeepError(
                f"rows that are filtered or sorted are paged up to number {MAX_SORTED:,}; fetch "
                "all of them as csv, parquet or arrow, or ask for one query"
            )
        by = self.sort if self.sort == "place" or kind == "aggregates" else "time"
        columns = [*(["key"] if self.key is not None else ()), *([by] if by != "place" else ())]
        kept = np.zeros(0, np.int64), np.zeros(0, np.int64)
        total, at = 0, 0
        for batch in rows.pieces(
            kind, self.query, 0, rows.total(kind, self.query), columns or ["query"]
        ):
            places = np.arange(at, at + batch.num_rows)
            at += batch.num_rows
            values = places if by == "place" else _sortable(batch.column(by), self.descending)
            if self.key is not None:
                fits = np.asarray(self.key.mask(batch.column("key")))
                places, values = places[fits], values[fits]
            total += len(places)
            kept = _first(kept, (values, places), end, self.descending)
        chosen = kept[1][offset:end]
        return self._at(rows, kind, chosen), total

    def _at(self, rows: Rows, kind: str, places: npt.NDArray[np.int64]) -> pa.Table:
        """The rows at these places, in their order."""
        import numpy as np
        import pyarrow as pa

        if not len(places):
            return rows.schema(kind).empty_table()
        order = np.argsort(places)
        ordered = places[order]
        cuts = np.flatnonzero(np.diff(ordered) > NEAR_ROWS) + 1
        found = []
        for part in np.split(ordered, cuts):
            first = int(part[0])
            table = table_of(rows, kind, self.query, first, int(part[-1]) + 1)
            found.append(table.take(part - first))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(found).take(back)


def _first(
    kept: tuple[npt.NDArray[Any], npt.NDArray[np.int64]],
    more: tuple[npt.NDArray[Any], npt.NDArray[np.int64]],
    size: int,
    descending: bool,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The first so many of both, by value and then by place."""
    import numpy as np

    values = np.concatenate((kept[0], more[0])) if len(kept[0]) else more[0]
    places = np.concatenate((kept[1], more[1]))
    order = np.lexsort((places, values))
    order = (order[::-1] if descending else order)[:size]
    return values[order], places[order]


def _sortable(column: pa.Array, descending: bool) -> npt.NDArray[Any]:
    """Times and values as numbers; where there is none it comes last."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_floating(column.type):
        last = -np.inf if descending else np.inf
        values = np.asarray(pc.fill_null(column, last), np.float64)
        return np.where(np.isnan(values), last, values)
    bounds = np.iinfo(np.int64)
    ticks = column.cast(pa.int64())
    return np.asarray(pc.fill_null(ticks, bounds.min if descending else bounds.max), np.int64)


def _reversed(table: pa.Table) -> pa.Table:
    import numpy as np

    return table.take(np.arange(table.num_rows)[::-1])


def _plain(value: Any) -> str:
    """A value of a key as people write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
