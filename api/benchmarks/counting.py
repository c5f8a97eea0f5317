"""Counting without constructing: against one query at a time, and against constructing matches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from api.benchmarks.measuring import Measured, Size, measure

TYPES = [f"T{i:02}" for i in range(20)]
# A-Seq's queries of growing length over stock tickers (Qi's thesis, section 5.2, q1 to q4).
TICKERS = ("DELL", "IPIX", "QQQ", "AMAT", "MSFT")


def by_queries(size: Size) -> Iterator[Measured]:
    """1 to 1,000 queries of mean length 6 over 20 types, window of 1,000 events, every trigger."""
    numbers = (1, 10, 50, 100, 1000) if size == "full" else (1, 10)
    for number in numbers:
        count = _events(size, 1_000_000 if number < 1000 else 100_000)
        draw = random.Random(number)
        queries = [
            f"QUERY q{i} PATTERN SEQ({', '.join(draw.sample(TYPES, draw.randint(4, 8)))}) "
            "AGG COUNT(*) WITHIN 1000 ms"
            for i in range(number)
        ]
        run = _runner(queries, TYPES, count)
        yield measure(
            "queries",
            f"{number} queries",
            count,
            {"shared": run(), "one by one": run(sharing=False)},
        )


def by_window(size: Size) -> Iterator[Measured]:
    """Ten queries, windows from 100 to 1,000,000 events: the cost per event should stay flat."""
    widths = (100, 1_000, 10_000, 100_000, 1_000_000) if size == "full" else (100, 1_000)
    count = _events(size, 2_000_000)
    draw = random.Random(0)
    patterns = [", ".join(draw.sample(TYPES, 6)) for _ in range(10)]
    for width in widths:
        queries = [
            f"QUERY q{i} PATTERN SEQ({p}) AGG COUNT(*) WITHIN {width} ms SLIDE {width // 10} ms"
            for i, p in enumerate(patterns)
        ]
        run = _runner(queries, TYPES, count)
        yield measure("window", f"window of {width:,} events", count, {"shared": run()})


def by_length(size: Size) -> Iterator[Measured]:
    """A-Seq's q1 to q4: counted, and constructed first and then counted (thesis figure 5.1)."""
    count = _events(size, 20_000)
    for length in range(2, 6 if size == "full" else 4):
        pattern = ", ".join(TICKERS[:length])
        run = _runner([f"PATTERN SEQ({pattern}) AGG COUNT(*) WITHIN 100 ms"], TICKERS, count)
        yield measure(
            "length",
            f"length {length}",
            count,
            {"counted": run(), "constructed": run(counting=False)},
        )


def _events(size: Size, full: int) -> int:
    return full if size == "full" else min(full, 20_000)


def _runner(queries: Sequence[str], types: Sequence[str], count: int) -> Any:
    """Makes functions that run the queries over a uniform stream with an event each millisecond."""
    import numpy as np
    import pyarrow as pa

    from engines.events import from_table
    from engines.how import How
    from engines.local.run import run_local
    from optimizer.bind import load_bound

    stream = {"time": "ts", "unit": "ms", "type": "type"}
    workload = load_bound({"stream": stream, "queries": list(queries)})
    drawn = np.random.default_rng(0).integers(0, len(types), count)
    table = pa.table({"ts": np.arange(count), "type": pa.array(types).take(pa.array(drawn))})
    events = from_table(table, workload.stream)

    def make(counting: bool = True, sharing: bool = True) -> Any:
        how = How(counting=counting, sharing=sharing)
        return lambda: run_local(workload, events, how=how)

    return make
