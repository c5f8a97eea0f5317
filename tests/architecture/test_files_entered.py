"""How many files the way of a workload leads through: what a newcomer opens to follow it.

Counted for the example of the README, called a second time, so that what is only loaded is left
out.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli.main import app
from engines.run import EventSource, RowSink, run
from optimizer.plan.plan import from_json

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("workloads", "optimizer", "sharing", "kernels", "engines", "api")
MAX_PLANNING = 83
MAX_RUNNING = 97
MAX_LINES = 600


def entered(work: Callable[[], object]) -> set[str]:
    """The files of ours with a function that is called."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            found.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    ours = tuple(f"{ROOT / package}/" for package in PACKAGES)
    return {str(Path(name).relative_to(ROOT)) for name in found if name.startswith(ours)}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the README's workload and events."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    workload = re.search(r"`cards\.yaml`:\n\n```yaml\n(.*?)```", text, re.DOTALL)
    events = re.search(r"`events\.csv`:\n\n```\n(.*?)```", text, re.DOTALL)
    assert workload is not None
    assert events is not None
    (tmp_path / "cards.yaml").write_text(workload[1], encoding="utf-8")
    (tmp_path / "events.csv").write_text(events[1], encoding="utf-8")
    return tmp_path


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def listed(files: set[str]) -> str:
    return "\n".join([f"{len(files)} files", *sorted(files)])


def test_planning_leads_through_few_files(example: Path) -> None:
    def work() -> None:
        command("plan", str(example / "cards.yaml"))

    work()
    files = entered(work)
    assert "sharing/planner.py" in files
    assert len(files) <= MAX_PLANNING, listed(files)


def test_a_local_run_leads_through_few_files(example: Path) -> None:
    events = str(example / "events.csv")
    document = json.loads(
        command("plan", str(example / "cards.yaml"), "--events", events, "--format", "json")
    )
    plan = from_json(document)

    def work() -> None:
        sink = RowSink(str(example / "rows.parquet"))
        assert run(plan, EventSource(events), sink).events == 8

    work()
    files = entered(work)
    assert "engines/run.py" in files
    assert len(files) <= MAX_RUNNING, listed(files)


def test_no_file_is_too_long() -> None:
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {path: number for path, number in lines.items() if number > MAX_LINES} == {}
