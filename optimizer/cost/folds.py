"""What folding columns takes, in operations for a second of stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from optimizer.cost.counting import CountedQueries, events_per_pane
from optimizer.cost.substrings import Arrivals
from optimizer.cost.unit_costs import Operations
from optimizer.ir.aggregates import aggregate_parts
from optimizer.ir.pattern import Symbol, positive_events
from optimizer.ir.query import Aggregation, Construction, Query
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
        attributes = set[str]().union(*(_attributes(query.output) for query in members))
        found += Operations(
            fold_events=rate, fold_values=rate * len(attributes), fold_panes=panes * len(members)
        )
    rows = sum(_rows(query, statistics) for query in queries)
    return found + Operations(fold_rows=rows)


@lru_cache(maxsize=4_096)  # asked again for each group that a query is tried in
def _rows(query: Query, statistics: Statistics) -> float:
    """Numbers that a query's rows have, in a second."""
    (event,) = positive_events(query.pattern)
    arrivals = Arrivals(statistics, query.key, query.window, query.slide)
    rows = arrivals.rate(event.symbol)
    if query.slide is not None:
        rows = arrivals.evaluations(frozenset((event.symbol,)))
    return rows * (1 + len(_attributes(query.output)))


@lru_cache(maxsize=4_096)
def _attributes(output: Aggregation | Construction) -> frozenset[str]:
    """The columns that a query aggregates."""
    assert isinstance(output, Aggregation)
    return frozenset(str(part.column) for part in aggregate_parts(output))
