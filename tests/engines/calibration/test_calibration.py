"""Unit costs are fitted, kept and read; how large they are is not a test's business."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.calibration import machine_costs as unit_costs
from engines.calibration.calibrate import Measurement, calibrate, fitted
from engines.calibration.least_squares import nonnegative
from engines.calibration.machine_costs import CalibrationError, known, save
from engines.calibration.trials import drawn, ready, width_of
from optimizer.cost.unit_costs import DEFAULTS, NAMES, Operations, UnitCosts
from optimizer.ir.pattern import Symbol

COSTS = UnitCosts(Operations(*(float(i) for i, _ in enumerate(NAMES))), "a test")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SHEAF_CACHE", str(tmp_path / "new"))
    return tmp_path / "new"


# --- keeping -------------------------------------------------------------------------------------


def test_what_is_kept_is_what_is_known(folder):
    assert known() == DEFAULTS
    path = save(COSTS)
    assert path.parent == folder
    assert known() == COSTS
    assert [file.name for file in folder.iterdir()] == [path.name]  # no draft is left


def test_the_name_of_the_file_says_which_machine_it_is_of(folder):
    name = unit_costs.cache_file().name
    for part in ("calibration-", "numba-", "sheaf-", "python-"):
        assert part in name


def test_a_file_that_is_damaged_counts_as_none(folder):
    path = save(COSTS)
    for text in ("{", "[]", json.dumps({"version": 0}), json.dumps({"version": 1})):
        path.write_text(text)
        assert known() == DEFAULTS


def test_the_users_cache_is_used_where_no_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SHEAF_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert unit_costs.cache_file().parent == tmp_path / "sheaf"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert unit_costs.cache_file().parent == tmp_path / ".cache" / "sheaf"


def test_a_folder_that_cannot_be_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHEAF_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(OSError, match="Not a directory"):
        save(COSTS)
    assert known() == DEFAULTS


# --- fitting -------------------------------------------------------------------------------------


@given(st.integers(0, 1000))
def test_least_squares_find_what_is_nowhere_negative(seed):
    random = np.random.default_rng(seed)
    matrix, x = random.random((12, 5)), np.maximum(0, random.normal(size=5))
    assert nonnegative(matrix, matrix @ x) == pytest.approx(x, abs=1e-6)


@given(st.integers(0, 1000))
def test_no_other_nonnegative_solution_is_nearer(seed):
    random = np.random.default_rng(seed)
    matrix, target = random.normal(size=(8, 4)), random.normal(size=8)
    found = nonnegative(matrix, target)
    assert (found >= 0).all()
    error = np.linalg.norm(matrix @ found - target)
    for _ in range(50):
        other = np.maximum(0, found + random.normal(size=4) * random.choice([0.01, 0.1, 1.0]))
        assert np.linalg.norm(matrix @ other - target) >= error - 1e-9


def test_a_fit_finds_the_costs_that_times_were_made_of():
    random = np.random.default_rng(0)
    usual = np.array([getattr(DEFAULTS.each, name) for name in NAMES])
    true = usual * random.choice([0.5, 1.0, 2.0], len(NAMES))
    measured = []
    for i in range(8 * len(NAMES)):
        # A few kinds of operation each, none of them negligible.
        numbers = random.exponential(1, len(NAMES)) * (random.random(len(NAMES)) < 0.1) / usual
        numbers[i % len(NAMES)] += 1 / usual[i % len(NAMES)]
        operations = Operations(*numbers.tolist())
        measured.append(Measurement(str(i), "any", operations, float(numbers @ true)))
    found = fitted(measured)
    for name, cost in zip(NAMES, true.tolist(), strict=True):
        assert getattr(found.each, name) == pytest.approx(cost, rel=0.1)


def test_what_nothing_was_measured_of_goes_with_the_speed_of_the_machine():
    operations = Operations(seen=1.0)
    slow = [Measurement("t", "e", operations, 3 * DEFAULTS.each.seen)] * 5
    found = fitted(slow)
    assert found.each.seen == pytest.approx(3 * DEFAULTS.each.seen)
    assert found.each.tree_nodes == pytest.approx(3 * DEFAULTS.each.tree_nodes)
    assert not found.is_default


# --- measuring -----------------------------------------------------------------------------------


def test_random_trials_are_the_same_for_the_same_seed():
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    trials = [drawn(seed) for seed in range(200)]
    assert {len(trial.queries) for trial in trials} >= {1, 50}
    assert min(map(width_of, trials)) < 100
    assert max(map(width_of, trials)) > 3_000
    assert any("!" in query for trial in trials for query in trial.queries)
    assert any(len(trial.keys) > 1 for trial in trials)


def test_engines_count_the_same_in_a_trial():
    trial = next(t for t in map(drawn, range(100)) if t.lengths and len(t.queries) == 5)
    stream = ready(trial, 3_000)
    found = {e: stream.count(e) for e in ("product", "aseq", "pretree", "chopconnect")}
    for counted in found.values():
        assert counted.counts.tolist() == found["product"].counts.tolist()
        assert counted.ends.tolist() == found["product"].ends.tolist()


def test_a_trials_statistics_are_those_of_its_shares():
    trial = drawn(3)
    stream = ready(trial, 20_000)
    total = sum(trial.shares.values())
    for name in stream.statistics.rates:
        expected = 1000 * trial.shares[name] / total
        assert stream.statistics.rate(Symbol(name)) == pytest.approx(expected, rel=0.2, abs=2)


def test_no_time_is_no_calibration():
    with pytest.raises(CalibrationError, match="takes time"):
        calibrate(0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_measures_and_keeps(tmp_path):
    main = "from api.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main, "calibrate", "--seconds", "0.05", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"SHEAF_CACHE": str(tmp_path)},
    )
    document = json.loads(done.stdout)
    (file,) = tmp_path.iterdir()
    assert document["file"] == str(file)
    kept = UnitCosts.from_document(json.loads(file.read_text()))
    assert document["nanoseconds"] == {name: getattr(kept.each, name) for name in NAMES}
    assert all(m["nanoseconds"] > 0 for m in document["measurements"])
    assert len(document["measurements"]) >= 4 * 16
