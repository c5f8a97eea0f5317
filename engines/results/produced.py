"""Rows of a query as events that other queries read: their columns, and the stream with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.layout import Rows
from engines.input.event_table import Events
from engines.limits import EventsError
from engines.results.chunks import AggregateChunk, MatchChunk, RowChunk
from engines.results.structs import one_struct, produced_kinds
from optimizer.ir.produced import ENDED, START, STARTED, TYPE, ProducedType
from optimizer.ir.query import BoundWorkload, Construction
from workloads.errors import UnsupportedError
from workloads.workload import Stream

LAST = 2**63 - 1  # the sequence number of what a query made: it comes last at its time
MAX_NANOSECONDS = 2**62


@dataclass(frozen=True, eq=False)
class ProducedEvents:
    """Events of a type: ticks at which they start and end, and their fields."""

    type: str
    start: Rows
    end: Rows
    fields: pa.Table

    def __len__(self) -> int:
        return len(self.end)


class RowsToEvents:
    """What makes events of the rows of a workload's queries, over events with these columns."""

    def __init__(self, workload: BoundWorkload, events: Events) -> None:
        queries = {query.name: query for query in workload.queries}
        self._types = {made.query: made for made in workload.produced if made.query in queries}
        self._kinds = produced_kinds(workload, events.table.schema, events)
        self._structs = {
            name: one_struct(queries[name], self._kinds, events)
            for name in self._types
            if isinstance(queries[name].output, Construction)
        }

    def none(self, query: str) -> ProducedEvents:
        """No event of a query's type."""
        made = self._types[query]
        fields = {name: pa.array([], self._kinds[name]) for name in made.names}
        nothing = np.zeros(0, np.int64)
        return ProducedEvents(made.name, nothing, nothing, _table(fields, 0))

    def of(self, chunk: RowChunk) -> ProducedEvents:
        """The events of some rows."""
        made = self._types[chunk.query]
        if isinstance(chunk, AggregateChunk):
            ends = chunk.decided()
            found = {name: chunk.rows.column(name).combine_chunks() for name in _own(made)}
            keys = chunk.rows.column("key")
            starts = ends
        else:
            assert isinstance(chunk, MatchChunk)
            starts, ends, _ = chunk.spans()
            paths = {f.name: list(f.path) for f in made.fields if f.path is not None}
            found = {}
            if paths:
                structs = chunk.struct_column(self._structs[chunk.query])
                found = {name: pc.struct_field(structs, path) for name, path in paths.items()}
            keys = pa.chunked_array([chunk.keys()])
        of_key = [field.name for field in made.fields if field.path is None]
        if of_key:
            found |= _key_columns(keys, of_key, self._kinds)
        fields = {name: _cast(found[name], self._kinds[name]) for name in made.names}
        return ProducedEvents(made.name, starts, ends, _table(fields, len(chunk)))


def _own(made: ProducedType) -> list[str]:
    return [field.name for field in made.fields if field.path is not None]


def _table(columns: Mapping[str, pa.Array], rows: int) -> pa.Table:
    if columns:
        return pa.table(dict(columns))
    return pa.table({"": pa.nulls(rows)}).select([])  # that has rows all the same


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _key_columns(
    keys: pa.ChunkedArray, names: Sequence[str], kinds: Mapping[str, pa.DataType]
) -> dict[str, pa.Array]:
    """Attributes of keys, which rows have as JSON."""
    coded = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    if isinstance(coded, pa.ChunkedArray):
        coded = pa.concat_arrays(coded.chunks)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    texts = [json.loads(text) for text in coded.dictionary.to_pylist()]
    found = {}
    for name in names:
        values = [text[name] for text in texts]
        kind = kinds[name]
        if pa.types.is_temporal(kind):
            listed = pa.array([None if v is None else str(v) for v in values], pa.string())
            distinct = listed.cast(kind)
        elif pa.types.is_string(kind):  # also of values of several types
            values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
            distinct = pa.array(values, kind)
        else:
            distinct = pa.array(values, kind)
        found[name] = distinct.take(coded.indices)
    return found


# --- the stream with what queries made ------------------------------------------------------------


def with_produced(plain: Events, made: Sequence[ProducedEvents], stream: Stream) -> Events:
    """Events of the stream and events that queries made, in order."""
    tables = [plain.table]
    names = set(plain.table.column_names)
    for events in made:
        columns = {stream.time: plain.times(events.end), START: plain.times(events.start)}
        names_of = pa.repeat(pa.scalar(events.type), len(events))
        columns |= {name: names_of for name in (stream.type, TYPE) if name is not None}
        if stream.sequence is not None:
            columns[stream.sequence] = pa.repeat(pa.scalar(LAST), len(events))
        if "time" in names and stream.time != "time":  # what queries call the time
            columns["time"] = columns[stream.time]
        for name in events.fields.column_names:
            columns.setdefault(name, events.fields.column(name))
        tables.append(pa.table(columns))
        names |= columns.keys()
    table = _concatenated(tables, stream)
    ends = np.concatenate([plain.ticks, *(events.end for events in made)])
    starts = np.concatenate([plain.ticks, *(events.start for events in made)])
    sequence = None
    if plain.sequence is not None:
        last = np.full(len(ends) - len(plain), LAST, np.int64)
        sequence = np.concatenate([plain.sequence, last])
    base = int(starts.min(initial=2**62)) if len(starts) else 0
    if len(ends) and (int(ends.max()) - base) * plain.tick >= MAX_NANOSECONDS:
        raise UnsupportedError(
            "events that queries make lie more than 146 years apart, and their times are compared "
            "in nanoseconds; give the stream's unit, or shorter windows"
        )
    table = table.append_column(STARTED, pa.array((starts - base) * plain.tick))
    table = table.append_column(ENDED, pa.array((ends - base) * plain.tick))
    order = np.argsort(ends, kind="stable") if sequence is None else np.lexsort((sequence, ends))
    return Events(
        table.take(pa.array(order)),
        ends[order],
        None if sequence is None else sequence[order],
        plain.tick,
        plain.time_type,
        plain.time_column,
        plain.ignores_missing,
    )


def _concatenated(tables: list[pa.Table], stream: Stream) -> pa.Table:
    if stream.type is not None and stream.type in tables[0].column_names:
        kind = tables[0].schema.field(stream.type).type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not (is_text or pa.types.is_string_view(kind) or pa.types.is_null(kind)):
            raise EventsError(
                f"the type column '{stream.type}' has type {kind}, and queries make events of "
                "types that are texts (INTO): store the names of types"
            )
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise EventsError(
            f"a column of the events is of another type than what queries make for it (INTO): "
            f"{str(error).splitlines()[0]}; give it another name in RETURN, with AS"
        ) from error


def without_numbers(chunk: RowChunk) -> RowChunk:
    """Rows of a query; what a query made has no number in the stream's sequence."""
    if not isinstance(chunk, AggregateChunk):
        return chunk
    place = chunk.rows.schema.get_field_index("seq")
    numbers = chunk.rows.column(place)
    made = pc.fill_null(pc.equal(numbers, LAST), False)
    if not pc.any(made).as_py():
        return chunk
    cleared = pc.if_else(made, pa.scalar(None, pa.int64()), numbers)
    return AggregateChunk(chunk.query, chunk.rows.set_column(place, "seq", cleared))
