"""Windows that follow another clock than time: sessions, counted types, from the first event."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device, one_setting
from optimizer.ir.pattern import events, positive_events
from optimizer.ir.query import Query
from optimizer.statistics.statistics import Statistics, symbols_of

NAME = "frames"
LABEL = "one pass that frames the windows of each partition"
MEANING = (
    "Finds where windows begin and end that do not follow the clock alone (sessions, windows that "
    "count events of some types, windows from the first event, empty windows), and the matches in "
    "each. Queries of one key share the order of events, and those with the same window its frame."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)

_ROW_NANOSECONDS = 25.0  # an event that is put into its frame
_MATCH_NANOSECONDS = 60.0  # a partial match: bound, and added to its windows


def refusal(query: Query) -> str | None:
    """Why its windows need no frame."""
    if not query.has_own_clock:
        return "its windows follow the clock"
    if query.strategy != "any":
        return f"of its matches only those of STRATEGY {query.strategy.upper()} count"
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """One key and one kind of window; the rest differs by query."""
    return one_setting(queries)


def done_once(queries: Sequence[Query]) -> str:
    """Windows are gone through for all of them at once."""
    return f"{len(queries)} queries in one pass"


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """What the pass takes, in nanoseconds for a second of stream."""
    frames = {(query.window, query.from_first) for query in queries}
    symbols = {event.symbol for query in queries for event in events(query.pattern)}
    framed = len(frames) * sum(statistics.rate(symbol) for symbol in symbols)
    bound = sum(_partial(query, statistics) for query in queries)
    return _ROW_NANOSECONDS * framed + _MATCH_NANOSECONDS * bound


def rows(query: Query, statistics: Statistics) -> float | None:
    """What it gives in a second of stream depends on gaps, which nothing tells beforehand."""
    return None


def _partial(query: Query, statistics: Statistics) -> float:
    """Partial matches of a second, as if windows were as long as they are wide."""
    values = statistics.key(query.key).cardinality
    symbols = symbols_of(query.pattern)
    found = total = 1.0
    for number, event in enumerate(positive_events(query.pattern)):
        rate = statistics.rate(event.symbol)
        waiting = query.window.size if query.window.is_count else query.window.size / 1e9 * rate
        found = rate if number == 0 else found * max(waiting / values, 1e-9)
        total += found
    for condition in query.conditions:
        total *= max(statistics.selectivity(condition, symbols), 0.1)
    return total
