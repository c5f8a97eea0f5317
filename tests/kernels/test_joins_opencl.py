"""Joins on an OpenCL device find what the plain-Python versions find, and so do queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.devices import DeviceError, opencl_devices
from engines.program import Counts
from kernels import opencl
from kernels.joins.cpu import Side
from kernels.references import REFERENCES
from kernels.registry import KERNELS, kernel
from tests.differential.test_local import events_of
from tests.differential.test_trees import (
    DENSE,
    LARGER,
    SHAPES,
    UNLIMITED,
    cases,
    check,
    larger,
    of_trees,
)
from tests.kernels.test_joins import grouped, random_order, random_rows, random_side
from tests.running import How, run_trees

needs_opencl = pytest.mark.skipif(not opencl_devices()[0], reason=opencl_devices()[1])
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def device():
    return opencl_devices()[0][0].handle


@pytest.fixture(scope="module", autouse=True)
def _few_rows_each():
    """Several work-items even for a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl, "MIN_SLICES", 3)
        patch.setattr(opencl, "PER_CORE", 2)
        yield


def both(device, name, *given):
    return kernel(name, "opencl", device)(*given), REFERENCES[name](*given)


@needs_opencl
@settings(max_examples=150, deadline=None)
@given(SEEDS, st.booleans(), st.sampled_from([1, 4, 12]))
def test_pairs_are_those_of_the_reference(device, seed, ordered, width):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    tests = random.integers(0, 6, random.integers(0, 3)).astype(np.int8)
    chances = random.random((2, 2)) < 0.5
    sides = [random_side(random, moment, position, width, len(tests), *c) for c in chances]
    left, groups, codes = grouped(random, *sides)
    found, expected = both(
        device, "count_pairs",
        moment, position, left, groups, sides[1], codes, tests, width, ordered,
    )  # fmt: skip
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert found.tried == expected.tried
    size = len(sides[1].last)
    for start, stop in ((0, size), (size // 3, size // 2)):
        pairs, wanted = both(
            device, "fill_pairs",
            moment, position, left, sides[1], tests, width, ordered, found, start, stop,
        )  # fmt: skip
        np.testing.assert_array_equal(pairs, wanted)


@needs_opencl
@settings(max_examples=100, deadline=None)
@given(SEEDS, st.booleans())
def test_what_is_negated_is_found_where_the_reference_finds_it(device, seed, latest):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    tests = random.integers(0, 6, random.integers(0, 2)).astype(np.int8)
    side = random_side(random, moment, position, 9, len(tests), random.random() < 0.5, False)
    size = int(random.integers(0, 20))
    low, high = random.integers(0, len(moment) + 1, (2, size)).astype(np.int32)
    values = random.integers(0, 3, (len(tests), size)).astype(np.float64)
    regions = Side(low, low, np.zeros(0, np.int64), values)
    left, groups, codes = grouped(random, side, regions)
    given = (left, groups, low, high, values, codes, tests, latest)
    found, expected = both(device, "probe", *given)
    np.testing.assert_array_equal(found[0], expected[0])
    # As many tries as the compiled version, which stops early.
    assert found[1] == kernel("probe", "numba")(*given)[1]


@needs_opencl
@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([1, 4, 12, 100]))
def test_latest_starts_are_those_of_the_reference(device, seed, width):
    random = np.random.default_rng(seed)
    moment, position = random_order(random)
    given = (moment, position, *random_rows(random, moment), width)
    np.testing.assert_array_equal(*both(device, "latest_starts", *given))


@needs_opencl
@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_places_are_found_in_any_order_of_keys(device, seed):
    random = np.random.default_rng(seed)
    values = np.sort(random.integers(0, 30, random.integers(0, 40)))
    keys = random.integers(-2, 33, random.integers(0, 25))
    for asked in (keys, np.sort(keys)):
        np.testing.assert_array_equal(*both(device, "places_from", values, asked))


def groups_of(found, heads):
    """The groups of each head, in any order."""
    head, offsets, places = found
    groups = [[] for _ in range(heads)]
    for i, h in enumerate(head.tolist()):
        groups[h].append(tuple(places[offsets[i] : offsets[i + 1]].tolist()))
    return list(map(sorted, groups))


@needs_opencl
@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from([0, 1, 2, 3]), st.sampled_from([1, 5, 12]))
def test_groups_are_those_of_the_reference(device, seed, size, width):
    random = np.random.default_rng(seed)
    position = np.cumsum(random.choice([0, 1, 1, 2, 30], random.integers(1, 30))).astype(np.int64)
    members = np.flatnonzero(random.random(len(position)) < 0.6).astype(np.int32)
    following = np.searchsorted(position[members], position[members], "right")
    at = np.sort(random.integers(0, max(len(members), 1), 8 if len(members) else 0))
    stop = np.minimum(len(members), at + 1 + random.integers(0, 9, len(at)))
    given = (members, following, position, at, stop, width, size)
    found, expected = both(device, "count_chains", *given)
    np.testing.assert_array_equal(found[:2], expected[:2])
    compiled = kernel("count_chains", "numba")(*given)
    np.testing.assert_array_equal(found, compiled)
    totals = (int(found[0].sum()), int(found[1].sum()))
    groups, wanted = both(device, "fill_chains", members, following, at, found[2], size, *totals)
    assert groups_of(groups, len(at)) == groups_of(wanted, len(at))
    same = kernel("fill_chains", "numba")(members, following, at, found[2], size, *totals)
    for mine, its in zip(groups, same, strict=True):
        np.testing.assert_array_equal(mine, its)


