"""`sheaf run` and a limit on partial matches."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli.main import app
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.workload import PartialLimit, to_document

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
QUERIES = [
    "QUERY much PATTERN SEQ(A a, B b, C c) RETURN a.ts WITHIN 30 ms",
    "QUERY little PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x RETURN a.ts WITHIN 30 ms",
]


def workload(**more: object) -> dict[str, object]:
    return {"name": "limited", "stream": STREAM, "queries": QUERIES, **more}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    table = {
        "ts": np.cumsum(random.choice([0, 1, 2, 5], 300)),
        # A is rare, so that matches begin with it, and are partial until C comes.
        "kind": random.choice(list("ABC"), 300, p=[0.2, 0.4, 0.4]),
        "x": random.integers(0, 9, 300),
    }
    pq.write_table(pa.table(table), tmp_path / "events.parquet")
    return tmp_path / "events.parquet"


def run(document: dict[str, object], events: Path, *options: str) -> Result:
    path = events.with_name("workload.json")
    path.write_text(json.dumps(document))
    return CliRunner().invoke(app, ["run", str(path), "--events", str(events), *options])


@pytest.mark.parametrize("slices", [(), ("--slice", "50")])
def test_the_report_and_the_exit_code_say_what_was_stopped(
    events: Path, slices: tuple[str, ...]
) -> None:
    result = run(workload(), events, "--partial-limit", "12", *slices)
    assert result.exit_code == 3
    *_, said, report = result.stderr.strip().splitlines()
    assert said.startswith("error: query much is stopped: ")
    assert json.loads(report)["stopped"].keys() == {"much"}


def test_the_workload_can_say_it_too(events: Path) -> None:
    limits = {"partial_matches": 5, "on_limit": "drop-oldest"}
    result = run(workload(limits=limits), events)
    assert result.exit_code == 0
    report = json.loads(result.stderr.strip().splitlines()[-1])
    assert report["dropped"]["much"] > 0
    assert "stopped" not in report
    above = run(workload(limits=limits), events, "--partial-limit", "100000")
    assert "dropped" not in json.loads(above.stderr.strip().splitlines()[-1])


def test_only_the_local_engine_has_the_limit(events: Path) -> None:
    result = run(workload(limits={"partial_matches": 5}), events, "--engine", "oracle")
    assert result.exit_code == 1
    assert "is for the local engine" in result.stderr


def test_a_document_keeps_its_limits() -> None:
    found = load_workload(workload(limits={"partial_matches": 7, "on_limit": "drop-oldest"}))
    assert found.partial == PartialLimit(7, "drop-oldest")
    assert load_workload(to_document(found)).partial == found.partial
    assert load_workload(workload()).partial is None


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (3, "'limits' is not a map"),
        ({}, "limits.partial_matches is None"),
        ({"partial_matches": 0}, "limits.partial_matches is 0"),
        ({"partial_matches": True}, "limits.partial_matches is True"),
        ({"partial_matches": 9, "on_limit": "drop"}, "limits.on_limit is 'drop'"),
        ({"partial_matches": 9, "on_limits": "stop"}, "on_limits"),
    ],
)
def test_a_limit_that_is_none_is_an_error(limits: object, said: str) -> None:
    with pytest.raises(WorkloadError, match=said.replace("(", "\\(")):
        load_workload(workload(limits=limits))
