"""The same by lists of events that wait under their stage and key."""

from __future__ import annotations

import numpy as np


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
    """As `kernels.latest.cpu.select_latest`."""
    for q in range(len(stages)):
        waiting: dict[tuple[int, int], list[int]] = {}
        before: dict[int, int] = {}
        for item in range(int(offsets[q]), int(offsets[q + 1])):
            key, row, s = int(code[item]), int(rows[item]), int(stage[item])
            previous[item] = first[item] = -1
            other = before.get(key, row)
            if other != row and moment[other] == moment[row]:
                return row
            before[key] = row
            chain = [] if s == 0 else waiting.get((s - 1, key), [])
            if s < 0:
                waiting = {place: found for place, found in waiting.items() if place[1] != key}
            elif s == 0:
                waiting[0, key] = [item]
                first[item] = row
            elif chain and allowed[item] and position[row] - position[rows[chain[0]]] < widths[q]:
                del waiting[s - 1, key]
                waiting[s, key] = [*chain, item]
                previous[item], first[item] = chain[-1], rows[chain[0]]
    return -1
