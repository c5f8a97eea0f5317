"""Reading only what can matter of stored events (figures 3.8, 3.9 and 3.13 of the dissertation)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.results.tables import Results
from tests.benchmarks.found import Found, found_results
from tests.benchmarks.measuring import Measured, Row, Size, Variant, measure

SIGMAS = (0.0, 0.001, 0.01, 0.1, 1.0)  # of the attributes A1 to A5, around a line from 0 to 1
WINDOW = 300
SLIDES = (1_000, 10_000, 60_000, 360_000, 1_000_000)  # events; an hour of 100 a second is 360,000


def by_access(size: Size) -> Iterator[Row]:
    """A selective sequence of two over stored events: scanned, by footers, by indexes."""
    events = 5_000_000 if size == "full" else 40_000
    group_rows = 16_384 if size == "full" else 2_048
    with tempfile.TemporaryDirectory() as folder:
        plain, indexed = (Path(folder) / name / "events.parquet" for name in ("plain", "indexed"))
        _write(events, group_rows, plain)
        _write(events, group_rows, indexed)
        _index(indexed)
        for place in range(1, len(SIGMAS) + 1):
            workload = _workload(f"A{place}")
            variants = {
                "scan": _variant(workload, plain, "scan"),
                "footers": _variant(workload, plain, "index"),
                "indexes": _variant(workload, indexed, "index"),
                "auto": _variant(workload, indexed, "auto"),
            }
            yield Measured(
                "access",
                f"SEQ of two, each of 0.1 % of A{place}'s domain, {events:,} stored events",
                f"A{place}, sigma {SIGMAS[place - 1]}",
                events,
                measure(variants, size),
            )
        for slide in SLIDES if size == "full" else SLIDES[1:2]:
            workload = _aggregates(slide)
            variants = {
                "scan": _variant(workload, plain, "scan"),
                "footers": _variant(workload, plain, "index"),
                "indexes": _variant(workload, indexed, "index"),
                "auto": _variant(workload, indexed, "auto"),
            }
            yield Measured(
                "access",
                f"COUNT, SUM and MAX of A5 by slides, {events:,} stored events",
                f"{slide:,} events in a slide",
                events,
                measure(variants, size),
            )


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


def _workload(name: str) -> dict[str, Any]:
    low, high = 0.5, 0.501
    asked = " AND ".join(f"{a}.{name} > {low} AND {a}.{name} < {high}" for a in ("a", "b"))
    query = f"QUERY q PATTERN SEQ(A a, B b) WHERE {asked} RETURN a.ts, b.ts WITHIN {WINDOW} ms"
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    return {"name": "access", "stream": stream, "queries": [query]}


def _aggregates(slide: int) -> dict[str, Any]:
    asked = "AGG COUNT(*), SUM(a.A5), MAX(a.A5)"
    query = f"QUERY q PATTERN ANY a {asked} WITHIN {slide} ms SLIDE {slide} ms"
    return {"name": "access", "stream": {"time": "ts", "unit": "ms"}, "queries": [query]}


def _variant(workload: dict[str, Any], path: Path, access: Any) -> Variant:
    import sheaf

    plan = sheaf.plan(workload, path)  # what is compared is reading and running

    def found(results: Any) -> Found:
        return found_results(Results(results.aggregates, results.matches), ["q"])

    return Variant(lambda: sheaf.run(plan, path, access=access), found)
