"""Patterns and windows of queries, and what they give, as plans show them."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.ir.funnels import FunnelClause
from optimizer.ir.pattern import Event, Neg, Pattern, Seq, events, parts_of, print_pattern
from optimizer.ir.query import (
    Aggregation,
    Construction,
    Funnel,
    Query,
    ReturnAttribute,
    ReturnEvents,
    RowPattern,
    SituationPattern,
    Window,
    is_edge,
    is_inner,
)
from workloads.printing import print_expression, print_kept, print_strictness
from workloads.sql.rowpattern import print_row_pattern
from workloads.workload import print_nanoseconds

MAX_PATTERN_TEXT = 200  # characters of a row pattern


def shown_pattern(query: Query) -> str:
    """What a query looks for; a join with the window of each side."""
    if isinstance(query.output, RowPattern):
        text = f"PATTERN ({print_row_pattern(query.output.recognition.pattern)})"
        return text if len(text) <= MAX_PATTERN_TEXT else text[: MAX_PATTERN_TEXT - 2] + "…)"
    if isinstance(query.output, SituationPattern):
        return str(query.output.temporal)
    if isinstance(query.output, Funnel):
        return _shown_funnel(query, query.output.funnel)
    if query.join is None:
        return print_pattern(query.pattern)
    windows = (query.join.left, query.join.right)
    sides = [
        f"{print_pattern(event)} WITHIN {print_window(window)}"
        for event, window in zip(events(query.pattern), windows, strict=True)
    ]
    return f"{'LEFT ' if query.join.outer else ''}JOIN({', '.join(sides)})"


def _shown_funnel(query: Query, clause: FunnelClause) -> str:
    """`FUNNEL SEQ(A a, B b) STRICT ORDER EXCLUDE E e BETWEEN a AND b BY country`"""
    parts = [part for part in parts_of(query.pattern) if not isinstance(part, Neg)]
    excluded = {event.alias: event for event in events(query.pattern)}
    words = [f"FUNNEL {print_pattern(Seq(tuple(parts)))}"]
    words += [print_strictness(strictness) for strictness in clause.strict]
    words += [
        f"EXCLUDE {print_pattern(excluded[one.alias])} BETWEEN {clause.steps[one.first]} AND "
        f"{clause.steps[one.last]}"
        for one in clause.exclusions
    ]
    return " ".join([*words, *([f"BY {', '.join(clause.by)}"] if clause.by else [])])


def shown_window(query: Query) -> str:
    """A query's window, with all that is special about it."""
    if is_edge(query):
        return "at once"
    text = print_window(query.window)
    if query.window.session:
        text = f"sessions with gaps under {text}"
    if query.window.of:
        text += f" of {', '.join(query.window.of)}"
    if query.from_first:
        text += " from the first event"
    return f"{text}, empty ones too" if query.empty_rows else text


def print_window(window: Window, slide: int | None = None) -> str:
    """A window's size, or its slide, as people write it."""
    if window.is_endless and slide is None:
        return "no window"
    if window.is_inclusive and slide is None:
        return f"{print_nanoseconds(window.size - 1)} inclusive"
    size = window.size if slide is None else slide
    return f"{size} events" if window.is_count else print_nanoseconds(size)


def made_of_rows(query: Query) -> dict[str, object]:
    """The type of events that its rows are, and whether they are that only."""
    made: dict[str, object] = {} if query.into is None else {"into": query.into}
    return made | {"inner": True} if is_inner(query) else made


def print_picks(query: Query) -> str:
    """Which of its matches a query gives: `AFTER MATCH SKIP … SUPPRESS 10 min KEEP FIRST 3`."""
    output = query.output
    assert isinstance(output, Construction)
    found = ["AFTER MATCH SKIP PAST LAST EVENT"] if query.skips_past else []
    found += [] if output.suppress is None else [f"SUPPRESS {print_nanoseconds(output.suppress)}"]
    found += [f"KEEP {print_kept(output.keep)}"] if output.keep else []
    return " ".join(found)


def given_items(query: Query) -> list[str]:
    """What stands in the rows of a query."""
    if isinstance(query.output, Funnel):
        return list(query.output.funnel.texts())
    if isinstance(query.output, Aggregation):
        return [item.text for item in query.output.items]
    found = []
    if isinstance(query.output, SituationPattern):
        found += query.output.temporal.edges()
    for item in query.output.items:
        if isinstance(item, ReturnAttribute):
            found.append(f"{item.alias}.{item.attribute}")
        else:
            value = getattr(item, "value", None)
            text = getattr(item, "alias", "") if value is None else print_expression(value)
            if isinstance(item, ReturnEvents):
                text = f"[{', '.join(item.aliases)}]"
            found.append(f"{text} AS {item.name}" if item.name else text)
    return found


def read_symbols(pattern: Pattern, mark: str = "") -> Iterator[str]:
    """The types of a pattern in order, with a `!` where they are negated."""
    if isinstance(pattern, Event):
        yield mark + pattern.symbol.type
    for part in parts_of(pattern):
        yield from read_symbols(part, "!" if isinstance(pattern, Neg) else mark)
