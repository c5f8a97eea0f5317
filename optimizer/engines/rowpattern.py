"""MATCH_RECOGNIZE: matches of row patterns, found in one pass over the rows of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from optimizer.engines.spec import Device
from optimizer.ir.query import Query, RowPattern
from optimizer.statistics.statistics import Statistics
from workloads.sql.rowpattern import variables, walk

NAME = "rowpattern"
LABEL = "row patterns in one pass"
MEANING = (
    "The rows of each partition are put in order once; each variable's condition is a bitmap over "
    "them; the preferred match from each row on is searched for over these, or where a condition "
    "reads the match so far, row by row."
)
PHRASES: tuple[str, ...] = ("row patterns in one pass",)
DEVICES: tuple[Device, ...] = ("cpu",)
_SORTED, _TESTED, _STEPPED = 8.0, 2.0, 4.0  # nanoseconds a row: by its logarithm, tested, searched


def refusal(query: Query) -> str | None:
    """It takes what came as MATCH_RECOGNIZE."""
    return None if isinstance(query.output, RowPattern) else "it is no MATCH_RECOGNIZE"


def refusal_together(queries: Sequence[Query]) -> str | None:
    """Queries of one key share rows in order, columns and bitmaps."""
    return "its queries differ in key" if len({query.key for query in queries}) > 1 else None


def done_once(queries: Sequence[Query]) -> str:
    """The order of rows is made for all of them."""
    return f"{len(queries)} queries in one pass"


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """Rows are put in order once for each order, and a condition is tested once."""
    rate = _rate(statistics)
    orders: set[object] = set()
    conditions: set[object] = set()
    total = 0.0
    for query in queries:
        assert isinstance(query.output, RowPattern)
        clause = query.output.recognition
        orders.add((clause.partition, clause.order, clause.filter))
        conditions.update(condition for _, condition in clause.conditions)
        total += rate * _STEPPED * sum(1 for _ in walk(clause.pattern))
    total += rate * _TESTED * len(conditions)
    return float(total + rate * _SORTED * log2(2 + rate) * len(orders))


def rows(query: Query, statistics: Statistics) -> float | None:
    """Known of no match: as if each variable took one row of four."""
    assert isinstance(query.output, RowPattern)
    clause = query.output.recognition
    return float(_rate(statistics) / 4 ** min(4, max(1, len(variables(clause.pattern)))))


def _rate(statistics: Statistics) -> float:
    return float(max(statistics.rates.values(), default=0.0))
