"""Rows of a query side by side: one for each window or match, with a typed column for each value.

The common rows of all queries have one row for each aggregate, keys as JSON, and matches as JSON or
as structs. Here are the columns that a query's own rows have, and the values for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.types as at

from engines.input.text_bytes import arrow_reader
from engines.limits import ResultsError
from engines.results.structs import MatchStructs, common_type
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Construction,
    Funnel,
    Query,
    ReturnAlias,
    ReturnAttribute,
    RowPattern,
)


@dataclass(frozen=True)
class AggregateColumn:
    """An aggregate of a query: its place among them, and whether whole numbers count it."""

    name: str
    place: int
    is_count: bool


@dataclass(frozen=True)
class MatchColumn:
    """What a match gives: a field of its struct, or an attribute of the events under it."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class QueryColumns:
    """The columns of a query's own rows, in order: `keys`, then times, then these.

    `keys` have their names here under the names that the key has. A query that returns matches as
    text alone has neither `aggregates` nor `matches`, and a column `match`.
    """

    keys: Mapping[str, str]
    times: Mapping[str, str]
    aggregates: tuple[AggregateColumn, ...] = ()
    matches: tuple[MatchColumn, ...] = ()


class FreshNames:
    """Gives names one by one: one that would stand twice gets an underscore."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def __call__(self, name: str) -> str:
        while name.lower() in self._taken:  # Spark takes `a` and `A` for one
            name += "_"
        self._taken.add(name.lower())
        return name


def query_columns(query: Query) -> QueryColumns:
    """The columns of a query's rows; names that would stand twice get an underscore."""
    fresh = FreshNames()
    keys = {name: fresh(name) for name, _ in query.result_key}
    output = query.output
    if isinstance(output, Aggregation):
        times = {"time": fresh("time")}
        aggregates = tuple(
            AggregateColumn(fresh(_plain_name(item.text)), place, item.function == "count")
            for place, item in enumerate(output.items)
        )
        return QueryColumns(keys, times, aggregates)
    times = {name: fresh(name) for name in ("start", "end", "time")}
    if not isinstance(output, Construction) or isinstance(output, RowPattern):
        return QueryColumns(keys, times)
    matches: list[MatchColumn] = []
    for item in output.items:
        if isinstance(item, ReturnAttribute):
            path: tuple[str, ...] = (item.alias, item.attribute)
        elif isinstance(item, ReturnAlias):
            path = (item.name or item.alias,)
        else:
            path = (item.name,)
        name = fresh("_".join(path).replace(".", "_"))
        matches.append(MatchColumn(name, path))
    return QueryColumns(keys, times, matches=tuple(matches))


def _plain_name(text: str) -> str:
    """`SUM(p.amount)` as `sum_p_amount`, and `COUNT(*)` as `count`."""
    return "_".join(re.findall(r"\w+", text)).lower()


def aggregate_names(workload: BoundWorkload) -> dict[str, tuple[str, ...]]:
    """How the aggregates of each query are written, in their order."""
    return {
        query.name: tuple(item.text for item in query.output.items)
        for query in workload.queries
        if isinstance(query.output, Aggregation)
    }


# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """One row for each window: `rows` of its first aggregate, and the values of each of them."""

    rows: pa.Table
    values: tuple[pa.ChunkedArray, ...]
    counts: tuple[pa.ChunkedArray, ...]
    exacts: tuple[pa.ChunkedArray, ...]


def windows_of(rows: pa.Table, aggregates: Sequence[str]) -> Windows:
    """The windows of a query's aggregate rows.

    The first row of one aggregate, the first of another, and so on, are of one window, wherever
    they stand: that is how rows are found, and sorting them by window keeps it.
    """
    if len(aggregates) == 1:
        parts = [rows]
    else:
        names = rows.column("aggregate").cast(pa.string())
        parts = [rows.filter(pc.equal(names, name)) for name in aggregates]
    assert len({part.num_rows for part in parts}) == 1, "a window lacks one of its aggregates"
    return Windows(
        parts[0],
        tuple(part.column("value") for part in parts),
        tuple(part.column("count") for part in parts),
        tuple(part.column("exact") for part in parts),
    )


