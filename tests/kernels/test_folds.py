"""Folds of panes are what the plain-Python versions say."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.folds import cpu, reference
from kernels.folds.cpu import NO_NULLS, NONE, Digits
from kernels.panes.cpu import Cuts

LARGEST = sys.float_info.max
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def runs_of(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Row pointers by run, and positions that go up in each."""
    run = np.sort(np.append([0, rows], rng.integers(0, rows + 1, rng.integers(0, 3))))
    parts = [np.sort(rng.integers(-20, 40, size)) for size in np.diff(run)]
    return run, np.concatenate([np.empty(0, np.int64), *parts])


def cuts_of(rng: np.random.Generator) -> Cuts:
    period = rng.integers(1, 12, rng.integers(1, 4))
    return Cuts(period, rng.integers(0, 50, len(period)) % period)


@pytest.mark.parametrize("seed", range(40))
def test_panes_are_cut_where_the_reference_cuts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run, position = runs_of(rng, int(rng.integers(0, 60)))
    cuts = cuts_of(rng)
    for found, expected in zip(
        cpu.cut_panes(run, position, cuts), reference.cut_panes(run, position, cuts), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.lists(FINITE, max_size=40),
        st.lists(st.floats(-1e6, 1e6), max_size=40),
        st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=40),
        st.lists(st.integers(-1000, 1000), max_size=40),
    ),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.booleans(),
)
def test_columns_are_folded_as_by_the_reference(numbers, random, nulled, ordered) -> None:
    is_whole = all(isinstance(number, int) for number in numbers)
    values = np.array(numbers, np.int64 if is_whole else np.float64)
    nulls = np.array([random.random() < 0.3 for _ in numbers], bool) if nulled else NO_NULLS
    source = NONE
    if ordered and numbers:
        source = np.array([random.randrange(len(numbers)) for _ in range(random.randint(1, 50))])
    rows = len(source) or len(values)
    row = np.array(sorted([0, rows, *(random.randint(0, rows) for _ in range(5))]))
    if is_whole:
        digits = cpu.whole_digits_of(max((abs(n) for n in numbers), default=0), rows)
    else:
        least, largest = cpu.spread(values, nulls, source)
        assert (least, largest) == reference.spread(values, nulls, source)
        digits = cpu.digits_of(least, largest, rows)
    given_ = (values, nulls, source, row, digits, True)
    found, expected = cpu.fold_panes(*given_), reference.fold_panes(*given_)
    for name in ("number", "low", "high"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    ways = (cpu.rounded_sums, found.sums), (reference.rounded_sums, expected.sums)
    try:
        mine, theirs = (rounded(sums, digits) for rounded, sums in ways)
    except OverflowError:
        return  # a sum that no double holds
    np.testing.assert_array_equal(mine, theirs)
    order = source.tolist() if source.size else range(len(values))
    for total, (start, stop) in zip(mine, itertools.pairwise(row), strict=True):
        parts = [numbers[r] for r in order[start:stop] if not (nulls.size and nulls[r])]
        assert total == (float(sum(parts)) if is_whole else math.fsum(parts))


@pytest.mark.parametrize(
    "numbers", [[LARGEST], [-LARGEST, 5e-324], [LARGEST, 1.0], [LARGEST, -LARGEST, 1e-300]]
)
def test_the_largest_doubles_are_added_up(numbers: list[float]) -> None:
    values, row = np.array(numbers), np.array([0, len(numbers)])
    digits = cpu.digits_of(*cpu.spread(values, NO_NULLS, NONE), len(values))
    folds = cpu.fold_panes(values, NO_NULLS, NONE, row, digits, False)
    assert cpu.rounded_sums(folds.sums, digits).tolist() == [math.fsum(numbers)]


def test_what_is_taken_away_from_running_totals_leaves_no_trace() -> None:
    values = np.array([1e300, 1.0, -1e300, 2.5, 1e-300])
    row = np.arange(6)
    digits = cpu.digits_of(*cpu.spread(values, NO_NULLS, NONE), 5)
    sums = cpu.fold_panes(values, NO_NULLS, NONE, row, digits, False).sums
    totals = np.concatenate([np.zeros((digits.limbs, 1), np.int64), np.cumsum(sums, axis=1)], 1)
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 6)]
    low, high = np.array(pairs).T
    found = cpu.rounded_sums(totals[:, high] - totals[:, low], digits)
    assert found.tolist() == [math.fsum(values[a:b]) for a, b in pairs]


@pytest.mark.parametrize("seed", range(60))
def test_windows_are_ranges_of_panes_as_in_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run, position = runs_of(rng, int(rng.integers(1, 40)))
    width, slide = int(rng.integers(1, 30)), int(rng.integers(0, 12))
    if slide:
        cuts = Cuts(np.array([slide] * 2), np.array([0, -width % slide]))
        pane_run, row = cpu.cut_panes(run, position, cuts)
    else:
        pane_run, row = run, np.arange(len(position) + 1)
    first, last = position[row[:-1]], position[row[1:] - 1]
    limit = np.array([position[end - 1] + rng.integers(0, width + 5) if end else 0
                      for end in run[1:].tolist()])  # fmt: skip
    found = cpu.window_ranges(pane_run, first, last, limit, width, slide)
    expected = reference.window_ranges(pane_run, first, last, limit, width, slide)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    values = rng.integers(-5, 5, len(first)).astype(np.float64)
    for largest in (False, True):
        np.testing.assert_array_equal(
            cpu.range_extremes(values, *found[:2], largest),
            reference.range_extremes(values, *found[:2], largest),
        )


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda limbs: st.lists(
            st.lists(st.integers(-(2**62), 2**62), min_size=limbs, max_size=limbs), min_size=1
        )
    ),
    st.integers(20, 42),
    st.integers(-300, 100),
)
def test_digits_are_rounded_to_the_nearest_double(columns, bits, exponent) -> None:
    sums, digits = np.array(columns, np.int64).T.copy(), Digits(len(columns[0]), bits, exponent)
    np.testing.assert_array_equal(
        cpu.rounded_sums(sums, digits), reference.rounded_sums(sums, digits)
    )
