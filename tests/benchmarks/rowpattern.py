"""MATCH_RECOGNIZE: statements together and one by one, and the ways to ask conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from engines.input.event_table import from_table
from engines.results.tables import Results, joined_results
from optimizer.bind.binder import load_bound
from tests.benchmarks.found import Found, found_results
from tests.benchmarks.measuring import Measured, Row, Size, Variant, measure
from tests.running import run_local

NAME = "rowpattern"
_RUNS = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, "
    "COUNT(*) AS n PATTERN (A B* C) DEFINE A AS price < {low}, B AS price BETWEEN 10 AND 60, "
    "C AS price > {high})"
)
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
    """Statements of one key share rows in order, columns and bitmaps, or each runs by itself.

    Then one statement whose condition is written in three ways: of the row and the one before, of
    the match so far, and of that with a CASE, for which the compiled search has no instruction.
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
    yield Measured(NAME, "conditions", "falling prices", len(few), measure(variants, size))


def _ticks(events: int) -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "ts": np.arange(events),
            "k": random.integers(0, 1000, events),
            "price": random.integers(0, 100, events),
        }
    )


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
