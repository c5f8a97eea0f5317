"""The benchmark of predictions: what is predicted is what is measured, operator by operator."""

from pathlib import Path

import pytest

from optimizer.cost.unit_costs import DEFAULTS, UnitCosts
from tests.benchmarks.measuring import Measured
from tests.benchmarks.plan_fidelity import Ran, _by_kind, _ran, _said, _workloads


def test_predicted_and_measured_have_the_same_operators(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.benchmarks.plan_fidelity.BUNDLED", {})
    monkeypatch.setattr("tests.benchmarks.plan_fidelity.SMALL_EVENTS", 3_000)
    prepared = next(_workloads("small", str(tmp_path)))
    assert Path(prepared.path).exists()
    ran = _ran(prepared, DEFAULTS, str(tmp_path), None)
    assert ran.events == 3_000
    assert ran.predicted.keys() == ran.measured.keys() == ran.kinds.keys()
    assert sum(ran.predicted.values()) > 0
    assert sum(ran.measured.values()) + ran.unclaimed == pytest.approx(ran.cpu, rel=0.05)
    # Costs twice as high choose the same plan, which is not run again, and predict twice as much.
    double = UnitCosts(DEFAULTS.each.times(2), "a test")
    again = _ran(prepared, double, str(tmp_path), ran)
    assert again.measured == ran.measured
    assert again.ratio == pytest.approx(2 * ran.ratio)


def ran_with(predicted, cpu, unclaimed=0.0):
    return Ran("r", 10, {"scan-1": "scan"}, {"scan-1": cpu}, {"scan-1": predicted}, cpu, unclaimed)


def test_runs_are_within_so_many_times_in_both_directions():
    runs = [ran_with(1.0, 2.0), ran_with(2.0, 1.0), ran_with(3.0, 1.0, 0.09), ran_with(1.0, 5.0)]
    said = _said("default costs", runs)
    assert said.numbers["within 2"] == 0.5
    assert said.numbers["within 4"] == 0.75
    assert said.numbers["unclaimed"] == pytest.approx(0.09)


def test_kinds_of_operators_are_summed_over_runs():
    runs = {"default costs": [ran_with(1.0, 2.0)] * 2, "calibrated": [ran_with(3.0, 2.0)] * 2}
    (row,) = _by_kind(runs)
    assert isinstance(row, Measured)
    assert row.case == "scan"
    assert row.seconds == {"measured": 4.0, "default costs": 2.0, "calibrated": 6.0}
