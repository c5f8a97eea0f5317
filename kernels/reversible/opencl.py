"""The reversible product on an OpenCL device: runs side by side, and long runs cut into slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.groups import Groups, RowSegments, Spans
from kernels.opencl import Device, Outputs, Triggers, cut, fill, only_span
from kernels.reversible.cpu import Steps


def slide_reversible(
    device: Any, groups: Groups, begun: np.ndarray, since: np.ndarray, steps: Steps, spans: Spans,
    wide: bool, out: RowSegments,
) -> bool:  # fmt: skip
    """As `kernels.reversible.cpu.slide_reversible`, on a device of pyopencl; all of one span."""
    width, slide = only_span(spans)
    on = Device(device, "reversible/kernel.cl", (f"-DWIDE={int(wide)}",))
    slices = cut(groups, begun, since, width, slide, on.pieces(out))
    queries, counters = len(out.end), len(steps.start)
    size = (1 + wide) * counters + queries
    size += size % 2  # wide counters stand at even places
    events = [
        on.given(array, np.int64) for array in (groups.position, groups.event, groups.move_letter)
    ]
    triggers = Triggers(steps.trigger, steps.triggers)
    tables = (
        on.given(steps.start, np.uint64), np.int32(counters), np.int32(steps.levels),
        *_pairs(on, steps.arrive, steps.arrive_into, steps.arrive_of),
        *_pairs(on, steps.leave, steps.leave_into, steps.leave_of),
        *(on.given(array, np.uint32) for array in (*triggers, steps.final, steps.finals)),
        np.int64(width), np.int64(slide),
    )  # fmt: skip

    def call(numbers: slice, ends: Any, rows: Outputs) -> None:
        items = numbers.stop - numbers.start
        on.run(
            "slide_reversible", items, ends, np.int32(queries), *events, *tables,
            on.room(items * size), np.int64(size), rows.cursor, rows.group, rows.boundary,
            rows.counts, rows.approximate,
        )  # fmt: skip

    memory = np.full(len(slices), 8 * size)
    return fill(on, slices, memory, events, triggers, width, slide, wide, 0, out, call)


def _pairs(on: Device, at: np.ndarray, into: np.ndarray, of: np.ndarray) -> tuple[Any, Any]:
    return on.given(at, np.uint32), on.given(np.stack([into, of], axis=1), np.uint32)
