"""Events as a table in memory, read from files by path, folder or glob; rows that are no events."""

from __future__ import annotations

import glob
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal as OneOf
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from engines.limits import BadRowError, EventsError
from workloads.errors import did_you_mean
from workloads.workload import NANOSECONDS, AttributeKind, Stream

__all__ = ["Events", "column_kinds", "from_table", "read_events", "read_table"]

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d")  # the start of one


def with_times(table: pa.Table) -> pa.Table:
    """Texts that are times as such: from JSON, Arrow takes only whole seconds for times."""
    for place, column in enumerate(table.schema):
        if pa.types.is_string(column.type):
            times = as_times(table.column(place))
            if times is not None:
                table = table.set_column(place, column.name, times)
    return table


def as_times(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Texts as moments, all with a zone or all without; None where one of them is something else.

    A date alone, and an empty column, stay as they are.
    """
    first = next((text.as_py() for text in texts if text.is_valid), "")
    if not _MOMENT.match(first):
        return None
    for zone in (None, "UTC"):
        try:
            return texts.cast(pa.timestamp("ns", zone))
        except pa.ArrowInvalid:
            continue
    return None


OnError = OneOf["stop", "skip"]


@dataclass(frozen=True, order=True)
class Fault:
    """What is wrong with a row; `kind` is what faults of its like are counted under."""

    row: int  # of the file's data rows, the first is 1
    kind: str
    message: str
    column: str | None = None


@dataclass
class Faults:
    """What is done about faults, and what has been."""

    on_error: OnError = "stop"
    counts: Counter[str] = field(default_factory=Counter)
    first: str | None = None

    @property
    def total(self) -> int:
        return self.counts.total()

    def report(self, file: str, faults: list[Fault]) -> None:
        """Raise the first in the order of rows, or count them all."""
        for fault in sorted(faults):
            column = "" if fault.column is None else f", column '{fault.column}'"
            text = f"'{file}', row {fault.row}{column}: {fault.message}"
            if self.on_error == "stop":
                raise BadRowError(text)
            self.counts[fault.kind] += 1
            self.first = self.first or text


_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
ENDINGS = tuple(_FORMATS)

# Blocks must be smaller than what 32-bit offsets reach.
_LARGEST_BLOCK = 2**31 - 2**20


def read_table(path: str) -> pa.Table:
    """All rows under a path, the files in the order of their names, with the union of columns."""
    files = list_files(path)
    parquet = [f for f in files if format_of(f) == "parquet"]
    tables = [_read(file) for file in files if format_of(file) != "parquet"]
    if parquet:
        base = path if Path(path).is_dir() else None
        tables.insert(0, _read_parquet(parquet, base))
    tables = [t for t in tables if t.num_columns] or [pa.table({})]
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowInvalid as error:
        raise EventsError(
            f"'{path}': its files do not have the same columns: {_first_line(error)}; "
            "make the types agree"
        ) from error
    except pa.ArrowTypeError as error:
        raise EventsError(
            f"'{path}': a column has different types in different files: {_first_line(error)}; "
            "make them agree"
        ) from error


def list_files(path: str) -> list[str]:
    """The files of events that a path stands for, in the order of their names."""
    target = Path(path)
    if target.is_dir():
        found = [
            str(file)
            for file in sorted(target.rglob("*"))
            if file.is_file()
            and format_of(str(file)) is not None
            and not any(p.startswith(("_", ".")) for p in file.relative_to(target).parts)
        ]
        if not found:
            raise EventsError(f"the folder '{path}' has no file ending in {', '.join(ENDINGS)}")
        return found
    # Only then a pattern: a file's name may well have brackets in it. (`Path.glob` takes no
    # absolute ones.)
    found = [path] if target.is_file() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    found = [file for file in found if Path(file).is_file()]
    if not found:
        raise EventsError(f"there is no file '{path}'; give a file, a folder or a glob of events")
    for file in found:
        if format_of(file) is None:
            raise EventsError(
                f"'{file}' does not end in {', '.join(ENDINGS)}, by which its format is known"
            )
    return found


def format_of(file: str) -> str | None:
    """`parquet`, `csv` or `json` by the ending; None for any other file."""
    name = Path(file).name.lower()
    return next((kind for ending, kind in _FORMATS.items() if name.endswith(ending)), None)


def _read_parquet(files: list[str], base: str | None) -> pa.Table:
    from pyarrow import dataset  # which brings pandas along: half a second

    try:
        schemas = [dataset.dataset(f, format="parquet").schema for f in files[:1]]
        source = dataset.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=base
        )
        if len(files) > 1:
            schemas = [fragment.physical_schema for fragment in source.get_fragments()]
            unified = pa.unify_schemas([source.schema, *schemas], promote_options="permissive")
            source = source.replace_schema(unified)
        return source.to_table()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise EventsError(
            f"'{files[0] if len(files) == 1 else base or files[0]}' cannot be read as Parquet: "
            f"{_first_line(error)}"
        ) from error


def _read(file: str) -> pa.Table:
    try:
        return _read_csv(file) if format_of(file) == "csv" else _read_json(file)
    except pa.ArrowInvalid as error:
        raise EventsError(
            f"'{file}' cannot be read: {_first_line(error)}; "
            "every row needs the same columns, and every column values of one kind"
        ) from error
    except OSError as error:
        raise EventsError(f"'{file}' cannot be read: {error.strerror or error}") from error


def _read_csv(file: str) -> pa.Table:
    # An empty field is null, also in a column of strings; "" in quotes is the empty string.
    convert = pyarrow.csv.ConvertOptions(
        null_values=["", "null", "NULL"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    size = Path(file).stat().st_size
    if size == 0:
        return pa.table({})
    try:
        return pyarrow.csv.read_csv(file, convert_options=convert)
    except pa.ArrowInvalid:
        # Types are guessed from the first block: with one large block, from all rows.
        expanded = size * (20 if file.lower().endswith(".gz") else 1)
        options = pyarrow.csv.ReadOptions(block_size=min(max(expanded, 2**20), _LARGEST_BLOCK))
        return pyarrow.csv.read_csv(file, options, convert_options=convert)


def _read_json(file: str) -> pa.Table:
    text = Path(file).read_bytes()
    start = text[:4096].lstrip()
    if not text.strip():
        return pa.table({})
    if start.startswith(b"["):
        try:
            return with_times(pa.Table.from_pylist(json.loads(text)))
        except (ValueError, AttributeError, TypeError) as error:
            raise EventsError(
                f"'{file}' is not a list of JSON objects: {_first_line(error)}; "
                "write one object a line"
            ) from error
    source = pa.BufferReader(text)
    try:
        return with_times(pyarrow.json.read_json(source))
    except pa.ArrowInvalid:
        options = pyarrow.json.ReadOptions(
            block_size=min(max(len(text) + 1, 2**20), _LARGEST_BLOCK)
        )
        return with_times(pyarrow.json.read_json(pa.BufferReader(text), options))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].strip()


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


def column_kinds(schema: pa.Schema) -> dict[str, AttributeKind]:
    """The kind of each column, for checking a workload against the events at hand."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(type_: pa.DataType) -> AttributeKind:
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
