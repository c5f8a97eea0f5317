"""What folding columns takes, in operations for a second of stream."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.cost.counting import CountedQueries, events_per_pane
from optimizer.cost.unit_costs import Operations
from optimizer.ir.aggregates import aggregate_parts
from optimizer.ir.pattern import Symbol, positive_events
from optimizer.ir.query import Aggregation, Query
from optimizer.statistics.statistics import Statistics


def folds(queries: Sequence[Query], statistics: Statistics) -> Operations:
    """Queries over single events, of one key, with any windows and slides.

    Each attribute of a symbol's events is folded once for all queries that aggregate it, by panes
    that all windows are put together from.
    """
    every = CountedQueries(tuple(queries), statistics)
    by_symbol: dict[Symbol, list[Query]] = {}
    for query in queries:
        (event,) = positive_events(query.pattern)
        by_symbol.setdefault(event.symbol, []).append(query)
    found = Operations(seen=every.seen, keyed=every.seen if queries[0].key else 0.0)
    for symbol, members in by_symbol.items():
        rate = every.arrivals.rate(symbol)
        slides = members[0].slide is not None and not members[0].window.is_count
        panes = rate / max(1.0, events_per_pane(members, statistics)) if slides and rate else rate
        attributes = set[str]().union(*map(_attributes, members))
        found += Operations(
            fold_events=rate, fold_values=rate * len(attributes), fold_panes=panes * len(members)
        )
    for query in queries:
        (event,) = positive_events(query.pattern)
        arrivals = CountedQueries((query,), statistics).arrivals
        rows = arrivals.rate(event.symbol)
        if query.slide is not None:
            rows = arrivals.evaluations(frozenset((event.symbol,)))
        found += Operations(fold_rows=rows * (1 + len(_attributes(query))))
    return found


def _attributes(query: Query) -> frozenset[str]:
    """The columns that a query aggregates."""
    assert isinstance(query.output, Aggregation)
    return frozenset(str(part.column) for part in aggregate_parts(query.output))
