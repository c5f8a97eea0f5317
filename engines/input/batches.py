"""Events of files in batches: the columns that queries need, and how late events may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_files import (
    EventFile,
    LinesFile,
    ParquetFile,
    ParsedRows,
    open_lines,
    open_parquet,
    take_spent,
)
from engines.input.event_table import (
    LARGEST_TICK,
    TIMES,
    Events,
    Fault,
    Faults,
    OnError,
    column_kinds,
    columns_hint,
    format_of,
    from_table,
    is_list,
    list_files,
)
from engines.input.time_texts import time_type
from engines.limits import EventsError
from optimizer.ir.pattern import events
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnEvents,
    ReturnValue,
)
from workloads import expressions as ex
from workloads.errors import Diagnostic, WorkloadError
from workloads.syntax import All
from workloads.workload import NANOSECONDS, AttributeKind, Stream, Workload, print_nanoseconds


def needed_columns(workload: BoundWorkload, names: Iterable[str]) -> list[str]:
    """Those of `names` that the workload needs, in their order."""
    given = list(names)
    if any(_needs_all(query) for query in workload.queries):
        return given
    used = named_columns(workload)
    # A field of a struct is read with the struct; its path says of which column it is.
    used |= {name[:end] for name in used for end, mark in enumerate(name) if mark == "."}
    return [name for name in given if name in used]


def named_columns(workload: BoundWorkload) -> set[str]:
    """The names that a workload's stream and its queries call columns by."""
    stream = workload.stream
    used = {name for name in (stream.time, stream.type, stream.sequence) if name is not None}
    for query in workload.queries:
        used |= set(_attributes(query))
        named = (*(event.symbol.type for event in events(query.pattern)), *query.window.of)
        for condition in map(stream.types.get, named):
            if condition is not None:
                used |= set(_names(condition))
    return used


def _needs_all(query: Query) -> bool:
    """Whole events are returned, or simultaneous ones put in order by all that they hold."""
    if any(isinstance(event.quantifier, All) for event in events(query.pattern)):
        return True
    output = query.output
    return not isinstance(output, Aggregation) and any(
        isinstance(item, ReturnAlias | ReturnEvents) for item in output.items
    )


def compared_columns(workload: BoundWorkload) -> set[str]:
    """The columns whose values are compared or computed with; others are at most returned."""
    stream = workload.stream
    used = set() if stream.type is None else {stream.type}
    for condition in stream.types.values():
        if condition is not None:
            used |= set(_names(condition))
    for query in workload.queries:
        used |= {*_attributes(query, returned=False)}
    return used


def check_compared(schema: pa.Schema, workload: BoundWorkload, path: str) -> None:
    """Refuse columns that queries compare and whose values have no order, such as maps.

    A list is compared value by value, but there is no sum of lists, and an event has one type.
    """
    compared = compared_columns(workload)
    one_value = {workload.stream.type, *_aggregated(workload)}
    for column in schema:
        if column.name == workload.stream.type and pa.types.is_temporal(column.type):
            raise EventsError(
                f"'{path}': the type column '{column.name}' has type {column.type}; store the "
                "name of a type"
            )
        is_listed = is_list(column.type) and column.name not in one_value
        kind = column.type.value_type if is_listed else column.type
        if column.name in compared and not _is_comparable(kind):
            raise EventsError(
                f"'{path}': the column '{column.name}' has type {column.type}, and queries compare "
                "its values or divide the stream by them: store a number, a text, a truth value "
                "or a time, or only return it"
            )


def _aggregated(workload: BoundWorkload) -> Iterator[str]:
    for query in workload.queries:
        if isinstance(query.output, Aggregation):
            operands = (aggregate.operand for aggregate in query.output.items)
            yield from (
                name for operand in operands if operand is not None for name in _names(operand)
            )