def key_type(queries: Sequence[Query], schema: pa.Schema) -> pa.StructType | None:
    """All attributes that are in the key of some query, with their types; None for none.

    A name that is no column, or of a type that no JSON text gives back, is a text, and so is one
    that has values of different types in these queries.
    """
    columns: dict[str, list[str]] = {}
    for query in queries:
        by_component = {key.name: key.read_columns for key in query.named_keys}
        for name, _ in query.result_key:
            columns.setdefault(name, []).extend(by_component.get(name, (name,)))
    if not columns:
        return None
    kinds = {field.name: field.type for field in schema}
    found = [(name, _read_back(common_type(of, kinds))) for name, of in columns.items()]
    return pa.struct(found)


def _read_back(kind: pa.DataType) -> pa.DataType:
    if at.is_dictionary(kind):
        return _read_back(kind.value_type)
    if at.is_integer(kind) or at.is_floating(kind) or at.is_boolean(kind):
        return kind
    if at.is_timestamp(kind) or at.is_date32(kind):
        return kind
    return pa.string()


def keys_of(keys: pa.ChunkedArray | pa.Array, kind: pa.StructType) -> pa.Array:
    """Keys, which are JSON objects, as structs; null where there is none."""
    coded = keys if at.is_dictionary(keys.type) else pc.dictionary_encode(keys)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
        if isinstance(coded, pa.ChunkedArray):  # of no chunk, or of more text than one holds
            chunks = [keys_of(chunk, kind) for chunk in coded.chunks]
            return pa.concat_arrays([pa.array([], kind), *chunks])
    found = from_json(coded.dictionary.cast(pa.string()), kind)
    return pc.take(found, coded.indices)


def from_json(texts: pa.Array, kind: pa.StructType) -> pa.StructArray:
    """JSON objects, none of which is null, as structs of a type.

    Where the type has a text and an object another value, the text is that value's JSON.
    """
    if not len(texts):
        return pa.array([], kind)
    try:
        return _read_json(texts, kind)
    except pa.ArrowInvalid:
        values = (json.loads(text) for text in texts.to_pylist())
        return _read_json(pa.array([json.dumps(_with_texts(v, kind)) for v in values]), kind)


def _with_texts(value: Any, kind: pa.DataType) -> Any:
    """The value with texts where the type has them."""
    if value is None:
        return None
    if at.is_struct(kind):
        return {field.name: _with_texts(value.get(field.name), field.type) for field in kind}
    if at.is_list(kind):
        return [_with_texts(part, kind.value_type) for part in value]
    return json.dumps(value) if at.is_string(kind) and not isinstance(value, str) else value


def _read_json(texts: pa.Array, kind: pa.StructType) -> pa.StructArray:
    table = _json_table(texts, pa.schema(list(_zoned(kind))))
    columns = [
        (pa.concat_arrays([pa.array([], column.type), *column.chunks])).cast(field.type)
        for column, field in zip(table.columns, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _json_table(texts: pa.Array, explicit_schema: pa.Schema | None = None) -> pa.Table:
    """JSON objects, of which there are some, as columns."""
    offsets = pa.array([0, len(texts)], pa.int32())
    lines = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), "\n")[0].as_buffer()
    behaviour = "infer" if explicit_schema is None else "ignore"
    return pyarrow.json.read_json(
        arrow_reader(lines),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        pyarrow.json.ParseOptions(
            explicit_schema=explicit_schema, unexpected_field_behavior=behaviour
        ),
    )


def _zoned(kind: pa.StructType) -> Iterable[pa.Field]:
    """Fields as the reader of JSON takes them: dates are read as texts of days."""
    for field in kind:
        yield pa.field(field.name, _read_type(field.type))


