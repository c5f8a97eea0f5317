"""Compiled derivation and joins of situations agree with what plain Python finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.devices import opencl_devices
from kernels import opencl
from kernels.registry import kernel
from kernels.situations import cpu, reference

bits = st.booleans()


@pytest.fixture(scope="module", autouse=True)
def _few_rows_each() -> Iterator[None]:
    """Several work-items even for a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl, "MIN_SLICES", 3)
        patch.setattr(opencl, "PER_CORE", 2)
        yield


def on_opencl(name: str, *asked: Any) -> Any:
    """What a kernel finds on a device; None where there is none."""
    devices, _ = opencl_devices()
    return kernel(name, "opencl", devices[0].handle)(*asked) if devices else None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), bits), max_size=30), max_size=3),
    st.integers(-1, 2),
    st.sampled_from([1, 1, 9]),
)
def test_both_derive_the_same(
    partitions: list[list[tuple[int, bool]]], gap: int, repeated: int
) -> None:
    partitions = [[moment for moment in p for _ in range(repeated)] for p in partitions]
    starts = np.cumsum([0, *map(len, partitions)])
    steps = [np.cumsum([step for step, _ in p]) for p in partitions]
    ticks = np.concatenate([np.zeros(0), *steps]).astype(np.int64)
    holds = np.array([h for p in partitions for _, h in p], bool)
    given_moments = (starts, ticks, holds, gap)
    found, expected = cpu.derive_runs(*given_moments), reference.derive_runs(*given_moments)
    on_device = on_opencl("derive_runs", *given_moments) or found
    for mine, theirs, third in zip(found, expected, on_device, strict=True):
        assert mine.tolist() == theirs.tolist() == third.tolist()


