"""MATCH_RECOGNIZE: statements together and one by one, and the ways to ask conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from engines.input.event_table import from_table
from engines.results.tables import Results, joined_results
from optimizer.bind.binder import load_bound
from tests.benchmarks.found import Found, found_results
from tests.benchmarks.measuring import Measured, Row, Said, Size, Variant, measure
from tests.running import run_local

NAME = "rowpattern"
_RUNS = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, "
    "COUNT(*) AS n PATTERN (A B* C) DEFINE A AS price < {low}, B AS price BETWEEN 10 AND 60, "
    "C AS price > {high})"
)
_VEE = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, "
    "LAST(D.price) AS low, LAST(ts) AS last PATTERN (S D+ U+) "
    "DEFINE D AS price < PREV(price), U AS price > PREV(price))"
)
_VEE_ROWS = 2_000_000
_PUBLISHED = {"DuckDB": 0.146, "Trino": 1.48}  # seconds for so many rows, on 16 cores
_FALLS = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, "
    "LAST(price) AS last PATTERN (S D+) DEFINE D AS {})"
)
_ASKED = {
    "a bitmap": "price < PREV(price)",
    "asked, compiled": "price < LAST(price, 1)",
    "asked value by value": "CASE WHEN price < LAST(price, 1) THEN true ELSE false END",
}


def by_statements(size: Size) -> Iterator[Row]:
    """Statements of one key share rows in order, columns and bitmaps, or each runs by itself. CPU.

    Then one statement whose condition is written in three ways: of the row and the one before, of
    the match so far, and of that with a CASE, for which the compiled search has no instruction. And
    prices that fall and rise, in 1,000 partitions, beside what was published of others on 16 cores.
    """
    events = 500_000 if size == "full" else 5_000
    table = _ticks(events)
    for number in (1, 10, 50) if size == "full" else (1, 5):
        texts = [_RUNS.format(low=10 + i % 5, high=60 + i) for i in range(number)]
        names = _names(number)
        seconds = measure(
            {
                "together": Variant(partial(_run, table, texts), _found(names)),
                "one by one": Variant(partial(_each, table, texts), _found(names)),
            },
            size,
        )
        yield Measured(NAME, "statements", f"{number} statements", events, seconds)
    few = table.slice(0, events // 10)
    variants = {
        name: Variant(partial(_run, few, [_FALLS.format(text)]), _found(_names(1)))
        for name, text in _ASKED.items()
    }
    seconds = measure(variants, size, time.process_time)
    yield Measured(NAME, "conditions", "falling prices", len(few), seconds)
    rows = _VEE_ROWS if size == "full" else 20_000
    one = {"sheaf": Variant(partial(_run, _walks(rows), [_VEE]), _found(_names(1)))}
    spent = measure(one, size, time.process_time)
    yield Measured(NAME, "vee", f"a V in {rows:,} rows", rows, spent)
    by_core = {name: _VEE_ROWS / (16 * seconds) for name, seconds in _PUBLISHED.items()}
    times = {name: rows / spent["sheaf"] / rate for name, rate in by_core.items()}
    said = ", ".join(
        f"{by_core[name] / 1e6:.2g} M of {name} ({times[name]:.2g} times)" for name in by_core
    )
    yield Said(NAME, f"Published, a core: {said}.", times)


def _ticks(events: int) -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "ts": np.arange(events),
            "k": random.integers(0, 1000, events),
            "price": random.integers(0, 100, events),
        }
    )


def _walks(events: int) -> pa.Table:
    """Prices of 1,000 keys in turn."""
    random = np.random.default_rng(7)
    place = np.arange(events)
    price = random.integers(0, 100, events)
    return pa.table({"ts": place // 1000, "k": place % 1000, "price": price})


def _names(number: int) -> list[str]:
    return [f"q{i}" for i in range(number)]


def _run(table: pa.Table, texts: Sequence[str], first: int = 0) -> Results:
    queries = [{"name": f"q{first + i}", "sql": text} for i, text in enumerate(texts)]
    workload = load_bound({"name": "w", "stream": {"time": "ts", "unit": "ms"}, "queries": queries})
    return run_local(workload, from_table(table, workload.stream))


def _each(table: pa.Table, texts: Sequence[str]) -> Results:
    return joined_results([_run(table, [text], i) for i, text in enumerate(texts)])


def _found(names: list[str]) -> Callable[[Results], Found]:
    def found(results: Results) -> Found:
        return found_results(results, names)

    return found
