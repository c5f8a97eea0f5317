"""Matches as Arrow structs: a field for each name that RETURN gives, typed as the events are.

Each query has a struct of its own. Rows of several queries are in one column: its struct has the
fields of all of them, and what a query does not return is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.vectors import broadcast
from engines.input.event_table import Events, from_table
from engines.limits import ResultsError
from engines.results.json_text import (
    BoundAliases,
    ReturnedEvents,
    RowNumbers,
    list_alias,
    returned_items,
    returned_values,
    with_lists,
)
from engines.results.tables import aggregate_schema, match_schema, with_matches
from optimizer.ir.pattern import positive_events
from optimizer.ir.produced import START
from optimizer.ir.query import (
    BoundWorkload,
    Construction,
    Query,
    ReturnEvents,
    ReturnValue,
    RowPattern,
    SituationPattern,
)
from optimizer.ir.situations import ReturnEdge
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import UnsupportedError

RETURNED = b"sheaf.returned"  # where the metadata of a schema has the names that queries return

# By query and field of the whole: the name in RETURN, and the attributes where it is of events.
ReturnedNames: TypeAlias = dict[str, dict[str, tuple[str, list[str] | None]]]


@dataclass(frozen=True)
class MatchStructs:
    """The struct of each query's matches, and the `whole` that holds those of all queries.

    Under `places` are, by query, fields that have another name in the whole, with that name.
    """

    queries: Mapping[str, pa.StructType]
    places: Mapping[str, Mapping[str, str]]
    whole: pa.StructType
    returned: ReturnedNames

    def column(
        self, query: str, output: Construction, bound: BoundAliases, columns: Columns
    ) -> pa.StructArray:
        """Matches of a query as its structs."""
        items = returned_items(output, columns.events.names)
        bound = with_lists(output, bound)
        found = []
        for field in self.queries[query]:
            item = items[field.name]
            if isinstance(item, ReturnedEvents):
                found.append(_events(item, field.type, bound, columns))
            else:
                try:
                    found.append(value_column(item, field.type, bound, columns))
                except (pa.ArrowInvalid, OverflowError) as error:
                    raise ResultsError(
                        f"query {query}: '{field.name}' has values beyond 64 bits, which a struct "
                        "does not take; ask for matches as text"
                    ) from error
        return pa.StructArray.from_arrays(found, fields=list(self.queries[query]))

    def widened(self, query: str, matches: pa.StructArray) -> pa.StructArray:
        """Structs of a query as those of the whole."""
        places = self.places.get(query, {})
        own = {places.get(field.name, field.name): i for i, field in enumerate(matches.type)}
        children = [
            _fitted(matches.field(own[field.name]), field.type)
            if field.name in own
            else pa.nulls(len(matches), field.type)
            for field in self.whole
        ]
        return pa.StructArray.from_arrays(children, fields=list(self.whole))

    def widened_table(self, query: str, table: pa.Table) -> pa.Table:
        """Rows of a query with the structs of the whole."""
        place = table.schema.get_field_index("match")
        matches = table.column(place).combine_chunks()
        return table.set_column(place, "match", self.widened(query, matches))

    def rows_schema(self, time_type: pa.DataType) -> pa.Schema:
        """The columns of match rows of all queries."""
        schema = with_matches(match_schema(time_type), self.whole)
        return schema.with_metadata({RETURNED: json.dumps(self.returned)})


def all_match_structs(workload: BoundWorkload, schema: pa.Schema) -> MatchStructs | None:
    """The structs of a workload all of whose matches are to be structs."""
    for query in workload.queries:
        if isinstance(query.output, RowPattern):
            raise UnsupportedError(
                f"query {query.name}: the measures of MATCH_RECOGNIZE are written as JSON, as "
                "their types depend on the rows; leave out --match struct"
            )
    return match_structs(workload, schema)


def match_structs(workload: BoundWorkload, schema: pa.Schema) -> MatchStructs | None:
    """The structs of a workload's matches over events with these columns; None where it has none.

    Queries mostly mean the same by a name: an alias for which one returns `id` and another `price`
    has both fields. A name that stands for an event in one query and for a group or a value in
    another is, of each of them, under `QUERY_NAME`. Measures of MATCH_RECOGNIZE are in none, as
    their types depend on the rows.
    """
    events = from_table(schema.empty_table(), workload.stream)
    kinds = produced_kinds(workload, events.table.schema, events)
    names = events.names
    queries = {
        query.name: _struct(query, query.output, names, kinds, events.time_type)
        for query in workload.queries
        if isinstance(query.output, Construction) and not isinstance(query.output, RowPattern)
    }
    if not queries:
        return None
    by_name: dict[str, dict[str, pa.DataType]] = {}
    for name, struct in queries.items():
        for field in struct:
            by_name.setdefault(field.name, {})[name] = field.type
    fields: dict[str, pa.DataType] = {}
    places: dict[str, dict[str, str]] = {}
    for name, meant in by_name.items():
        joint = _joint(list(meant.values()))
        if joint is not None:
            fields[name] = joint
            continue
        for of, kind in meant.items():
            place = f"{of}_{name}"
            while place in by_name or place in fields:
                place += "_"
            places.setdefault(of, {})[name] = place
            fields[place] = kind
    returned: ReturnedNames = {}
    for query in workload.queries:
        if query.name in queries:
            assert isinstance(query.output, Construction)
            own = places.get(query.name, {})
            returned[query.name] = {
                own.get(name, name): (name, attributes)
                for name, attributes in _returned(query.output, names).items()
            }
    return MatchStructs(queries, places, pa.struct(list(fields.items())), returned)


def produced_kinds(
    workload: BoundWorkload, schema: pa.Schema, events: Events
) -> dict[str, pa.DataType]:
    """The types in which attributes are returned: of columns, and of what queries make (INTO)."""
    kinds = {field.name: _stored(field.type) for field in schema}
    kinds.setdefault("time", kinds.get(events.time_column, events.time_type))
    if workload.produced:
        kinds.setdefault(START, events.time_type)
    queries = {query.name: query for query in workload.queries}
    for made in workload.produced:
        if made.query not in queries:
            continue
        maker = queries[made.query]
        output = maker.output
        found: pa.StructType = pa.struct(
            {name: aggregate_schema(events.time_type).field(name).type for name in _ROW_FIELDS}
        )
        if isinstance(output, Construction):
            found = _struct(maker, output, schema.names, kinds, events.time_type)
        for key in maker.named_keys:
            kinds.setdefault(key.name, common_type(key.read_columns, kinds))
        for field in made.fields:
            if field.path is not None and field.name not in kinds:
                kind = found
                for part in field.path:
                    kind = kind.field(part).type
                kinds[field.name] = kind
    return kinds


def common_type(columns: Sequence[str], kinds: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type of the values in columns, or of those in their lists; text where it is not one.

    `kinds` are types by name; a path names a field of a struct.
    """
    found = [_column_type(column, kinds) for column in columns]
    if all(kind == found[0] for kind in found):
        return found[0]
    return pa.int64() if all(map(pa.types.is_signed_integer, found)) else pa.string()


