"""The simplest cost there is: how many counters or components an event touches.

A query that constructs its matches has every event tried on each of its components. A query that is
counted has a counter for each substring of its sequence, and an event adds to those that end in
its symbol; queries that are counted together have one counter for each distinct substring.

Unit: visits per second where the rate of every type is known. Where one is not, visits per event
at worst, as if every event could be of every type; the two are never mixed in one plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Symbol, events, positive_events
from optimizer.ir.query import Query

PER_SECOND = "visits per second"
PER_EVENT = "visits per event"


def unit(queries: Sequence[Query], rates: Mapping[str, float]) -> str:
    """What the costs of these queries are counted in."""
    known = all(event.symbol.type in rates for q in queries for event in events(q.pattern))
    return PER_SECOND if known else PER_EVENT


def joined(query: Query, rates: Mapping[str, float], unit: str) -> float:
    """What a query costs that constructs its matches, negated components included."""
    return sum(_rate(event.symbol, rates, unit) for event in events(query.pattern))


def counted(queries: Sequence[Query], rates: Mapping[str, float], unit: str) -> float:
    """What queries cost that are counted together."""
    substrings = {
        tuple(symbols[i : j + 1])
        for query in queries
        for choice in alternatives(query.pattern)
        for symbols in [[event.symbol for event in positive_events(choice)]]
        for j in range(len(symbols))
        for i in range(j + 1)
    }
    negated = {
        event.symbol
        for query in queries
        for event in set(events(query.pattern)) - set(positive_events(query.pattern))
    }
    return sum(_rate(s[-1], rates, unit) for s in substrings) + sum(
        _rate(symbol, rates, unit) for symbol in negated
    )


def _rate(symbol: Symbol, rates: Mapping[str, float], unit: str) -> float:
    return rates[symbol.type] if unit == PER_SECOND else 1.0
