"""Events as a table in memory, read from files by path, folder or glob; rows that are no events."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.lake_tables import EventFiles, check_no_table, table_files, table_kind
from engines.input.text_bytes import PACKED
from engines.input.time_texts import time_reader, time_type
from engines.limits import BadRowError, EventsError
from optimizer.ir.keys import is_added
from workloads.errors import UnsupportedError, did_you_mean
from workloads.workload import NANOSECONDS, AttributeKind, Stream

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


_TEXTS = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json"}
_FORMATS = {
    ".parquet": "parquet",
    **{text + packed: kind for packed in ("", *PACKED) for text, kind in _TEXTS.items()},
}
ENDINGS = tuple(_FORMATS)
_SHOWN_ENDINGS = f"{', '.join(['.parquet', *_TEXTS])} (these also with {' or '.join(PACKED)})"
# Files in a folder of events that would be left out without a word.
_OTHER_ENDINGS = tuple(text + packed for text in _TEXTS for packed in (".bz2", ".xz", ".zip"))
_OTHER_ENDINGS += (".xlsx", ".xls", ".orc", ".avro")


def list_files(path: str) -> list[str]:
    """The files of events that a path stands for."""
    return find_files(path).names


def find_files(path: str) -> EventFiles:
    """The files of events that a path stands for, in the order of their names.

    The folder of a table stands for those that are its rows now.
    """
    target = Path(path)
    if target.is_dir():
        kind = table_kind(target)
        return EventFiles(_files_under(target, path)) if kind is None else table_files(target, kind)
    # Only then a pattern: a file's name may well have brackets in it. (`Path.glob` takes no
    # absolute ones.)
    if target.is_file():
        found = [path]
    else:
        found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
        found = [file for file in found if Path(file).is_file()]
        for folder in dict.fromkeys(Path(file).parent for file in found):
            check_no_table(folder)
    if not found:
        raise EventsError(f"there is no file '{path}'; give a file, a folder or a glob of events")
    for file in found:
        if format_of(file) is None:
            raise EventsError(
                f"'{file}' does not end in {_SHOWN_ENDINGS}, by which its format is known"
            )
    return EventFiles(found)


def _files_under(folder: Path, path: str) -> list[str]:
    if not os.access(folder, os.R_OK | os.X_OK):
        raise EventsError(
            f"'{path}' cannot be read: permission denied; allow the user who runs this to read it"
        )
    inside = sorted(folder.rglob("*"))
    for below in (folder, *(file for file in inside if file.is_dir())):
        check_no_table(below)
    seen = [
        file
        for file in inside
        if file.is_file()
        and not any(p.startswith(("_", ".")) for p in file.relative_to(folder).parts)
    ]
    found = [str(file) for file in seen if format_of(str(file)) is not None]
    other = next((file for file in seen if file.name.lower().endswith(_OTHER_ENDINGS)), None)
    if other is not None:
        raise EventsError(
            f"'{other}' is in a folder of events, and does not end in {_SHOWN_ENDINGS}; unpack it, "
            "convert it, or take it out of the folder"
        )
    if not found:
        raise EventsError(f"the folder '{path}' has no file ending in {_SHOWN_ENDINGS}")
    return found


def format_of(file: str) -> str | None:
    """`parquet`, `csv` or `json` by the ending; None for any other file."""
    name = Path(file).name.lower()
    return next((kind for ending, kind in _FORMATS.items() if name.endswith(ending)), None)


Int64s: TypeAlias = npt.NDArray[np.int64]

# Times and window sizes are both below this, so their sums and differences never overflow.
LARGEST_TICK = 2**62
TIMES = (
    "write 2024-03-01T10:00:00 or the like, or numbers of the stream's unit, or give the "
    "stream a format, such as '%d/%m/%Y %H:%M'"
)


class ColumnCodes(NamedTuple):
    """A column as numbers of its distinct values, -1 for null."""

    numbers: npt.NDArray[np.int32]
    values: pa.Array


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
    ignores_missing: bool = False  # a column that is not there is null
    _whole: dict[str, pa.Array] = field(default_factory=dict, init=False, repr=False)
    _codes: dict[str, ColumnCodes] = field(default_factory=dict, init=False, repr=False)
    _part_of: tuple[Events, int] | None = (
        None  # the events that it is a part of, and from which row
    )

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """An attribute of the events; `time` is the time column where no column has that name."""
        found = column_at(self.table, name)
        if found is not None:
            return found
        if name == "time":
            return self.table.column(self.time_column)
        if is_added(name):  # until events are taken by key, any may be of a partition
            return pa.chunked_array([pa.repeat(True, len(self))])
        if self.ignores_missing:
            return pa.chunked_array([pa.nulls(len(self))])
        raise EventsError(
            f"the events have no column '{name}'; {columns_hint(name, self.table.schema)}"
        )

    def has(self, name: str) -> bool:
        """Is it the time, a column, or a field of a struct by its path?"""
        return name == "time" or top_column(name, self.table.schema) is not None

    @property
    def names(self) -> list[str]:
        """The columns that events came with."""
        return [name for name in self.table.column_names if not is_added(name)]

    def distinct(self, name: str) -> pa.Array:
        """The distinct values of a column; of one of lists, those in any of them."""
        column = self.column(name)
        if not is_list(column.type):
            return self.codes(name).values
        return pc.unique(pc.list_flatten(column))

    def whole(self, name: str) -> pa.Array:
        """A column in one piece: rows are taken from that without putting it together each time."""
        if self._part_of is not None:
            events, first = self._part_of
            return events.whole(name).slice(first, len(self))
        if name not in self._whole:
            found = self.column(name).combine_chunks()
            if isinstance(found, pa.ChunkedArray):  # more text than one array holds
                return found
            self._whole[name] = found
        return self._whole[name]

    def codes(self, name: str) -> ColumnCodes:
        """A column as numbers of its distinct values; zeros of both signs are one value."""
        if self._part_of is not None:
            events, first = self._part_of
            known = events.codes(name)
            return ColumnCodes(known.numbers[first : first + len(self)], known.values)
        if name not in self._codes:
            column = self.column(name)
            if pa.types.is_nested(column.type):
                raise UnsupportedError(
                    f"column '{name}' has type {column.type}: its values can be returned, and "
                    "lists compared with values, but not be keys"
                )
            if pa.types.is_floating(column.type):
                column = pc.add(column, 0.0)
            encoded = pc.dictionary_encode(column).combine_chunks()
            indices = encoded.indices
            numbers = np.asarray(pc.fill_null(indices, -1) if indices.null_count else indices)
            self._codes[name] = ColumnCodes(numbers, encoded.dictionary)
        return self._codes[name]

    def part(self, first: int, end: int) -> Events:
        """The events from a row to before another, which have their codes from these."""
        if first == 0 and end == len(self):
            return self
        sequence = None if self.sequence is None else self.sequence[first:end]
        whole, before = self._part_of or (self, 0)
        return replace(
            self,
            table=self.table.slice(first, end - first),
            ticks=self.ticks[first:end],
            sequence=sequence,
            _part_of=(whole, before + first),
        )

    def times(self, ticks: Int64s) -> pa.Array:
        """Ticks as values of the stream's time column."""
        values = pa.array(ticks, pa.int64())
        if self.time_type == values.type:
            return values
        if pa.types.is_date32(self.time_type):
            values = values.cast(pa.int32())
        return values.cast(self.time_type)


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
    place = table.column_names.index(stream.time)
    table = table.set_column(place, stream.time, _read_times(table.column(place), stream, where))
    ticks, tick, kind = _times(table.column(place), stream, where)
    sequence = None
    if stream.sequence is not None and stream.sequence in table.column_names:
        sequence = _sequence(table.column(stream.sequence), stream.sequence, where)
    elif stream.sequence is not None:
        sequence = np.zeros(0, np.int64)
    order = _order(ticks, sequence)
    if order is not None:
        table, ticks = table.take(pa.array(order)), ticks[order]
        sequence = None if sequence is None else sequence[order]
    ignores_missing = stream.missing_columns == "ignore"
    return Events(table, ticks, sequence, tick, kind, stream.time, ignores_missing)


