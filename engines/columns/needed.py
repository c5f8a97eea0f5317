"""Which columns of the events a workload looks at; the others need not travel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from optimizer.ir.pattern import events
from optimizer.ir.query import Aggregation, BoundWorkload, Query, ReturnAlias, ReturnAttribute
from workloads import expressions as ex
from workloads.syntax import All


def needed_columns(workload: BoundWorkload, names: Iterable[str]) -> list[str]:
    """Those of `names` that the workload needs, in their order."""
    given = list(names)
    if any(_needs_all(query) for query in workload.queries):
        return given
    used = named_columns(workload)
    return [name for name in given if name in used]


def named_columns(workload: BoundWorkload) -> set[str]:
    """The names that a workload's stream and its queries call columns by."""
    stream = workload.stream
    used = {name for name in (stream.time, stream.type, stream.sequence) if name is not None}
    for query in workload.queries:
        used |= set(_attributes(query))
        for event in events(query.pattern):
            condition = stream.types.get(event.symbol.type)
            if condition is not None:
                used |= set(_names(condition))
    return used


def _needs_all(query: Query) -> bool:
    """Whole events are returned, or simultaneous ones put in order by all that they hold."""
    if any(isinstance(event.quantifier, All) for event in events(query.pattern)):
        return True
    output = query.output
    return not isinstance(output, Aggregation) and any(
        isinstance(item, ReturnAlias) for item in output.items
    )


def _attributes(query: Query) -> Iterator[str]:
    yield from query.key
    for event in events(query.pattern):
        for predicate in event.symbol.predicates:
            yield from _names(predicate)
    for condition in query.conditions:
        yield from _names(condition)
    if isinstance(query.output, Aggregation):
        for aggregate in query.output.items:
            if aggregate.operand is not None:
                yield aggregate.operand.name
        if query.output.having is not None:
            yield from _names(query.output.having)
        return
    for item in query.output.items:
        if isinstance(item, ReturnAttribute):
            yield item.attribute
        elif not isinstance(item, ReturnAlias):
            yield from _names(item.value)


def _names(expression: ex.Expression) -> Iterator[str]:
    return (node.name for node in ex.walk(expression) if isinstance(node, ex.Attribute))
