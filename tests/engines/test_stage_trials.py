"""Whole runs are measured operator by operator."""

from engines.calibration.stage_trials import QUERIES, stage_measurements
from optimizer.cost.unit_costs import NAMES, STAGES
from sharing.planner import make_plan


def test_all_operations_of_whole_runs_are_measured(monkeypatch):
    monkeypatch.setattr("engines.calibration.stage_trials.LEAST", -1.0)  # however little they take
    told = []
    found = list(
        stage_measurements(
            lambda bound, document, known: make_plan(bound, document, statistics=known),
            told.append,
            6_000,
        )
    )
    assert len(told) == len(QUERIES)
    assert {measured.trial for measured in found} == QUERIES.keys()
    measured = {name for each in found for name in NAMES if getattr(each.operations, name) > 0}
    assert set(STAGES) <= measured
    assert {"scan", "conditions", "partition", "output", "sink", "join", "group"} <= {
        each.kind for each in found
    }
    assert all(getattr(each.operations, name) >= 0 for each in found for name in NAMES)
