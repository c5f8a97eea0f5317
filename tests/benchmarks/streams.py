"""Streams and queries that benchmarks make: an event each millisecond, so that a window of a number
of milliseconds holds as many events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

STREAM = {"time": "ts", "unit": "ms", "type": "type"}
TYPES = tuple(f"T{i:02}" for i in range(20))
# The stocks of A-Seq's single queries, in the order of its longest (Qi's thesis, section 5.2, q7).
TICKERS = ("DELL", "IPIX", "QQQ", "AMAT", "MSFT", "CSCO", "INTC", "ORCL", "YHOO", "RIMM")


def uniform(
    types: Sequence[str], events: int, shares: Mapping[str, float] | None = None, seed: int = 0
) -> pa.Table:
    """Types drawn alike, or some of them at a given share of all events."""
    from workloads.generators import StreamSpec, generate_table, uniform_rates, with_shares

    rates = with_shares(uniform_rates(types, 1000.0), shares or {})
    return generate_table(
        StreamSpec(rates=rates, events=events, seed=seed, unit="ms", time="ts", type="type")
    )


def sequence(name: str, parts: Sequence[str], width: int, slide: int = 0) -> str:
    """The query that counts a sequence, per trigger or per slide."""
    every = f" SLIDE {slide} ms" if slide else ""
    return f"QUERY {name} PATTERN SEQ({', '.join(parts)}) AGG COUNT(*) WITHIN {width} ms{every}"


def constructed(length: int, width: int, types: int, events: int) -> float:
    """How many matches a sequence of different types has, on average, in a uniform stream.

    An event that can be the last has `width - 1` before it in its window; of these, `length - 1`
    are chosen and each is of the type it should be once in `types`.
    """
    return events / types * comb(width - 1, length - 1) / float(types) ** (length - 1)
