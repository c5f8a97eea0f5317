"""Groups of events on an OpenCL device: heads side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.opencl import Device, bases


def count_chains(
    device: Any,
    members: np.ndarray,
    following: np.ndarray,
    position: np.ndarray,
    at: np.ndarray,
    stop: np.ndarray,
    width: int,
    size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.chains.cpu.count_chains`, on a device of pyopencl."""
    return _counted(
        Device(device, "chains/kernel.cl"), members, following, position, at, stop, width, size
    )


def _counted(
    on: Device,
    members: np.ndarray,
    following: np.ndarray,
    position: np.ndarray | None,
    at: np.ndarray,
    stop: np.ndarray,
    width: int,
    size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    heads = at.size
    if not heads:
        none = np.zeros(0, np.int64)
        return none, none, none
    step = on.share(heads)
    stops, counts, sizes = on.given(stop, np.int64), on.room(heads), on.room(heads)
    given = (
        on.lent(members, np.int32), on.lent(following, np.int64),
        None if position is None else on.lent(position, np.int64), np.int64(heads),
        on.lent(at, np.int64), np.int64(width), np.int32(size),
    )  # fmt: skip
    on.run("count_chains", -(-heads // step), np.int64(step), *given, stops, counts, sizes)
    shape = (heads,)
    return (
        on.taken(counts, shape, np.int64),
        on.taken(sizes, shape, np.int64),
        on.taken(stops, shape, np.int64),
    )


def fill_chains(
    device: Any,
    members: np.ndarray,
    following: np.ndarray,
    at: np.ndarray,
    stops: np.ndarray,
    size: int,
    groups: int,
    total: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.chains.cpu.fill_chains`, on a device of pyopencl."""
    if not groups:
        return np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32)
    on = Device(device, "chains/kernel.cl")
    # Where the groups of each item go is known when those before it are counted.
    counts, sizes, _ = _counted(on, members, following, None, at, stops, 0, size)
    step = on.share(at.size)
    firsts = np.arange(0, at.size, step)
    deepest = size or int((stops - at).max())
    head, offsets, places = on.room(groups, 4), on.room(groups + 1), on.room(total, 4)
    given = (
        on.lent(members, np.int32), on.lent(following, np.int64), np.int64(at.size),
        on.lent(at, np.int64), on.lent(stops, np.int64), np.int32(size), np.int64(deepest),
        on.lent(bases(np.add.reduceat(counts, firsts))[:-1], np.int64),
        on.lent(bases(np.add.reduceat(sizes, firsts))[:-1], np.int64),
        on.room(len(firsts) * (deepest + 1), 4),
    )  # fmt: skip
    on.run("fill_chains", len(firsts), np.int64(step), *given, head, offsets, places)
    found = on.taken(offsets, (groups + 1,), np.int64)
    found[0] = 0
    return on.taken(head, (groups,), np.int32), found, on.taken(places, (total,), np.int32)
