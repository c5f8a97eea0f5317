"""Joins of two sides, each with its own window: ranges of partners in one pass over both sides."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device
from optimizer.ir.pattern import Event, events
from optimizer.ir.query import Query, Window
from optimizer.statistics.statistics import Statistics, symbols_of
from workloads import expressions as ex

NAME = "joins"
LABEL = "one pass over both sides of a join"
MEANING = (
    "Pairs the events of two sides, each with its own window, in any order: sorts both sides by "
    "key and by what they must be equal in, and finds the partners of each event as a range. "
    "Queries over the same two sides share the pass, and the pairs of the widest window."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)

_ROW_NANOSECONDS = 12.0  # an event of a side: its group, and the range of its partners
_PAIR_NANOSECONDS = 6.0  # a pair, as far as conditions are tested on it


def refusal(query: Query) -> str | None:
    """Why it is no join."""
    if query.join is None:
        return "it is no JOIN with a window for each side"
    if query.strategy != "any":
        return f"of its matches only those of STRATEGY {query.strategy.upper()} count"
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What joins differ in that do not share a pass: windows and other conditions may differ."""
    settings = {
        (
            query.key,
            query.window.is_count,
            tuple(side.symbol for side in sides(query)),
            equalities(query),
        )
        for query in queries
    }
    return None if len(settings) == 1 else "its joins differ in sides, key or equalities"


def sides(query: Query) -> tuple[Event, Event]:
    """The components of a join."""
    left, right = events(query.pattern)
    return left, right


def equalities(query: Query) -> tuple[tuple[str, str], ...]:
    """The attributes of the left and the right side that conditions ask to be equal."""
    left, right = sides(query)
    found = set()
    for condition in query.conditions:
        match condition:
            case ex.Comparison("=", ex.Attribute(one, name), ex.Attribute(other, value)):
                if (one, other) == (left.alias, right.alias):
                    found.add((name, value))
                elif (other, one) == (left.alias, right.alias):
                    found.add((value, name))
    return tuple(sorted(found))


def done_once(queries: Sequence[Query]) -> str:
    """Pairs are tried for all of them at once."""
    return f"{len(queries)} queries in one pass"


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """What the pass takes, in nanoseconds for a second of stream."""
    left, right = sides(queries[0])
    rows = statistics.rate(left.symbol) + statistics.rate(right.symbol)
    pairs = max(_tried(query, statistics) for query in queries)
    return len(queries) * _ROW_NANOSECONDS * rows + _PAIR_NANOSECONDS * pairs


def rows(query: Query, statistics: Statistics) -> float | None:
    """The pairs that a query gives in a second of stream."""
    symbols, found = symbols_of(query.pattern), _pairs(query, statistics)
    for condition in query.conditions:
        found *= statistics.selectivity(condition, symbols)
    return found


def _tried(query: Query, statistics: Statistics) -> float:
    """The pairs of a second that agree in all that is to be equal."""
    symbols, found, tied = symbols_of(query.pattern), _pairs(query, statistics), equalities(query)
    for condition in query.conditions:
        if tied and isinstance(condition, ex.Comparison) and condition.operator == "=":
            found *= statistics.selectivity(condition, symbols)
    return found


def _pairs(query: Query, statistics: Statistics) -> float:
    """The pairs of a second that lie in the windows."""
    assert query.join is not None
    left, right = (statistics.rate(side.symbol) for side in sides(query))
    values = statistics.key(query.key).cardinality
    waiting_left = _waiting(query.join.left, left, values)
    waiting_right = _waiting(query.join.right, right, values)
    return (left * waiting_right + right * waiting_left) / values


def _waiting(window: Window, rate: float, values: float) -> float:
    """The events of a side that one of the other meets, of all keys."""
    return window.size * values if window.is_count else rate * window.size / 1e9
