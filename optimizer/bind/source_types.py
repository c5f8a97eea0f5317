"""`orders.View` in patterns: events of a type that come from one of several sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from optimizer.bind.patterns import changed_components, named_components
from optimizer.bind.scope import some_names
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, did_you_mean
from workloads.sources import SOURCE
from workloads.workload import Stream, Workload


class WorkloadOfSources(NamedTuple):
    """A workload that says by conditions which source events are of; errors are by query."""

    workload: Workload
    errors: Mapping[int, list[QueryError]]


def with_source_types(workload: Workload) -> WorkloadOfSources:
    """The workload with `View v` and `v.source = 'orders'` for `orders.View v`."""
    errors: dict[int, list[QueryError]] = {}
    queries: list[sx.Query] = []
    for number, query in enumerate(workload.queries):
        found = [component for component in named_components(query) if component.source is not None]
        wrong = [error for component in found for error in _wrong(component, workload.stream)]
        if wrong:
            errors[number] = wrong
        queries.append(_with_conditions(query, found) if found else query)
    return WorkloadOfSources(replace(workload, queries=tuple(queries)), errors)


def _wrong(component: sx.Component, stream: Stream) -> Iterator[QueryError]:
    named = f"{component.source}.{component.type}"
    source = stream.sources.get(component.source or "")
    if source is None:
        yield QueryError(
            f"'{named}' is a type of a source '{component.source}', and there is none of that name",
            component.span,
            did_you_mean(component.source or "", stream.sources)
            or f'a type whose own name has a dot takes double quotes: "{named}"',
        )
        return
    known = source.stream.types
    if source.stream.closed and component.type not in known and component.type.upper() != "ANY":
        yield QueryError(
            f"the source '{component.source}' has no type '{component.type}'",
            component.span,
            did_you_mean(component.type, known) or f"it declares {some_names(known)}",
        )


def _with_conditions(query: sx.Query, found: list[sx.Component]) -> sx.Query:
    asked = [
        ex.Comparison("=", ex.Attribute(each.name, SOURCE), ex.Literal(each.source))
        for each in found
    ]
    own = () if query.where is None else ex.conjuncts(query.where)
    parts = (*own, *asked)
    where = parts[0] if len(parts) == 1 else ex.Logical("AND", parts)
    output = query.output
    if isinstance(output, sx.Funnel):
        exclusions = (replace(e, component=_plain(e.component)) for e in output.exclusions)
        output = replace(output, exclusions=tuple(exclusions))
    return replace(
        query, pattern=changed_components(query.pattern, _plain), where=where, output=output
    )


def _plain(component: sx.Component) -> sx.Component:
    """The component of that type, by the name it has, without its source."""
    if component.repeated is not None:
        inner = changed_components(component.repeated, _plain)
        return replace(component, repeated=inner)
    return component if component.source is None else replace(component, source=None)
