"""The joins of buffers on an OpenCL device: right rows side by side.

The prefix sum between the two passes is the host's: it needs the counts to cut them into chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.joins.cpu import Pairs, Side, ascends
from kernels.opencl import Device

_ORDERED, _SINGLE, _LEFT_GATE, _RIGHT_GATE, _GROUPED, _RISING = 1, 2, 4, 8, 16, 32  # as in joins.cl


def count_pairs(
    device: Any,
    moment: np.ndarray,
    position: np.ndarray,
    left: Side,
    groups: np.ndarray,
    right: Side,
    group: np.ndarray,
    tests: np.ndarray,
    width: int,
    ordered: bool,
) -> Pairs:
    """As `kernels.joins.cpu.count_pairs`, on a device of pyopencl."""
    size = right.last.size
    if not size:
        return Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64), 0)
    on = Device(device, "joins/kernel.cl")
    step = on.share(size)
    begin, end, counts = on.room(size, 4), on.room(size, 4), on.room(size, 8)
    given = (
        on.lent(moment, np.int64), on.lent(position, np.int64), np.int64(left.last.size),
        *_lent(on, left), on.lent(groups, np.int64), np.int64(size), *_lent(on, right),
        on.lent(group, np.int32), np.int32(tests.size), on.lent(tests, np.int8), np.int64(width),
        _how(left, right, group, ordered) | _rising(left, groups, ordered),
    )  # fmt: skip
    on.run("count_pairs", -(-size // step), np.int64(step), *given, begin, end, counts)
    first, behind = on.taken(begin, (size,), np.int32), on.taken(end, (size,), np.int32)
    tried = int(behind.sum(dtype=np.int64) - first.sum(dtype=np.int64))
    return Pairs(first, behind, on.taken(counts, (size,), np.int64), tried)


def fill_pairs(
    device: Any,
    moment: np.ndarray,
    position: np.ndarray,
    left: Side,
    right: Side,
    tests: np.ndarray,
    width: int,
    ordered: bool,
    pairs: Pairs,
    start: int,
    stop: int,
) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels.joins.cpu.fill_pairs`, on a device of pyopencl."""
    counts = pairs.counts[start:stop]
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    on = Device(device, "joins/kernel.cl")
    step = on.share(len(counts))
    firsts = np.arange(0, len(counts), step)
    offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(counts, firsts))[:-1]])
    rows, others = on.room(total, 4), on.room(total, 4)
    first, last, _, values = _lent(on, right)
    given = (
        on.lent(moment, np.int64), on.lent(position, np.int64), np.int64(left.last.size),
        *_lent(on, left), np.int64(right.last.size), first, last, values, np.int32(tests.size),
        on.lent(tests, np.int8), np.int64(width), _how(left, right, np.zeros(0), ordered),
        on.lent(pairs.begin, np.int32), on.lent(pairs.end, np.int32), np.int64(start),
        np.int64(stop), on.lent(offsets, np.int64),
    )  # fmt: skip
    on.run("fill_pairs", len(firsts), np.int64(step), *given, rows, others)
    return on.taken(rows, (total,), np.int32), on.taken(others, (total,), np.int32)


def probe(
    device: Any,
    left: Side,
    groups: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    values: np.ndarray,
    group: np.ndarray,
    tests: np.ndarray,
    latest: bool,
) -> tuple[np.ndarray, int]:
    """As `kernels.joins.cpu.probe`, on a device of pyopencl."""
    size = low.size
    if not size:
        return np.zeros(0, np.int32), 0
    on = Device(device, "joins/kernel.cl")
    step = on.share(size)
    items = -(-size // step)
    found, tried = on.room(size, 4), on.room(items, 8)
    first, last, _, left_values = _lent(on, left)
    given = (
        np.int64(left.last.size), first, last, left_values, on.lent(groups, np.int64),
        np.int64(size), on.lent(low, np.int32), on.lent(high, np.int32),
        on.lent(values, np.float64), on.lent(group, np.int32), np.int32(tests.size),
        on.lent(tests, np.int8), np.int32(_GROUPED if group.size else 0), np.int32(latest),
    )  # fmt: skip
    on.run("probe", items, np.int64(step), *given, found, tried)
    tries = int(on.taken(tried, (items,), np.int64).sum())
    return on.taken(found, (size,), np.int32), tries


def latest_starts(
    device: Any,
    moment: np.ndarray,
    position: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    places: np.ndarray,
    gate: np.ndarray,
    width: int,
) -> np.ndarray:
    """As `kernels.joins.cpu.latest_starts`, on a device of pyopencl."""
    size = places.size
    if not size or not last.size:
        return np.full(size, -1, np.int32)
    on = Device(device, "joins/kernel.cl")
    step = on.share(size)
    found = on.room(size, 4)
    given = (
        on.lent(moment, np.int64), on.lent(position, np.int64), np.int64(last.size),
        on.lent(first, np.int32), on.lent(last, np.int32), np.int64(size),
        on.lent(places, np.int32), np.int32(gate.size > 0), on.lent(gate, np.int64),
        np.int64(width),
    )  # fmt: skip
    on.run("latest_starts", -(-size // step), np.int64(step), *given, found)
    return on.taken(found, (size,), np.int32)


def places_from(device: Any, values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """As `kernels.joins.cpu.places_from`, on a device of pyopencl."""
    if not keys.size:
        return np.zeros(0, np.int32)
    on = Device(device, "joins/kernel.cl")
    step = on.share(keys.size)
    found = on.room(keys.size, 4)
    given = (
        np.int64(values.size), on.lent(values, np.int64),
        np.int64(keys.size), on.lent(keys, np.int64),
    )  # fmt: skip
    on.run("places_from", -(-keys.size // step), np.int64(step), *given, found)
    return on.taken(found, (keys.size,), np.int32)


def _lent(on: Device, side: Side) -> tuple[Any, Any, Any, Any]:
    first, last = on.lent(side.first, np.int32), on.lent(side.last, np.int32)
    return first, last, on.lent(side.gate, np.int64), on.lent(side.values, np.float64)


def _rising(left: Side, groups: np.ndarray, ordered: bool) -> np.int32:
    rising = ordered and left.gate.size > 0 and ascends(left.gate, groups)
    return np.int32(_RISING if rising else 0)


def _how(left: Side, right: Side, group: np.ndarray, ordered: bool) -> np.int32:
    found = _SINGLE if left.first is left.last else 0
    if ordered:
        found |= _ORDERED
        found |= _LEFT_GATE if left.gate.size else 0
        found |= _RIGHT_GATE if right.gate.size else 0
    return np.int32(found | (_GROUPED if group.size else 0))