def _is_comparable(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_comparable(kind.value_type)
    tests = (
        pa.types.is_null,
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_timestamp,
        pa.types.is_date,
    )
    return any(test(kind) for test in tests)


def _attributes(query: Query, returned: bool = True) -> Iterator[str]:
    yield from query.key
    yield from (column for key in query.tied_key for _, column in key.columns)
    yield from (key.attribute for key in query.groups)
    for event in events(query.pattern):
        for predicate in event.symbol.predicates:
            yield from _names(predicate)
    for condition in query.conditions:
        yield from _names(condition)
    if isinstance(query.output, Aggregation):
        for aggregate in query.output.items:
            if aggregate.operand is not None:
                yield from _names(aggregate.operand)
        if query.output.having is not None:
            yield from _names(query.output.having)
        return
    for item in query.output.items:
        if isinstance(item, ReturnAttribute):
            if returned:
                yield item.attribute
        elif isinstance(item, ReturnValue):
            yield from _names(item.value)


def _names(expression: ex.Expression) -> Iterator[str]:
    return iter(sorted(ex.attributes(expression)))


BATCH_ROWS = 131_072
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_800  # of the years 1 to 9999

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some events of a file in the order they are stored in: their ticks and row numbers."""

    table: pa.Table
    ticks: Int64s
    file: str
    rows: Int64s  # the file's first is 1

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, keep: Int64s) -> Batch:
        return Batch(self.table.take(pa.array(keep)), self.ticks[keep], self.file, self.rows[keep])


class FileSource:
    """The files under a path; `schema` has the union of their columns.

    Raises `EventsError` where a file as a whole is no stream of events; what is wrong with single
    rows goes to `faults`. `progress` hears how much has been read, from 0 to 1. Where a `schema` is
    given, columns are read as it says, whatever they look like here.
    """

    def __init__(
        self,
        path: str,
        stream: Stream,
        faults: Faults,
        batch_rows: int = BATCH_ROWS,
        progress: Callable[[float], None] = lambda part: None,
        schema: pa.Schema | None = None,
    ) -> None:
        self.path, self._stream, self.faults = path, stream, faults
        self._batch_rows, self._told = batch_rows, progress
        files = list_files(path)
        sizes = np.array([Path(file).stat().st_size for file in files], np.float64)
        before = np.cumsum(sizes) - sizes
        total = max(float(sizes.sum()), 1.0)
        self._share = {
            file: (float(start) / total, float(size) / total)
            for file, start, size in zip(files, before, sizes, strict=True)
        }
        base = path if Path(path).is_dir() else None
        parquet = open_parquet([f for f in files if format_of(f) == "parquet"], base)
        self._files: list[EventFile] = [
            ParquetFile(file, *parquet[file], self._progress, stream)
            if file in parquet
            else open_lines(file, stream, self._progress)
            for file in files
        ]
        self.schema = self._unified() if schema is None else schema

    @property
    def tick(self) -> int:
        """Nanoseconds in one tick of the events' time."""
        if self._stream.time not in self.schema.names:
            return NANOSECONDS[self._stream.unit]
        kind = self.schema.field(self._stream.time).type
        if pa.types.is_timestamp(kind):
            return NANOSECONDS[kind.unit]
        return 86_400 * 10**9 if pa.types.is_date(kind) else NANOSECONDS[self._stream.unit]

    @property
    def time_type(self) -> pa.DataType:
        """The type of the events' time once it is read."""
        names = self.schema.names
        time = self._stream.time
        return self.schema.field(time).type if time in names else pa.int64()

    @property
    def kinds(self) -> dict[str, AttributeKind] | None:
        """The kind of each column; None where all files are empty, and may stand for any."""
        return column_kinds(self.schema) if any(len(f.schema) for f in self._files) else None

    def spoilt(self, workload: Workload) -> list[str]:
        """A sentence for each column that queries name and that a few texts keep from numbers."""
        from optimizer.bind.binder import bind

        bound = bind(workload)
        names = named_columns(bound)
        found = [
            (file.name, column)
            for file in self._files
            if isinstance(file, LinesFile)
            for column in file.spoilt(names)
        ]
        stream = bound.stream
        names -= {stream.time, stream.type or "", stream.sequence or ""}
        declared = {n: kind for n, kind in column_kinds(self.schema).items() if n in names}
        declared |= {column.name: column.kind for _, column in found}
        return [column.sentence(file, declared) for file, column in found]

    def bind(self, workload: Workload) -> BoundWorkload:
        """The workload over these columns; an error says where it is the data that do not fit."""
        from optimizer.bind.binder import bind

        try:
            bound = bind(workload, self.kinds)
        except WorkloadError as error:
            raise self.explained(error, workload) from error
        check_compared(self.schema, bound, self.path)
        return bound

    def explained(self, error: WorkloadError, workload: Workload) -> WorkloadError:
        """The error, or what keeps columns from being numbers where that is behind it."""
        try:
            spoilt = self.spoilt(workload)
        except WorkloadError:
            return error  # there is something wrong with it whatever the events
        if not spoilt:
            return error
        kinds = ("string", "text", "number")
        others = [
            finding
            for finding in error.diagnostics
            if not any(kind in f"{finding.message} {finding.hint}" for kind in kinds)
        ]
        return WorkloadError([*(Diagnostic(sentence) for sentence in spoilt), *others])

    def assume(self, names: Iterable[str]) -> None:
        """Take it that there are columns of these names, where all files are empty."""
        if self.kinds is None:
            more = sorted(set(names) - {*self.schema.names, "time"})
            self.schema = pa.schema([*self.schema, *((name, pa.null()) for name in more)])

    @property
    def files(self) -> Sequence[EventFile]:
        """The files, each of which can be read in another process too."""
        return self._files

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The events, with the given columns of `schema`."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for file in self._files:
            pieces = file.read(schema, self._batch_rows)
            yield from checked(pieces, file.name, self._stream, self.faults, self._batch_rows)

    def only(self, groups: Mapping[str, Sequence[int]]) -> None:
        """Read only these row groups of Parquet files, which are given by the names of files."""
        for file in self._files:
            if isinstance(file, ParquetFile) and file.name in groups:
                file.chosen = tuple(groups[file.name])

    @property
    def read(self) -> dict[str, int]:
        """Bytes and row groups that were read, of how many; of text the bytes of whole files."""
        stored = [file for file in self._files if isinstance(file, ParquetFile)]
        lines = [file for file in self._files if not isinstance(file, ParquetFile)]
        size = sum(Path(file.name).stat().st_size for file in lines)
        return {
            "bytes": size + sum(file.bytes for file in stored),
            "row_groups": sum(file.row_groups for file in stored),
            "of": sum(file.all_groups for file in stored),
        }

    def take_spent(self) -> int:
        """Nanoseconds of CPU that threads have read for since it was last asked."""
        return take_spent(self._files)

    def _progress(self, file: str, part: float) -> None:
        start, size = self._share[file]
        self._told(start + size * part)

    def _unified(self) -> pa.Schema:
        for file in self._files:
            check_columns(file.schema, self._stream, file.name)
        schemas = [file.schema for file in self._files if len(file.schema)]
        if not schemas:
            written = pa.int64() if self._stream.format is None else pa.string()
            roles: dict[str | None, pa.DataType] = {
                self._stream.time: time_type(written, self._stream)
            }
            roles[self._stream.type] = pa.string()
            roles[self._stream.sequence] = pa.int64()
            return pa.schema([(name, kind) for name, kind in roles.items() if name is not None])
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise EventsError(
                f"'{self.path}': a column has different types in different files: "
                f"{str(error).splitlines()[0]}; make them agree"
            ) from error
        for name in (self._stream.time, self._stream.sequence):
            # Where no row has a value, each says so.
            if name is not None and pa.types.is_null(schema.field(name).type):
                place = schema.get_field_index(name)
                is_text = name == self._stream.time and self._stream.format is not None
                kind = time_type(pa.string() if is_text else pa.int64(), self._stream)
                schema = schema.set(place, pa.field(name, kind))
        return schema


def read_events(path: str, stream: Stream, on_error: OnError = "stop") -> Events:
    """All events of a file, a folder or a glob, in memory."""
    source = FileSource(path, stream, Faults(on_error))
    found = [batch.table for batch in source.batches(source.schema.names)]
    return from_table(pa.concat_tables([source.schema.empty_table(), *found]), stream, path)


def checked(
    pieces: Iterable[ParsedRows], file: str, stream: Stream, faults: Faults, batch_rows: int
) -> Iterator[Batch]:
    """Pieces of a file as batches of events; what is wrong with rows goes to `faults`."""
    read = 0
    for table, rows, wrong in pieces:
        faults.report(file, [replace(f, row=f.row + read) for f in wrong])
        for start in range(0, table.num_rows, batch_rows):
            part = table.slice(start, batch_rows)
            numbers = rows[start : start + batch_rows] + read + 1
            batch = _timed(part, file, numbers, stream, faults)
            if len(batch):
                yield batch
        read += table.num_rows + len(wrong)


def _timed(table: pa.Table, file: str, rows: Int64s, stream: Stream, faults: Faults) -> Batch:
    """The rows that have a time, and a number where the stream has a sequence."""
    column = table.column(stream.time)
    ticks, bad = ticks_of(column)
    wrong = [
        Fault(int(rows[i]), "time out of range", "the time is out of range", stream.time)
        if column[int(i)].is_valid
        else _null(rows, i, stream.time, "time")
        for i in np.flatnonzero(bad)
    ]
    if (name := stream.sequence) is not None and table.column(name).null_count:
        missing = np.asarray(pc.is_null(table.column(name))) & ~bad
        wrong += [_null(rows, i, name, "sequence number") for i in np.flatnonzero(missing)]
        bad |= missing
    batch = Batch(table, ticks, file, rows)
    if not bad.any():
        return batch
    faults.report(file, wrong)
    return batch.take(np.flatnonzero(~bad))


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


class Lateness:
    """Leaves out, or refuses, events that come more than `bound` ticks after a later one.

    Without a bound events must come in order, but only where there are too many to sort them all;
    a `strict` bound holds for any number.
    """

    def __init__(
        self, bound: int | None, strict: bool, tick: int, column: str, faults: Faults
    ) -> None:
        self.bound, self.strict = bound or 0, strict
        self._is_stated, self._tick = bound is not None, tick
        self._column, self._faults = column, faults
        self.latest: int | None = None  # time that was seen

    @property
    def complete(self) -> int:
        """All events before this time have come."""
        assert self.latest is not None
        return self.latest - self.bound

    def on_time(self, batch: Batch) -> Batch:
        """The events of the next batch that are not too late."""
        before = batch.ticks[:1] if self.latest is None else np.array([self.latest])
        latest = np.maximum.accumulate(np.concatenate([before, batch.ticks]))
        self.latest = int(latest[-1])
        late = np.flatnonzero(batch.ticks < latest[:-1] - self.bound)
        if not len(late):
            return batch
        self._faults.report(
            batch.file,
            [
                Fault(
                    int(batch.rows[i]),
                    "late",
                    self._text(int(latest[i] - batch.ticks[i])),
                    self._column,
                )
                for i in late
            ],
        )
        return batch.take(np.delete(np.arange(len(batch)), late))

    def _text(self, by: int) -> str:
        amount = print_nanoseconds(by * self._tick)
        if self._is_stated:
            stated = print_nanoseconds(self.bound * self._tick)
            return f"the event comes {amount} after a later one, and at most {stated} was stated"
        return (
            f"the event comes {amount} after a later one, and there are too many events to sort "
            "them all: state how late they can be (--disorder), let more of them be read at once "
            "(--slice), or sort the file by time"
        )

    def all_on_time(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            kept = self.on_time(batch)
            if len(kept):
                yield kept
