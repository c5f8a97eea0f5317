"""Which matches count, checked; and the type of any event where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from optimizer.bind.scope import QueryScope
from optimizer.ir.pattern import ANY_TYPE, events
from optimizer.ir.query import Query
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError
from workloads.workload import Stream


def check_strategy(scope: QueryScope) -> None:
    """NEXT is for sequences; AFTER MATCH SKIP goes with NEXT or STRICT, and with RETURN."""
    query = scope.query
    if query.strategy == "next" and (other := _other_than_sequence(query.pattern)) is not None:
        scope.report(
            QueryError(
                f"STRATEGY NEXT is for a SEQ of components, groups and negations, and this is an "
                f"{other.operator}",
                other.span,
                "write a query for each order or choice, or leave STRATEGY out",
            )
        )
    if query.skip is None:
        return
    to_next = query.skip == "to next event"  # which is so of every match anyway
    if query.strategy not in ("next", "strict", *(["any"] if to_next else [])):
        scope.report(
            QueryError(
                f"AFTER MATCH SKIP goes with STRATEGY NEXT or STRICT, not {query.strategy.upper()}",
                query.skip_span,
                "add 'STRATEGY NEXT', or leave AFTER MATCH SKIP out",
            )
        )
    elif query.skip == "past last event" and isinstance(query.output, sx.Aggregates):
        scope.report(
            QueryError(
                "AFTER MATCH SKIP PAST LAST EVENT goes with RETURN: which matches of a window "
                "overlap would depend on matches outside of it",
                query.skip_span,
                "return the matches and count the rows, or leave AFTER MATCH SKIP out",
            )
        )


def _other_than_sequence(pattern: sx.Pattern) -> sx.Operation | None:
    match pattern:
        case sx.Operation("SEQ", parts):
            found = (_other_than_sequence(part) for part in parts)
            return next((other for other in found if other is not None), None)
        case sx.Operation():
            return pattern
        case _:
            return None


def stream_with_any(stream: Stream, queries: Iterable[Query]) -> Stream:
    """The stream, with a type that every event is of where a query asks for any event."""
    if not any(
        query.strategy == "strict"
        or any(event.symbol.type == ANY_TYPE for event in events(query.pattern))
        for query in queries
    ):
        return stream
    return replace(stream, types={**stream.types, ANY_TYPE: ex.Literal(True)})
