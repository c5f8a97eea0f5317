"""How many rows one window can hold, as plain Python."""

from __future__ import annotations

import numpy as np


def most_in_window(
    rows: np.ndarray, partition: np.ndarray, position: np.ndarray, width: int
) -> int:
    """As `kernels.windows.most_in_window`."""
    return max(
        (
            sum(
                partition[other] == partition[row]
                and position[row] - width < position[other] <= position[row]
                for other in rows
            )
            for row in rows
        ),
        default=0,
    )
