"""Situations: stretches of time in which a condition holds, tied by Allen's relations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from optimizer.engines.situation_joins import (
    JoinSizes,
    asked_masks,
    join_order,
    tried_relations,
)
from optimizer.engines.situation_parts import SharedPart
from optimizer.engines.spec import Device, one_setting
from optimizer.ir.query import Query, SituationPattern
from optimizer.ir.situations import Definition, Situation, Temporal
from optimizer.statistics.statistics import Statistics
from workloads.situations.relations import converse

NAME = "situations"
LABEL = "deriving situations and joining them by their relations"
MEANING = (
    "One pass over the events in order finds the stretches in which each condition holds, once for "
    "all queries that define it; they are few beside the events. Queries then choose among them by "
    "their starts and ends, and patterns that several queries have are joined once."
)
PHRASES: tuple[str, ...] = (LABEL, "deriving situations")
DEVICES: tuple[Device, ...] = ("cpu", "opencl")

_EVENT_NANOSECONDS = 3.0  # an event that is looked at for one definition
_STEP_NANOSECONDS = 60.0  # a situation that is tried in a join
_BIT_TEST_NANOSECONDS = 4.0  # a match of a shared part that a query looks at
_SITUATION_EVENTS = 10.0  # for how many events in turn a condition holds, or does not
_LONGEST = 1e15  # seconds, of a window
# The share of pairs of situations in one window that have each relation, in the order of masks, as
# Table 5.3 of the dissertation on TPStream has it.
_SHARES = (0.445, 0.0049, 0.01, 0.0049, 0.03, 0.0049, 0.0006, 0.0049, 0.03, 0.0049, 0.01, 0.0049)
_RELATION_SHARES = (*_SHARES, 0.445)


def refusal(query: Query) -> str | None:
    """It takes the queries with DEFINE."""
    if isinstance(query.output, SituationPattern):
        return None
    return "it is not about situations"


def refusal_together(queries: Sequence[Query]) -> str | None:
    """One key; the rest differs by query."""
    return one_setting(queries)


def temporal_of(query: Query) -> Temporal:
    """What a query that it takes looks for."""
    assert isinstance(query.output, SituationPattern)
    return query.output.temporal


Core = tuple[tuple[tuple[Definition, int | None, int | None], ...], tuple[object, ...], str]


def core(query: Query) -> Core:
    """What queries that are joined once have in common: all but names, window and results."""
    temporal = temporal_of(query)
    situations = tuple((s.definition, s.at_least, s.at_most) for s in temporal.situations)
    return situations, temporal.constraints, temporal.emit


def definitions_of(queries: Sequence[Query]) -> dict[Definition, tuple[str, ...]]:
    """Each definition once, and the queries that use it."""
    found: dict[Definition, list[str]] = {}
    for query in queries:
        for definition in temporal_of(query).definitions:
            found.setdefault(definition, []).append(query.name)
    return {definition: tuple(names) for definition, names in found.items()}


def joined_once(queries: Sequence[Query]) -> dict[Core, tuple[Query, ...]]:
    """The queries that have one join, by what it joins."""
    found: dict[Core, list[Query]] = {}
    for query in queries:
        found.setdefault(core(query), []).append(query)
    return {known: tuple(some) for known, some in found.items()}


def done_once(queries: Sequence[Query]) -> str:
    """How many situations are derived, and joins made, for how many."""
    defined, joins = definitions_of(queries), joined_once(queries)
    used = sum(len(temporal_of(query).definitions) for query in queries)
    joined = sum(1 for some in joins.values() if len(temporal_of(some[0]).situations) > 1)
    return (
        f"{len(queries)} queries in one pass, {_counted(len(defined), 'definition')} derived in "
        f"place of {used}, {_counted(joined, 'join')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """What the pass takes, in nanoseconds for a second of stream."""
    spent = sum(derivation_cost(each, statistics) for each in definitions_of(queries))
    for some in joined_once(queries).values():
        spent += join_cost(widest(some), statistics)
    return spent


def widest(queries: Sequence[Query]) -> Query:
    """The query with the widest window."""
    return max(queries, key=lambda query: query.window.size)


def derivation_cost(definition: Definition, statistics: Statistics) -> float:
    """What finding the situations of a definition takes."""
    return _EVENT_NANOSECONDS * statistics.rate(definition.member)


def join_cost(query: Query, statistics: Statistics) -> float:
    """What joining the situations of a query takes, in the order that takes least."""
    sizes = predicted_sizes(query, statistics)
    return _STEP_NANOSECONDS * join_order(sizes).cost * _windows(query, statistics)


def predicted_order(query: Query, statistics: Statistics) -> tuple[str, ...]:
    """The names of a query in the order in which they would be joined."""
    situations = temporal_of(query).situations
    order = join_order(predicted_sizes(query, statistics))
    return tuple(situations[place].name for place in order.names)


def read_cost(query: Query, places: Sequence[int], rows: float, statistics: Statistics) -> float:
    """What it takes to go on from a part at these places that has so many matches a second."""
    sizes = predicted_sizes(query, statistics)
    left = sizes.names[places[0]]
    for number, place in enumerate(places[1:], 1):
        left = sizes.left(left, places[:number], place)
    joined = join_order(sizes, places, left).cost * _windows(query, statistics)
    return _STEP_NANOSECONDS * joined + _BIT_TEST_NANOSECONDS * rows


def part_cost(part: SharedPart, query: Query, statistics: Statistics) -> tuple[float, float]:
    """What joining a part takes in the window of a query, and its matches in a second."""
    plain = [Situation("", definition) for definition in part.definitions]
    masks = asked_masks(len(plain), part.constraints)
    order = join_order(_sizes(plain, masks, _window(query, statistics), statistics))
    windows = _windows(query, statistics)
    return _STEP_NANOSECONDS * order.cost * windows, order.rows * windows


def predicted_sizes(query: Query, statistics: Statistics) -> JoinSizes:
    """The situations of each name in a window of one key, and which share of pairs is joined."""
    temporal = temporal_of(query)
    masks = asked_masks(len(temporal.situations), temporal.constraints)
    for left, right, mask in temporal.implied:
        masks[left][right], masks[right][left] = mask, converse(mask)
    return _sizes(temporal.situations, masks, _window(query, statistics), statistics)


def _sizes(
    situations: Sequence[Situation],
    masks: Sequence[Sequence[int]],
    window: float,
    statistics: Statistics,
) -> JoinSizes:
    return JoinSizes(
        [max(_rate(situation, statistics) * window, 1e-9) for situation in situations],
        [[_share(mask) for mask in row] for row in masks],
        [[_share(tried_relations(mask)) for mask in row] for row in masks],
    )


def _windows(query: Query, statistics: Statistics) -> float:
    """The windows of all keys, laid side by side, that a second of stream has."""
    return 1.0 / _window(query, statistics)


def rows(query: Query, statistics: Statistics) -> float | None:
    """Matches in a second of stream."""
    temporal = temporal_of(query)
    rates = [_rate(situation, statistics) for situation in temporal.situations]
    window = _window(query, statistics)
    shares = prod(_share(c.mask) for c in temporal.constraints)
    return float(rates[0] * prod(max(rate * window, 1e-9) for rate in rates[1:]) * shares)


def _rate(situation: Situation, statistics: Statistics) -> float:
    """Situations a second: a run of events that fit begins behind one that does not.

    By chance alone runs would be short, but conditions that queries ask of stretches hold for some.
    """
    definition = situation.definition
    share = min(statistics.local(definition.symbol), 1.0)
    changes = share * max(1.0 - share, 1e-3) / _SITUATION_EVENTS
    return statistics.rate(definition.member) * changes


def _window(query: Query, statistics: Statistics) -> float:
    """The seconds in which so many situations of all keys begin as of one key in a window."""
    return max(min(query.window.size / 1e9, _LONGEST), 1e-9) / statistics.key(query.key).cardinality


def _share(mask: int) -> float:
    return min(sum(s for place, s in enumerate(_RELATION_SHARES) if mask >> place & 1), 1.0)
