"""What the kernels on an OpenCL device have in common: slices of runs, buffers, and rows by query.

A run is cut into slices that are counted side by side. A slice starts one window early, to build
its counters without giving rows, so that a stream without a key can be cut as well. Per slide, a
slice answers for the boundaries from its first own group up to the next slice's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from kernels.groups import Groups, RowSegments, Spans

Array = npt.NDArray[Any]

PER_CORE = 8  # slices for each core of a processor, so that none waits long for the last
PER_UNIT = 256  # slices for each unit of a GPU, which runs many at a time
MIN_SLICES = 256  # rows that a core takes at a time
MIN_SLICE_GROUPS = 1024  # groups of a slice, at least
MAX_WARMUP_SHARE = 4.0  # windows that a slice is long, at least: it starts one window early
CHUNK = 1 << 28  # bytes of counters, logs or rows that are held at once; one slice is never cut

FIRST, FRESH, LAST, SINCE, LIMIT = range(5)  # columns of slices, see segments.cl


def only_span(spans: Spans) -> tuple[int, int]:
    """The width and slide of queries that do not differ in them, which is all that devices take."""
    (width,), (slide,) = np.unique(spans.width), np.unique(spans.slide)
    return int(width), int(slide)


def cut(
    groups: Groups, begun: Array, since: Array, width: int, slide: int, pieces: int
) -> npt.NDArray[np.int64]:
    """The runs in slices, about `pieces` of them if the runs are long enough; a row for each.

    `begun` and `since` as `kernels.product.cpu.slide_product` has them.
    """
    position = groups.position
    first, last = groups.run[:-1], groups.run[1:]
    fresh = first if slide else first + begun
    length = _length(groups, width, pieces)
    number = -((fresh - last) // length)
    run = np.repeat(np.arange(len(first)), number)
    start = fresh[run] + length * within(number)
    stop = np.minimum(start + length, last[run])
    found = np.empty((len(run), 5), np.int64)
    found[:, FIRST], found[:, FRESH], found[:, LAST] = first[run], start, stop
    found[:, SINCE] = np.maximum(since[run], position[start] - 1)
    following = position[np.minimum(stop, len(position) - 1)] - 1
    found[:, LIMIT] = np.where(
        stop == last[run], groups.limit[run], np.minimum(groups.limit[run], following)
    )
    opening = -(-(found[:, SINCE] + 1) // slide) * slide if slide else position[start]
    # What is not in the first window is left out.
    for s in np.flatnonzero(position[first[run]] <= opening - width).tolist():
        mine = position[first[run[s]] : stop[s]]
        found[s, FIRST] += int(np.searchsorted(mine, opening[s] - width, "right"))
    return found


def _length(groups: Groups, width: int, pieces: int) -> int:
    """How many groups a slice has."""
    total = len(groups.position)
    runs = groups.run[:-1][np.diff(groups.run) > 0]
    ends = groups.run[1:][np.diff(groups.run) > 0] - 1
    span = float((groups.position[ends] - groups.position[runs]).sum() + len(runs))
    in_window = min(float(total), total * width / max(1.0, span))
    return max(1, MIN_SLICE_GROUPS, -(-total // pieces), int(MAX_WARMUP_SHARE * in_window))


def bases(sizes: Array) -> npt.NDArray[np.int64]:
    """Where each of these sizes begins when they stand end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def within(counts: Array) -> npt.NDArray[np.int64]:
    """0, 1, 2, … anew for each count."""
    found: Array = np.arange(int(counts.sum()), dtype=np.int64)
    found -= np.repeat(bases(counts)[:-1], counts)
    return found


def chunks(sizes: Array) -> Iterator[slice]:
    """Neighbours whose bytes go into one chunk together; what is larger goes alone."""
    ends = np.cumsum(sizes, dtype=np.int64)
    first, done = 0, 0
    while first < len(ends):
        behind = max(first + 1, int(np.searchsorted(ends, done + CHUNK, "right")))
        yield slice(first, behind)
        first, done = behind, int(ends[behind - 1])


