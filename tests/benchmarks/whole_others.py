"""Whole runs of random workloads, beside DuckDB, and on Spark."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.detection import priced_events
from tests.benchmarks.measuring import BenchmarkError, Goal, Row, Said
from tests.benchmarks.spark import Spent, run_job, running_session
from tests.benchmarks.streams import STREAM, TYPES
from tests.benchmarks.whole_runs import (
    NAME,
    Asked,
    Cost,
    Done,
    Way,
    WholeRuns,
    interleaved,
    measured,
    stored_in,
    unlisted,
    workload_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_TRIES = 5  # rounds of a random workload; the best of each way counts
_SLOWER = 1.05


# --- random workloads ------------------------------------------------------------------------


def random_queries(seed: int) -> list[str]:
    """2 to 20 queries that count or find sequences over few types, windows and slides."""
    draw = random.Random(seed)
    types = draw.sample(TYPES, draw.randint(5, len(TYPES)))
    windows = [draw.randint(20, 400) for _ in range(draw.randint(1, 3))]
    found = []
    for i in range(draw.randint(2, 20)):
        parts = draw.sample(types, draw.randint(2, min(5, len(types))))
        named = [f"{name} e{j}" for j, name in enumerate(parts)]
        if len(parts) > 2 and draw.random() < 0.3:
            named[draw.randint(1, len(parts) - 2)] = f"!{parts[-1]} n"
            named[-1] = f"{parts[0]} e{len(parts)}"
        pattern, width = f"SEQ({', '.join(named)})", draw.choice(windows)
        if draw.random() < 0.5:
            slide = f" SLIDE {draw.choice((50, 100))} ms" if draw.random() < 0.4 else ""
            found.append(f"QUERY q{i} PATTERN {pattern} AGG COUNT(*) WITHIN {width} ms{slide}")
        else:
            last = named[-1].split()[1]
            where = f"WHERE e0.price < {last}.price AND {last}.price > 0.8"
            found.append(
                f"QUERY q{i} PATTERN {pattern} {where} RETURN e0.ts WITHIN {min(width, 60)} ms"
            )
    return found


def by_random_workloads(asked: Asked) -> Iterator[Row]:
    """Random workloads: runs of plans with sharing and without, by processor time."""
    number, events = (100, 40_000) if asked.size == "full" else (3, 1_000)
    path = stored_in(asked.folder, "events", priced_events(events))
    ratios: dict[int, float] = {}
    for seed in range(number):
        runs = WholeRuns(workload_of(STREAM, random_queries(seed)), path, asked.folder)
        plans = {sharing: runs.planned(sharing) for sharing in (True, False)}
        best = dict.fromkeys(plans, float("inf"))
        for _ in range(1 + _TRIES if asked.size == "full" else 1):
            for sharing, plan in plans.items():
                best[sharing] = min(best[sharing], runs.only_run(plan, "random").cost.cpu)
        ratios[seed] = best[True] / best[False]
    worst = max(ratios, key=lambda seed: ratios[seed])
    slower = [seed for seed, ratio in ratios.items() if ratio > _SLOWER]
    yield Said(
        NAME,
        f"Of {number} random workloads, {len(slower)} take more than {_SLOWER:g} times as long "
        f"with their plan as without sharing; in the middle they take {median(ratios.values()):.2f}"
        f" times as long, the worst (seed {worst}) {ratios[worst]:.2f} times.",
        {"slower": float(len(slower)), "median": median(ratios.values()), "worst": ratios[worst]},
    )
    text = "a plan's time by that without sharing, the worst of all"
    yield Goal(NAME, "random", text, _SLOWER, ratios[worst], False)


# --- a windowed sum --------------------------------------------------------------------------

_GAP = 40  # milliseconds between events
_HOUR, _SLIDE = 3_600_000, 5_000
_STATEMENT = """
COPY (
  WITH sums AS (
    SELECT CAST(ceil(ts / {slide}.0) AS BIGINT) * {slide} AS b, SUM(x) AS s
    FROM read_parquet('{events}') GROUP BY 1
  ),
  grid AS (
    SELECT range AS b
    FROM range((SELECT MIN(b) FROM sums), (SELECT MAX(b) FROM sums) + {width}, {slide})
  )
  SELECT g.b AS time, SUM(s.s) OVER (
    ORDER BY g.b RANGE BETWEEN {width} - {slide} PRECEDING AND CURRENT ROW
  ) AS value
  FROM grid g LEFT JOIN sums s USING (b) ORDER BY g.b
) TO '{rows}' (FORMAT parquet)
"""


def summing(number: int) -> list[str]:
    """Sums over windows of an hour and of other lengths, every 5 s."""
    return [
        f"QUERY s{i} PATTERN A a AGG SUM(a.x) WITHIN {_HOUR - i * 6 * _SLIDE} ms SLIDE {_SLIDE} ms"
        for i in range(number)
    ]


def by_windowed_sum(asked: Asked) -> Iterator[Row]:
    """One windowed sum beside DuckDB, and many windows beside one."""
    import numpy as np
    import pyarrow as pa

    events, number = asked.events(1_000_000), 100 if asked.size == "full" else 3
    draw = np.random.default_rng(1)
    ts = np.arange(1, events + 1) * _GAP
    x = draw.integers(0, 1_000, events).astype(np.float64)
    table = pa.table({"ts": ts, "type": pa.array(["A"] * events), "x": x})
    path = stored_in(asked.folder, "sum", table)
    one = WholeRuns(workload_of(STREAM, summing(1)), path, asked.folder, "shared-one")
    many = WholeRuns(workload_of(STREAM, summing(number)), path, asked.folder)
    one.shared()
    ways: dict[str, Way] = {
        "shared": lambda: unlisted(one.shared()),
        f"{number} windows": lambda: unlisted(many.shared()),
    }
    try:
        ways["DuckDB"] = _in_duckdb(path, asked.folder)
    except ModuleNotFoundError:
        yield Said(NAME, "DuckDB is not installed: it is left out.", {})
    costs = interleaved(ways, asked.size)
    yield from measured("a sum over 1 h, every 5 s", events, costs)
    first = costs["shared"].wall
    if "DuckDB" in costs:
        _compare_sums(asked.folder)
        ratio = first / costs["DuckDB"].wall
        yield Goal(NAME, "sum", "times of DuckDB", 1.5, ratio, False)
    ratio = costs[f"{number} windows"].wall / first
    yield Goal(NAME, "sum", f"times of one window for {number}", 3, ratio, False)


def _in_duckdb(events: str, folder: Path) -> Way:
    import duckdb

    connection: Any = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    statement = _STATEMENT.format(
        slide=_SLIDE, width=_HOUR, events=events, rows=folder / "duckdb.parquet"
    )

    def run() -> Done:
        wall, cpu = time.perf_counter(), time.process_time()
        connection.execute(statement)
        return Done(Cost(time.perf_counter() - wall, time.process_time() - cpu), {})

    return run


def _compare_sums(folder: Path) -> None:
    """Raise where DuckDB and we do not give the same sums."""
    import numpy as np
    import pyarrow.parquet as pq

    ours = pq.read_table(folder / "shared-one.parquet")
    theirs = pq.read_table(folder / "duckdb.parquet")
    found, expected = (
        np.sort(np.asarray(table.column("value"), np.float64)) for table in (ours, theirs)
    )
    if len(found) != len(expected) or not np.allclose(found, expected):
        raise BenchmarkError("DuckDB gives other sums")


# --- Spark -----------------------------------------------------------------------------------


def by_spark_job(asked: Asked) -> Iterator[Row]:
    """One Spark job for `shop` beside a job for each query, and beside the local engine."""
    from api.cli.workload_files import only_queries, open_workload
    from workloads import bundled
    from workloads.generators import write_events

    events = 20_000_000 if asked.is_largest else asked.events(2_000_000)
    path = asked.folder / "shop-spark.parquet"
    write_events(bundled.stream("shop", events), path)
    workload = open_workload("shop")[0]
    runs = WholeRuns(workload, str(path), asked.folder)
    spent = Spent()
    names = [query.name or "" for query in workload.queries]
    if asked.size == "small":
        names = names[:2]
    apart = [WholeRuns(only_queries(workload, [n]), str(path), asked.folder) for n in names]

    def of_session(session: SparkSession, of: list[WholeRuns], name: str) -> Done:
        wall, cpu = time.perf_counter(), 0.0
        for each in of:
            run_job(session, each.planned(), path, asked.folder, name, spent)
            cpu += spent.cpu[name]
        return Done(Cost(time.perf_counter() - wall, cpu), {})

    with running_session("local[2]") as session:
        of_session(session, [runs], "one job")  # compiles, and fills caches
        ways: dict[str, Way] = {
            "shared": lambda: of_session(session, [runs], "one job"),
            "a job each": lambda: of_session(session, apart, "a job each"),
            "local": lambda: unlisted(runs.shared()),
        }
        costs = interleaved(ways, "full" if events <= 200_000 else "small")
    yield from measured(f"Spark job of shop, {events:,} events", events, costs)
    ratio = costs["a job each"].wall / costs["shared"].wall
    yield Goal(NAME, "spark", "one job against a job each", 3, ratio)
    ratio = costs["local"].cpu / costs["shared"].cpu
    yield Goal(NAME, "spark", "events by CPU second, by the local engine's", 0.8, ratio)