def column_kinds(schema: pa.Schema) -> dict[str, AttributeKind]:
    """The kind of each column, for checking a workload against the events at hand.

    Fields of structs are there by their paths, unless a column has that very name.
    """
    found: dict[str, AttributeKind] = {}
    for column in schema:
        for name, kind in _fields_of(column):
            found.setdefault(name, kind)
    return {**found, **{field.name: _kind(field.type) for field in schema}}


def _fields_of(field: pa.Field) -> Iterator[tuple[str, AttributeKind]]:
    yield field.name, _kind(field.type)
    structs = field.type.value_type if _is_list_of_structs(field.type) else field.type
    if pa.types.is_struct(structs):
        for inner in structs:
            yield from ((f"{field.name}.{name}", kind) for name, kind in _fields_of(inner))


def is_list(kind: pa.DataType) -> bool:
    """A list of values that can be compared."""
    is_one = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_one and not pa.types.is_nested(kind.value_type))


def top_column(name: str, schema: pa.Schema) -> str | None:
    """The column that a name or a path is of; None where there is none such."""
    if name in schema.names:
        return name
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        column = ".".join(parts[:count])
        if column in schema.names:
            kind = schema.field(column).type
            return column if _has_path(kind, parts[count:]) else None
    return None


def _has_path(kind: pa.DataType, parts: Sequence[str]) -> bool:
    for part in parts:
        if _is_list_of_structs(kind):
            kind = kind.value_type
        place = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if place < 0:
            return False
        kind = kind.field(place).type
    return True