def _read_type(kind: pa.DataType) -> pa.DataType:
    if at.is_struct(kind):
        return pa.struct(list(_zoned(kind)))
    if at.is_list(kind):
        return pa.list_(_read_type(kind.value_type))
    return pa.timestamp("s") if at.is_date(kind) else kind


def wide_table(
    query: Query,
    rows: pa.Table,
    structs: MatchStructs | None,
    schema: pa.Schema,
) -> pa.Table:
    """A query's own rows, of all rows of its kind over events with the columns of `schema`."""
    names = rows.column("query").cast(pa.string())
    rows = rows.filter(pc.equal(names, query.name))
    if isinstance(query.output, Funnel):  # its rows are of steps and of keys, one value each
        return rows.drop_columns(["query"])
    columns = query_columns(query)
    found: dict[str, pa.Array | pa.ChunkedArray] = {}
    windows = None
    if isinstance(query.output, Aggregation):
        windows = windows_of(rows, [item.text for item in query.output.items])
        rows = windows.rows
    kind = key_type((query,), schema)
    if kind is not None and columns.keys:
        keys = keys_of(rows.column("key"), kind)
        found |= {as_: keys.field(name) for name, as_ in columns.keys.items()}
    found |= {as_: rows.column(name) for name, as_ in columns.times.items()}
    if windows is not None:
        for column in columns.aggregates:
            side = windows.values[column.place]
            if column.is_count:
                side = _whole_counts(query.name, windows, column.place)
            found[column.name] = side
    elif isinstance(query.output, RowPattern):
        found |= _measures(query.output, rows.column("match"), schema, tuple(found))
    elif structs is None or query.name not in structs.queries:
        found["match"] = rows.column("match")
    else:
        found |= _match_columns(query.name, columns, rows.column("match"), structs)
    return pa.table(found)


def selected_table(query: Query, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """What a query in SQL says, column by column, of rows of its own over events of `schema`."""
    assert isinstance(query.output, RowPattern)
    return pa.table(_measures(query.output, rows.column("match"), schema, ()))


def _measures(
    output: RowPattern, matches: pa.ChunkedArray, schema: pa.Schema, taken: Iterable[str]
) -> dict[str, pa.ChunkedArray]:
    """What SELECT gives, each in the one type that its values have."""
    names = [name for name, _ in output.recognition.items(schema.names)]
    table = _json_table(pa.concat_arrays(matches.chunks)) if len(matches) else pa.table({})
    fresh = FreshNames(taken)
    found: dict[str, pa.ChunkedArray] = {}
    for name in names:
        has = name in table.column_names
        found[fresh(name)] = (
            table.column(name) if has else pa.chunked_array([pa.nulls(len(matches))])
        )
    return found


def _whole_counts(query: str, windows: Windows, place: int) -> pa.ChunkedArray:
    counts = windows.counts[place]
    if (
        counts.null_count
        and not pc.all(pc.or_(pc.is_valid(counts), windows.exacts[place]), min_count=0).as_py()
    ):
        raise ResultsError(
            f"query {query}: a count is beyond 64 bits, and its column has whole numbers; it is in "
            "the column 'value' of the aggregate rows, as a double"
        )
    return counts


def _match_columns(
    query: str, columns: QueryColumns, matches: pa.ChunkedArray, structs: MatchStructs
) -> dict[str, pa.Array]:
    own = structs.queries[query]
    places = structs.places.get(query, {})
    if at.is_string(matches.type):
        whole = from_json(pa.concat_arrays([pa.array([], pa.string()), *matches.chunks]), own)
        places = {}
    else:
        whole = pa.concat_arrays([pa.array([], matches.type), *matches.chunks])
    found = {}
    for column in columns.matches:
        first, *rest = column.path
        value = whole.field(places.get(first, first))
        for name in rest:
            if at.is_list(value.type):
                inner = pc.struct_field(value.values, [name])
                mask = value.is_null() if value.null_count else None
                value = pa.ListArray.from_arrays(value.offsets, inner, mask=mask)
            else:
                value = pc.struct_field(value, [name])
        found[column.name] = value
    return found
