"""The columns of events that queries read, and whether these fit: queries that they do not fit are
wrong, or left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from engines.input.event_table import column_at, is_list
from engines.limits import EventsError
from optimizer.bind.binder import bind, without_optional
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
from workloads.syntax import All
from workloads.workload import AttributeKind, Stream, Workload


def needed_columns(workload: BoundWorkload, names: Iterable[str]) -> list[str]:
    """Those of `names` that the workload needs, in their order."""
    given = list(names)
    if any(_needs_all(query) for query in workload.queries):
        return given
    return named_among(workload, given)


def named_among(workload: BoundWorkload, names: Iterable[str]) -> list[str]:
    """Those of `names` that a workload calls columns by, or fields of them, in their order."""
    used = named_columns(workload)
    # A field of a struct is read with the struct; its path says of which column it is.
    used |= {name[:end] for name in used for end, mark in enumerate(name) if mark == "."}
    return [name for name in names if name in used]


def named_columns(workload: BoundWorkload) -> set[str]:
    """The names that a workload's stream and its queries call columns by."""
    stream = workload.stream
    used = {name for name in (stream.time, stream.type, stream.sequence) if name is not None}
    for query in workload.queries:
        used |= set(attributes_of(query))
        named = (*(event.symbol.type for event in events(query.pattern)), *query.window.of)
        for condition in map(stream.types.get, named):
            if condition is not None:
                used |= set(names_of(condition))
    return used


def _needs_all(query: Query) -> bool:
    """Whole events are returned, or simultaneous ones put in order by all that they hold."""
    if any(isinstance(event.quantifier, All) for event in events(query.pattern)):
        return True
    output = query.output
    return not isinstance(output, Aggregation) and any(
        isinstance(item, ReturnAlias | ReturnEvents) for item in output.items
    )


def attributes_of(query: Query, returned: bool = True) -> Iterator[str]:
    """The attributes of events that a query reads, also such as it only returns."""
    yield from query.key
    yield from (column for key in query.tied_key for _, column in key.columns)
    yield from (column for key in query.groups for column in sorted(key.tested_columns))
    for event in events(query.pattern):
        for predicate in event.symbol.predicates:
            yield from names_of(predicate)
    for condition in query.conditions:
        yield from names_of(condition)
    if isinstance(query.output, Aggregation):
        for aggregate in query.output.items:
            if aggregate.operand is not None:
                yield from names_of(aggregate.operand)
        if query.output.having is not None:
            yield from names_of(query.output.having)
        return
    for item in query.output.items:
        if isinstance(item, ReturnAttribute):
            if returned:
                yield item.attribute
        elif isinstance(item, ReturnValue):
            yield from names_of(item.value)


def names_of(expression: ex.Expression) -> Iterator[str]:
    """The attributes that an expression reads, in order."""
    return iter(sorted(ex.attributes(expression)))


# --- do they fit? ---------------------------------------------------------------------------------


def bind_to(
    workload: Workload,
    schema: pa.Schema,
    path: str,
    kinds: Mapping[str, AttributeKind] | None,
) -> BoundWorkload:
    """The workload over columns; raises `WorkloadError` or `EventsError` where they do not fit.

    Optional queries that do not fit are left out, and are among the `refused`. `kinds` are those of
    the columns; None where there are no columns yet, and any may come.
    """
    bound = bind(workload, kinds)
    _check_types(schema, bound.stream, path)
    columns = _Columns(schema, bound.stream)
    found = {query.name: columns.misfit(query) for query in bound.queries}
    wrong = {name: reason for name, reason in found.items() if reason is not None}
    if not wrong:
        return bound
    own = [reason for name, reason in wrong.items() if name not in workload.optional]
    kept, refused = without_optional(workload, {} if own else wrong)
    if own or not kept.queries:
        raise EventsError(f"'{path}': {next(iter(own or wrong.values()))}")
    rest = bind_to(kept, schema, path, kinds)  # without what reads their rows
    return replace(rest, refused=(*refused, *rest.refused))


def _check_types(schema: pa.Schema, stream: Stream, path: str) -> None:
    if stream.type is None or stream.type not in schema.names:
        return
    kind = schema.field(stream.type).type
    if pa.types.is_temporal(kind):
        raise EventsError(
            f"'{path}': the type column '{stream.type}' has type {kind}; store the name of a type"
        )
    if not _is_comparable(kind):
        raise EventsError(f"'{path}': {_incomparable(stream.type, kind)}")


class _Columns:
    """The types of columns and of fields of structs, and which queries they do not fit."""

    def __init__(self, schema: pa.Schema, stream: Stream) -> None:
        self._empty, self._stream = schema.empty_table(), stream
        self._types: dict[str, pa.DataType | None] = {}

    def misfit(self, query: Query) -> str | None:
        """Why columns do not fit a query: their values have no order, such as maps.

        A list is compared value by value, but there is no sum of lists, and a key is one value.
        """
        one_value = {*query.key, *_aggregated(query)}
        for name in dict.fromkeys((*attributes_of(query, returned=False), *self._routes(query))):
            kind = self._type(name)
            if kind is None:
                continue
            is_listed = is_list(kind) and name not in one_value
            if not _is_comparable(kind.value_type if is_listed else kind):
                return _incomparable(name, kind)
        return None

    def _routes(self, query: Query) -> Iterator[str]:
        """What the types of a query ask for."""
        for event in events(query.pattern):
            condition = self._stream.types.get(event.symbol.type)
            if condition is not None:
                yield from names_of(condition)

    def _type(self, name: str) -> pa.DataType | None:
        if name not in self._types:
            column = column_at(self._empty, name)
            self._types[name] = None if column is None else column.type
        return self._types[name]


def _incomparable(name: str, kind: pa.DataType) -> str:
    if is_list(kind) and _is_comparable(kind.value_type):
        return (
            f"the column '{name}' has type {kind}: lists can be returned, and compared with "
            "values, but not be keys, types or summed up"
        )
    return (
        f"the column '{name}' has type {kind}, and queries compare its values or divide the stream "
        "by them: store a number, a text, a truth value or a time, or only return it"
    )


def _aggregated(query: Query) -> Iterator[str]:
    if isinstance(query.output, Aggregation):
        operands = (aggregate.operand for aggregate in query.output.items)
        yield from (name for each in operands if each is not None for name in names_of(each))


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
