"""One pass over the events of sequences of which one partial match waits at each stage and key.

An item is an event at a stage of a query. Items of a query stand one after the other, in the order
of their events; those of one event from the last stage to the first, and then the one that ends
what waits, if the event does. A partial match is the item that it came to last: `previous` leads
back through its events.
"""

from __future__ import annotations

import numba
import numpy as np

UNTIL = -1  # the stage of an item that ends what waits for its key
NO_ROW = -1


def select_latest(
    offsets: np.ndarray,
    stages: np.ndarray,
    widths: np.ndarray,
    rows: np.ndarray,
    stage: np.ndarray,
    code: np.ndarray,
    allowed: np.ndarray,
    position: np.ndarray,
    moment: np.ndarray,
    codes: int,
    previous: np.ndarray,
    first: np.ndarray,
) -> int:
    """Fill in, for each item, the item before it in its partial match and the row of its first.

    Items of query q are those from `offsets[q]` on; it has so many `stages`, and a match is less
    than `widths[q]` wide by `position`. Keys have the numbers `code`, below `codes`. An item
    that is not `allowed` takes nothing that waits. `first` is `NO_ROW` where an item took nothing.
    Returns the row of an event that is simultaneous with another of its key, so that there is no
    order, or `NO_ROW`.
    """
    most = int(stages.max()) if len(stages) else 1
    waiting = np.zeros(codes * most, np.int64)
    stamp = np.zeros(codes, np.int32)
    seen = np.zeros(codes, np.int64)
    found: int = _select(
        offsets, stages, widths, rows, stage, code, allowed, position, moment, most, waiting,
        stamp, seen, previous, first,
    )  # fmt: skip
    return found


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed."""
    one = np.zeros(1, np.int64)
    select_latest(
        np.array([0, 1]),
        one + 1,
        one + 1,
        one,
        one,
        one,
        one > 0,
        one,
        one,
        1,
        one.copy(),
        one.copy(),
    )


@numba.njit(cache=True, nogil=True)
def _select(
    offsets: np.ndarray, stages: np.ndarray, widths: np.ndarray, rows: np.ndarray,
    stage: np.ndarray, code: np.ndarray, allowed: np.ndarray, position: np.ndarray,
    moment: np.ndarray, most: int, waiting: np.ndarray, stamp: np.ndarray, seen: np.ndarray,
    previous: np.ndarray, first: np.ndarray,
) -> int:  # fmt: skip
    """`waiting` has for each key and stage the item that waits behind it, from 1 on."""
    for q in range(len(stages)):
        for item in range(offsets[q], offsets[q + 1]):
            key, row, s = code[item], rows[item], stage[item]
            base = key * most
            previous[item] = -1
            first[item] = NO_ROW
            if stamp[key] != q + 1:
                stamp[key] = q + 1
                for i in range(most):
                    waiting[base + i] = 0
            elif seen[key] != row and moment[seen[key]] == moment[row]:
                return int(row)
            seen[key] = row
            if s == UNTIL:
                for i in range(most):
                    waiting[base + i] = 0
            elif s == 0:
                first[item] = row
                waiting[base] = item + 1
            elif allowed[item] and waiting[base + s - 1] > 0:
                taken = waiting[base + s - 1] - 1
                start = first[taken]
                if position[row] - position[start] < widths[q]:
                    waiting[base + s - 1] = 0
                    previous[item] = taken
                    first[item] = start
                    waiting[base + s] = item + 1
    return NO_ROW
