"""Relational work over streams, beside DuckDB: an interval join and sums over sliding windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.event_table import from_table
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from tests.benchmarks.found import Found
from tests.benchmarks.measuring import Measured, Row, Size, Variant, measure
from tests.running import run_local

NAME = "joins"
_JOIN = "PATTERN JOIN(L l WITHIN {w} ms, R r WITHIN {w} ms) WHERE l.k = r.k RETURN l.v, r.v"
_JOINED = """
SELECT count(*) AS n, sum(l.v * 1.0 * r.v) AS s FROM lefts l JOIN rights r
ON l.k = r.k AND r.ts > l.ts - {w} AND r.ts < l.ts + {w}"""
_SUMS = "PATTERN L l PARTITION BY k AGG SUM(l.v) WITHIN {w} ms SLIDE {s} ms"
# Of each event the windows that it is in: those that close up to a window behind it.
_SUMMED = """
SELECT k, (ts + {s} - 1) // {s} * {s} + i * {s} AS closes, sum(v) AS total
FROM lefts, range({n}) AS windows(i) GROUP BY ALL"""


def by_relation(size: Size) -> Iterator[Row]:
    """Two streams joined by a key within an interval, and sums by key over sliding windows.

    Both engines have one thread and the events in memory, and give their rows as columns; DuckDB's
    join gives its number and a sum, which is less. Events per second of CPU.
    """
    events = 1_000_000 if size == "full" else 10_000
    for keys, width in ((100, 1_000), (10_000, 20_000)):
        table = _stream(events, keys)
        variants = {
            "sheaf": Variant(partial(_run, table, _JOIN.format(w=width)), _pairs),
            "DuckDB": _in_duckdb(table, _JOINED.format(w=width), _counted),
        }
        case = f"join by {keys:,} keys within {width / 1000:g} s"
        yield Measured(NAME, "joins", case, events, measure(variants, size, time.process_time))
    table = _stream(events, 10_000, ("L",))
    for windows in (1, 10):
        slide = 10_000
        text = _SUMS.format(w=slide * windows, s=slide)
        statement = _SUMMED.format(s=slide, n=windows)
        variants = {
            "sheaf": Variant(partial(_run, table, text), _rows),
            "DuckDB": _in_duckdb(table, statement, _totals),
        }
        case = f"sums by 10,000 keys, each event in {windows} window{'s' * (windows > 1)}"
        yield Measured(NAME, "joins", case, events, measure(variants, size, time.process_time))


def _stream(events: int, keys: int, kinds: tuple[str, ...] = ("L", "R")) -> pa.Table:
    random = np.random.default_rng(4)
    codes = random.integers(0, len(kinds), events).astype(np.int32)
    return pa.table(
        {
            "ts": np.arange(events),
            "kind": pa.DictionaryArray.from_arrays(codes, pa.array(kinds)).cast(pa.string()),
            "k": random.integers(0, keys, events),
            "v": random.integers(0, 100, events),
        }
    )


def _run(table: pa.Table, query: str) -> Results:
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    workload = load_bound({"name": NAME, "stream": stream, "queries": [f"QUERY q {query}"]})
    return run_local(workload, from_table(table, workload.stream))


def _in_duckdb(table: pa.Table, statement: str, found: Callable[[pa.Table], Found]) -> Variant:
    """The statement over tables in DuckDB's memory."""
    connection: Any = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET enable_progress_bar = false")
    connection.register("given", table)
    for name, kind in (("lefts", "L"), ("rights", "R")):
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given WHERE kind = '{kind}'")
    return Variant(lambda: connection.sql(statement).to_arrow_table(), found)


def _pairs(results: Results) -> Found:
    return Found(results.matches.num_rows, 0, 0)


def _counted(table: pa.Table) -> Found:
    return Found(table.column("n")[0].as_py(), 0, 0)


def _rows(results: Results) -> Found:
    values = results.aggregates.column("value")
    return Found(len(values), 0, 0, float(pc.sum(values).as_py() or 0))


def _totals(table: pa.Table) -> Found:
    return Found(table.num_rows, 0, 0, float(pc.sum(table.column("total")).as_py() or 0))
