"""Rows take no memory that grows with their number, whatever becomes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

MOST_BYTES = 1_000_000_000

# The peak of this process alone: that of `getrusage` has what its parent held too.
PROGRAM = """
import json, re, sys
from pathlib import Path
from engines.execution import EventSource, Execution, RowSink
from engines.program import RunOptions
from engines.run import run
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from workloads.loading import load_workload
from workloads.workload import to_document

document, events, out, slice_rows = json.loads(sys.argv[1])
workload = load_workload(document)
plan = make_plan(bind(workload), to_document(workload))
report = run(plan, EventSource(events), RowSink(out, 20), Execution(slice_rows=slice_rows))
first = report.first
shown = 0 if first is None else first.matches.num_rows + first.aggregates.num_rows
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"rows": report.rows["q"], "shown": shown, "peak": peak}))
"""

LOOSE = "SEQ(pay a, fail b) RETURN a, b.amount WITHIN 365 days"
KEYED = "SEQ(pay a, fail b) PARTITION BY card RETURN a.session, b.amount WITHIN 365 days"
THREE = "SEQ(pay a, fail b, refund c) WHERE c.amount < 1 RETURN a.session, c WITHIN 365 days"
WINDOWS = "SEQ(pay a, fail b) PARTITION BY card AGG COUNT(*) WITHIN 1 hour SLIDE 10 ms"


def payments(folder: Path, each: int) -> tuple[str, np.ndarray]:
    """A file of payments over ten hours, `each` of every kind; and the kinds in their order."""
    random = np.random.default_rng(8)
    kinds = random.permutation(np.repeat(["pay", "fail", "refund"], each))
    table = pa.table(
        {
            "time": np.linspace(0, 36_000_000, len(kinds)).astype(np.int64),
            "kind": kinds,
            "card": [f"card {k}" for k in random.integers(0, 3, len(kinds))],
            "amount": random.integers(1, 90_000, len(kinds)) / 100,
            "session": [f"session {i // 20}" for i in range(len(kinds))],
        }
    )
    path = str(folder / "payments.csv")
    pyarrow.csv.write_csv(table, path)
    return path, kinds


def measured(
    query: str, events: str, out: str | None = None, slice_rows: int | None = None
) -> dict[str, int]:
    document = {
        "name": "loose",
        "stream": {"time": "time", "unit": "ms", "type": "kind"},
        "queries": [f"QUERY q PATTERN {query}"],
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([document, events, out, slice_rows])],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_six_million_matches_that_are_only_counted(tmp_path: Path) -> None:
    events, kinds = payments(tmp_path, 3_500)
    found = measured(LOOSE, events)
    assert found["rows"] == np.cumsum(kinds == "pay")[kinds == "fail"].sum() > 6_000_000
    assert found["shown"] == 20
    assert found["peak"] < MOST_BYTES


@pytest.mark.soak
@pytest.mark.parametrize("query", [LOOSE, KEYED, THREE, WINDOWS])
@pytest.mark.parametrize("ending", [None, "csv", "jsonl", "parquet"])
def test_sixteen_million_rows(query: str, ending: str | None, tmp_path: Path) -> None:
    each = {LOOSE: 5_700, KEYED: 9_900, THREE: 4_700, WINDOWS: 5_700}[query]
    events, _ = payments(tmp_path, each)
    found = measured(query, events, None if ending is None else str(tmp_path / f"out.{ending}"))
    assert found["rows"] > 10_000_000
    assert found["peak"] < MOST_BYTES


@pytest.mark.soak
def test_sixteen_million_matches_in_slices(tmp_path: Path) -> None:
    events, kinds = payments(tmp_path, 5_700)
    found = measured(LOOSE, events, str(tmp_path / "out.parquet"), slice_rows=2_000)
    assert found["rows"] == np.cumsum(kinds == "pay")[kinds == "fail"].sum() > 16_000_000
    assert found["peak"] < MOST_BYTES
