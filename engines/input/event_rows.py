"""Which rows are events: those with a time, and with a number where the stream has a sequence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_table import LARGEST_TICK, TIMES, Fault, columns_hint
from engines.limits import EventsError
from workloads.workload import NANOSECONDS, Stream

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_800  # of the years 1 to 9999


def ticks_and_faults(
    table: pa.Table, rows: Int64s, stream: Stream
) -> tuple[Int64s, Bools, list[Fault]]:
    """The ticks of rows, which of them are no events, and why; `rows` are their numbers."""
    column = table.column(stream.time)
    ticks, bad = ticks_of(column)
    wrong = [
        out_of_range(rows, i, stream.time)
        if column[int(i)].is_valid
        else _null(rows, i, stream.time, "time")
        for i in np.flatnonzero(bad)
    ]
    if (name := stream.sequence) is not None and table.column(name).null_count:
        missing = np.asarray(pc.is_null(table.column(name))) & ~bad
        wrong += [_null(rows, i, name, "sequence number") for i in np.flatnonzero(missing)]
        bad |= missing
    return ticks, bad, wrong


def out_of_range(rows: Int64s, place: np.int64, name: str) -> Fault:
    """That the time of a row is none that can be counted."""
    return Fault(int(rows[place]), "time out of range", "the time is out of range", name)


def _null(rows: Int64s, place: np.int64, name: str, what: str) -> Fault:
    message = f"it is null; every event needs a {what}: fill it in or drop the row"
    return Fault(int(rows[place]), f"null {what}", message, name)


def ticks_of(column: pa.ChunkedArray) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Times as ticks, and which rows have none."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    bad = np.zeros(len(column), np.bool_)
    if column.null_count:
        bad |= np.asarray(pc.is_null(column))
        column = pc.fill_null(column, 0)
    values = np.asarray(column)
    low, high = tick_range(kind)
    ends = pc.min_max(column).as_py()
    if ends["min"] is not None and low < ends["min"] <= ends["max"] < high:
        return values.astype(np.int64, copy=False), bad
    outside = (values >= high) | (values <= low)
    if outside.any():
        values = np.where(outside, 0, values)
        bad |= outside
    return values.astype(np.int64, copy=False), bad


def tick_range(kind: pa.DataType) -> tuple[int, int]:
    """The ticks between which times are: those of moments in years that calendars have."""
    low, high = -LARGEST_TICK, LARGEST_TICK
    if pa.types.is_date(kind):
        return _FIRST_SECOND // 86_400, _LAST_SECOND // 86_400
    if pa.types.is_timestamp(kind):
        scale = NANOSECONDS["s"] // NANOSECONDS[kind.unit]
        return max(low, _FIRST_SECOND * scale), min(high, _LAST_SECOND * scale)
    return low, high


def check_columns(schema: pa.Schema, stream: Stream, file: str) -> None:
    """Raise what no row of the file can be right with."""
    if not len(schema):
        return
    if repeated := [name for name in schema.names if schema.names.count(name) > 1]:
        raise EventsError(f"'{file}': two columns are called '{repeated[0]}'; rename one")
    roles = ((stream.time, "time"), (stream.type, "type"), (stream.sequence, "sequence"))
    for name, role in roles:
        if name is not None and name not in schema.names:
            raise EventsError(
                f"'{file}': no column '{name}', which the stream declares as its {role} column; "
                + columns_hint(name, schema)
            )
    kind = schema.field(stream.time).type
    tests = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date, pa.types.is_null)
    if not any(test(kind) for test in tests):
        raise EventsError(
            f"'{file}': the time column '{stream.time}' has type {kind}, which is no time; {TIMES}"
        )
    if stream.sequence is not None:
        kind = schema.field(stream.sequence).type
        if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise EventsError(
                f"'{file}': the sequence column '{stream.sequence}' has type {kind}; "
                "number the events with integers"
            )
    for name, declared in stream.attributes.items():
        if declared in ("int", "float") and name in schema.names:
            kind = schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                raise EventsError(
                    f"'{file}': the column '{name}' has type {kind}, and the stream declares "
                    f"{declared}; store numbers, or declare string"
                )