# --- queries on a device -------------------------------------------------------------------------

ON_DEVICE = How(device="opencl", insist=True)


@needs_opencl
@settings(max_examples=60, deadline=None)
@given(cases(DENSE, queries=2), st.sampled_from(SHAPES))
def test_queries_match_as_the_reference_says(case, shape):
    check(case[0], events_of(*case), replace(ON_DEVICE, detection=shape))


@needs_opencl
@pytest.mark.parametrize("name", LARGER)
def test_larger_streams_have_the_rows_of_the_processor(name, monkeypatch):
    monkeypatch.setattr(opencl, "MIN_SLICES", 256)
    workload, events = larger(name, "20 ms")
    whole, there = Counts(), Counts()
    expected = of_trees(workload, events, counts=whole)
    found = of_trees(workload, events, how=ON_DEVICE, counts=there)
    assert found.num_rows > 0
    assert found.equals(expected)
    assert there == whole


def test_a_device_is_used_for_the_joins_of_a_query(monkeypatch):
    seen = []

    def counted(device, *given):
        seen.append(device)
        return kernel("count_pairs", "numba")(*given)

    monkeypatch.setattr("kernels.registry.KERNELS", pretending(count_pairs=counted))
    monkeypatch.setattr("engines.device_kernels.opencl_handle", lambda request: "a card")
    workload, events = larger("sequence", "20 ms")
    assert of_trees(workload, events, how=How(device="opencl")).num_rows > 0
    assert seen == ["a card", "a card"]


def pretending(**functions):
    """The kernels' table, with devices for which the processor computes, or a given function."""

    def stand_in(name):
        return lambda device, *given: KERNELS[name]["numba"](*given)

    return {
        name: {**KERNELS[name], "opencl": functions.get(name, stand_in(name))} for name in KERNELS
    }


@pytest.mark.parametrize("failing", ["count_pairs", "fill_pairs", "probe", "places_from"])
def test_a_driver_that_fails_is_reported(failing, monkeypatch):
    def fails(*given):
        raise MemoryError("no room on the card")

    monkeypatch.setattr("kernels.registry.KERNELS", pretending(**{failing: fails}))
    monkeypatch.setattr(
        "engines.device_kernels.opencl_handle",
        lambda request: "a card" if request.device == "opencl" else None,
    )
    workload, events = larger("gap", "20 ms")
    expected = of_trees(workload, events)
    with pytest.raises(DeviceError, match="the OpenCL device failed: no room on the card"):
        of_trees(workload, events, how=ON_DEVICE)
    context = How().context(UNLIMITED)
    found = run_trees(workload, events, how=How(device="opencl"), context=context)
    assert list(context.fallbacks) == [
        "the OpenCL device failed: no room on the card: computing on the CPU instead"
    ]
    assert found.equals(expected)
