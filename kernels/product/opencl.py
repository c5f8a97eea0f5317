"""The sliding product on an OpenCL device: runs side by side, and long runs cut into slices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from kernels.groups import Groups, RowSegments, Spans
from kernels.opencl import FIRST, LAST, Device, Outputs, Triggers, bases, cut, fill, only_span
from kernels.product.cpu import (
    ADD_TAGS,
    ADDS,
    CLEARS,
    MOVE,
    SECTIONS,
    STAY,
    TRIGGER,
    TRIGGERS,
    VALUE_ADDS,
    VALUE_CLEARS,
    VALUE_MOVE,
    VALUE_STAY,
    VALUE_TAG,
    Operators,
)

Int64s = npt.NDArray[np.int64]


def slide_product(
    device: Any,
    groups: Groups,
    begun: np.ndarray,
    since: np.ndarray,
    back: Operators,
    front: Operators,
    readings: np.ndarray,
    spans: Spans,
    dual: bool,
    out: RowSegments,
) -> bool:
    """As `kernels.product.cpu.slide_product`, on a device of pyopencl; all of one slide."""
    width, slide = only_span(spans)
    on = Device(device, "product/kernel.cl", (f"-DDUAL={int(dual)}",))
    slices = cut(groups, begun, since, width, slide, on.pieces(out))
    queries, values = len(out.end), out.values.shape[1]
    logs = _logs(groups, slices, front, width + slide)
    size = _counters(back, front, dual) + queries
    events = [
        on.given(array, np.int64) for array in (groups.position, groups.event, groups.move_letter)
    ]
    tables = (
        on.given(groups.stay_letter, np.int64), on.given(groups.inputs, np.float64),
        np.int64(len(groups.move_letter)), *_operators(on, back), *_operators(on, front),
        on.given(front.logged, np.int8), on.given(front.logged_values, np.int8),
        on.given(readings, np.int32), np.int64(width), np.int64(slide),
    )  # fmt: skip

    def call(numbers: slice, ends: Any, rows: Outputs) -> None:
        items = numbers.stop - numbers.start
        mine = [bases(sizes[numbers]) for sizes in logs]
        changes, value_changes, held = (int(base[-1]) for base in mine)
        on.run(
            "slide_product", items, ends, np.int32(queries), *events, *tables,
            on.room(items * size), np.int64(size), *(on.given(base, np.int64) for base in mine),
            on.room(changes, 4), on.room(changes), on.room(changes if dual else 0),
            on.room(value_changes, 4), on.room(value_changes), on.room(held), on.room(held),
            np.int32(values), *rows,
        )  # fmt: skip

    memory = 8 * size + (12 + 8 * dual) * logs.changes + 12 * logs.value_changes + 16 * logs.groups
    triggers = Triggers(_table(readings, TRIGGER), _table(readings, TRIGGERS))
    return fill(on, slices, memory, events, triggers, width, slide, dual, values, out, call)


def _counters(back: Operators, front: Operators, dual: bool) -> int:
    """How many counters a slice has, with those in which a group's effect is worked out."""
    n = len(back.start_counts), len(front.start_counts)
    nv = len(back.start_values), len(front.start_values)
    return (1 + dual) * (sum(n) + max(n)) + sum(nv) + max(nv) + max(n) + max(nv)


def _operators(on: Device, given: Operators) -> tuple[Any, ...]:
    return (
        on.given(given.tables, np.int32), on.given(given.start_counts, np.uint64),
        on.given(given.start_values, np.float64), on.given(given.kinds, np.int8),
        on.given(given.in_place, np.int8), on.given(given.section, np.int64),
        on.given(given.sections, np.uint32), np.int32(len(given.start_counts)),
        np.int32(len(given.start_values)),
    )  # fmt: skip


def _table(tables: np.ndarray, which: int) -> np.ndarray:
    found: np.ndarray = tables[tables[which] : tables[which + 1]]
    return found


class _Logs(NamedTuple):
    """By slice, how much of a front there can be: changes that are logged, and groups."""

    changes: Int64s
    value_changes: Int64s
    groups: Int64s


def _logs(groups: Groups, slices: Int64s, front: Operators, width: int) -> _Logs:
    """A front holds what is in one window; per slide, what arrived since the last boundary too."""
    changes = _upto(groups, front, front.logged, _COUNTS)
    values = _upto(groups, front, front.logged_values, _VALUES)
    numbers = np.arange(len(groups.position) + 1)
    return _Logs(
        *(_most_held(slices, groups.position, upto, width) for upto in (changes, values, numbers))
    )


@numba.njit(cache=True)
def _most_held(
    slices: np.ndarray, position: np.ndarray, upto: np.ndarray, width: int
) -> np.ndarray:
    """By slice, the largest difference of `upto` over the groups of one window."""
    most = np.zeros(slices.shape[0], np.int64)
    for s in range(slices.shape[0]):
        head = slices[s, FIRST]
        for g in range(head, slices[s, LAST]):
            while position[head] <= position[g] - width:
                head += 1
            most[s] = max(most[s], upto[g + 1] - upto[head])
    return most


class _Changing(NamedTuple):
    """What changes one sort of counter: tables and sections, with the sizes of their records."""

    moves: tuple[tuple[int, int], ...]
    stay: int
    sections: tuple[tuple[int, int], ...]


_COUNTS = _Changing(((MOVE, 2),), STAY, ((ADDS, 2), (CLEARS, 1)))
_VALUES = _Changing(
    ((VALUE_MOVE, 2), (VALUE_TAG, 3)),
    VALUE_STAY,
    ((VALUE_ADDS, 2), (ADD_TAGS, 3), (VALUE_CLEARS, 1)),
)


def _upto(groups: Groups, front: Operators, logged: np.ndarray, changing: _Changing) -> Int64s:
    """How many changes of counters the groups before each one can log together."""
    letters = len(front.in_place)
    per_event = sum(
        (_changes(front.tables, table, size, logged) for table, size in changing.moves),
        start=np.zeros(letters, np.int64),
    )
    per_stay = _changes(front.tables, changing.stay, 3, logged)
    found = np.diff(bases(per_event[groups.move_letter])[groups.event])
    found += per_stay[groups.stay_letter]
    # A single event may go through its letter's sections instead.
    single = np.flatnonzero(np.diff(groups.event) == 1)
    letter = groups.move_letter[groups.event[single]]
    of_section = sum(
        (
            _section_changes(front.section, front.sections, letters, which, size, logged)
            for which, size in changing.sections
        ),
        start=np.zeros(letters, np.int64),
    )
    found[single] = np.maximum(found[single], of_section[letter])
    return bases(found)


def _changes(tables: np.ndarray, table: int, size: int, logged: np.ndarray) -> Int64s:
    """For each letter of a table, how many of its records change a counter that is logged."""
    targets = _table(tables, table + 1).reshape(-1, size)[:, 0]
    found: Int64s = np.diff(bases(logged[targets])[_table(tables, table)])
    return found


@numba.njit(cache=True)
def _section_changes(
    section: np.ndarray, sections: np.ndarray, letters: int, which: int, size: int,
    logged: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The same for the records of one section of each letter."""
    found = np.zeros(letters, np.int64)
    for letter in range(letters):
        k = SECTIONS * letter + which
        for i in range(section[k], section[k + 1], size):
            found[letter] += logged[sections[i]]
    return found
