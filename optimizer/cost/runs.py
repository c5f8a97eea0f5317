"""What following runs takes, in operations for a second of stream."""

from __future__ import annotations

from optimizer.cost.counting import CountedQueries
from optimizer.cost.unit_costs import Operations
from optimizer.ir.pattern import ANY, Symbol, run_of


def runs(group: CountedQueries) -> Operations:
    """Each event of the stream is visited once, and a beginning of a run once for each event that
    completes it: those that the event before it has completed go on.
    """
    total = group.arrivals.rate(ANY) or 1.0  # as a gap is without any event, all are looked at
    beginnings: dict[tuple[Symbol, ...], float] = {(): total}
    for choices in group.choices:
        run = run_of(choices) or ()
        for length, symbol in enumerate(run, 1):
            before = beginnings[run[: length - 1]]
            beginnings[run[:length]] = before * min(1.0, group.arrivals.rate(symbol) / total)
    return Operations(
        seen=total,
        keyed=total if group.arrivals.key else 0.0,
        spoken=total,
        run_events=total,
        run_steps=sum(beginnings.values()) - total,
        product_rows=float(group.rows.sum()),
    )
