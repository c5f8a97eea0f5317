"""Runs of events, each directly behind the one before, counted in windows that end at triggers.

Bit j of `masks[q, letter]` says that an event of the letter may be the j-th of the q-th run. All
places of a run are followed at once by shifting bits, and of the runs that are whole only where
they begin is kept.
"""

from __future__ import annotations

import numba
import numpy as np

from kernels.groups import Groups, RowSegments


def count_runs(
    groups: Groups,
    begun: np.ndarray,
    masks: np.ndarray,
    length: np.ndarray,
    width: np.ndarray,
    dual: bool,
    out: RowSegments,
) -> bool:
    """A row for each event that may be last in a run, with the number of runs in its window.

    Groups are single events. The first `begun` groups of each partition give no rows. False where
    the rows of a query have no room.
    """
    return bool(
        _count_runs(
            groups.run, groups.position, groups.move_letter, begun, masks, length, width, dual,
            out.end, out.room, out.group, out.counts, out.approximate,
        )
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _count_runs(
    run: np.ndarray, position: np.ndarray, letter: np.ndarray, begun: np.ndarray,
    masks: np.ndarray, length: np.ndarray, width: np.ndarray, dual: bool,
    end: np.ndarray, room: np.ndarray, out_group: np.ndarray, out_counts: np.ndarray,
    out_approximate: np.ndarray,
) -> bool:  # fmt: skip
    most = 0
    for r in range(run.size - 1):
        most = max(most, run[r + 1] - run[r])
    begins = np.empty(most, np.int64)  # positions of the runs that are not out of the window
    one = np.uint64(1)
    for q in range(length.size):
        before = length[q] - 1
        whole = one << np.uint64(before)
        row = end[q]
        for r in range(run.size - 1):
            head, tail = 0, 0
            state = np.uint64(0)
            fresh = run[r] + begun[r]
            for g in range(run[r], run[r + 1]):
                mask = masks[q, letter[g]]
                state = ((state << one) | one) & mask
                if not mask & whole:
                    continue
                if state & whole:
                    begins[tail] = position[g - before]
                    tail += 1
                while head < tail and begins[head] <= position[g] - width[q]:
                    head += 1
                if head < tail and g >= fresh:
                    if row == room[q]:
                        end[q] = row
                        return False
                    out_group[row] = g
                    out_counts[row] = np.uint64(tail - head)
                    if dual:
                        out_approximate[row] = tail - head
                    row += 1
        end[q] = row
    return True


def warm() -> None:
    """Compile it as engines call it."""
    some = np.zeros(1, np.int64)
    for dual in (False, True):
        _count_runs(
            np.array([0, 1]), some, some, some, np.ones((1, 1), np.uint64), some + 1, some + 1,
            dual, some.copy(), some + 1, some.copy(), np.zeros(1, np.uint64), np.zeros(1),
        )  # fmt: skip
