"""Files of one of several sources, read as events of the stream that all make together.

Columns get the names that they have there, and times the type and the unit: whole numbers are
multiplied, so nothing of a time is lost. What is wrong with a row is told of its own columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from engines.input.column_types import SpoiltColumn
from engines.input.event_files import EventFile, ParquetFile, ParsedRows
from engines.input.event_rows import out_of_range, tick_range, ticks_and_faults
from engines.input.event_table import columns_hint
from engines.limits import EventsError
from workloads.sources import SEQUENCE, SOURCE, TIME, TYPE, common_name, roles
from workloads.workload import NANOSECONDS, Stream

_DAY = 86_400 * 10**9


class SourceColumns:
    """The columns of a source, `stored` as they are, and what they are in the whole stream."""

    def __init__(self, stored: pa.Schema, name: str, whole: Stream, place: str) -> None:
        self._stored, self._name, self._whole = stored, name, whole
        own = whole.sources[name].stream
        self._stream = own if whole.sequence else replace(own, sequence=None)
        # Where a file lacks one of these, each of its rows says so.
        self._own = {**roles(own, whole), **own_columns(stored, name, whole, place)}
        self.schema = common_schema(stored, name, whole, place)

    def own_name(self, common: str) -> str:
        """What the source calls a column."""
        return self._own.get(common, common)

    def wanted(self, schema: pa.Schema) -> pa.Schema:
        """What is to be read, so that columns of the whole stream can be made of it."""
        fields = []
        for name, own in self._own.items():
            if name not in schema.names:
                continue
            kind = schema.field(name).type
            if name == TIME:
                kind = self._stored.field(own).type if own in self._stored.names else pa.null()
                kind = pa.int64() if pa.types.is_null(kind) else kind
            fields.append(pa.field(own, kind))
        return pa.schema(fields)

    def as_whole(self, rows: ParsedRows, schema: pa.Schema) -> ParsedRows:
        """Rows that were read as is `wanted`, as events of the whole stream."""
        table, numbers, faults = rows
        stream, kind = self._stream, schema.field(TIME).type
        ticks, bad, wrong = ticks_and_faults(table, numbers + 1, stream)
        own_tick = tick_of(table.schema.field(stream.time).type, stream)
        factor = own_tick // tick_of(kind, self._whole)
        low, high = tick_range(kind)
        far = ((ticks >= -(-high // factor)) | (ticks <= low // factor)) & ~bad
        wrong += [out_of_range(numbers + 1, i, stream.time) for i in np.flatnonzero(far)]
        bad |= far
        times = _times(np.where(bad, 0, ticks) * factor, kind)
        found = pa.table([self._column(table, field, times) for field in schema], schema=schema)
        if bad.any():
            keep = np.flatnonzero(~bad)
            found, numbers = found.take(pa.array(keep)), numbers[keep]
        return found, numbers, sorted([*faults, *wrong])

    def _column(self, table: pa.Table, field: pa.Field, times: pa.Array) -> Any:
        if field.name == TIME:
            return times
        if field.name == SOURCE:
            return pa.repeat(self._name, len(table))
        own = self._own.get(field.name)
        if own is None or own not in table.column_names:
            return pa.nulls(len(table), field.type)
        return table.column(own)


class SourceFile:
    """A file of a source, with the columns of the whole stream."""

    def __init__(self, stored: EventFile, name: str, whole: Stream) -> None:
        self.stored, self.name = stored, stored.name
        self._columns = SourceColumns(stored.schema, name, whole, stored.name)
        self.schema = self._columns.schema

    def spoilt(self, names: set[str]) -> Iterator[SpoiltColumn]:
        """Those of the columns that a few texts keep from being numbers, as the file has them."""
        if not isinstance(self.stored, ParquetFile):
            yield from self.stored.spoilt({self._columns.own_name(name) for name in names})

    def read(
        self, schema: pa.Schema, batch_rows: int, part: tuple[int, int] | None = None
    ) -> Iterator[ParsedRows]:
        for rows in self.stored.read(self._columns.wanted(schema), batch_rows, part):
            yield self._columns.as_whole(rows, schema)


def as_stored(file: EventFile | SourceFile) -> EventFile:
    """The file that is read, whatever its columns are called."""
    return file.stored if isinstance(file, SourceFile) else file


def own_columns(schema: pa.Schema, name: str, whole: Stream, place: str) -> dict[str, str]:
    """A source's columns by what they are called in the whole stream.

    Raises `EventsError` where two would be called the same.
    """
    source, found = whole.sources[name], dict[str, str]()
    for own in schema.names:
        common = common_name(own, source, whole)
        is_role = own in roles(source.stream, whole).values()
        if common == SOURCE or (common in (TIME, TYPE, SEQUENCE) and not is_role):
            raise EventsError(
                f"'{place}': the column '{own}' is called like the {common} that events of every "
                f"source have; give it another name: 'rename: {{{own}: {name}_{own}}}' under "
                f"streams.{name}"
            )
        if common in found:
            raise EventsError(
                f"'{place}': the columns '{found[common]}' and '{own}' would both be called "
                f"'{common}'; rename one of them under streams.{name}"
            )
        found[common] = own
    return found


def common_schema(schema: pa.Schema, name: str, whole: Stream, place: str) -> pa.Schema:
    """The columns of a source as the whole stream calls them; times are as the source has them."""
    if not len(schema):
        return schema
    own = own_columns(schema, name, whole, place)
    fields = [pa.field(common, schema.field(column).type) for common, column in own.items()]
    if whole.type is not None and TYPE not in own:
        fields.append(pa.field(TYPE, pa.null()))
    return pa.schema([*fields, pa.field(SOURCE, pa.string())])


def known_columns(known: pa.Schema, name: str, whole: Stream) -> pa.Schema:
    """What a source calls the columns that are known of the whole stream."""
    source = whole.sources[name]
    own = {new: old for old, new in source.rename.items()} | roles(source.stream, whole)
    fields = [
        pa.field(own.get(field.name, field.name), field.type)
        for field in known
        if field.name != SOURCE and (field.name in own or field.name not in (TYPE, SEQUENCE))
    ]
    return pa.schema(fields)


def with_one_time(schemas: Iterable[tuple[str, pa.Schema]], whole: Stream) -> list[pa.Schema]:
    """The schemas of sources, by their names, with the type of time that all events get."""
    given = list(schemas)
    times = [
        (schema.field(TIME).type, whole.sources[name].stream)
        for name, schema in given
        if not pa.types.is_null(schema.field(TIME).type)
    ]
    kind = common_time(times)
    return [schema.set(schema.get_field_index(TIME), pa.field(TIME, kind)) for _, schema in given]


def common_time(times: Sequence[tuple[pa.DataType, Stream]]) -> pa.DataType:
    """The type of time in which those of all sources can be said exactly.

    Whole numbers stay such, in the finest unit. Beside timestamps they count from 1970, and those
    without a zone are in UTC.
    """
    kinds = [kind for kind, _ in times]
    if all(map(pa.types.is_integer, kinds)):
        return pa.int64()
    if all(map(pa.types.is_date, kinds)):
        return pa.date32()
    zones = {kind.tz for kind in kinds if pa.types.is_timestamp(kind) and kind.tz is not None}
    tick = min(tick_of(kind, stream) for kind, stream in times)
    unit = next(unit for unit, size in NANOSECONDS.items() if size <= tick)
    return pa.timestamp(unit, "UTC" if len(zones) > 1 else next(iter(zones), None))


def tick_of(kind: pa.DataType, stream: Stream) -> int:
    """Nanoseconds in a tick of times of a type."""
    if pa.types.is_timestamp(kind):
        return NANOSECONDS[kind.unit]
    return _DAY if pa.types.is_date(kind) else NANOSECONDS[stream.unit]


def unlike_columns(schemas: Iterable[tuple[str, pa.Schema]]) -> str | None:
    """What keeps sources from having one type for each column; None where nothing does."""
    first: dict[str, tuple[str, pa.DataType]] = {}
    for name, schema in schemas:
        for field in schema:
            if pa.types.is_null(field.type):
                continue
            other, kind = first.setdefault(field.name, (name, field.type))
            try:
                pa.unify_schemas(
                    [pa.schema([(field.name, kind)]), pa.schema([field])],
                    promote_options="permissive",
                )
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                return (
                    f"the column '{field.name}' has type {kind} in streams.{other} and "
                    f"{field.type} in streams.{name}; make them agree, or give one of them another "
                    "name with 'rename'"
                )
    return None


def check_renamed(schemas: Iterable[pa.Schema], name: str, whole: Stream, place: str) -> None:
    """Refuse names for columns that no file of a source has."""
    found = [schema for schema in schemas if len(schema)]
    source = whole.sources[name]
    if not found or source.stream.missing_columns == "ignore":
        return
    for own in source.rename:
        if not any(own in schema.names for schema in found):
            raise EventsError(
                f"'{place}': no column '{own}', which streams.{name} renames; "
                + columns_hint(own, found[0])
            )


def _times(ticks: np.ndarray, kind: pa.DataType) -> pa.Array:
    values = pa.array(ticks, pa.int64())
    if pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return values.cast(kind)
