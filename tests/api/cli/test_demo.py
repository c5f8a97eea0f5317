"""`sheaf demo`, as a stranger types it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.bundled import path
from workloads.loading import load_workload


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_demo_shows_the_whole_way_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "work").mkdir()
    program = "from api.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo", "--events", "3000"],
        cwd=tmp_path / "work",
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for query in load_workload(path("shop")).queries:
        # In the plan, and among the results.
        assert len(re.findall(rf"\b{query.name}\b", done.stdout)) >= 2
    assert "POST /v1/jobs" in done.stdout
    assert "3,000 events in" in done.stdout
    (rows,) = re.findall(r"([\d,]+) rows of results", done.stdout)
    assert re.search(rf"in \d+ batches and [\d.]+ s: the same {rows} rows", done.stdout)
    assert list((tmp_path / "work").iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []
