"""Events that keep coming, from a folder that grows or from Kafka, packed by bucket.

Spark follows the folder and keeps account of its files; what is in them is read here, by the same
readers as in every other engine, so that a row means the same everywhere. To the buckets events
travel as Arrow, many in one row: nothing is done for each of them but the reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account, charged
from engines.columns.occurrences import Occurrences
from engines.input.batches import FileSource
from engines.input.event_paths import (
    EventPath,
    each_path,
    one_path,
    paths_by_source,
    shown_path,
)
from engines.input.event_rows import check_columns
from engines.input.event_table import (
    ENDINGS,
    Events,
    Fault,
    Faults,
    OnError,
    from_table,
)
from engines.input.lake_tables import check_no_table
from engines.input.line_files import Parsed, parse_json
from engines.input.source_files import (
    SourceColumns,
    common_schema,
    known_columns,
    unlike_columns,
    with_one_time,
)
from engines.input.time_texts import time_type
from engines.limits import EventsError
from engines.live.bucket import HOME, buckets_of
from engines.live.state_bytes import write_table
from engines.spark.stream.columns import ACCOUNT
from engines.spark.stream.kafka import KAFKA, source_options, topic_of
from engines.wire.messages import read_messages, registered_columns
from engines.wire.registry import Registry, check_address
from optimizer.ir.query import BoundWorkload, is_row_pattern
from workloads.workload import NANOSECONDS, AttributeKind, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 2**20  # packed at once
# Spark counts watermarks from 1970 on; times before it are seen by none, so all are moved ahead.
SHIFT = 2**52  # milliseconds
_MILLISECOND = 10**6
_SCAN = "scan"  # what reading and packing is charged to

_TYPES: Mapping[AttributeKind, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
}


@dataclass(frozen=True)
class LiveSource:
    """Where events come from, and the columns they have; `path` is a folder or a Kafka topic.

    A folder's files get into it complete, by renaming: one that is still written to is read as it
    is at that moment, once. Of several sources each has a path, and columns of its `own`.
    """

    path: EventPath
    stream: Stream
    schema: pa.Schema
    tick: int
    on_error: OnError = "stop"
    options: Mapping[str, str] = field(default_factory=dict)
    registry: Registry | None = None  # of the schemas of messages, which else are JSON
    own: Mapping[str, pa.Schema] = field(default_factory=dict)

    @property
    def places(self) -> Mapping[str, str]:
        """The path of each source; of the only one, which has no name, by an empty one."""
        return {"": self.path} if isinstance(self.path, str) else self.path

    def stream_of(self, name: str) -> Stream:
        """How the columns of a source are read."""
        return self.stream.sources[name].stream if name else self.stream

    def frame(self, session: SparkSession, name: str, files_per_batch: int | None) -> DataFrame:
        """One column of a source, `path` or `value`, of which `Packer` makes events."""
        path = self.places[name]
        if path.startswith(KAFKA):
            options = {**source_options(path), **self.options}
            return session.readStream.format("kafka").options(**options).load().select("value")
        reader = (
            session.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length long, content binary")
            .option("recursiveFileLookup", "true")
            # Otherwise files of last week are left out without a word.
            .option("maxFileAge", "36500d")
            .option("pathGlobFilter", "{" + ",".join("*" + ending for ending in ENDINGS) + "}")
        )
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        return reader.load(str(Path(path).absolute())).select("path")


def open_live_source(
    path: EventPath,
    stream: Stream,
    like: EventPath | None = None,
    known: pa.Schema | None = None,
    on_error: OnError = "stop",
    options: Mapping[str, str] | None = None,
    registry: str | None = None,
) -> LiveSource:
    """Look at what is there of a stream.

    The columns are those of `like`, a file of events, else of what is in the folder; where there is
    nothing yet, those that the stream declares under `attributes`, else those that messages have by
    a schema `registry`. Columns that are `known`, from the checkpoint of an earlier
    run, keep their types.
    """
    schemas = None if registry is None else Registry(check_address(registry))
    if schemas is not None and not any(place.startswith(KAFKA) for place in each_path(path)):
        raise EventsError("a schema registry is for the messages of Kafka; leave it out for files")
    own: dict[str, pa.Schema] = {}
    if stream.sources:
        path = paths_by_source(path, stream.sources)
        own = {
            name: _own_columns(name, place, stream, like, known, schemas)
            for name, place in path.items()
        }
        found = whole_schema(own, stream, path)
    else:
        path = one_path(path)
        found = _columns(path, stream, None if like is None else one_path(like), known, schemas)
    schema = _settled(found, known)
    events = from_table(schema.empty_table(), stream, shown_path(path))
    return LiveSource(
        path,
        stream,
        events.table.schema,
        events.tick,
        on_error,
        options or {},
        schemas,
        own,
    )


def _columns(
    path: str,
    stream: Stream,
    like: str | None,
    known: pa.Schema | None,
    registry: Registry | None,
) -> pa.Schema:
    is_kafka = path.startswith(KAFKA)
    if is_kafka:
        topic_of(path)
    elif not Path(path).is_dir():
        raise EventsError(f"there is no folder '{path}'; a live stream is a folder that grows")
    else:
        remedy = "a live stream follows folders of files: run over the table without --stream, "
        check_no_table(Path(path), remedy)
    if like is not None:
        return FileSource(like, stream, Faults("skip")).schema
    if known is None and not is_kafka and (first := _first_file(Path(path))) is not None:
        return FileSource(first, stream, Faults("skip")).schema
    if is_kafka and registry is not None and known is None and not stream.attributes:
        found = registered_columns(registry, topic_of(path)[1])
        check_columns(found, stream, path)
        return _with_written_times(found, stream)
    return _declared(stream, path, known)


def _own_columns(
    name: str,
    place: str,
    whole: Stream,
    like: EventPath | None,
    known: pa.Schema | None,
    registry: Registry | None,
) -> pa.Schema:
    """The columns of one of several sources, as it calls them.

    Of events that went on before, those that the checkpoint knows.
    """
    likes = {} if like is None else paths_by_source(like, whole.sources)
    before = None if known is None else known_columns(known, name, whole)
    return _columns(place, whole.sources[name].stream, likes.get(name), before, registry)


def _with_written_times(found: pa.Schema, stream: Stream) -> pa.Schema:
    """The columns with times in place of what they are written as."""
    place = found.get_field_index(stream.time)
    return found.set(place, pa.field(stream.time, time_type(found.types[place], stream)))


def whole_schema(
    own: Mapping[str, pa.Schema], stream: Stream, places: Mapping[str, str]
) -> pa.Schema:
    """The columns that all sources have together."""
    found = [
        (name, common_schema(schema, name, stream, places[name])) for name, schema in own.items()
    ]
    schemas = with_one_time(found, stream)
    if (wrong := unlike_columns(zip(own, schemas, strict=True))) is not None:
        raise EventsError(wrong)
    return pa.unify_schemas(schemas, promote_options="permissive")


def _first_file(folder: Path) -> str | None:
    files = (file for file in sorted(folder.rglob("*")) if file.name.endswith(ENDINGS))
    return next((str(file) for file in files if not file.name.startswith((".", "_"))), None)


def _declared(stream: Stream, path: str, known: pa.Schema | None) -> pa.Schema:
    if known is not None:
        return known
    if not stream.attributes:
        raise EventsError(
            f"'{path}' has no events yet to tell their columns from; give a file of events like "
            "those that will come (--schema), or declare the columns under attributes"
        )
    number = pa.int64() if stream.format is None else time_type(pa.string(), stream)
    kinds: dict[str, pa.DataType] = {stream.time: number}
    if stream.sequence is not None:
        kinds[stream.sequence] = pa.int64()
    if stream.type is not None:
        kinds[stream.type] = pa.string()
    for name, kind in stream.attributes.items():
        wanted = _TYPES.get(kind, pa.timestamp(stream.unit))
        is_number = name == stream.time and (kind != "time" or stream.format is not None)
        kinds[name] = number if is_number else wanted
    return pa.schema(list(kinds.items()))


def _settled(found: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """One type for each column, for ever: the known one, and a number where no value has been."""
    fields = [] if known is None else list(known)
    names = set() if known is None else set(known.names)
    for column in found:
        if column.name not in names:
            unknown = pa.types.is_null(column.type)
            fields.append(pa.field(column.name, pa.float64() if unknown else column.type))
    return pa.schema(fields)


@dataclass(frozen=True)
class Packer:
    """Reads files, or messages, and packs their events by route and bucket; runs on executors."""

    source: LiveSource
    columns: pa.Schema
    routes: Mapping[str, tuple[str, ...]]
    buckets: int
    workload: BoundWorkload
    name: str = ""  # of the source, where there are several

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        faults, account = Faults(self.source.on_error), Account()
        tables: list[pa.Table] = []
        number = 0
        for table in charged(account, _SCAN, self._tables(batches, faults, account)):
            tables.append(table)
            number += table.num_rows
            if number >= ROWS_AT_ONCE:
                yield self._packed(tables, faults, account)
                tables, number = [], 0
        if tables or faults.total:
            yield self._packed(tables, faults, account)

    def _tables(
        self, batches: Iterable[pa.RecordBatch], faults: Faults, account: Account
    ) -> Iterator[pa.Table]:
        stream, names = self.source.stream, self.columns.names
        for batch in batches:
            if batch.schema.names == ["value"]:
                yield self._messages(batch.column(0).drop_null(), faults)
                continue
            for place in batch.column(0).to_pylist():
                file = place.removeprefix("file:")
                given: EventPath = file
                if self.name:
                    given = {self.name: file}
                    stream = replace(stream, sources={self.name: stream.sources[self.name]})
                source = FileSource(given, stream, faults, schema=self.columns)
                yield from (part.table for part in source.batches(names))
                account.spend(_SCAN, source.take_spent())

    def _messages(self, values: pa.Array, faults: Faults) -> pa.Table:
        """Messages, each one event."""
        if not len(values):
            return self.columns.empty_table()
        stream = self.source.stream_of(self.name)
        if self.name:
            whole = self.source.stream
            own = SourceColumns(self.source.own[self.name], self.name, whole, self._place)
            read = self._parsed(values, own.wanted(self.columns), stream)
            table, _, found = own.as_whole(read, self.columns)
            faults.report(self._place, found)
            return table
        table, rows, found = self._parsed(values, self.columns, stream)
        for name in filter(None, (stream.time, stream.sequence)):
            null = np.asarray(pc.is_null(table.column(name)))
            message = "it is null; every event needs one"
            found += [Fault(int(rows[i]) + 1, "null", message, name) for i in np.flatnonzero(null)]
            table, rows = table.filter(pa.array(~null)), rows[~null]
        faults.report(self._place, found)
        return table

    def _parsed(self, values: pa.Array, schema: pa.Schema, stream: Stream) -> Parsed:
        """Messages of the schemas of a registry, or each one JSON object."""
        if self.source.registry is not None:
            return read_messages(values, self.source.registry, schema, stream)
        lines = pc.replace_substring(values, pattern="\n", replacement=" ")
        one = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        return parse_json(pc.binary_join(one, b"\n")[0].as_py(), schema, stream)

    @property
    def _place(self) -> str:
        return self.source.places[self.name]

    def _packed(self, tables: list[pa.Table], faults: Faults, account: Account) -> pa.RecordBatch:
        """The rows for each bucket, and one that says how many events there were."""
        with account.charge(_SCAN):
            events, latest, seen = self._read(tables)
            routed = list(self._routed(events))
        told = {
            "read": len(events),
            "bad": faults.total,
            "first": faults.first,
            "seen": seen,
            "nanoseconds": account.nanoseconds[_SCAN],
        }
        faults.counts.clear()
        account.clear()
        rows = [(ACCOUNT, 0, json.dumps(told).encode()), *routed]
        return pa.RecordBatch.from_arrays(
            [
                pa.array([route for route, _, _ in rows], pa.string()),
                pa.array([bucket for _, bucket, _ in rows], pa.int32()),
                pa.array([latest] * len(rows), pa.int64()),
                pa.array([events for _, _, events in rows], pa.binary()),
            ],
            ["route", "bucket", "latest", "events"],
        )

    def _read(self, tables: list[pa.Table]) -> tuple[Events, int | None, dict[str, Any]]:
        """The events, the last time among them, and what they have of what queries ask for."""
        table = pa.concat_tables([self.columns.empty_table(), *tables])
        events = from_table(table, self.source.stream)
        try:
            events = replace(events, table=events.table.cast(self.columns))
        except pa.ArrowInvalid as error:
            raise EventsError(f"the events do not have the columns' types: {error}") from error
        latest = self._latest(events)
        occurred = Occurrences(self.workload)
        occurred.add(events.table)
        if len(events):
            occurred.times = events.ticks[[0, -1]].tolist()  # they are in order
        return events, latest, occurred.seen()

    def _latest(self, events: Events) -> int | None:
        """The last time, as Spark's watermark counts it."""
        if not len(events):
            return None
        first, last = (milliseconds(int(events.ticks[i]), events.tick) for i in (0, -1))
        if not -SHIFT < first <= last < SHIFT:
            raise EventsError(
                f"the times in column '{events.time_column}' reach {SHIFT // 31_556_952_000:,} "
                "years from 1970, which is further than a live stream can count"
            )
        return last + SHIFT

    def _routed(self, events: Events) -> Iterator[tuple[str, int, bytes]]:
        home = np.ones(len(events), bool)
        with_nulls = any(map(is_row_pattern, self.workload.queries))
        for route, key in self.routes.items():
            bucket = buckets_of(events, key, self.buckets)
            if with_nulls:  # which are a partition of their own there
                bucket = np.maximum(bucket, 0)
            taken = bucket >= 0
            table = events.table
            if len(self.routes) > 1:
                table = table.append_column(HOME, pa.array(home & taken))
                home &= ~taken
            if self.buckets < 2**15:  # sorted by their bits
                bucket = bucket.astype(np.int16)
            order = np.argsort(bucket, kind="stable")
            starts = np.searchsorted(bucket[order], np.arange(self.buckets + 1))
            table = table.take(pa.array(order)).combine_chunks()
            for number in np.flatnonzero(np.diff(starts)):
                start, stop = int(starts[number]), int(starts[number + 1])
                yield route, int(number), table_bytes(table.slice(start, stop - start))


def milliseconds(ticks: int, tick: int) -> int:
    """Ticks as whole milliseconds, rounded down."""
    return ticks * tick // _MILLISECOND


def complete_until(watermark: int, tick: int) -> int | None:
    """The last time that no event will have any more, for a watermark of Spark's."""
    if watermark <= 0:
        return None
    return -(-(watermark - SHIFT) * _MILLISECOND // tick) - 1


def watermark_for(ticks: int, tick: int) -> int:
    """The first watermark by which `complete_until` has reached a time."""
    return milliseconds(ticks, tick) + 1 + SHIFT


def lateness_of(stream: Stream) -> int:
    """How long events are waited for, in milliseconds, rounded up."""
    return -(-(stream.lateness or 0) // NANOSECONDS["ms"])


def table_bytes(table: pa.Table) -> bytes:
    """A table for `bytes_table`."""
    sink = pa.BufferOutputStream()
    write_table(sink, table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def bytes_table(content: bytes | pa.Buffer) -> pa.Table:
    """The table that `table_bytes` was given."""
    return pa.ipc.open_stream(content).read_all()
