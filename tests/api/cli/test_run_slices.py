"""`sheaf run` over input that is larger than a slice, in disorder, or dirty."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli.main import app
from workloads import bundled
from workloads.generators import write_events

Sheaf = Callable[..., Result]

WORKLOAD = """
name: small
stream: {time: ts, unit: s, type: kind, sequence: n, attributes: {x: float}}
queries:
  - |
    QUERY pairs
    PATTERN SEQ(A a, B b)
    RETURN a.n, b.n
    WITHIN 10 s
  - |
    QUERY alone
    PATTERN SEQ(A a, !B b)
    RETURN a.n
    WITHIN 5 s
  - |
    QUERY last_three
    PATTERN SEQ(A a, B b)
    AGG COUNT(*), SUM(b.x)
    WITHIN 3 EVENTS
  - |
    QUERY every_minute
    PATTERN SEQ(A a, B b)
    AGG COUNT(*)
    WITHIN 2 min SLIDE 1 min
"""
SLIDING = """
  - |
    QUERY every_tenth
    PATTERN SEQ(A a, B b)
    AGG COUNT(*)
    WITHIN 20 EVENTS SLIDE 10 EVENTS
"""


@pytest.fixture
def sheaf() -> Sheaf:
    def invoke(*arguments: str | Path | int) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return invoke


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(WORKLOAD)
    return path


def csv(path: Path, times: list[Any]) -> Path:
    lines = [f"{t},{'AB'[i % 2]},{i},{i % 7}" for i, t in enumerate(times)]
    path.write_text("\n".join(["ts,kind,n,x", *lines]) + "\n")
    return path


def report(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("stored", "ending"), [("parquet", "jsonl"), ("csv", "parquet"), ("jsonl", "csv")]
)
def test_slices_give_the_same_files(sheaf: Sheaf, tmp_path: Path, stored: str, ending: str) -> None:
    events = write_events(bundled.stream("hospital", events=3000), tmp_path / f"e.{stored}")
    for name, more in (("whole", []), ("slices", ["--slice", 300])):
        out = tmp_path / f"{name}.{ending}"
        assert report(sheaf("run", "hospital", "--events", events, "--out", out, *more))
    whole, slices = (
        {p.name.partition(".")[2]: p.read_bytes() for p in tmp_path.glob(f"{name}.*")}
        for name in ("whole", "slices")
    )
    assert whole.keys() == slices.keys()
    assert len(whole) == 2
    if ending != "parquet":  # whose bytes depend on how rows were grouped
        assert {name: rounded(content) for name, content in whole.items()} == {
            name: rounded(content) for name, content in slices.items()
        }


def rounded(content: bytes) -> bytes:
    """The same with doubles to 13 digits: sums are added in another order."""
    return re.sub(rb"\d+\.\d{9,}", lambda found: f"{float(found[0]):.13g}".encode(), content)


def test_the_first_rows_are_shown_of_any_number_of_slices(
    sheaf: Sheaf, small: Path, tmp_path: Path
) -> None:
    events = csv(tmp_path / "e.csv", list(range(200)))
    whole = sheaf("run", small, "--events", events)
    slices = sheaf("run", small, "--events", events, "--slice", 10)
    assert whole.stdout == slices.stdout
    assert re.search(r"^pairs +490  at 1: ", whole.stdout, re.MULTILINE)
    assert report(whole)["rows"] == report(slices)["rows"]
    assert report(slices)["events"] == 200
    queries = report(slices)["rows_by_query"]
    assert queries == report(whole)["rows_by_query"]
    # As and Bs in turn, a second apart: 100 Bs, and before each five As within 10 s; less at first.
    assert queries["pairs"] == 5 * 100 - 4 - 3 - 2 - 1
    assert sum(queries.values()) == sum(report(slices)["rows"].values())


def test_queries_that_need_all_events_are_named(sheaf: Sheaf, small: Path, tmp_path: Path) -> None:
    small.write_text(WORKLOAD + SLIDING)
    events = csv(tmp_path / "e.csv", list(range(200)))
    whole = sheaf("run", small, "--events", events)
    slices = sheaf("run", small, "--events", events, "--slice", 10)
    assert whole.stdout == slices.stdout
    assert "in memory for every_tenth:" in slices.stderr
    assert "in memory" not in whole.stderr


def test_of_many_queries_that_need_all_events_the_first_are_named(
    sheaf: Sheaf, small: Path, tmp_path: Path
) -> None:
    queries = "".join(f"- QUERY q{i} PATTERN A a RETURN a WITHIN 1 s\n" for i in range(8))
    small.write_text(
        WORKLOAD[: WORKLOAD.index("queries:")] + f"suppress: 1 min\nqueries:\n{queries}"
    )
    events = csv(tmp_path / "e.csv", list(range(200)))
    said = sheaf("run", small, "--events", events, "--slice", 10).stderr
    assert "in memory for q0, q1, q2, q3, q4, 3 more:" in said


# --- disorder ----------------------------------------------------------------------------------

LATE = [0, 1, 2, 9, 4, 5, 6, 7, 8, 10, *range(11, 60)]  # row 5 is five seconds late


def test_disorder_within_the_bound_changes_nothing(
    sheaf: Sheaf, small: Path, tmp_path: Path
) -> None:
    events = csv(tmp_path / "e.csv", LATE)
    whole = sheaf("run", small, "--events", events)
    for bound in ("5s", "5 s", "0.1 min", "1 hour"):
        slices = sheaf("run", small, "--events", events, "--slice", 3, "--disorder", bound)
        assert slices.exit_code == 0, slices.stderr
        assert slices.stdout == whole.stdout


@pytest.mark.parametrize("more", [["--slice", 3], []])
def test_an_event_that_is_later_is_an_error(
    sheaf: Sheaf, small: Path, tmp_path: Path, more: list[str | int]
) -> None:
    """Whatever the size of the slices."""
    events = csv(tmp_path / "e.csv", LATE)
    result = sheaf("run", small, "--events", events, "--disorder", "4 s", *more)
    assert result.exit_code == 1
    assert "e.csv', row 5, column 'ts': the event comes 5 s after a later one" in result.stderr
    assert "at most 4 s was stated" in result.stderr
    skipped = sheaf(
        "run", small, "--events", events, "--disorder", "4 s", "--on-error", "skip", *more
    )
    assert report(skipped)["skipped"] == 1
    assert "left out 1 rows (1 late); the first: " in skipped.stderr


def test_disorder_without_a_bound(sheaf: Sheaf, small: Path, tmp_path: Path) -> None:
    events = csv(tmp_path / "e.csv", LATE)
    result = sheaf("run", small, "--events", events, "--slice", 20)
    assert result.exit_code == 1
    for part in ("row 5, column 'ts'", "--disorder", "--slice", "sort the file"):
        assert part in result.stderr
    assert sheaf("run", small, "--events", events, "--slice", 100).exit_code == 0


def test_the_streams_lateness_is_a_bound(sheaf: Sheaf, small: Path, tmp_path: Path) -> None:
    events = csv(tmp_path / "e.csv", LATE)
    small.write_text(WORKLOAD.replace("unit: s,", "unit: s, lateness: 5 s,"))
    assert sheaf("run", small, "--events", events, "--slice", 3).exit_code == 0
    small.write_text(WORKLOAD.replace("unit: s,", "unit: s, lateness: 4 s,"))
    assert "at most 4 s" in sheaf("run", small, "--events", events, "--slice", 3).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--disorder", "soon"], "--disorder is 'soon'"),
        (["--disorder", "3 lightyears"], "units are"),
        (["--engine", "oracle", "--slice", "3"], "for the local engine"),
        (["--engine", "oracle", "--on-error", "skip"], "for the local engine"),
    ],
)
def test_options_that_mean_nothing(
    sheaf: Sheaf, small: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    events = csv(tmp_path / "e.csv", LATE)
    result = sheaf("run", small, "--events", events, *arguments)
    assert result.exit_code == 1
    assert said in result.stderr


# --- dirt --------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [["--slice", 5], []])
def test_bad_rows(sheaf: Sheaf, small: Path, tmp_path: Path, more: list[str | int]) -> None:
    times: list[Any] = list(range(40))
    clean = csv(tmp_path / "clean.csv", times)
    lines = clean.read_text().splitlines()
    dirty = tmp_path / "dirty.csv"
    dirty.write_text("\n".join([*lines[:11], "soon,A,1,1", *lines[11:30], "1,A", *lines[30:], ""]))
    result = sheaf("run", small, "--events", dirty, *more)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "dirty.csv', row 11, column 'ts': 'soon' is no whole number" in result.stderr
    assert "--on-error skip" in result.stderr
    skipped = sheaf("run", small, "--events", dirty, "--on-error", "skip", *more)
    assert skipped.stdout == sheaf("run", small, "--events", clean).stdout
    assert report(skipped)["skipped"] == 2
    assert "left out 2 rows (1 unparsable, 1 wrong type)" in skipped.stderr


@pytest.mark.parametrize("engine", ["local", "oracle"])
@pytest.mark.parametrize("name", ["e.jsonl", "e.csv"])
def test_an_empty_file_has_no_events_and_any_columns(
    sheaf: Sheaf, small: Path, tmp_path: Path, engine: str, name: str
) -> None:
    (tmp_path / name).touch()
    result = sheaf("run", small, "--engine", engine, "--events", tmp_path / name)
    assert result.exit_code == 0, result.output
    assert report(result)["rows"] == {"aggregates": 0, "matches": 0}


def test_nothing_but_bad_rows(sheaf: Sheaf, small: Path, tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    events.write_text("ts,kind,n,x\n,A,1,2\n,B,2,2\n")
    result = sheaf("run", small, "--events", events, "--on-error", "skip")
    assert report(result)["events"] == 0
    assert "no rows: nothing matched" in result.stdout
    assert "left out 2 rows (2 null time)" in result.stderr


# --- interrupting ------------------------------------------------------------------------------

# Says when the third slice is through, and waits there; every row goes through a file.
HALTED = """
import signal
from api.cli.main import main
from engines.local.threads import SliceThreads
from engines.results.sorting import FileOutput

FileOutput.__init__.__defaults__ = (1,)
chunks, slices = SliceThreads.chunks, []

def halted(self, piece):
    slices.append(piece)
    if len(slices) == 4:
        print("halted", flush=True)
        signal.pause()
    return chunks(self, piece)

SliceThreads.chunks = halted
main()
"""


def test_interrupting_leaves_nothing(small: Path, tmp_path: Path) -> None:
    events = csv(tmp_path / "e.csv", list(range(2000)))
    out = tmp_path / "out"
    out.mkdir()
    arguments = ["run", small, "--events", events, "--slice", "100", "--out", out / "o.csv"]
    process = subprocess.Popen(
        [sys.executable, "-c", HALTED, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "halted\n"
        assert list(out.glob(".o.csv.*.sorting/*.arrow"))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode not in (0, None)
    assert "Traceback" not in said
    assert list(out.iterdir()) == []
