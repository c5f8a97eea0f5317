"""What a negated component costs (Qi's thesis, figure 5.3 b)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.measuring import Measured, Row, Size, measure
from tests.benchmarks.streams import TICKERS, sequence, uniform

_WIDTH = 500
# The thesis' q8 and q9 are the first and the third.
PATTERNS = {
    "without": ("DELL", "IPIX", "AMAT"),
    "first": ("!QQQ", "DELL", "IPIX", "AMAT"),
    "middle": ("DELL", "IPIX", "!QQQ", "AMAT"),
    "last": ("DELL", "IPIX", "AMAT", "!QQQ"),
}


def by_negation(size: Size) -> Iterator[Row]:
    """A sequence of three with a negated type first, in the middle, last, and without it.

    All ways check negations as they go: those that construct, too, do not filter afterwards.
    """
    from tests.benchmarks.ways import WAYS, make_case, warm_up

    warm_up()
    events = 100_000 if size == "full" else 2_000
    stream = uniform(TICKERS, events)
    ways = ("product", "A-Seq", "two-step", "joins")
    cases = {
        where: make_case([sequence("q", parts, _WIDTH)], stream)
        for where, parts in PATTERNS.items()
    }
    seconds = measure(
        {
            f"{way} {where}": WAYS[way](case).about(where)
            for way in ways
            for where, case in cases.items()
        },
        size,
    )
    for way in ways:
        yield Measured(
            "negation",
            f"SEQ(DELL, IPIX, AMAT) with !QQQ, window of {_WIDTH} events, {events:,} events",
            way,
            events,
            {where: seconds[f"{way} {where}"] for where in PATTERNS},
        )