def _column_type(column: str, kinds: Mapping[str, pa.DataType]) -> pa.DataType:
    kind = kinds.get(column)
    if kind is None:
        first, *path = column.split(".")
        kind = kinds.get(first, pa.string())
        for name in path:
            place = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
            kind = kind.field(place).type if place >= 0 else pa.string()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind


_ROW_FIELDS = ("aggregate", "value", "count", "exact")  # of an aggregate that queries read


def one_struct(query: Query, kinds: Mapping[str, pa.DataType], events: Events) -> MatchStructs:
    """The struct of one query's matches."""
    assert isinstance(query.output, Construction)
    names = events.names
    struct = _struct(query, query.output, names, kinds, events.time_type)
    return MatchStructs({query.name: struct}, {}, struct, {})


# --- types ----------------------------------------------------------------------------------------


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type in which an attribute is returned."""
    if pa.types.is_null(kind) or pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind


def _returned(output: Construction, names: Sequence[str]) -> dict[str, list[str] | None]:
    """What RETURN gives by name: the attributes of events, or the edges of a situation; or None."""
    if isinstance(output, SituationPattern):
        return {
            name: [i.edge for i in items if isinstance(i, ReturnEdge)]
            if items[0].name is None
            else None
            for name, items in output.temporal.fields().items()
        }
    return {
        name: list(item.names) if isinstance(item, ReturnedEvents) else None
        for name, item in returned_items(output, names).items()
    }


def _situations_struct(
    output: SituationPattern, kinds: Mapping[str, pa.DataType], time_type: pa.DataType
) -> pa.StructType:
    values = {i.name: i.value for i in output.items if isinstance(i, ReturnValue)}
    fields: list[tuple[str, pa.DataType]] = []
    for name, items in output.temporal.fields().items():
        if name in values:
            fields.append((name, _value_type(values[name], kinds)))
        elif items[0].name is not None:
            fields.append((name, time_type))
        else:
            edges = [i.edge for i in items if isinstance(i, ReturnEdge)]
            fields.append((name, pa.struct([(edge, time_type) for edge in edges])))
    return pa.struct(fields)


def _struct(
    query: Query,
    output: Construction,
    names: Sequence[str],
    kinds: Mapping[str, pa.DataType],
    time_type: pa.DataType,
) -> pa.StructType:
    if isinstance(output, SituationPattern):
        return _situations_struct(output, kinds, time_type)
    groups = {
        e.alias for e in positive_events(query.pattern) if not isinstance(e.quantifier, sx.One)
    }
    groups |= {list_alias(i.aliases) for i in output.items if isinstance(i, ReturnEvents)}
    fields: list[tuple[str, pa.DataType]] = []
    for name, item in returned_items(output, names).items():
        if isinstance(item, ReturnedEvents):
            kind = pa.struct(
                [(attribute, kinds.get(attribute, pa.string())) for attribute in item.names]
            )
            fields.append((name, pa.list_(kind) if item.alias in groups else kind))
        else:
            fields.append((name, _value_type(item, kinds)))
    return pa.struct(fields)


def _value_type(expression: ex.Expression, kinds: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type of a returned value."""
    match expression:
        case ex.Literal(float()) | ex.Arithmetic("/") | ex.Call("avg"):
            return pa.float64()
        case ex.Literal(bool()):
            return pa.bool_()
        case ex.Literal(str() | None):
            return pa.string()
        case ex.Literal() | ex.Call("count" | "suppressed"):
            return pa.int64()
        case ex.Function("length") | ex.Nanoseconds():
            return pa.int64()
        case ex.Function("number"):
            return pa.float64()
        case ex.Function():
            return pa.string()
        case ex.Attribute(_, name):
            kind = kinds.get(name, pa.string())
            return pa.int64() if pa.types.is_integer(kind) else kind
        case ex.Arithmetic(_, left, right):
            sides = {_value_type(left, kinds), _value_type(right, kinds)}
            return pa.int64() if sides <= {pa.int64(), pa.bool_()} else pa.float64()
        case ex.Negative(operand):
            kind = _value_type(operand, kinds)
            return pa.int64() if pa.types.is_boolean(kind) else kind
        case ex.Call(_, argument) if argument is not None:
            return _value_type(argument, kinds)
        case _:
            raise AssertionError(f"not a value of a bound query: {expression}")


