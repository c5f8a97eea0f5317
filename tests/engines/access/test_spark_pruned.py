"""Spark reads only the row groups that can matter, and gives the rows of all of them."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS, GROUP = 4000, 250
QUERIES = {
    "matches": "PATTERN SEQ(A a, !C c, B b) WHERE a.level > 35 AND a.level < 37 RETURN a.ts, b.ts "
    "WITHIN 20 ms",
    "counts": "PATTERN SEQ(A a, B b) WHERE b.level > 36 AND b.level < 37 PARTITION BY k "
    "AGG COUNT(*) WITHIN 30 ms",
}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """In two files, with a column that rises slowly."""
    draw = np.random.default_rng(5)
    table = pa.table(
        {
            "ts": np.arange(ROWS),
            "kind": np.array(["A", "B", "C"])[draw.integers(0, 3, ROWS)],
            "k": draw.integers(0, 4, ROWS),
            "level": np.arange(ROWS) / 100 + draw.random(ROWS),
        }
    )
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(2):
        part = table.slice(number * ROWS // 2, ROWS // 2)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=GROUP)
    return folder


def run(folder: Path, events: Path, *arguments: str) -> tuple[Counter[str], dict[str, Any]]:
    """By the command, in a process of its own: the rows and the report."""
    code = "from api.cli.main import main; main()"
    out = folder / "rows.jsonl"
    paths = [str(folder / "workload.json"), "--events", str(events), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", code, "run", *paths, "--report", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for part in folder.glob("rows*") for line in part.read_text().splitlines()]
    return Counter(lines), json.loads(done.stderr.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [list(QUERIES), ["matches"], ["counts"]])
def test_spark_reads_what_can_matter(events: Path, tmp_path: Path, wanted: list[str]) -> None:
    workload = {
        "name": "w",
        "stream": {"time": "ts", "type": "kind", "unit": "ms"},
        "queries": [f"QUERY {name} {QUERIES[name]}" for name in wanted],
    }
    (tmp_path / "workload.json").write_text(json.dumps(workload))
    whole, _ = run(tmp_path, events, "--access", "scan")
    on_spark = ["--engine", "spark", "--master", "local[2]"]
    found, report = run(tmp_path, events, "--access", "index", *on_spark)
    assert found == whole
    assert sum(found.values()) > 10
    read = report["read"]
    assert read["of"] == ROWS // GROUP
    assert 0 < read["row_groups"] <= 4
    assert report["events"] == ROWS
    assert report["access"]["method"] == "index"
