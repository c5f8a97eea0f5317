"""What a window's size costs (Qi's thesis, figure 5.2, and beyond)."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.benchmarks.length import over_budget
from tests.benchmarks.measuring import Measured, Row, Said, Size, measure
from tests.benchmarks.streams import TICKERS, TYPES, sequence, uniform


def by_window(size: Size) -> Iterator[Row]:
    """A sequence of three at windows of 100 to 10,000 events; ten queries at up to a million."""
    yield from _ways(size)
    yield from _flat(size)


def _ways(size: Size) -> Iterator[Row]:
    """The thesis' q2, each way to count."""
    from tests.benchmarks.ways import WAYS, make_case, warm_up

    warm_up()
    widths = (100, 200, 300, 400, 500, 1_000, 2_000, 10_000) if size == "full" else (100, 200)
    events = 50_000 if size == "full" else 2_000
    stream = uniform(TICKERS, events)
    for width in widths:
        case = make_case([sequence("q2", TICKERS[:3], width)], stream)
        skipped = over_budget(3, width, len(TICKERS), events)
        ways = [w for w in ("product", "A-Seq", "two-step", "joins") if w not in skipped]
        yield Measured(
            "window",
            f"one sequence of 3 out of 10 types, a result at every trigger, {events:,} events",
            f"window of {width:,} events",
            events,
            measure({way: WAYS[way](case) for way in ways}, size),
            skipped,
        )


def _flat(size: Size) -> Iterator[Row]:
    """Ten sequences of six per slide, by the product: the cost per event should stay flat."""
    from tests.benchmarks.ways import WAYS, make_case

    widths = (100, 1_000, 10_000, 100_000, 1_000_000) if size == "full" else (100, 1_000)
    events = 2_000_000 if size == "full" else 10_000
    stream = uniform(TYPES, events)
    draw = random.Random(0)
    patterns = [draw.sample(TYPES, 6) for _ in range(10)]
    variants = {}
    for width in widths:
        queries = [sequence(f"q{i}", p, width, width // 10) for i, p in enumerate(patterns)]
        variant = WAYS["product"](make_case(queries, stream))
        variants[f"{width:,}"] = variant.about(str(width))
    # All in one call, so that they take turns.
    seconds = measure(variants, size)
    title = f"ten sequences of 6 out of 20 types, per slide of a tenth, {events:,} events"
    for width_text, taken in seconds.items():
        case = f"window of {width_text} events"
        yield Measured("window", title, case, events, {"product": taken})
    ratio = max(seconds.values()) / min(seconds.values())
    yield Said(
        "window",
        f"Between windows of {widths[0]:,} and {widths[-1]:,} events the product's cost per event "
        f"differs by a factor of {ratio:.2f} at most.",
        {"factor": ratio},
    )
