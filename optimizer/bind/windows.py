"""The window and the slide of a query, checked."""

from __future__ import annotations

from optimizer.bind.scope import QueryScope
from optimizer.ir.query import Window
from workloads import syntax as sx
from workloads.errors import QueryError


def bound_window(scope: QueryScope) -> Window:
    within = scope.query.within
    _check_duration(scope, within, "window")
    if within.is_count and scope.stream.sequence is None:
        scope.report(
            QueryError(
                "a window counted in events needs an order of the events",
                within.span,
                "declare the stream's 'sequence' column",
            )
        )
    return Window(int(within.size), within.is_count)


def bound_slide(scope: QueryScope, window: Window) -> int | None:
    slide = scope.query.slide
    if slide is None:
        return None
    _check_duration(scope, slide, "slide")
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


def _check_duration(scope: QueryScope, duration: sx.Duration, what: str) -> None:
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
