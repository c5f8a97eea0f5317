"""Counting against constructing, by the pattern's length (Qi's thesis, figures 5.1 and 5.3 a)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.measuring import Measured, Row, Said, Size, measure
from tests.benchmarks.streams import TICKERS, constructed, sequence, uniform

# Matches that a way may construct; more are left out. Seconds differ by machine, these do not.
BUDGETS = {"two-step": 2e9, "joins": 2e8}


def over_budget(length: int, width: int, types: int, events: int) -> dict[str, str]:
    """The ways that would construct too many matches, and how many that is."""
    matches = constructed(length, width, types, events)
    return {
        way: f"would construct about {matches:.2g} matches; the limit is {budget:.2g}"
        for way, budget in BUDGETS.items()
        if matches > budget
    }


def by_length(size: Size) -> Iterator[Row]:
    """One sequence of 2 to 10 types: counted, and constructed first and then counted.

    The thesis' queries q1 to q7 over stocks drawn alike. Memory is the rise of the peak in a
    process of its own; both ways to construct aggregate their matches in batches and never hold
    all of them.
    """
    if size == "small":
        yield from _table(size, 100, TICKERS[:6], 2_000, (2, 3))
        return
    yield from _table(size, 100, TICKERS[:6], 20_000, (2, 3, 4, 5, 6), with_memory=True)
    yield from _table(size, 500, TICKERS[:6], 5_000, (2, 3, 4, 5, 6))
    yield from _table(size, 2_000, TICKERS[:10], 20_000, (6, 8, 10))


def _table(
    size: Size,
    width: int,
    types: tuple[str, ...],
    events: int,
    lengths: tuple[int, ...],
    with_memory: bool = False,
) -> Iterator[Row]:
    from tests.benchmarks.memory import can_measure, peak_memory
    from tests.benchmarks.ways import WAYS, make_case, warm_up

    warm_up()
    stream = uniform(types, events)
    title = f"window of {width:,} events, {len(types)} types, {events:,} events"
    measured = {}
    for length in lengths:
        queries = [sequence("q", types[:length], width)]
        case = make_case(queries, stream)
        skipped = over_budget(length, width, len(types), events)
        ways = [w for w in ("product", "A-Seq", "two-step", "joins") if w not in skipped]
        seconds = measure({way: WAYS[way](case) for way in ways}, size)
        memory = {}
        if with_memory and can_measure() and length % 2 == 0:  # each takes a process, and seconds
            memory = {way: peak_memory(way, queries, types, events) for way in ways}
        measured[length] = Measured(
            "length", title, f"length {length}", events, seconds, skipped, memory
        )
        yield measured[length]
    longest = [n for n, row in measured.items() if "two-step" in row.seconds]
    if longest:
        taken = measured[longest[-1]].seconds
        ratios = {way: taken["two-step"] / taken[way] for way in ("A-Seq", "product")}
        yield Said(
            "length",
            f"At length {longest[-1]} and a window of {width} events A-Seq is "
            f"{ratios['A-Seq']:,.0f} times as fast as two-step, the product "
            f"{ratios['product']:,.0f} times.",
            {"length": longest[-1], "window": width, **ratios},
        )
