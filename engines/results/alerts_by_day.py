"""Rows counted by query and day: how often each rule would have raised an alert."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from workloads.workload import NANOSECONDS, TimeUnit

_DAY = 86_400 * 10**9
_EPOCH = datetime.date(1970, 1, 1)
_FIRST_DATES = 365 * 20  # days; times before 1990 are seldom dates, and more often begin at 0
_LAST_DATES = 365 * 1000


@dataclass
class AlertsByDay:
    """Numbers of rows by query and day, a day as a number from 1970 on.

    Where times are whole numbers they are of this `unit`. Of a query that reports several
    aggregates of a window, that is one; `aggregates` are their numbers, by query.
    """

    unit: TimeUnit = "ms"
    aggregates: Mapping[str, int] = field(default_factory=dict)
    rows: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Count rows."""
        if not rows.num_rows:
            return
        days = self._days(rows.column("time"))
        names = rows.column("query").cast(pa.string())
        grouped = pa.table({"query": names, "day": days}).group_by(["query", "day"])
        for row in grouped.aggregate([([], "count_all")]).to_pylist():
            self.rows[row["query"], row["day"]] += row["count_all"]

    def _days(self, times: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        kind = times.type
        if pa.types.is_date(kind):
            return times.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        tick = NANOSECONDS[kind.unit if pa.types.is_timestamp(kind) else self.unit]
        ticks = times.cast(pa.int64())
        # Whole numbers are divided towards zero, and days before 1970 are counted downwards.
        size = _DAY // tick
        whole = pc.divide(ticks, size)
        below = pc.and_(pc.less(ticks, 0), pc.not_equal(pc.multiply(whole, size), ticks))
        return pc.subtract(whole, below.cast(pa.int64()))

    @property
    def days(self) -> list[int]:
        """The days on which there are rows, in order."""
        return sorted({day for _, day in self.rows})

    def of_query(self, name: str) -> dict[int, int]:
        """The numbers of a query by day, in order."""
        each = self.aggregates.get(name, 1)
        found = {day: number for (query, day), number in self.rows.items() if query == name}
        return {day: -(-number // each) for day, number in sorted(found.items())}

    def shown_day(self, day: int) -> str:
        """A day as a date; as a number from the stream's first on where times are no dates."""
        if any(not _FIRST_DATES <= each < _LAST_DATES for each in self.days):
            return f"day {day}"
        return (_EPOCH + datetime.timedelta(days=day)).isoformat()
