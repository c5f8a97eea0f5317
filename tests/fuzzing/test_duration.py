"""A fuzzer ends when it should, and a failure names the seed that repeats it."""

import random
import time

import pytest

from tests.fuzzing.duration import CpuLimit, fuzz


def even(chance: random.Random) -> str:
    return "even" if chance.random() < 0.5 else "odd"


def test_it_runs_so_many_cases_and_counts_their_outcomes() -> None:
    outcomes = fuzz(even, cases=100)
    assert outcomes.total() == 100
    assert set(outcomes) == {"even", "odd"}  # each case has a seed of its own


def test_it_goes_on_for_at_least_so_long() -> None:
    begun = time.monotonic()
    assert fuzz(even, cases=1, at_least=0.2).total() > 1
    assert time.monotonic() - begun >= 0.2


def test_without_time_one_case_is_run() -> None:
    assert fuzz(even, seconds=0).total() == 1


def test_a_failure_names_the_seed_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []

    def fails_late(chance: random.Random) -> str:
        drawn.append(chance.random())
        if drawn[-1] > 0.9:
            raise ZeroDivisionError
        return "ok"

    monkeypatch.delenv("SHEAF_FUZZ_SEED", raising=False)
    with pytest.raises(ZeroDivisionError) as first:
        fuzz(fails_late, cases=1_000)
    (note,) = first.value.__notes__
    seed = note.partition("SHEAF_FUZZ_SEED=")[2].partition(" ")[0]
    monkeypatch.setenv("SHEAF_FUZZ_SEED", seed)
    with pytest.raises(ZeroDivisionError):
        fuzz(fails_late, cases=1_000)
    assert drawn[-1] == drawn[-2]


def test_a_case_that_never_ends_is_stopped_and_named() -> None:
    def endless(chance: random.Random) -> str:
        while True:
            try:
                chance.random()
            except Exception:
                continue

    with pytest.raises(CpuLimit) as error:
        fuzz(endless, cases=1, case_cpu_seconds=0.1)
    assert "SHEAF_FUZZ_SEED=" in error.value.__notes__[0]


def test_where_changes_are_accepted_seeds_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHEAF_FUZZ_SEED", raising=False)
    monkeypatch.setenv("CI", "true")
    drawn: list[float] = []

    def keep(chance: random.Random) -> str:
        drawn.append(chance.random())
        return "ok"

    fuzz(keep, cases=3)
    fuzz(keep, cases=3)
    assert drawn[:3] == drawn[3:]
