"""Queries that are expected to give more rows than anybody wants."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.plan.plan import Operator, Plan

MANY_ROWS = 10_000_000  # of one query
MANY_ROWS_PER_EVENT = 100.0


def row_warnings(plan: Plan) -> Iterator[str]:
    """A sentence for each query that is expected to give very many rows.

    What rests on rates that are only assumed is left out.
    """
    known = plan.statistics
    events, span = known.get("events"), known.get("span")
    if not events or not span or "events: span" in plan.assumed:
        return
    for operator in plan.operators:
        if operator.kind != "output" or not operator.rows or _is_assumed(plan, operator):
            continue
        rows = operator.rows * span
        if rows > MANY_ROWS or rows > MANY_ROWS_PER_EVENT * events:
            yield (
                f"query {operator.detail['query']} is expected to give about "
                f"{_rounded(rows):,} rows, {_rounded(rows / events):,} for each event: limit them "
                f"(--row-limit), shorten its window ({operator.detail['window']}), partition it by "
                "a key, or add conditions"
            )


def _is_assumed(plan: Plan, output: Operator) -> bool:
    types = {symbol.partition("[")[0] for symbol in output.detail["symbols"]}
    return any(f"rates: {name}" in plan.assumed for name in types)


def _rounded(value: float) -> int:
    """To two digits."""
    return int(float(f"{value:.1e}"))
