"""How many rows one window can hold."""

from __future__ import annotations

import numba
import numpy as np


def most_in_window(
    rows: np.ndarray, partition: np.ndarray, position: np.ndarray, width: int
) -> int:
    """The largest number of the given rows that lie in one window of their partition.

    `rows` ascend; `partition` and `position` are by row, and positions ascend in a partition.
    """
    return int(_most(rows, partition, position, width))


@numba.njit(cache=True)
def _most(rows: np.ndarray, partition: np.ndarray, position: np.ndarray, width: int) -> int:
    most = 0
    head = 0
    for i in range(rows.size):
        row = rows[i]
        low = position[row] - width
        while partition[rows[head]] != partition[row] or position[rows[head]] <= low:
            head += 1
        most = max(most, i + 1 - head)
    return most
