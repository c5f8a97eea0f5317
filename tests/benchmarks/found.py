"""What a variant found, short enough to compare: rows, matches, and a sum over rows and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.columns.groups import EventGroups
    from engines.results.tables import Results

# Odd numbers without a pattern: a count at another time, or of another query, changes the sum.
_BY_QUERY = np.uint64(0x9E3779B97F4A7C15)
_BY_TIME = np.uint64(0xC2B2AE3D27D4EB4F)
_MIXED = np.uint64(0xFF51AFD7ED558CCD)
_TINY = 1e-9  # sums of doubles depend on their order by less than this, relatively
_WRAP = 2**64


@dataclass(frozen=True)
class Found:
    """Rows of results; their exact counts added up; each count times a number of its row, added up.

    The last two are modulo 2^64. `values` are the doubles of other aggregates, added up.
    """

    rows: int
    matches: int
    mixed: int
    values: float = 0.0

    def __add__(self, other: Found) -> Found:
        return Found(
            self.rows + other.rows,
            (self.matches + other.matches) % _WRAP,
            (self.mixed + other.mixed) % _WRAP,
            self.values + other.values,
        )

    def __str__(self) -> str:
        return f"{self.rows:,} rows with counts of {self.matches:,} in all (sum {self.mixed:x})"

    def agrees_with(self, other: Found) -> bool:
        """The same, but for the last digits of sums of doubles."""
        whole = (self.rows, self.matches, self.mixed) == (other.rows, other.matches, other.mixed)
        most = max(abs(self.values), abs(other.values), 1.0)
        return whole and abs(self.values - other.values) <= _TINY * most


NOTHING = Found(0, 0, 0)


def found_rows(
    query: npt.NDArray[np.int64],
    time: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint64],
    exact: npt.NDArray[np.bool_] | None = None,
) -> Found:
    """Rows by number of query, tick and count. What is not exact is a row that counts nothing."""
    if exact is not None:
        counts = np.where(exact, counts, np.uint64(0))
    place = (query.astype(np.uint64) + np.uint64(1)) * _BY_QUERY + time.astype(np.uint64) * _BY_TIME
    place = (place ^ (place >> np.uint64(32))) * _MIXED
    mixed = int(((counts + np.uint64(1)) * place).sum(dtype=np.uint64))
    return Found(len(query), int(counts.sum(dtype=np.uint64)), mixed)


def found_matches(
    columns: Sequence[npt.NDArray[np.integer] | EventGroups], query: int = 0
) -> Found:
    """Matches by the numbers of their events, one column for each component."""
    numbers = [_number(column) for column in columns]
    place = np.full(len(numbers[0]), np.uint64((query + 1) * int(_BY_QUERY) % _WRAP))
    for number in numbers:
        place = (place ^ (place >> np.uint64(32))) * _MIXED + number * _BY_TIME
    place = (place ^ (place >> np.uint64(32))) * _MIXED
    return Found(len(place), len(place), int(place.sum(dtype=np.uint64)))


def _number(column: npt.NDArray[np.integer] | EventGroups) -> npt.NDArray[np.uint64]:
    """An event's own number, or one for the events of each group."""
    if isinstance(column, np.ndarray):
        return column.astype(np.uint64)
    mixed = (column.rows.astype(np.uint64) + np.uint64(1)) * _BY_QUERY
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIXED
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed)])
    found: npt.NDArray[np.uint64] = total[column.offsets[1:]] - total[column.offsets[:-1]]
    return found


def _found_texts(matches: pa.Table) -> Found:
    """Match rows by their query, key, times and text."""
    import pandas as pd
    import pyarrow.compute as pc

    if not matches.num_rows:
        return NOTHING
    mixed = np.zeros(matches.num_rows, np.uint64)
    for name in ("query", "key", "start", "end", "time", "match"):
        texts = pc.fill_null(matches.column(name).cast("string"), "")
        hashed = pd.util.hash_array(texts.to_numpy(zero_copy_only=False).astype(object))
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIXED + hashed
    total = int(((mixed ^ (mixed >> np.uint64(32))) * _MIXED).sum(dtype=np.uint64))
    return Found(matches.num_rows, 0, total)


def found_results(results: Results, names: list[str]) -> Found:
    """The rows of a run: aggregates by the order of the queries' names, and matches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = results.aggregates
    time = table.column("time")
    if pa.types.is_timestamp(time.type):
        time = time.cast(pa.int64())
    elif not pa.types.is_integer(time.type):
        time = time.cast(pa.int32()).cast(pa.int64())
    query = np.asarray(pc.index_in(table.column("query"), pa.array(names)), np.int64)
    counts = table.column("count")
    found = found_rows(
        query,
        np.asarray(time, np.int64),
        np.asarray(pc.fill_null(counts, 0), np.int64).astype(np.uint64),
    )
    others = table.filter(pc.is_null(counts)).column("value")
    total = pc.sum(others).as_py() or 0.0
    return found + Found(0, 0, 0, float(total)) + _found_texts(results.matches)
