"""`INTO Name`, checked: which queries read the rows of which, and what the events are that they
make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from optimizer.bind.conditions import KindChecker, key_span, ordered_unique
from optimizer.bind.marks import has_strict_gaps
from optimizer.bind.scope import ProducedEvents, QueryScope
from optimizer.ir.pattern import (
    ANY_TYPE,
    Event,
    GroupWithout,
    Neg,
    Pattern,
    Seq,
    Symbol,
    events,
    positive_events,
    transform,
    walk,
)
from optimizer.ir.produced import (
    START,
    TYPE,
    ProducedField,
    ProducedType,
    is_lasting,
    makes_points,
)
from optimizer.ir.query import (
    Aggregation,
    Construction,
    Query,
    ReturnAttribute,
    ReturnItem,
    ReturnValue,
    SituationPattern,
    is_funnel,
    waits_for_window,
)
from optimizer.ir.situations import ReturnEdge
from optimizer.rewrite.durations import first_of
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError
from workloads.situations.syntax import Definition, Situations
from workloads.sql.statement import Statement
from workloads.syntax import One, Plus
from workloads.workload import AttributeKind, Stream, Workload

_AGGREGATE_FIELDS: dict[str, AttributeKind] = {
    "aggregate": "string",
    "value": "float",
    "count": "int",
    "exact": "bool",
}
_KINDS: dict[str, AttributeKind] = {
    "number": "float",
    "string": "string",
    "bool": "bool",
    "time": "time",
}


@dataclass(frozen=True)
class ChainOrder:
    """The places of a workload's queries, each behind those whose rows it reads.

    `errors` are by place: queries that make what is there already, or read their own rows.
    """

    places: tuple[int, ...]
    errors: Mapping[int, QueryError]


def chain_order(workload: Workload) -> ChainOrder:
    """In which order queries are bound."""
    queries = workload.queries
    makers: dict[str, int] = {}
    errors: dict[int, QueryError] = {}
    for place, query in enumerate(queries):
        if query.into is None:
            continue
        if (error := _taken(workload.stream, query, makers, queries)) is not None:
            errors[place] = error
        else:
            makers[query.into] = place
    order: list[int] = []
    state: dict[int, str] = {}

    def visit(place: int, path: tuple[int, ...]) -> None:
        if state.get(place) == "done":
            return
        if place in path:
            cycle = (*path[path.index(place) :], place)
            _report_cycle(queries, cycle, errors)
            return
        for name in dict.fromkeys(types_read(queries[place], workload.stream)):
            if name in makers:
                visit(makers[name], (*path, place))
        if state.get(place) != "done":
            state[place] = "done"
            order.append(place)

    for place in range(len(queries)):
        visit(place, ())
    return ChainOrder(tuple(order), errors)


def _taken(
    stream: Stream, query: sx.Query, makers: Mapping[str, int], queries: tuple[sx.Query, ...]
) -> QueryError | None:
    name, span = query.into, query.span_of("INTO")
    assert name is not None
    if name in stream.types or name == ANY_TYPE:
        return QueryError(
            f"the stream has a type '{name}' already", span, "give its rows another name"
        )
    if name in makers:
        other = queries[makers[name]].name
        return QueryError(
            f"query {other} makes events of type '{name}' already",
            span,
            "give them another name; OR(X x, Y y) reads both",
        )
    return None


def _report_cycle(
    queries: tuple[sx.Query, ...], cycle: tuple[int, ...], errors: dict[int, QueryError]
) -> None:
    # Read from the last to the first: each is read by the one before it on the path.
    names = [queries[place] for place in reversed(cycle)]
    shown = " -> ".join(f"{query.name} (INTO {query.into})" for query in names[:-1])
    errors.setdefault(
        cycle[0],
        QueryError(
            f"queries read their own rows: {shown} -> {names[-1].name}",
            queries[cycle[0]].span_of("INTO"),
            "leave INTO out of one of them, or have it read another type",
        ),
    )


def types_read(query: sx.Query, stream: Stream) -> Iterator[str]:
    """The types that a query names."""
    match query.output:
        case Statement():
            return
        case Situations(definitions):
            types = (_type_of(definition, stream) for definition in definitions)
            yield from (name for name in types if name is not None)
        case _:
            yield from _types(query.pattern)


def _type_of(definition: Definition, stream: Stream) -> str | None:
    """The type of the events that a definition is asked of, if it is asked of one."""
    match definition.condition:
        case ex.Attribute(_, name) if name in stream.situations:
            return stream.situations[name].of
        case _:
            return definition.type


def _types(pattern: sx.Pattern) -> Iterator[str]:
    match pattern:
        case sx.Component():
            yield pattern.type
        case sx.Negation(part):
            yield from _types(part)
        case sx.Operation(_, parts):
            for part in parts:
                yield from _types(part)
        case sx.Join(left, right):
            yield from (left.component.type, right.component.type)


# --- what a query makes ---------------------------------------------------------------------------


def produced_events(
    scope: QueryScope, query: Query, known: Mapping[str, ProducedEvents]
) -> ProducedEvents | None:
    """The events that a bound query makes; None where `scope` has errors about them."""
    name, span = query.into, scope.query.span_of("INTO")
    assert name is not None
    if is_funnel(query):
        _report(
            scope,
            "INTO stands in a query with FUNNEL, which gives its rows when the stream ends",
            "leave INTO out",
        )
        return None
    fields: dict[str, ProducedField] = {}
    kinds: dict[str, AttributeKind] = {}
    for field, kind in _fields(scope, query):
        if field.name in fields:
            scope.report(
                QueryError(
                    f"two fields of {name} would be called '{field.name}'",
                    span,
                    f"give one of them another name in RETURN, as in a.{field.name} AS "
                    f"first_{field.name}",
                )
            )
        elif field.name in ("time", START, scope.stream.time, TYPE) or "." in field.name:
            scope.report(
                QueryError(
                    f"a field of {name} would be called '{field.name}', which every event has"
                    if "." not in field.name
                    else f"a field of {name} would be called '{field.name}', which is a path",
                    span,
                    "give it another name in RETURN, with AS",
                )
            )
        fields[field.name] = field
        if kind is not None:
            kinds[field.name] = kind
    returned = {field.path: field.name for field in fields.values()}
    for key, _ in query.result_key:
        if key not in fields:
            fields[key] = ProducedField(key, None)
            if (kind := _declared(scope, key)) is not None:
                kinds[key] = kind
        elif not any(
            path is not None and path[-1:] == (key,) and len(path) == 2 for path in returned
        ):
            scope.report(
                QueryError(
                    f"'{key}' is of the key, and RETURN gives something else that name",
                    span,
                    "give it another name in RETURN, with AS",
                )
            )
    for field_name, kind in kinds.items():
        if (other := _other_kind(scope, known, field_name, kind)) is not None:
            scope.report(
                QueryError(
                    f"'{field_name}' of {name} is a {_family(kind)}, and {other}",
                    span,
                    "give it another name in RETURN, with AS"
                    if isinstance(query.output, Construction)
                    else "rename that column",
                )
            )
    if scope.errors:
        return None
    lasts = not makes_points(query)
    made = ProducedType(name, query.name, tuple(fields.values()), lasts)
    return ProducedEvents(made, kinds)


def _fields(
    scope: QueryScope, query: Query
) -> Iterator[tuple[ProducedField, AttributeKind | None]]:
    output = query.output
    if isinstance(output, Aggregation):
        for name, kind in _AGGREGATE_FIELDS.items():
            yield ProducedField(name, (name,)), kind
        return
    if isinstance(output, SituationPattern):
        values = {item.name: item for item in output.items if isinstance(item, ReturnValue)}
        for name, items in output.temporal.fields().items():
            if name in values:
                yield ProducedField(name, (name,)), _kind(scope, values[name].value)
                continue
            for edge in items:
                assert isinstance(edge, ReturnEdge)
                path = (name,) if edge.name is not None else (name, edge.edge)
                yield ProducedField(path[-1], path), "time"
        return
    groups = {e.alias for e in positive_events(query.pattern) if not isinstance(e.quantifier, One)}
    for item in output.items:
        yield from _returned_field(scope, item, groups)


def _returned_field(
    scope: QueryScope, item: ReturnItem, groups: set[str]
) -> Iterator[tuple[ProducedField, AttributeKind | None]]:
    match item:
        case ReturnAttribute(alias, name) if alias in groups:
            _report(
                scope,
                f"'{alias}' is a group with a value for each of its events",
                f"aggregate it, as in max({alias}.{name}) AS {name}",
            )
        case ReturnAttribute(alias, name):
            yield (
                ProducedField(name, (alias, name)),
                _kind(scope, ex.Attribute(alias, name)),
            )
        case ReturnValue(value, name):
            yield ProducedField(name, (name,)), _kind(scope, value)
        case _:
            _report(
                scope,
                "INTO makes events of single fields, and this query returns whole events",
                "RETURN the attributes that others read, such as a.id",
            )


def _report(scope: QueryScope, message: str, hint: str) -> None:
    scope.report(QueryError(message, scope.query.span_of("INTO"), hint))


def _kind(scope: QueryScope, value: ex.Expression) -> AttributeKind | None:
    family = scope.kinds.kind(value)
    return None if family is None else _KINDS[family]


def _declared(scope: QueryScope, name: str) -> AttributeKind | None:
    return _kind(scope, ex.Attribute("", name))


def _family(kind: AttributeKind) -> str:
    return str(KindChecker({"x": kind}).kind(ex.Attribute("", "x")))


def _other_kind(
    scope: QueryScope, known: Mapping[str, ProducedEvents], name: str, kind: AttributeKind
) -> str | None:
    """Who means something else by a name."""
    columns = {**scope.stream.attributes, **(scope.columns or {})}
    if name in columns and _family(columns[name]) != _family(kind):
        return f"a column of the events of that name is a {_family(columns[name])}"
    for other in known.values():
        if name in other.kinds and _family(other.kinds[name]) != _family(kind):
            return f"that of {other.type.name} is a {_family(other.kinds[name])}"
    return None


# --- what a query reads ---------------------------------------------------------------------------


def check_reading(scope: QueryScope, key: tuple[str, ...]) -> None:
    """What is not taken in queries that read events which other queries make."""
    query = scope.query
    reads = scope.reads
    made, maker = reads[0], scope.produced[reads[0]].type.query
    if maker != made:  # which is what start(S) and end(S) are called
        made += f", whose events are rows of query {maker}"
    if isinstance(query.output, sx.Funnel):
        scope.report(
            QueryError(
                f"a FUNNEL stands in a query that reads {made}",
                query.pattern.span,
                "name types of the stream in it",
            )
        )
    if query.strategy != "any":
        scope.report(
            QueryError(
                f"STRATEGY {query.strategy.upper()} stands in a query that reads {made}",
                query.strategy_span,
                "such events have no place in the order of the stream: leave STRATEGY out",
            )
        )
    if has_strict_gaps(query.pattern):
        scope.report(
            QueryError(
                f"':' asks for a gap without any event in a query that reads {made}",
                query.pattern.span,
                "name what must not be there: SEQ(A a, !B b, C c)",
            )
        )
    for component in scope.components.values():
        if component.type == ANY_TYPE:
            scope.report(
                QueryError(
                    f"ANY stands in a query that reads {made}",
                    component.span,
                    "name the types that are meant, as in OR(A a, B b)",
                )
            )
    if query.within is not None and query.within.is_count:
        scope.report(
            QueryError(
                f"a window counted in events stands in a query that reads {made}",
                query.within.span,
                "such events have no place among those that are counted: use a window in time",
            )
        )
    if isinstance(query.output, sx.Return):
        for item in query.output.items:
            if item.value is None or isinstance(item.value, str | ex.Equivalence):
                scope.report(
                    QueryError(
                        f"a whole event is returned in a query that reads {made}",
                        item.span,
                        "name the attributes, such as a.id",
                    )
                )
    if isinstance(query.output, Situations):
        for definition in query.output.definitions:
            if _type_of(definition, scope.stream) is None:
                scope.report(
                    QueryError(
                        f"'{definition.name}' is asked of any event in a query that reads {made}",
                        definition.span,
                        f"say of which: {definition.name} OF Type AS …",
                    )
                )
    for name in key:
        for read in reads:
            if name not in scope.produced[read].type.names:
                scope.report(
                    QueryError(
                        f"events of {read} have no '{name}', and are in no partition by it",
                        key_span(query, name),
                        f"RETURN it in query {scope.produced[read].type.query}, or partition that "
                        "one by it too",
                    )
                )


def of_own_types(query: Query, stream: Stream) -> Query:
    """The query whose components of any event, or of a type by a condition, ask for the stream's.

    An event that a query made is of its type alone.
    """
    asked = ex.IsNull(ex.Attribute("", TYPE))

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event) or node.symbol.type in query.reads:
            return node
        if node.symbol.type != ANY_TYPE and stream.types.get(node.symbol.type) is None:
            return node  # the column of types tells
        predicates = ordered_unique([*node.symbol.predicates, asked])
        return replace(node, symbol=Symbol(node.symbol.type, predicates))

    return replace(query, pattern=transform(query.pattern, change))


def check_lasting(scope: QueryScope, query: Query) -> None:
    """What is not taken where events have a duration."""
    span = scope.query.pattern.span
    lasts = [name for name in query.lasting if scope.produced[name].type.lasts]
    made = (
        f"an event of {lasts[0]} may start before it ends"
        if lasts
        else f"events of {query.lasting[0]} have no number in the stream's sequence"
    )

    def refuse(what: str, hint: str) -> None:
        scope.report(QueryError(f"{what}, and {made}", span, hint))

    if query.join is not None:
        refuse("a JOIN compares the times of events", "write AND(…) with one WITHIN")
    if query.window.session:
        refuse("a session is about gaps between events", "use WITHIN with a time")
    if query.from_first or query.empty_rows:
        refuse(
            "WINDOWS FROM FIRST and EMPTY ROWS are about single moments",
            "leave them out, or aggregate in the query that makes the events",
        )
    for event in events(query.pattern):
        chosen = isinstance(event.quantifier, One | Plus) or (
            isinstance(event.quantifier, GroupWithout) and not event.quantifier.absent
        )
        if not chosen:
            refuse(
                f"which events '{event.alias}' has depends on what is between its neighbours",
                "use a group 'E+' or 'E{n,m}', or single events",
            )
    for node in walk(query.pattern):
        negations = [part for part in getattr(node, "parts", ()) if isinstance(part, Neg)]
        if isinstance(node, Seq):
            first = node.parts[0]
            negations = [first] if isinstance(first, Neg) else []
        if any(is_lasting(query, event) for part in negations for event in events(part)):
            refuse(
                "a negation looks at all of a window, or at what is before the first event",
                "put it between two parts of a SEQ",
            )
    first_lasts = any(is_lasting(query, event) for event in first_of(query.pattern))
    if first_lasts and waits_for_window(query):
        refuse(
            "a match that ends with a negation is certain when its window closes",
            "put the negation between two parts of a SEQ",
        )
    if isinstance(query.output, Aggregation) and first_lasts and not _is_sequence(query.pattern):
        refuse(
            "in which windows a match of AND or OR lies depends on which of its events is first",
            "RETURN its matches INTO a type of their own, and aggregate these",
        )


def _is_sequence(pattern: Pattern) -> bool:
    if isinstance(pattern, Seq):
        first = next(part for part in pattern.parts if not isinstance(part, Neg))
        return isinstance(first, Event) and not first.optional
    return isinstance(pattern, Event)