@st.composite
def joins(draw: st.DrawFn) -> tuple[object, ...]:
    names, partitions = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    offsets, start, end = np.zeros((names, partitions + 1), np.int64), [], []
    for name in range(names):
        for partition in range(partitions):
            offsets[name, partition] = len(start)
            edges = draw(st.lists(st.integers(-6, 6), max_size=6, unique=True))
            edges = sorted(edges)[: len(edges) // 2 * 2]
            start += edges[::2]
            end += edges[1::2]
            if edges and draw(bits):
                end[-1] = cpu.FOREVER
        offsets[name, partitions] = len(start)
    for name in range(names - 1):
        offsets[name, partitions] = offsets[name + 1, 0]
    masks = np.full((names, names), cpu.ALL)
    for j in range(names):
        for k in range(j + 1, names):
            masks[j, k] = draw(st.sampled_from([cpu.ALL]) | st.integers(1, cpu.ALL))
            masks[k, j] = sum(1 << (12 - i) for i in range(13) if masks[j, k] >> i & 1)
    starts, ends = np.array(start, np.int64), np.array(end, np.int64)
    order = np.array(draw(st.permutations(range(names))))
    complete = draw(bits) and not (ends == cpu.FOREVER).any()
    root = order[: draw(st.integers(1, names))].tolist()
    seeds, of = [], []
    for p in range(partitions):
        some = list(product(*(range(int(offsets[k, p]), int(offsets[k, p + 1])) for k in root)))
        seeds += some
        of += [p] * len(some)
    table = np.ascontiguousarray(np.array(seeds, np.int64).reshape(-1, len(root)).T)
    return (
        *(offsets, order, table, np.array(of, np.int64)),
        *(starts, ends, ends if complete else starts, starts),
        *(np.arange(len(starts)), masks, masks, np.zeros((names, names), bool)),
        *(starts[:0], draw(st.integers(1, 14)), complete),
    )


@settings(max_examples=200, deadline=None)
@given(joins(), st.integers(1, 9))
def test_both_join_the_same(given_runs: tuple[object, ...], room: int) -> None:
    begin, seeds = 0, len(given_runs[3])  # type: ignore[arg-type]
    while begin < seeds:
        found, left = [], []
        for module in (cpu, reference):
            chosen, certain, behind = module.find_matches(*given_runs, begin, room)
            found.append(sorted(zip(*chosen.tolist(), certain.tolist(), strict=True)))
            left.append(behind)
        assert found[0] == found[1]
        assert begin < left[0] == left[1]
        begin = left[0]


@settings(max_examples=100, deadline=None)
@given(joins())
def test_situations_that_touch_are_fewer_than_both_together(given_runs: tuple[object, ...]) -> None:
    offsets, starts, ends = given_runs[0], given_runs[4], given_runs[5]
    rows = offsets[0], offsets[-1], starts, ends, starts, starts, ends, starts  # type: ignore[index]
    touching = cpu.with_groups(cpu.ALL & ~(cpu.BEFORE | cpu.AFTER))
    found = cpu.related_pairs(*rows, touching, 100, 1000)
    assert found is not None
    sizes = [int(own[-1] - own[0]) for own in rows[:2]]
    assert found[0].shape[1] <= max(sum(sizes) - 1, 0)


@settings(max_examples=150, deadline=None)
@given(joins(), st.integers(1, 14))
def test_both_relate_and_count_the_same(given_runs: tuple[object, ...], width: int) -> None:
    offsets, starts, ends = given_runs[0], given_runs[4], given_runs[5]
    rows = offsets[0], offsets[-1], starts, ends, starts, starts, ends, starts, width  # type: ignore[index]
    assert cpu.count_relations(*rows).tolist() == reference.count_relations(*rows).tolist()
    mask = 1 << 16 if not len(starts) else int(starts[-1] * 7919 % (1 << 16))  # type: ignore[arg-type]
    for most in (1, 1000):
        pairs = (*rows[:8], mask, width, most)
        expected = reference.related_pairs(*pairs)  # type: ignore[arg-type]
        for found in (cpu.related_pairs(*pairs), on_opencl("related_pairs", *pairs)):  # type: ignore[arg-type]
            assert (found is None) == (expected is None) or not opencl_devices()[0]
            if found is not None and expected is not None:
                assert [column.tolist() for column in found] == [c.tolist() for c in expected]
    turned = ends[::-1].copy(), starts[::-1].copy()  # type: ignore[index]
    assert len(starts) == 0 or (  # type: ignore[arg-type]
        cpu.relation_codes(starts, ends, turned[1], turned[0]).tolist()
        == reference.relation_codes(starts, ends, turned[1], turned[0]).tolist()
    )


@settings(max_examples=150, deadline=None)
@given(joins(), st.integers(1, 14), st.data())
def test_both_select_the_same(
    given_runs: tuple[object, ...], width: int, data: st.DataObject
) -> None:
    offsets: Any = given_runs[0]
    starts, ends, masks = (cast(Any, given_runs[place]) for place in (4, 5, 9))
    every = [
        choice
        for p in range(offsets.shape[1] - 1)
        for choice in product(*(range(*of[p : p + 2]) for of in offsets))
    ]
    chosen = np.array(every, np.int64).reshape(-1, len(offsets)).T.copy()
    sides = list(combinations(range(len(offsets)), 2))
    codes = np.zeros((len(sides), len(every)), np.uint8)
    for (i, j), of in zip(sides, codes, strict=True):
        edges = starts[chosen[i]], ends[chosen[i]], starts[chosen[j]], ends[chosen[j]]
        of[:] = cpu.relation_codes(*edges)
    bits_of = np.array([cpu.with_groups(int(masks[side])) for side in sides], np.int64)
    ways = [(s, s + 2, e, cpu.FOREVER) for s, e in zip(starts, ends, strict=True)]
    sure = np.array([data.draw(st.sampled_from(way)) for way in ways], np.int64)
    asked = (
        *(np.arange(len(every))[1:], chosen, codes, np.array(sides, np.int64).reshape(-1, 2)),
        *(bits_of, starts, ends, sure, width),
    )
    found, expected = cpu.select_matches(*asked), reference.select_matches(*asked)
    assert [column.tolist() for column in found] == [column.tolist() for column in expected]
