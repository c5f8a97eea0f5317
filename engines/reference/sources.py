"""What it means that several sources are one stream, by definition: all of their events together.

Each event has its time in the stream's unit, what its source calls otherwise by the common name,
and null for what only other sources have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workloads.sources import SEQUENCE, SOURCE, TIME, TYPE
from workloads.workload import NANOSECONDS, Stream

Row = dict[str, Any]


def merged(whole: Stream, events: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The events of sources, by their names, as rows of the stream; times are whole numbers."""
    rows = []
    for name, source in whole.sources.items():
        own = source.stream
        factor = NANOSECONDS[own.unit] // NANOSECONDS[whole.unit]
        for event in events[name]:
            row: Row = {TIME: event[own.time] * factor, SOURCE: name}
            if whole.type is not None:
                row[TYPE] = None if own.type is None else event[own.type]
            if whole.sequence is not None and own.sequence is not None:
                row[SEQUENCE] = event[own.sequence]
            taken = {own.time, own.type, own.sequence if whole.sequence is not None else None}
            for column, value in event.items():
                if column not in taken:
                    row[source.rename.get(column, column)] = value
            rows.append(row)
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]