def _joint(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that holds values of all of them; None where they are different things."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(map(pa.types.is_list, kinds)):
        inner = _joint([kind.value_type for kind in kinds])
        return None if inner is None else pa.list_(inner)
    if not all(map(pa.types.is_struct, kinds)):
        return None
    # Fields of one name are of one type: they are columns of one stream.
    return pa.struct({field.name: field.type for kind in kinds for field in kind}.items())


# --- values ---------------------------------------------------------------------------------------


def _events(
    item: ReturnedEvents, kind: pa.DataType, bound: BoundAliases, columns: Columns
) -> pa.Array:
    """Events of an alias as structs, groups of them as lists, null where the alias is absent."""
    column = bound.columns.get(item.alias)
    if column is None:
        return pa.nulls(bound.size, kind)
    if not isinstance(column, EventGroups):
        return _attributes(column, kind, columns)
    offsets = pa.array(column.offsets, pa.int32())
    inner = _attributes(column.rows, kind.value_type, columns)
    return pa.ListArray.from_arrays(offsets, inner, type=kind)


def _attributes(rows: RowNumbers, kind: pa.StructType, columns: Columns) -> pa.StructArray:
    """Columns of rows of the table as structs."""
    taken = pa.array(rows)
    found = []
    for field in kind:
        column = pc.take(columns.events.whole(field.name), taken, boundscheck=False)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        try:
            found.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            raise ResultsError(
                f"the column '{field.name}' has whole numbers beyond 64 bits, which a struct does "
                "not take; ask for matches as text"
            ) from error
    return pa.StructArray.from_arrays(found, fields=list(kind))


def value_column(
    expression: ex.Expression, kind: pa.DataType, bound: BoundAliases, columns: Columns
) -> pa.Array:
    if not ex.aliases(expression) <= bound.columns.keys():
        return pa.nulls(bound.size, kind)
    if isinstance(expression, ex.Literal):
        return pa.repeat(pa.scalar(expression.value, kind), bound.size)
    vector = broadcast(bound.value(expression), bound.size)
    if vector.kind == "object":  # may be beyond 64 bits: taken one by one
        return pa.array(vector.values.tolist(), kind, mask=vector.nulls)
    found = returned_values(expression, vector, columns)
    return found if found.type == kind else found.cast(kind)


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values in a type that may have more fields."""
    if array.type == kind:
        return array
    if array.offset:
        array = pa.concat_arrays([array])
    mask = array.is_null() if array.null_count else None
    if pa.types.is_list(kind):
        inner = _fitted(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, inner, type=kind, mask=mask)
    own = {field.name: i for i, field in enumerate(array.type)}
    children = [
        _fitted(array.field(own[field.name]), field.type)
        if field.name in own
        else pa.nulls(len(array), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
