"""Situations and pairs of them on an OpenCL device: moments, and situations, side by side.

Each is counted first. The prefix sum is the host's, and says where each work-item writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.opencl import Device, bases


def derive_runs(
    device: Any, starts: np.ndarray, ticks: np.ndarray, holds: np.ndarray, gap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.situations.cpu.derive_runs`, on a device of pyopencl."""
    if not holds.size:
        none = np.zeros(0, np.int64)
        return none, none, none, none
    on = Device(device, "situations/kernel.cl")
    step = on.share(holds.size)
    items = -(-holds.size // step)
    asked = (
        np.int64(step), np.int64(holds.size), on.lent(starts, np.int64),
        np.int64(starts.size - 1), on.lent(ticks, np.int64),
        on.lent(holds.view(np.uint8), np.uint8), np.int64(gap),
    )  # fmt: skip
    counts = on.room(items)
    on.run("derive_runs", items, *asked, np.int32(0), counts, *[on.room(1)] * 4)
    firsts = bases(on.taken(counts, (items,), np.int64))
    columns = [on.room(firsts[-1]) for _ in range(4)]
    on.run("derive_runs", items, *asked, np.int32(1), on.given(firsts, np.int64), *columns)
    partition, first, last, ended = (
        on.taken(column, (int(firsts[-1]),), np.int64) for column in columns
    )
    return partition, first, last, ended


def related_pairs(
    device: Any, offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray,
    end: np.ndarray, tick: np.ndarray, other: np.ndarray, other_end: np.ndarray,
    other_tick: np.ndarray, bits: int, width: int, most: int,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """As `kernels.situations.cpu.related_pairs`, on a device of pyopencl."""
    size = int(offsets[-1] - offsets[0])
    if not size:
        return np.zeros((2, 0), np.int64), np.zeros(0, np.uint8)
    on = Device(device, "situations/kernel.cl")
    step = on.share(size)
    items = -(-size // step)
    columns = offsets, other_offsets, start, end, tick, other, other_end, other_tick
    asked = (
        np.int64(step), np.int64(offsets.size - 1),
        *(on.lent(column, np.int64) for column in columns), np.int32(bits), np.int64(width),
    )  # fmt: skip
    counts, none = on.room(items), on.room(1)
    on.run("related_pairs", items, *asked, np.int32(0), counts, none, none, none)
    firsts = bases(on.taken(counts, (items,), np.int64))
    number = int(firsts[-1])
    if number > most:
        return None
    left, right, codes = on.room(number), on.room(number), on.room(number, 1)
    given = on.given(firsts, np.int64), left, right, codes
    on.run("related_pairs", items, *asked, np.int32(1), *given)
    pairs = np.stack([on.taken(side, (number,), np.int64) for side in (left, right)])
    return pairs, on.taken(codes, (number,), np.uint8)