class Triggers(NamedTuple):
    """The queries that an event of a letter triggers."""

    trigger: Array  # pointers by letter
    triggers: Array


class Outputs(NamedTuple):
    """Buffers for the rows of some slices: `cursor` is where the next row of each query goes."""

    cursor: Any
    group: Any
    boundary: Any
    counts: Any
    approximate: Any
    values: Any


class Device:
    """A device's queue, and one program for it."""

    def __init__(self, handle: Any, source: str, options: tuple[str, ...] = ()) -> None:
        self._context, self._queue, self._program = _program(handle, source, options)
        self._handle = handle

    def pieces(self, out: RowSegments) -> int:
        """Into how many slices it is worth to cut runs that may fill `out`."""
        per_unit = PER_CORE if self._is_processor else PER_UNIT
        at_once = per_unit * int(self._handle.max_compute_units)
        size = 8 * (4 + int(out.values.shape[1])) * int((out.room - out.end).sum())
        return at_once * (1 + size // CHUNK)

    @property
    def _is_processor(self) -> bool:
        import pyopencl as cl

        return bool(self._handle.type & cl.device_type.CPU)

    def given(self, array: Array, dtype: npt.DTypeLike) -> Any:
        """A buffer with a copy of an array."""
        import pyopencl as cl

        # A buffer of no bytes is refused.
        content = np.ascontiguousarray(array, dtype) if array.size else np.zeros(1, dtype)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=content)

    def lent(self, array: Array, dtype: npt.DTypeLike) -> Any:
        """A buffer to read an array from, which on a processor is the array itself.

        It must not change, nor the buffer be let go, until what was run with it is taken.
        """
        import pyopencl as cl

        content = np.ascontiguousarray(array, dtype) if array.size else np.zeros(1, dtype)
        share = cl.mem_flags.USE_HOST_PTR if self._is_processor else cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._context, cl.mem_flags.READ_ONLY | share, hostbuf=content)

    def share(self, rows: int) -> int:
        """How many of some rows a work-item takes: on a GPU one."""
        if not self._is_processor:
            return 1
        return max(MIN_SLICES, -(-rows // (PER_CORE * int(self._handle.max_compute_units))))

    def room(self, count: int, size: int = 8) -> Any:
        """A buffer for so many values, of any content."""
        import pyopencl as cl

        return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(1, int(count)) * size)

    def run(self, name: str, items: int, *arguments: Any) -> None:
        """Call a kernel for so many work-items."""
        import pyopencl as cl

        # Groups of one item on a processor, whose cores each take a group at a time; a GPU's
        # driver chooses, but only a divisor of the whole.
        local, size = ((1,), items) if self._is_processor else (None, -(-items // 64) * 64)
        # A kernel object of its own for each call, as it holds the arguments.
        cl.Kernel(self._program, name)(self._queue, (size,), local, np.int32(items), *arguments)

    def seen(self, buffer: Any, count: int, dtype: npt.DTypeLike, use: Callable[[Array], None]
    ) -> None:  # fmt: skip
        """Show what is in a buffer for as long as `use` takes."""
        import pyopencl as cl

        array, _ = cl.enqueue_map_buffer(
            self._queue, buffer, cl.map_flags.READ, 0, (max(1, count),), np.dtype(dtype)
        )
        with array.base:
            use(array[:count])

    def taken(self, buffer: Any, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """A copy of what is in a buffer, when all that was run is done.

        Also where nothing is copied: what still ran would read arrays that are lent and let go.
        """
        import pyopencl as cl

        array = np.empty(shape, dtype)
        if array.size:
            cl.enqueue_copy(self._queue, array, buffer)
        else:
            self._queue.finish()
        return array


@cache
def _program(handle: Any, source: str, options: tuple[str, ...]) -> tuple[Any, Any, Any]:
    import pyopencl as cl

    context = cl.Context([handle])
    here = Path(__file__).parent
    text = "\n".join((here / name).read_text(encoding="utf-8") for name in ("segments.cl", source))
    program = cl.Program(context, text).build(options=list(options))
    return context, cl.CommandQueue(context), program


Call = Callable[[slice, Any, Outputs], None]


def fill(
    device: Device,
    slices: npt.NDArray[np.int64],
    memory: npt.NDArray[np.int64],
    buffers: Sequence[Any],
    triggers: Triggers,
    width: int,
    slide: int,
    dual: bool,
    values: int,
    out: RowSegments,
    call: Call,
) -> bool:
    """Fill `out` with the rows of slices; False where a segment of it is too small.

    `memory` are the bytes that the kernel needs for each slice, and `buffers` the positions,
    pointers to events and letters of the groups. Rows have so many `values`. `call` runs the kernel
    on some slices: it is given their numbers, the slices as a buffer, and buffers for rows. Where
    the device fails, `out` has no rows more than before.
    """
    before = out.end.copy()
    try:
        return _filled(
            device, slices, memory, buffers, triggers, width, slide, dual, values, out, call
        )
    except Exception:
        out.end[:] = before
        raise


def _filled(
    device: Device,
    slices: npt.NDArray[np.int64],
    memory: npt.NDArray[np.int64],
    buffers: Sequence[Any],
    triggers: Triggers,
    width: int,
    slide: int,
    dual: bool,
    values: int,
    out: RowSegments,
    call: Call,
) -> bool:
    """As `fill`, with `out` in any state where the device fails."""
    queries = len(out.end)
    row_bytes = 8 * (2 + bool(slide) + dual + values)
    pointers = [device.given(array, np.uint32) for array in triggers]
    for some in chunks(memory + 3 * 8 * queries):
        mine = slices[some]
        rooms = device.room(len(mine) * queries)
        device.run(
            "room_for_rows", len(mine), device.given(mine, np.int64), np.int32(queries), *buffers,
            *pointers, np.int64(width), np.int64(slide), rooms,
        )  # fmt: skip
        room = device.taken(rooms, (len(mine), queries), np.int64)
        del rooms
        for few in chunks(room.sum(axis=1) * row_bytes):
            base = bases(room[few].reshape(-1))
            rows = int(base[-1])
            cursor = device.given(base[:-1], np.int64)
            outputs = Outputs(
                cursor,
                device.room(rows),
                device.room(rows if slide else 0),
                device.room(rows),
                device.room(rows if dual else 0),
                device.room(rows * values),
            )
            numbers = slice(some.start + few.start, some.start + few.stop)
            call(numbers, device.given(slices[numbers], np.int64), outputs)
            first = base[:-1].reshape(-1, queries)
            behind = device.taken(cursor, first.shape, np.int64)
            end = out.end + (behind - first).sum(axis=0)
            if (end > out.room).any():
                return False
            columns = [(outputs.group, out.group, 1), (outputs.counts, out.counts, 1)]
            if slide:
                columns.append((outputs.boundary, out.boundary, 1))
            if dual:
                columns.append((outputs.approximate, out.approximate, 1))
            if values:
                columns.append((outputs.values, out.values, values))
            for buffer, column, size in columns:
                into = column.reshape(-1).view(np.uint64)

                def place(source: Array, into: Array = into, size: int = size) -> None:
                    _place(first, behind, source, out.end, into, size)  # noqa: B023

                device.seen(buffer, rows * size, np.uint64, place)
            out.end[:] = end
    return True


@numba.njit(cache=True)
def _place(
    first: np.ndarray, behind: np.ndarray, source: np.ndarray, end: np.ndarray, into: np.ndarray,
    size: int,
) -> None:  # fmt: skip
    """Copy the rows of each query, slice after slice, to where its next row goes."""
    for q in range(end.size):
        at = end[q] * size
        for s in range(first.shape[0]):
            for i in range(first[s, q] * size, behind[s, q] * size):
                into[at] = source[i]
                at += 1
