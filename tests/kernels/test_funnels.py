"""The kernels of funnels give what plain Python does."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.references import REFERENCES
from kernels.registry import kernel


def stream(draw: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Events of a few keys in order, several at one time: starts, blocks, ticks and letters."""
    sizes = draw.integers(0, 12, 5)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ticks = np.concatenate([np.sort(draw.integers(0, 15, size)) for size in sizes])
    new = np.ones(len(ticks), bool)
    new[1:] = np.diff(ticks) != 0
    new[starts[:-1][sizes > 0]] = True
    block = np.maximum.accumulate(np.where(new, np.arange(len(ticks)), 0))
    return starts, block, ticks, draw.integers(0, 4, len(ticks)).astype(np.int32)


def lists(nodes: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.concatenate([[0], np.cumsum([len(some) for some in nodes])]).astype(np.int64)
    return starts, np.array([n for some in nodes for n in some], np.int64)


@pytest.mark.parametrize("seed", range(60))
def test_prefixes_are_followed(seed: int) -> None:
    draw = np.random.default_rng(seed)
    events = stream(draw)
    number = int(draw.integers(1, 8))
    parent = np.array([-1, *(int(draw.integers(-1, n)) for n in range(1, number))], np.int64)
    depth, rising = np.zeros(number, np.int64), np.zeros(number, bool)
    for n in range(1, number):
        if parent[n] >= 0:
            depth[n] = depth[parent[n]] + 1
            # Below the first step a prefix is followed as the one before it.
            first = parent[n] < 0 or parent[parent[n]] < 0
            rising[n] = draw.random() < 0.5 if first else rising[parent[n]]
    symbol = draw.integers(0, 3, number)
    sets = [[], [0], [1, 2], [0, 2]]  # the symbols of each letter
    own = [[n for n in range(number) if symbol[n] in some] for some in sets]
    up = [sorted((n for n in some if not rising[n]), key=lambda n: depth[n]) for some in own]
    down = [sorted((n for n in some if rising[n]), key=lambda n: -depth[n]) for some in own]
    cleared = [[n for n in range(number) if draw.random() < 0.2] for _ in sets]
    width = draw.integers(1, 12, number)
    given = (*events, lists(up), lists(down), lists(cleared), parent, depth, width)
    found, expected = (np.full((5, number), -1, np.int64) for _ in range(2))
    kernel("follow_funnels", "numba")(*given, found)
    REFERENCES["follow_funnels"](*given, expected)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_funnels_are_read_in_turn(seed: int) -> None:
    draw = np.random.default_rng(seed)
    events = stream(draw)
    sizes = draw.integers(1, 5, 3)
    steps = draw.integers(0, 16, (3, 4)).astype(np.uint64) & draw.integers(0, 16, (3, 4)).astype(
        np.uint64
    )
    steps &= ((1 << sizes) - 1).astype(np.uint64)[:, None]
    cleared = (draw.integers(0, 16, (3, 4)) * (draw.random((3, 4)) < 0.3)).astype(np.uint64)
    settings = draw.random((3, 3)) < 0.5
    given = (*events, steps, cleared, sizes, settings, draw.integers(1, 12, 3))
    found, expected = (np.full((5, int(sizes.sum())), -1, np.int64) for _ in range(2))
    kernel("read_in_turn", "numba")(*given, found)
    REFERENCES["read_in_turn"](*given, expected)
    assert found.tolist() == expected.tolist()
