"""The same as `kernels.windows.cpu`, window by window."""

from __future__ import annotations

import numpy as np


def most_of_letters(
    run: np.ndarray,
    position: np.ndarray,
    event: np.ndarray,
    letter: np.ndarray,
    letters: int,
    width: int,
) -> np.ndarray:
    """As `kernels.windows.cpu.most_of_letters`."""
    most = np.zeros(letters, np.int64)
    for r in range(len(run) - 1):
        groups = range(run[r], run[r + 1])
        for g in groups:
            window = [h for h in groups if position[g] - width < position[h] <= position[g]]
            events = [e for h in window for e in range(event[h], event[h + 1])]
            most = np.maximum(most, np.bincount(letter[events], minlength=letters))
    return most


def boundaries(
    run: np.ndarray,
    limit: np.ndarray,
    position: np.ndarray,
    since: np.ndarray,
    width: int,
    slide: int,
) -> int:
    """As `kernels.windows.cpu.boundaries`."""
    found = 0
    for r in range(len(run) - 1):
        inside = position[run[r] : run[r + 1]].tolist()
        ends = {b for x in inside for b in range(x, x + width) if b % slide == 0}
        found += len([b for b in ends if since[r] < b <= limit[r]])
    return found
