"""`start(Speeding)` and `end(Speeding)` in patterns: events that queries of their own make.

Such a query is added for each situation, edge and partitioning that queries ask for. What it makes
has the key and the attributes that these read, and its rows are for them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from optimizer.bind.conditions import tied_attributes
from optimizer.bind.marks import PatternBuilder, has_strict_gaps
from optimizer.bind.patterns import changed_components, components_of
from optimizer.bind.scope import some_names
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, did_you_mean
from workloads.situations.syntax import Definition, Situations
from workloads.workload import AttributeKind, DefinedSituation, Stream, Workload

_NAME = "S"  # of the situation in a query that is added


@dataclass
class _Asked:
    """What queries read of the events of an edge."""

    edge: sx.Edge
    situation: str
    key: tuple[str, ...]
    attributes: dict[str, None] = field(default_factory=dict)

    @property
    def type(self) -> str:
        name = f"{self.edge}({self.situation})"
        return f"{name} by {', '.join(self.key)}" if self.key else name


class WorkloadWithEdges(NamedTuple):
    """A workload with the queries that make edges behind its own; errors are by query."""

    workload: Workload
    errors: Mapping[int, list[QueryError]]


def with_edges(
    workload: Workload, columns: Mapping[str, AttributeKind] | None
) -> WorkloadWithEdges:
    """The workload with a query for each edge that others ask for."""
    asked: dict[str, _Asked] = {}
    errors: dict[int, list[QueryError]] = {}
    queries: list[sx.Query] = []
    for number, query in enumerate(workload.queries):
        found = [c for c in components_of(query.pattern) if c.edge is not None]
        wrong = list(_wrong(query, found, workload.stream))
        if wrong:
            errors[number] = wrong
        queries.append(_of_made(query, found, asked) if found and not wrong else query)
    made = [_query(each, workload.stream, columns) for each in asked.values()]
    if not made:
        return WorkloadWithEdges(workload, errors)
    numbered = (replace(query, number=len(queries) + i) for i, query in enumerate(made, 1))
    return WorkloadWithEdges(replace(workload, queries=(*queries, *numbered)), errors)


def _wrong(query: sx.Query, found: Sequence[sx.Component], stream: Stream) -> Iterator[QueryError]:
    known = stream.situations
    for component in found:
        if component.type not in known:
            given = f"{component.edge}({component.type})"
            yield QueryError(
                f"{given} speaks of no situation of the stream",
                component.span,
                did_you_mean(component.type, known)
                or (
                    f"the stream has {some_names(known)}"
                    if known
                    else f'define it there: situations: {{{component.type}: "speed > 70"}}'
                ),
            )
    if isinstance(query.output, sx.Funnel):
        for exclusion in query.output.exclusions:
            if exclusion.component.edge is not None:
                yield QueryError(
                    "EXCLUDE takes a type of the stream's events", exclusion.component.span
                )


def _of_made(query: sx.Query, found: Sequence[sx.Component], asked: dict[str, _Asked]) -> sx.Query:
    """The query with types that other queries make in the place of edges."""
    key, own = _key(query), _own_keys(query)
    types: dict[str, str] = {}
    for component in found:
        assert component.edge is not None
        parts = (*key, *(name for name in own.get(component.name, ()) if name not in key))
        edge = _Asked(component.edge, component.type, parts)
        edge = asked.setdefault(edge.type, edge)
        types[component.name] = edge.type
        for node in _attributes(query):
            if node.alias == component.name:
                edge.attributes.setdefault(node.name)

    def change(component: sx.Component) -> sx.Component:
        if component.edge is None:
            return component
        name = component.name
        return replace(component, type=types[name], alias=name, edge=None)

    return replace(query, pattern=changed_components(query.pattern, change))


def _query(asked: _Asked, stream: Stream, columns: Mapping[str, AttributeKind] | None) -> sx.Query:
    """What makes an event at each start or end of a situation."""
    defined: DefinedSituation = stream.situations[asked.situation]
    gap = None if defined.gap is None else sx.Duration(Decimal(defined.gap), "ns")
    definition = Definition(_NAME, defined.of, defined.condition, gap=gap)
    of_event = {"time", stream.time, *sx.EDGES, *asked.key}
    names = [n for n in asked.attributes if n not in of_event and _is_known(n, stream, columns)]
    function = "first" if asked.edge == "start" else "last"
    items = tuple(
        sx.Item(ex.Call(function, ex.Attribute(_NAME, name)), name.replace(".", "_"))
        for name in names
    )
    found = Situations((definition,), (), items, asked.edge, _NAME)
    return sx.Query(
        name=asked.type,
        pattern=sx.Component(defined.of or "", _NAME, sx.Plus()),
        within=sx.Duration(Decimal(1), "day"),  # its rows are moments: any window holds them
        output=found,
        partition_by=asked.key,
        into=asked.type,
    )


def _is_known(name: str, stream: Stream, columns: Mapping[str, AttributeKind] | None) -> bool:
    """May events have the attribute? Else the query that reads it is refused."""
    if columns is None and not stream.attributes:
        return True
    known = {*(stream.attributes if columns is None else columns), stream.type, stream.sequence}
    return name in known or name.split(".")[0] in known


# --- of the query that reads them ----------------------------------------------------------------


def _key(query: sx.Query) -> tuple[str, ...]:
    """The attributes that partition a query, by whichever of the ways to write them."""
    key = list(query.partition_by)
    parts = ex.conjuncts(query.where) if query.where is not None else []
    for part in parts:
        if isinstance(part, ex.Equivalence):
            key += part.attributes
    if query.strategy != "strict" and not has_strict_gaps(query.pattern):
        bare = PatternBuilder(marked=False).build(query.pattern)
        key += tied_attributes(bare, list(parts))[0]
    return tuple(dict.fromkeys(key))


def _own_keys(query: sx.Query) -> dict[str, list[str]]:
    """The columns of keys that differ by component."""
    found: dict[str, list[str]] = {}
    for tied in query.tied_keys:
        for part in tied.parts:
            found.setdefault(part.alias, []).append(part.name)
    return found


def _attributes(value: Any) -> Iterator[ex.Attribute]:
    """All attributes that are written anywhere in a query."""
    if isinstance(value, ex.Attribute):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _attributes(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _attributes(getattr(value, each.name))
