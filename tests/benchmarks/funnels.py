"""Funnels: all of them in one pass, one by one, and by a query of DuckDB each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_table import from_table
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from tests.benchmarks.found import Found
from tests.benchmarks.measuring import Measured, Row, Said, Size, Variant, measure
from tests.running import run_local

NAME = "funnels"
TYPES = tuple(f"T{number:02}" for number in range(20))
STEPS = 6
WINDOW = 8 * 3_600_000  # milliseconds
Counts = dict[str, tuple[int, ...]]  # keys that reach each step, by funnel


def by_funnels(size: Size) -> Iterator[Row]:
    """A hundred funnels of six steps over one stream, ten of each beginning with the same two.

    DuckDB answers each by a query of its own: the first time of the latest attempt is carried from
    step to step by window functions over the events of the funnel's types.
    """
    events, number = (300_000, 100) if size == "full" else (20_000, 10)
    table = clicks(events)
    funnels = chosen_steps(number)
    variants = {
        "one pass": Variant(partial(_run, table, funnels), _found),
        "one by one": Variant(partial(_each, table, funnels), _found),
        "DuckDB": Variant(partial(_duckdb, table, funnels), _found),
    }
    # Of CPU: what else the machine does then matters less; DuckDB has one thread, as the pass has.
    seconds = measure(variants, size, time.process_time)
    yield Measured(NAME, "funnels", f"{number} funnels of {STEPS} steps", events, seconds)
    ratio = seconds["DuckDB"] / seconds["one pass"]
    text = f"one pass is {ratio:.0f} times as fast as {number} queries of DuckDB"
    yield Said(NAME, text, {"ratio": ratio})


def clicks(events: int) -> pa.Table:
    """Events of twenty types at different times, a hundred for each user."""
    random = np.random.default_rng(5)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(1, 400, events)),
            "kind": pa.DictionaryArray.from_arrays(
                random.integers(0, len(TYPES), events).astype(np.int32), pa.array(TYPES)
            ).cast(pa.string()),
            "user": random.integers(0, max(1, events // 100), events),
        }
    )


def chosen_steps(number: int) -> list[tuple[str, ...]]:
    """The types of each funnel's steps, all different."""
    random = np.random.default_rng(6)
    found: list[tuple[str, ...]] = []
    for place in range(number):
        if place % 10 == 0:
            first = random.permutation(len(TYPES))[:2].tolist()
        others = [n for n in random.permutation(len(TYPES)).tolist() if n not in first]
        found.append(tuple(TYPES[n] for n in [*first, *others[: STEPS - 2]]))
    return found


def _run(table: pa.Table, funnels: Sequence[tuple[str, ...]], first: int = 0) -> Counts:
    queries = [
        f"QUERY q{first + place} FUNNEL SEQ({', '.join(f'{kind} {kind}' for kind in steps)}) "
        f"RETURN STEPS WITHIN {WINDOW} ms PARTITION BY user"
        for place, steps in enumerate(funnels)
    ]
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    workload = load_bound({"name": "funnels", "stream": stream, "queries": queries})
    return _counts(run_local(workload, from_table(table, workload.stream)))


def _counts(results: Results) -> Counts:
    rows = results.aggregates.filter(pc.is_valid(results.aggregates.column("count")))
    found: dict[str, dict[str, int]] = {}
    for row in rows.select(["query", "aggregate", "count"]).to_pylist():
        found.setdefault(row["query"], {})[row["aggregate"]] = row["count"]
    return {
        query: tuple(counts[name] for name in sorted(counts)) for query, counts in found.items()
    }


def _each(table: pa.Table, funnels: Sequence[tuple[str, ...]]) -> Counts:
    found: Counts = {}
    for place, steps in enumerate(funnels):
        found |= _run(table, [steps], place)
    return found


def _duckdb(table: pa.Table, funnels: Sequence[tuple[str, ...]]) -> Counts:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("SET enable_progress_bar = false")
        connection.register("given", table)
        connection.execute("CREATE TABLE clicks AS SELECT * FROM given")
        found: Counts = {}
        for place, steps in enumerate(funnels):
            row = connection.execute(funnel_query(steps)).fetchone()
            assert row is not None
            found[f"q{place}"] = tuple(row)
    return found


def funnel_query(steps: Sequence[str]) -> str:
    """How many users reach each step: `f1` is the first time of the latest attempt that did."""
    kinds = ", ".join(f"'{kind}'" for kind in steps)
    source = f"(SELECT * FROM clicks WHERE kind IN ({kinds}))"
    for number, kind in enumerate(steps):
        own = (
            "ts"
            if number == 0
            else f"CASE WHEN ts - f{number - 1} < {WINDOW} THEN f{number - 1} END"
        )
        last = f"last_value(CASE WHEN kind = '{kind}' THEN {own} END IGNORE NULLS)"
        over = 'PARTITION BY "user" ORDER BY ts ROWS UNBOUNDED PRECEDING'
        source = f"(SELECT *, {last} OVER ({over}) AS f{number} FROM {source})"
    counts = ", ".join(
        f'count(DISTINCT CASE WHEN f{number} IS NOT NULL THEN "user" END)'
        for number in range(len(steps))
    )
    return f"SELECT {counts} FROM {source}"


def _found(counts: Counts) -> Found:
    numbers = [count for query in sorted(counts) for count in counts[query]]
    mixed = sum((place + 1) * count for place, count in enumerate(numbers))
    return Found(len(numbers), sum(numbers), mixed)
