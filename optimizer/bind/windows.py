"""The window and the slide of a query, checked."""

from __future__ import annotations

from optimizer.bind.scope import QueryScope, some_names
from optimizer.ir.query import ENDLESS, JoinWindows, Window
from workloads import syntax as sx
from workloads.errors import QueryError


def bound_window(scope: QueryScope) -> Window:
    within = scope.query.within
    if within is None:
        return Window(ENDLESS)
    check_duration(scope, within, "window")
    _check_order(scope, within)
    query = scope.query
    if query.session and within.is_count:
        scope.report(
            QueryError(
                "a session ends with a gap in time", within.span, "as in 'WITHIN SESSION 5 min'"
            )
        )
    for name in query.counted_types:
        if name not in scope.stream.types and scope.stream.closed:
            scope.report(
                QueryError(
                    f"unknown type '{name}'",
                    query.span_of("WITHIN EVENTS OF"),
                    scope.suggestion(name, scope.stream.types)
                    or f"the stream declares {some_names(scope.stream.types)}",
                )
            )
    if within.inclusive:
        return Window(int(within.size) + 1, is_inclusive=True)
    counted = tuple(sorted(set(query.counted_types)))
    return Window(int(within.size), within.is_count, query.session, counted)


def bound_join(scope: QueryScope) -> JoinWindows | None:
    """The windows of a join's sides; None where the pattern is no join."""
    query = scope.query
    if not isinstance(query.pattern, sx.Join):
        return None
    sides = (query.pattern.left, query.pattern.right)
    for side in sides:
        check_duration(scope, side.within, "window")
        _check_order(scope, side.within)
        if not isinstance(side.component.quantifier, sx.One) or side.component.optional:
            scope.report(
                QueryError(
                    "a side of a JOIN is one event",
                    side.component.span,
                    f"write '{side.component.type} {side.component.name}'",
                )
            )
    if isinstance(query.output, sx.Aggregates):
        scope.report(
            QueryError(
                "a JOIN gives pairs, and no window to aggregate them in",
                query.output.span,
                "RETURN them; or aggregate AND(…), which has one window",
            )
        )
    left, right = (Window(int(side.within.size), side.within.is_count) for side in sides)
    return JoinWindows(left, right, query.pattern.outer)


def check_window_clauses(scope: QueryScope) -> None:
    """`WINDOWS FROM FIRST` and `EMPTY ROWS` speak of windows of aggregates."""
    query = scope.query
    aggregates = isinstance(query.output, sx.Aggregates)
    special = isinstance(query.pattern, sx.Join) or query.session
    if special and isinstance(query.output, sx.Return) and query.output.limit is not None:
        scope.report(
            QueryError(
                "LIMIT is not taken with JOIN and SESSION",
                query.span_of("LIMIT"),
                "leave it out",
            )
        )
    clocked = query.counted_types or query.from_first or query.empty_rows
    if (special or clocked) and query.strategy != "any":
        scope.report(
            QueryError(
                "STRATEGY is not taken with JOIN, SESSION, EVENTS OF, WINDOWS FROM FIRST and "
                "EMPTY ROWS",
                query.strategy_span,
                "leave it out",
            )
        )
    if query.session and query.slide is not None:
        scope.report(
            QueryError(
                "a session has no slide: it gives one row when it ends",
                query.slide.span,
                "leave SLIDE out",
            )
        )
    if query.from_first and (query.slide is None or query.slide.is_count or query.session):
        scope.report(
            QueryError(
                "WINDOWS FROM FIRST says where windows that slide in time begin",
                query.span_of("WINDOWS FROM FIRST"),
                "give WITHIN and SLIDE in time, or leave it out",
            )
        )
    if query.empty_rows and not aggregates:
        scope.report(
            QueryError(
                "EMPTY ROWS goes with AGG: there is no match to be returned",
                query.span_of("EMPTY ROWS"),
                "leave it out",
            )
        )


def bound_slide(scope: QueryScope, window: Window) -> int | None:
    slide = scope.query.slide
    if slide is None:
        return None
    check_duration(scope, slide, "slide")
    if slide.is_count != window.is_count:
        scope.report(
            QueryError("window and slide are of different kinds", slide.span, "use one unit")
        )
    if isinstance(scope.query.output, sx.Return):
        scope.report(
            QueryError(
                "SLIDE goes with AGG: matches are returned as they occur",
                slide.span,
                "leave SLIDE out",
            )
        )
    return int(slide.size)


def _check_order(scope: QueryScope, within: sx.Duration) -> None:
    if within.is_count and scope.stream.sequence is None:
        scope.report(
            QueryError(
                "a window counted in events needs an order of the events",
                within.span,
                "declare the stream's 'sequence' column",
            )
        )


def check_duration(scope: QueryScope, duration: sx.Duration, what: str) -> None:
    amount = f"{duration.amount:.30}"
    if duration.size <= 0:
        scope.report(
            QueryError(
                f"a {what} of {amount} {duration.unit} holds no event",
                duration.span,
                "give a positive amount",
            )
        )
    elif duration.size != int(duration.size):
        scope.report(
            QueryError(
                f"a {what} of {amount} {duration.unit} is not a whole number of "
                + ("events" if duration.is_count else "nanoseconds"),
                duration.span,
                "round it",
            )
        )
    elif duration.size >= 2**62:
        scope.report(QueryError(f"a {what} this long overflows", duration.span, "shorten it"))
