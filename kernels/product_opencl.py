"""The sliding product on an OpenCL device: runs side by side, and long runs cut into slices.

A slice of a run starts one window early and keeps its rows to itself until it reaches its own
part, so that slices of a stream without a key can be counted side by side as well.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernels.product import (
    MOVE,
    STAY,
    VALUE,
    VALUE_MOVE,
    VALUE_STAY,
    VALUE_TAG,
    Groups,
    Operators,
    Rows,
)

Array = npt.NDArray[Any]

SLICES = 16  # parts into which the longest runs are cut, at least, where there are few runs
SHORTEST = 4096  # groups of a slice: below this the warm-up is not worth it
CHUNK = 1 << 28  # bytes of counters that are held at once


def slide_product_opencl(
    device: Any,
    groups: Groups,
    back: Operators,
    front: Operators,
    readings: Array,
    queries: int,
    width: int,
    slide: int,
    triggered: Array,
) -> Rows:
    """The rows of all runs; `triggered` says how many queries an event of a move letter triggers.

    Floating-point counts always run beside the whole ones, so `approximate` is always filled.
    """
    runs = _slices(groups, width) if slide == 0 else _whole(groups)
    most = _most_values(readings, queries)
    n = max(len(back.start_counts), len(front.start_counts))
    nv = max(len(back.start_values), len(front.start_values))
    size = (
        2 * len(back.start_counts) + len(back.start_values)
        + 2 * len(front.start_counts) + len(front.start_values)
        + 2 * n + nv + n + nv + queries + 2
    )  # fmt: skip
    per_call = max(1, CHUNK // (8 * size))
    parts = [
        _call(
            device, groups, runs[start : start + per_call], back, front, readings, queries, width,
            slide, triggered, size, most,
        )
        for start in range(0, len(runs), per_call)
    ]  # fmt: skip
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _whole(groups: Groups) -> Array:
    """(first group, behind the last, first that gives rows, limit) of each run."""
    first, last = groups.run[:-1], groups.run[1:]
    return np.stack([first, last, first, groups.limit], axis=1)


def _slices(groups: Groups, width: int) -> Array:
    """The same with long runs cut."""
    whole = _whole(groups)
    length = max(SHORTEST, len(groups.position) // SLICES)
    found = []
    for first, last, _, limit in whole.tolist():
        for start in range(first, last, length):
            early = np.searchsorted(
                groups.position[first:start], groups.position[start] - width, "right"
            )
            found.append((first + int(early), min(start + length, last), start, limit))
    return np.array(found, np.int64).reshape(len(found), 4)


def _most_values(readings: Array, queries: int) -> int:
    pointers = readings[readings[VALUE] : readings[VALUE] + queries + 1]
    return int(np.diff(pointers).max(initial=0))


def _call(
    device: Any, groups: Groups, runs: Array, back: Operators, front: Operators,
    readings: Array, queries: int, width: int, slide: int, triggered: Array, size: int,
    most: int,
) -> Rows:  # fmt: skip
    import pyopencl as cl

    context, queue, kernel = _kernel(device)
    made_base = _bases(_row_bounds(groups, runs, queries, width, slide, triggered))
    log_base = _bases(_log_bounds(groups, runs, front, front.logged, _COUNTS))
    log_base_v = _bases(_log_bounds(groups, runs, front, front.logged_values, _VALUES))
    values = len(front.start_values)

    def given(array: Array, dtype: Any) -> Any:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        # A buffer of no bytes is refused.
        content = np.ascontiguousarray(array, dtype) if array.size else np.zeros(1, dtype)
        return cl.Buffer(context, flags, hostbuf=content)

    def room(count: int, width: int = 8) -> Any:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE, max(1, int(count)) * width)

    rows = int(made_base[-1])
    out = [room(rows) for _ in range(5)]
    out_values = room(rows * max(1, most))
    made = room(len(runs))
    kernel(
        queue, (len(runs),), None,
        np.int64(len(runs)), given(runs[:, :2], np.int64), given(runs[:, 3], np.int64),
        given(runs[:, 2], np.int64), given(groups.position, np.int64),
        given(groups.stay_letter, np.int64), given(groups.event, np.int64),
        given(groups.move_letter, np.int64), given(groups.inputs, np.float64),
        np.int64(len(groups.move_letter)),
        given(back.tables, np.int32), given(back.start_counts, np.uint64),
        given(back.start_values, np.float64), given(back.kinds, np.int8),
        np.int32(len(back.start_counts)), np.int32(len(back.start_values)),
        given(front.tables, np.int32), given(front.start_counts, np.uint64),
        given(front.start_values, np.float64), given(front.kinds, np.int8),
        given(front.logged, np.int8), given(front.logged_values, np.int8),
        np.int32(len(front.start_counts)), np.int32(values),
        given(readings, np.int32), np.int32(queries), np.int64(width), np.int64(slide),
        room(len(runs) * size), np.int64(size),
        room(len(groups.position)), room(len(groups.position)),
        given(log_base, np.int64), given(log_base_v, np.int64),
        room(log_base[-1], 4), room(log_base[-1]), room(log_base[-1]),
        room(log_base_v[-1], 4), room(log_base_v[-1]),
        given(made_base, np.int64), made, *out, out_values, np.int32(most),
    )  # fmt: skip

    def taken(buffer: Any, count: int, dtype: Any) -> Array:
        array = np.empty(max(1, count), dtype)
        cl.enqueue_copy(queue, array, buffer)
        return array[:count]

    counts = taken(made, len(runs), np.int64)
    kept = np.repeat(made_base[:-1], counts) + _within(counts)
    columns = [
        taken(buffer, rows, dtype)[kept]
        for buffer, dtype in zip(
            out, (np.int64, np.int64, np.int64, np.uint64, np.float64), strict=True
        )
    ]
    table = taken(out_values, rows * max(1, most), np.float64).reshape(-1, max(1, most))
    return Rows(*[*columns, table[kept][:, :most]])


def _bases(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _within(counts: Array) -> Array:
    """0, 1, 2, … anew for each count."""
    starts = np.repeat(_bases(counts)[:-1], counts)
    found: Array = np.arange(int(counts.sum()), dtype=np.int64) - starts
    return found


def _row_bounds(
    groups: Groups, runs: Array, queries: int, width: int, slide: int, triggered: Array
) -> Array:
    """How many rows each run can give at most."""
    if slide > 0:
        # Each group keeps the window from being empty for as many boundaries as it is in.
        return (runs[:, 1] - runs[:, 0]) * (width // slide + 2) * queries
    before = _bases(triggered[groups.move_letter])
    found: Array = before[groups.event[runs[:, 1]]] - before[groups.event[runs[:, 2]]]
    return found


def _log_bounds(
    groups: Groups, runs: Array, ops: Operators, logged: Array, tables: _Tables
) -> Array:
    """How many changes each run can log at most: what its letters change of what is logged."""
    per_event = np.zeros(1, np.int64)
    for table, width in tables.moves:
        per_event = per_event + _changes(ops.tables, table, width, logged)
    per_group = _changes(ops.tables, tables.stay, 3, logged)
    of_events = _bases(per_event[groups.move_letter])[groups.event]
    of_groups = _bases(per_group[groups.stay_letter])
    upto = of_events + of_groups
    found: Array = upto[runs[:, 1]] - upto[runs[:, 0]]
    return found


class _Tables(NamedTuple):
    """The tables that change one sort of counter, with the width of their records."""

    moves: tuple[tuple[int, int], ...]
    stay: int


_COUNTS = _Tables(((MOVE, 2),), STAY)
_VALUES = _Tables(((VALUE_MOVE, 2), (VALUE_TAG, 3)), VALUE_STAY)


def _changes(tables: Array, table: int, width: int, logged: Array) -> Array:
    """For each letter of a table, how many of its records change a counter that is logged."""
    pointers = tables[tables[table] : tables[table + 1]]
    targets = tables[tables[table + 1] : tables[table + 2]].reshape(-1, width)[:, 0]
    return np.diff(_bases(logged[targets])[pointers])


@cache
def _kernel(device: Any) -> tuple[Any, Any, Any]:
    import pyopencl as cl

    context = cl.Context([device])
    source = Path(__file__).with_name("product.cl").read_text(encoding="utf-8")
    program = cl.Program(context, source).build()
    return context, cl.CommandQueue(context), cl.Kernel(program, "slide_product")