def _is_list_of_structs(kind: pa.DataType) -> bool:
    is_one = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_one and pa.types.is_struct(kind.value_type))


def _field(column: pa.Array, parts: Sequence[str]) -> pa.Array:
    """A field by its path; of structs in a list it is the list of theirs."""
    for place, part in enumerate(parts):
        if _is_list_of_structs(column.type):
            inner = _field(pc.list_flatten(column), parts[place:])
            sizes = pc.fill_null(pc.list_value_length(column), 0)
            ends = np.concatenate([[0], np.cumsum(np.asarray(sizes))])
            lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), inner)
            return pc.if_else(pc.is_valid(column), lists, pa.scalar(None, lists.type))
        column = pc.struct_field(column, part)
    return column


def column_at(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """A column, or a field of structs by its path; None where there is none such.

    A field of structs in a list is the list of their values.
    """
    column = top_column(name, table.schema)
    if column is None:
        return None
    found = table.column(column)
    if column == name:
        return found
    path = name[len(column) + 1 :].split(".")
    if not _passes_list(found.type, path):
        return _plain(pc.struct_field(found, path))
    chunks = [_field(chunk, path) for chunk in found.chunks]
    return pa.chunked_array(chunks or [_field(found.combine_chunks(), path)])


def _passes_list(kind: pa.DataType, parts: Sequence[str]) -> bool:
    for part in parts:
        if _is_list_of_structs(kind):
            return True
        kind = kind.field(part).type
    return False


def _kind(type_: pa.DataType) -> AttributeKind:
    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if is_list(type_):
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
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string())  # Arrow's own doubles of decimals are not the nearest
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
        missing = pc.is_nan(column)
        if pc.any(missing).as_py():
            column = pc.if_else(missing, pa.scalar(None, pa.float64()), column)
    return column


def _read_times(column: pa.ChunkedArray, stream: Stream, where: str) -> pa.ChunkedArray:
    """Times that are written in the stream's format, or have fractions, as timestamps."""
    kind = time_type(column.type, stream)
    reader = time_reader(stream, kind)
    if kind == column.type or reader is None:
        return column
    parts = []
    for chunk in column.chunks:
        found, bad = reader.read(chunk, kind)
        if bad.any():
            value = chunk[int(np.argmax(bad))].as_py()
            raise EventsError(
                f"{where}: the time column '{stream.time}' has {value!r}, which is no "
                f"{reader.expected}"
            )
        parts.append(found)
    return pa.chunked_array(parts, kind)


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
        return f"its columns seem to be separated by {mark!r}: name one of them as the time column"
    close = did_you_mean(name, schema.names)
    shown = ", ".join(schema.names[:12]) + (", …" if len(schema.names) > 12 else "")
    return close or f"there are {shown}"
