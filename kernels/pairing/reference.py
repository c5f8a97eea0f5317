"""The same as `kernels.pairing.cpu`, one pair at a time."""

from __future__ import annotations

import numpy as np


def partner_ranges(
    groups: np.ndarray,
    starts: np.ndarray,
    enters: np.ndarray,
    leaves: np.ndarray,
    opens: np.ndarray,
    closes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels.pairing.cpu.partner_ranges`."""
    low, high = [], []
    for group, opened, closed in zip(groups, opens, closes, strict=True):
        rows = range(0) if group < 0 else range(starts[group], starts[group + 1])
        before = [j for j in rows if enters[j] <= opened]
        begins = rows.start + len(before)
        inside = [j for j in rows if j >= begins and leaves[j] < closed]
        low.append(begins)
        high.append(begins + len(inside))
    return np.array(low, np.int64), np.array(high, np.int64)
