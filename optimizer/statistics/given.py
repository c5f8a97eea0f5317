"""What the author of a workload wrote, as statistics: aliases become symbols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from optimizer.canonical import canonical
from optimizer.folding import fold
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query
from optimizer.statistics.known import Statistics
from optimizer.statistics.predicates import joint_text, local_text, symbols_of
from workloads import expressions as ex
from workloads.errors import QueryError
from workloads.model import Statistics as Given
from workloads.parser import parse_condition
from workloads.printer import print_expression


def given(written: Given, queries: Iterable[Query]) -> Statistics:
    """The author's numbers under the names that cost models ask for.

    A predicate may be written with the aliases of any query or with types, in any equal spelling:
    `b.x > a.x` is `a.x < b.x`, and `a.x > 1 + 1` is `a.x > 2`. What names no predicate of the
    queries is kept as it is written, and so is where measured numbers came from.
    """
    selectivities = {
        spelling: value
        for text, value in written.selectivities.items()
        for spelling in _spellings(text)
    }
    found: dict[str, float] = {}
    for query in queries:
        symbols = symbols_of(query.pattern)
        for condition in query.conditions:
            known = selectivities.get(print_expression(condition))
            if known is not None:
                found[joint_text(condition, symbols)] = known
        for alias, symbol in symbols.items():
            found |= _local(alias, symbol, selectivities)
    if isinstance(written, Statistics):
        return replace(written, selectivities={**selectivities, **found})
    return Statistics(
        dict(written.rates),
        {**selectivities, **found},
        dict(written.keys),
        written.ties,
        written.events,
        written.span,
    )


def _local(alias: str, symbol: Symbol, selectivities: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for predicate in symbol.predicates:
        text = print_expression(canonical(ex.rename(predicate, {"": alias})))
        if text in selectivities:
            found[local_text(symbol, predicate)] = selectivities[text]
    return found


def _spellings(text: str) -> tuple[str, ...]:
    """A predicate's canonical spellings, as written and with constants computed.

    A symbol such as `A[x > 5]` stays as it is.
    """
    try:
        condition = parse_condition(text)
    except QueryError:
        return (text,)
    return print_expression(canonical(condition)), print_expression(fold(condition))
