"""Statistics that a run gathers, against the whole stream and against counting by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

from api.cli.main import app
from engines.input.event_table import from_table
from engines.limits import EventsError
from engines.live.run import LiveRun
from engines.statistics.running import RunningStatistics
from optimizer.bind.binder import load_bound
from optimizer.statistics import Statistics
from optimizer.statistics.statistics import from_written, to_written
from tests.engines.statistics.test_statistics import STREAM, Row, measured, stream
from tests.running import How
from workloads import bundled
from workloads.generators import write_events

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x > 3 PARTITION BY k AGG COUNT(*) WITHIN 60 ms"
WORKLOAD = load_bound(
    {
        "stream": STREAM,
        "queries": [QUERY],
        "statistics": {"selectivities": {"A.x < B.x": 0.001}},
    }
)


def gathered(rows: list[Row], sizes: list[int], **options: int) -> Statistics:
    """Of the rows in stretches of these sizes."""
    found = RunningStatistics(WORKLOAD, **options)
    at = 0
    for size in sizes:
        table = pa.Table.from_pylist(rows[at : at + size], schema=pa.Table.from_pylist(rows).schema)
        found.add(from_table(table, WORKLOAD.stream))
        at += size
    assert at == len(rows)
    return found.statistics()


ROWS = stream(3000)
SIZES = [1000, 0, 700, 1299, 1]


def test_rates_keys_and_local_predicates_are_those_of_the_whole_stream() -> None:
    found, whole = gathered(ROWS, SIZES), measured(QUERY, ROWS)
    seconds = (ROWS[-1]["ts"] - ROWS[0]["ts"]) / 1000
    assert (found.events, found.span) == (3000, pytest.approx(seconds))
    # The last stretch is one event, which is no stretch of time.
    by_hand = {name: sum(row["kind"] == name for row in ROWS[:-1]) / seconds for name in "AB"}
    assert found.rates == pytest.approx(by_hand, rel=1e-9)
    assert found.rates == pytest.approx(whole.rates, rel=1e-2)
    shares = sorted(sum(row["k"] == k for row in ROWS) / 3000 for k in range(3))
    assert (found.keys["k"].cardinality, found.keys["k"].heaviest) == (3, pytest.approx(shares[-1]))
    assert found.selectivities["A.x > 3"] == pytest.approx(whole.selectivities["A.x > 3"], rel=0.02)


def test_joint_predicates_are_tried_and_not_believed() -> None:
    found, whole = gathered(ROWS, SIZES), measured(QUERY, ROWS)
    name = '"A[x > 3]".x < B.x'
    assert found.selectivities[name] == pytest.approx(whole.selectivities[name], abs=0.02)
    assert found.sample is not None
    assert found.sample.pairs[name] > 1000
    assert (found.source, found.sample.events) == ("running", 2999)


def test_of_long_stretches_a_sample_is_looked_at() -> None:
    found = gathered(ROWS, SIZES, max_events=200, max_pairs=50)
    assert found.sample is not None
    assert found.sample.events < 700
    assert found.rates["A"] == pytest.approx(measured(QUERY, ROWS).rates["A"], rel=0.25)
    assert found.keys["k"].cardinality == 3


def test_one_moment_is_no_stream() -> None:
    with pytest.raises(EventsError, match="all of one moment"):
        gathered(ROWS[:1], [1])


def test_what_was_seen_survives_its_file() -> None:
    found = gathered(ROWS, SIZES)
    again = from_written(yaml.safe_load(yaml.safe_dump(to_written(found))))
    assert again.rates == pytest.approx(found.rates, rel=1e-5)
    assert again.selectivities == pytest.approx(found.selectivities, rel=1e-5)
    assert again.keys["k"].heaviest == pytest.approx(found.keys["k"].heaviest, rel=1e-5)
    assert (again.ties, again.events, again.span) == (found.ties, found.events, found.span)
    assert (again.source, again.sample) == (found.source, found.sample)


def test_a_live_run_lets_statistics_be_gathered() -> None:
    seen = RunningStatistics(WORKLOAD)
    events = from_table(pa.Table.from_pylist(ROWS), WORKLOAD.stream)
    run = LiveRun(How().program(WORKLOAD), events.tick, gathered=seen)
    run.add(events, None)
    assert seen.statistics().rates == pytest.approx(measured(QUERY, ROWS).rates)


def test_a_run_writes_what_it_saw_and_a_plan_reads_it(tmp_path: Path) -> None:
    events, out = tmp_path / "events.parquet", tmp_path / "seen.yaml"
    write_events(bundled.stream("hospital", 1500, 3), events)
    run = ["run", "hospital", "--events", str(events), "--slice", "600"]
    done = CliRunner().invoke(
        app, [*run, "--statistics", str(out), "--out", str(tmp_path / "rows.parquet")]
    )
    assert done.exit_code == 0, done.output
    plan = CliRunner().invoke(app, ["plan", "hospital", "--statistics", str(out), "--strict"])
    assert plan.exit_code == 0, plan.output
    assert "seen by a run: sampled from 1,500 of 1,500 events (seed 0)" in plan.output
    refused = CliRunner().invoke(app, [*run, "--engine", "oracle", "--statistics", str(out)])
    assert refused.exit_code == 1


@pytest.mark.parametrize("text", ["rates:\n  A: !!timestamp '  '\n", "a: [", "rates:\n  A: 0x_\n"])
def test_a_file_of_statistics_that_is_no_yaml_is_said_with_its_line(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    refused = CliRunner().invoke(app, ["plan", "hospital", "--statistics", str(path)])
    assert isinstance(refused.exception, SystemExit), refused.exception
    assert f"{path}:{text.count(chr(10)) or 1}" in refused.stderr.replace("\n", "")
