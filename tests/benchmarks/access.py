"""Reading only what can matter of stored events (figures 3.8, 3.9 and 3.13 of the dissertation)."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.results.tables import Results
from tests.benchmarks.access_choice import choice_time, estimates, jointly_read
from tests.benchmarks.found import Found, found_results
from tests.benchmarks.measuring import Goal, Measured, Row, Size, Variant, measure

SIGMAS = (0.0, 0.001, 0.01, 0.1, 1.0)  # of the attributes A1 to A5, around a line from 0 to 1
WINDOW = 300
WIDTHS = (1e-3, 1e-4, 1e-5)  # of an attribute's domain, that both events of a pair are to be in
WORKLOADS = 200
LEAST = 0.95  # of the better of scan and index, what `auto` is to reach
SLIDES = (1_000, 10_000, 60_000, 360_000, 1_000_000)  # events; an hour of 100 a second is 360,000


def by_access(size: Size) -> Iterator[Row]:
    """Selective sequences and sums over stored events: scanned, by footers, by indexes, DuckDB."""
    events = 20_000_000 if size == "full" else 40_000
    group_rows = 16_384 if size == "full" else 2_048
    with tempfile.TemporaryDirectory() as folder:
        plain, indexed = (Path(folder) / name / "events.parquet" for name in ("plain", "indexed"))
        _write(events, group_rows, plain)
        indexed.parent.mkdir()
        os.link(plain, indexed)
        _index(indexed)
        for width, place in product(WIDTHS, range(1, len(SIGMAS) + 1)):
            name = f"A{place}"
            yield Measured(
                "access",
                f"SEQ of two, each of {width:.3%} of an attribute's domain, {events:,} events",
                f"{name}, sigma {SIGMAS[place - 1]}",
                events,
                measure(_ways(_workload(name, width), plain, indexed, _pairs(name, width)), size),
            )
            if size != "full":
                break
        for slide in SLIDES if size == "full" else SLIDES[1:2]:
            yield Measured(
                "access",
                f"COUNT, SUM and MAX of A5 by slides, {events:,} stored events",
                f"{slide:,} events in a slide",
                events,
                measure(_ways(_aggregates(slide), plain, indexed, _sums(slide)), size),
            )
        for widths in (1e-4,), (1e-3, 1e-2, 0.1):
            names = [f"A{place}" for place in range(1, len(SIGMAS) + 1)]
            yield jointly_read(indexed, names, widths)
        yield choice_time(indexed, "A5")
        fewer = Path(folder) / "fewer" / "events.parquet"
        _write(events // 4, group_rows, fewer)
        _index(fewer)
        yield _by_random_workloads(size, fewer)
        yield from estimates(Path(folder), events // 5, group_rows)


def _ways(workload: dict[str, Any], plain: Path, indexed: Path, sql: str) -> dict[str, Variant]:
    return {
        "scan": _variant(workload, plain, "scan"),
        "footers": _variant(workload, plain, "index"),
        "indexes": _variant(workload, indexed, "index"),
        "auto": _variant(workload, indexed, "auto"),
        "DuckDB": _in_duckdb(sql.format(events=f"read_parquet('{plain}')")),
    }


def _in_duckdb(statement: str) -> Variant:
    """Rows are counted: how they are written differs."""
    import duckdb

    connection: Any = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return Variant(
        lambda: connection.sql(statement).to_arrow_table(),
        lambda found: Found(found.num_rows, 0, 0),
        "SQL",
    )


def _by_random_workloads(size: Size, indexed: Path) -> Row:
    """How `auto` does against the better of reading all and of all that can be left out."""
    number = WORKLOADS if size == "full" else 2
    ratios = []
    for seed in range(number):
        workload = {**_workload("A1"), "queries": _random_queries(seed)}
        ways = {way: _variant(workload, indexed, way) for way in ("auto", "scan", "index")}
        taken = measure(ways, size, time.process_time)
        ratios.append(min(taken["scan"], taken["index"]) / taken["auto"])
    text = f"auto by the better of scan and index, the least of {number} random workloads"
    numbers = {"median": median(ratios), "below": float(sum(r < LEAST for r in ratios))}
    return Goal("access", "random", text, LEAST, min(ratios), numbers=numbers)


def _random_queries(seed: int) -> list[str]:
    """One to three queries that count sequences, and sum up by slides."""
    draw = random.Random(seed)

    def inside(alias: str) -> str:
        width = draw.choice((1e-5, 1e-4, 1e-3, 1e-2, 0.1))
        name, low = f"{alias}.A{draw.randint(1, 5)}", draw.random() * (1 - width)
        return f"{name} > {low:.6f} AND {name} < {low + width:.6f}"

    found = []
    for place in range(draw.choice((1, 1, 2, 3))):
        width = f"{draw.choice((5, 30, 300))} ms"
        match draw.choice(("pair", "pair", "without", "slide")):
            case "pair":
                where = " AND ".join(map(inside, ("a", "b")[: draw.randint(1, 2)]))
                asked = f"SEQ(A a, B b) WHERE {where} AGG COUNT(*) WITHIN {width}"
            case "without":
                where = " AND ".join(map(inside, "acb"))
                asked = f"SEQ(A a, !A c, B b) WHERE {where} AGG COUNT(*) WITHIN {width}"
            case _:
                slide = f"{draw.choice((500, 3_000, 10_000, 70_001, 360_000))} ms"
                summed = f"SUM(a.A{draw.randint(1, 5)})"
                asked = f"ANY a AGG COUNT(*), {summed} WITHIN {slide} SLIDE {slide}"
        found.append(f"QUERY q{place} PATTERN {asked}")
    return found


def _write(events: int, group_rows: int, path: Path) -> None:
    draw = np.random.default_rng(7)
    line = np.arange(events) / events
    columns: dict[str, Any] = {
        "ts": np.arange(events),
        "kind": pa.array(np.array(["A", "B"])[draw.integers(0, 2, events)]),
    }
    for place, sigma in enumerate(SIGMAS, 1):
        columns[f"A{place}"] = np.mod(draw.normal(line, sigma), 1.0)
    path.parent.mkdir()
    pq.write_table(pa.table(columns), path, row_group_size=group_rows)


def _index(path: Path) -> None:
    from engines.access.build_index import build_indexes

    build_indexes(str(path), [f"A{place}" for place in range(1, len(SIGMAS) + 1)])


def _workload(name: str, width: float = 1e-3) -> dict[str, Any]:
    low, high = 0.5, 0.5 + width
    asked = " AND ".join(f"{a}.{name} > {low} AND {a}.{name} < {high}" for a in ("a", "b"))
    query = f"QUERY q PATTERN SEQ(A a, B b) WHERE {asked} RETURN a.ts, b.ts WITHIN {WINDOW} ms"
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    return {"name": "access", "stream": stream, "queries": [query]}


def _aggregates(slide: int) -> dict[str, Any]:
    asked = "AGG COUNT(*), SUM(a.A5), MAX(a.A5)"
    query = f"QUERY q PATTERN ANY a {asked} WITHIN {slide} ms SLIDE {slide} ms"
    return {"name": "access", "stream": {"time": "ts", "unit": "ms"}, "queries": [query]}


def _pairs(name: str, width: float) -> str:
    asked = " AND ".join(f"{a}.{name} > 0.5 AND {a}.{name} < {0.5 + width}" for a in ("a", "b"))
    return (
        "SELECT a.ts, b.ts FROM {events} a JOIN {events} b ON b.ts > a.ts "
        f"AND b.ts < a.ts + {WINDOW} WHERE a.kind = 'A' AND b.kind = 'B' AND {asked}"
    )


def _sums(slide: int) -> str:
    end = f"CAST(ceil(ts / {slide}.0) AS BIGINT) * {slide}"
    return f"SELECT {end}, COUNT(*), SUM(A5), MAX(A5) FROM {{events}} GROUP BY 1"


def _variant(workload: dict[str, Any], path: Path, access: Any) -> Variant:
    import sheaf

    plan = sheaf.plan(workload, path)  # what is compared is reading and running

    def found(results: Any) -> Found:
        names = [query.split()[1] for query in workload["queries"]]
        return found_results(Results(results.aggregates, results.matches), names)

    return Variant(lambda: sheaf.run(plan, path, access=access), found)
