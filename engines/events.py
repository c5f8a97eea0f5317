"""Events as a table: read from files, checked against the stream, sorted by time and sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.errors import EventsError
from engines.files import read_table
from workloads.errors import did_you_mean
from workloads.model import NANOSECONDS, Kind, Stream

__all__ = ["Events", "column_kinds", "from_table", "read_events", "read_table"]

Int64s: TypeAlias = npt.NDArray[np.int64]

# Times and window sizes are both below this, so their sums and differences never overflow.
LARGEST_TICK = 2**62
TIMES = "write 2024-03-01T10:00:00 or the like, or whole numbers of the stream's unit"


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a stream; rows are sorted by time, then by sequence.

    `ticks` are the rows' times, each tick `tick` nanoseconds; `time_type` is the type that times
    of results have.
    """

    table: pa.Table
    ticks: Int64s
    sequence: Int64s | None
    tick: int
    time_type: pa.DataType
    time_column: str
    _whole: dict[str, pa.Array] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """An attribute of the events; `time` is the time column where no column has that name."""
        names = self.table.column_names
        if name in names:
            return self.table.column(name)
        if name == "time":
            return self.table.column(self.time_column)
        raise EventsError(
            f"the events have no column '{name}'; {columns_hint(name, self.table.schema)}"
        )

    def whole(self, name: str) -> pa.Array:
        """The same in one piece: rows are taken from that without putting it together each time."""
        if name not in self._whole:
            found = self.column(name).combine_chunks()
            if isinstance(found, pa.ChunkedArray):  # more text than one array holds
                return found
            self._whole[name] = found
        return self._whole[name]

    def times(self, ticks: Int64s) -> pa.Array:
        """Ticks as values of the stream's time column."""
        values = pa.array(ticks, pa.int64())
        if self.time_type == values.type:
            return values
        if pa.types.is_date32(self.time_type):
            values = values.cast(pa.int32())
        return values.cast(self.time_type)


def read_events(path: str, stream: Stream) -> Events:
    """The events of a file, a folder or a glob."""
    return from_table(read_table(path), stream, path)


def from_table(table: pa.Table, stream: Stream, source: str | None = None) -> Events:
    """A table of columns as events; raises `EventsError` where the stream cannot be read so."""
    where = "the events" if source is None else f"'{source}'"
    if table.num_rows == 0 and table.num_columns == 0:
        table = pa.table({stream.time: pa.array([], pa.int64())})
    repeated = [n for n in table.column_names if table.column_names.count(n) > 1]
    if repeated:
        raise EventsError(f"{where}: two columns are called '{repeated[0]}'; rename one")
    for name, role in (
        (stream.time, "time"),
        (stream.type, "type"),
        (stream.sequence, "sequence"),
    ):
        needed = table.num_rows > 0 or role == "time"
        if needed and name is not None and name not in table.column_names:
            raise EventsError(
                f"{where}: no column '{name}', which the stream declares as its {role} column; "
                + columns_hint(name, table.schema)
            )
    table = pa.table(
        {name: _plain(table.column(name)) for name in table.column_names},
    )
    ticks, tick, time_type = _times(table.column(stream.time), stream, where)
    sequence = None
    if stream.sequence is not None and stream.sequence in table.column_names:
        sequence = _sequence(table.column(stream.sequence), stream.sequence, where)
    elif stream.sequence is not None:
        sequence = np.zeros(0, np.int64)
    order = _order(ticks, sequence)
    if order is not None:
        table, ticks = table.take(pa.array(order)), ticks[order]
        sequence = None if sequence is None else sequence[order]
    return Events(table, ticks, sequence, tick, time_type, stream.time)


def column_kinds(schema: pa.Schema) -> dict[str, Kind]:
    """The kind of each column, for checking a workload against the events at hand."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(type_: pa.DataType) -> Kind:
    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if pa.types.is_integer(type_):
        return "int"
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_temporal(type_):
        return "time"
    # A column without any value may stand for numbers as well as for anything else.
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_null(type_):
        return "float"
    return "string"


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decoded, doubles for every kind of real number, and null for what is not a number."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_uint64(kind):
        large = (pc.max(column).as_py() or 0) >= 2**63
        column = column.cast(pa.float64() if large else pa.int64(), safe=False)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
        missing = pc.is_nan(column)
        if pc.any(missing).as_py():
            column = pc.if_else(missing, pa.scalar(None, pa.float64()), column)
    return column


def _times(column: pa.ChunkedArray, stream: Stream, where: str) -> tuple[Int64s, int, pa.DataType]:
    """Ticks, nanoseconds in one, and the type of the times in results."""
    name, kind = stream.time, column.type
    if pa.types.is_null(kind) and len(column) == 0:
        column, kind = column.cast(pa.int64()), pa.int64()
    if pa.types.is_integer(kind):
        tick, result = NANOSECONDS[stream.unit], pa.int64()
    elif pa.types.is_timestamp(kind):
        tick, result = NANOSECONDS[kind.unit], kind
    elif pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
        tick, result = 86_400 * 10**9, pa.date32()
    else:
        raise EventsError(
            f"{where}: the time column '{name}' has type {kind}, which is no time; {TIMES}"
        )
    _no_nulls(column, name, "time", where)
    ticks = _int64s(column)
    if len(ticks) and max(abs(int(ticks.min())), abs(int(ticks.max()))) >= LARGEST_TICK:
        row = int(np.argmax(np.abs(ticks.astype(np.float64))))
        raise EventsError(
            f"{where}, row {row + 1}: the time {int(ticks[row])} in column '{name}' is out of "
            "range; use a coarser unit"
        )
    return ticks, tick, result


def _sequence(column: pa.ChunkedArray, name: str, where: str) -> Int64s:
    if pa.types.is_null(column.type) and len(column) == 0:
        column = column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise EventsError(
            f"{where}: the sequence column '{name}' has type {column.type}; "
            "number the events with integers"
        )
    _no_nulls(column, name, "sequence", where)
    return _int64s(column)


def _no_nulls(column: pa.ChunkedArray, name: str, role: str, where: str) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise EventsError(
            f"{where}, row {row + 1}: the {role} column '{name}' is null; "
            f"every event needs a {role}: fill it in or drop the row"
        )


def _int64s(column: pa.ChunkedArray) -> Int64s:
    values: Int64s = column.cast(pa.int64()).to_numpy()
    return values


def _order(ticks: Int64s, sequence: Int64s | None) -> Int64s | None:
    """The rows in order; None where they are in order already."""
    if sequence is None:
        in_order = bool((ticks[1:] >= ticks[:-1]).all())
        return None if in_order else np.argsort(ticks, kind="stable")
    ties = np.flatnonzero(ticks[1:] <= ticks[:-1])
    in_order = bool(
        (ticks[ties] == ticks[ties + 1]).all() and (sequence[ties] <= sequence[ties + 1]).all()
    )
    return None if in_order else np.lexsort((sequence, ticks))


def columns_hint(name: str, schema: pa.Schema) -> str:
    """What columns there are, or the one that was probably meant."""
    if len(schema) == 1 and (mark := next((m for m in ";\t|" if m in schema.names[0]), None)):
        return f"its columns are separated by {mark!r}, and have to be by commas"
    close = did_you_mean(name, schema.names)
    shown = ", ".join(schema.names[:12]) + (", …" if len(schema.names) > 12 else "")
    return close or f"there are {shown}"
