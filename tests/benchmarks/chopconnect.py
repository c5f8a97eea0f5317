"""Chop-Connect against its rivals (Qi's thesis, section 5.3, figures 5.4 and 5.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from statistics import fmean, linear_regression
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import Measured, Row, Said, Size, Variant, measure
from tests.benchmarks.streams import sequence, uniform

if TYPE_CHECKING:
    import pyarrow as pa

_WIDTH = 1_000
_CONNECT = "YHOO"
# What is shared, of length 12; the thesis' sub1 is its first seven.
_SHARED = (
    *("YHOO", "AMAZ", "MSFT", "ORCL", "RIMM", "CSCO", "INTC"),
    *("IBM", "GOOG", "LNKD", "FB", "NTAP"),
)
# What stands before it; two stocks each that it does not have.
_BEFORE = (("DELL", "AMAT"), ("VMW", "SUNW"), ("HPQ", "EBAY"), ("QQQ", "IPIX"))
_TYPES = (*_SHARED, *(stock for pair in _BEFORE for stock in pair))
# Queries of the thesis' workload that do not take part: its q2 and q3.
_OTHERS = (
    ("IPIX", "FB", "YHOO", "AMAZ", "MSFT", "ORCL"),
    ("QQQ", "IBM", "MSFT", "ORCL", "RIMM", "CSCO", "INTC"),
)
_RARE = 0.005  # the connect event's share where length and number are varied


def by_sharing(size: Size) -> Iterator[Row]:
    """Queries that share a substring: counted by Chop-Connect, A-Seq one by one, PreTree, product.

    Varied are f, the share of the substring's first type among all events; l, its length; k, the
    number of queries that have it; and w, the window's events. The other types are drawn alike.
    """
    yield from _by_share(size)
    if size == "full":
        yield from _by_length(size)
        yield from _by_number(size)
        yield from _by_window(size)


def _by_share(size: Size) -> Iterator[Row]:
    percents = (0.1, 0.5, 1.0, 1.3, 2.0, 2.5, 5.0, 7.5, 10.0) if size == "full" else (0.5, 10.0)
    taken: dict[float, Mapping[str, float]] = {}
    for percent in percents:
        row = _row(
            size,
            "varying f (l = 7, k = 3 of 5 queries, w = 1,000)",
            f"f = {percent:g} %",
            _workload(7),
            shared=3,
            length=7,
            share=percent / 100,
        )
        taken[percent] = row.seconds
        yield row
    for rival in ("A-Seq", "PreTree", "product"):
        ratios = {f: seconds[rival] / seconds["Chop-Connect"] for f, seconds in taken.items()}
        at = crossing(ratios)
        yield Said(
            "chopconnect",
            f"Chop-Connect against {rival}: {_sides(ratios, at, 'f', ' %', 2)}.",
            {"crossing at percent": at},
        )


def _by_window(size: Size) -> Iterator[Row]:
    taken: dict[float, Mapping[str, float]] = {}
    for width in (300, 1_000, 3_000, 10_000, 30_000):
        row = _row(
            size,
            "varying w (f = 0.5 %, l = 7, k = 3 of 5 queries)",
            f"w = {width:,}",
            _workload(7),
            shared=3,
            length=7,
            share=_RARE,
            width=width,
        )
        taken[width] = row.seconds
        yield row
    ratios = {
        width: seconds["product"] / min(s for way, s in seconds.items() if way != "product")
        for width, seconds in taken.items()
    }
    at = crossing(ratios)
    yield Said(
        "chopconnect",
        f"The product against the best of the others: {_sides(ratios, at, 'w', ' events', 0.5)}.",
        {"crossing at events": at},
    )


def crossing(ratios: Mapping[float, float]) -> float | None:
    """Where the ratio passes 1, if that lies between places that were measured.

    By the straight line that is nearest to all of them, both axes logarithmic: between two
    neighbours that both are near 1, noise would decide.
    """
    x, y = [log(place) for place in ratios], [log(ratio) for ratio in ratios.values()]
    line = linear_regression(x, y)
    if line.slope == 0:
        return None
    at = -line.intercept / line.slope
    return exp(at) if min(x) <= at <= max(x) else None


def _sides(
    ratios: Mapping[float, float], at: float | None, name: str, unit: str, faster: float
) -> str:
    """Where it is faster, in words; `faster` is a ratio at which it is."""
    if at is not None:
        falls = log(ratios[max(ratios)]) < log(ratios[min(ratios)])
        side = "below" if falls == (faster > 1) else "above"
        return f"faster where {name} is {side} about {at:,.2g}{unit}"
    is_faster = (fmean(map(log, ratios.values())) > 0) == (faster > 1)
    return f"{'faster' if is_faster else 'slower'} at every {name} measured"


def _workload(length: int) -> list[tuple[str, ...]]:
    """The thesis' workload: three queries that share, and two that do not take part."""
    return [*((*before, *_SHARED[:length]) for before in _BEFORE[:3]), *_OTHERS]


def _by_length(size: Size) -> Iterator[Row]:
    for length in (4, 6, 8, 10, 12):
        yield _row(
            size,
            "varying l (f = 0.5 %, k = 3 of 5 queries, w = 1,000)",
            f"l = {length}",
            _workload(length),
            shared=3,
            length=length,
            share=_RARE,
        )


def _by_number(size: Size) -> Iterator[Row]:
    """Eight queries of nine stocks; those that do not share have the substring's stocks turned."""
    stocks = [stock for pair in _BEFORE for stock in pair]
    befores = [(stocks[i], stocks[(i + 3) % 8]) for i in range(8)]
    for number in (2, 3, 4, 5, 6):
        patterns: list[tuple[str, ...]] = [(*b, *_SHARED[:7]) for b in befores[:number]]
        for turn, before in enumerate(befores[number:], 1):
            # Each its own order, and none with two stocks of the substring's in a row.
            rest = [_SHARED[1:][(i * 4 + turn * 3) % 11] for i in range(7)]
            patterns.append((*before, *rest))
        yield _row(
            size,
            "varying k (f = 0.5 %, l = 7, 8 queries, w = 1,000)",
            f"k = {number}",
            patterns,
            shared=number,
            length=7,
            share=_RARE,
        )


def _row(
    size: Size,
    title: str,
    name: str,
    patterns: Sequence[Sequence[str]],
    shared: int,
    length: int,
    share: float,
    width: int = _WIDTH,
) -> Measured:
    """The first `shared` queries end with a substring of that length, which they share."""
    events = 100_000 if size == "full" else 3_000
    stream = uniform(_TYPES, events, {_CONNECT: share})
    lengths = {f"q{i}": (len(patterns[i]) - length, length) for i in range(shared)}
    title = f"{title}, {events:,} events"
    return Measured(
        "chopconnect",
        title,
        name,
        events,
        measure(_variants(patterns, stream, lengths, width), size),
    )


def _variants(
    patterns: Sequence[Sequence[str]],
    stream: pa.Table,
    lengths: Mapping[str, Sequence[int]],
    width: int,
) -> dict[str, Variant]:
    from engines.counting import chopconnect
    from tests.benchmarks.ways import WAYS, counting, make_case, warm_up

    warm_up()
    queries = [sequence(f"q{i}", parts, width) for i, parts in enumerate(patterns)]
    case = make_case(queries, stream)
    return {
        "Chop-Connect": counting(chopconnect, case, lengths=lengths),
        **{way: WAYS[way](case) for way in ("A-Seq", "PreTree", "product")},
    }
