"""The partners of the events of one side of a join: for each a range of the other side's rows."""

from __future__ import annotations

import numba
import numpy as np

from kernels.orders.cpu import read_only


def partner_ranges(
    groups: np.ndarray,
    starts: np.ndarray,
    enters: np.ndarray,
    leaves: np.ndarray,
    opens: np.ndarray,
    closes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For each left row where its right rows begin and end.

    Right rows stand group by group, from `starts[g]` to before `starts[g + 1]`; a left row's group
    is one of these, or -1. Right row j is a partner of left row i of its group where `enters[j]` is
    more than `opens[i]` and `leaves[j]` is less than `closes[i]`. Within a group all four ascend.
    """
    low, high = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
    _partner_ranges(
        read_only(groups),
        read_only(starts),
        read_only(enters),
        read_only(leaves),
        read_only(opens),
        read_only(closes),
        starts[:-1].copy(),
        starts[:-1].copy(),
        low,
        high,
    )
    return low, high


def warm() -> None:
    """Compile the kernel, or load it from the cache, before it is needed."""
    one = np.zeros(1, np.int64)
    partner_ranges(one, np.array([0, 1]), one, one, one, one)


@numba.njit(cache=True, nogil=True)
def _partner_ranges(
    groups: np.ndarray,
    starts: np.ndarray,
    enters: np.ndarray,
    leaves: np.ndarray,
    opens: np.ndarray,
    closes: np.ndarray,
    first: np.ndarray,
    end: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    for i in range(groups.size):
        group = groups[i]
        if group < 0:
            low[i] = high[i] = 0
            continue
        stop = starts[group + 1]
        while first[group] < stop and enters[first[group]] <= opens[i]:
            first[group] += 1
        while end[group] < stop and leaves[end[group]] < closes[i]:
            end[group] += 1
        low[i] = first[group]
        high[i] = max(first[group], end[group])
