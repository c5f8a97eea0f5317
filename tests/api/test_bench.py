"""`sheaf bench` measures every benchmark; how fast is not a test's business."""

import json

import pytest
from typer.testing import CliRunner

from api.benchmarks import BENCHMARKS
from api.benchmarks.measuring import Measured
from api.cli import app


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_runs(name):
    result = CliRunner().invoke(app, ["bench", name, "--small", "--json"])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows
    assert all(row["benchmark"] == name for row in rows)
    assert all(speed > 0 for row in rows for speed in row["events_per_second"].values())


def test_an_unknown_benchmark_is_said():
    result = CliRunner().invoke(app, ["bench", "querys"])
    assert result.exit_code == 1
    assert "did you mean 'queries'?" in result.output


def test_a_ratio_is_how_many_times_faster_the_first_is():
    measured = Measured("b", "c", 10, {"shared": 30.0, "alone": 10.0, "slow": 1.0})
    assert measured.ratios == {"alone": 3.0, "slow": 30.0}
