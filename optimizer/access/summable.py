"""Which aggregates can be put together from counts, sums and extremes of blocks of events."""

from __future__ import annotations

from optimizer.access.anchors import NotIndexedError, check_known
from optimizer.engines import folds
from optimizer.ir.aggregates import aggregate_parts
from optimizer.ir.pattern import Symbol, positive_events
from optimizer.ir.query import Aggregation, Query
from workloads import expressions as ex


def summed_symbol(query: Query) -> Symbol:
    """The symbol whose events a query aggregates; raises `NotIndexedError` where blocks do not do.

    They do for `COUNT`, `SUM`, `AVG`, `MIN` and `MAX` of columns over events without a key, by
    slides: then a window is as many whole blocks as are in it, and what is at its edges.
    """
    check_known(query)
    if query.into is not None or query.reads:
        raise NotIndexedError("rows of queries are events for others, and blocks have none")
    output = query.output
    if not isinstance(output, Aggregation):
        raise NotIndexedError("it returns matches, and blocks have none")
    if (why := folds.refusal(query)) is not None:
        raise NotIndexedError(why)
    if query.window.is_count:
        raise NotIndexedError("its window counts events")
    if query.slide is None:
        raise NotIndexedError("it gives a row at every event")
    if query.key or query.named_keys:
        raise NotIndexedError("blocks have events of every key")
    if query.conditions:
        raise NotIndexedError("it has conditions on more than its events")
    for part in aggregate_parts(output):
        if part.kind == "distinct" or part.form not in ("value", "present"):
            raise NotIndexedError("blocks have counts, sums, minima and maxima only")
        if not isinstance(part.operand, ex.Attribute):
            raise NotIndexedError("it computes with values, and blocks have sums of columns")
    (event,) = positive_events(query.pattern)
    if event.optional:
        raise NotIndexedError("its component may be bound to no event")
    return event.symbol
