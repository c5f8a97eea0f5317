"""How much one window can hold, and how often windows are looked at."""

from __future__ import annotations

import numba
import numpy as np


def most_of_letters(
    run: np.ndarray,
    position: np.ndarray,
    event: np.ndarray,
    letter: np.ndarray,
    letters: int,
    width: int,
) -> np.ndarray:
    """For each letter, the largest number of its events that lie in one window of their run.

    As `kernels.groups.Groups`: groups by run and events by group, positions by group.
    """
    most = np.zeros(letters, np.int64)
    _most_of_letters(run, position, event, letter, width, most)
    return most


@numba.njit(nogil=True, cache=True)
def _most_of_letters(
    run: np.ndarray, position: np.ndarray, event: np.ndarray, letter: np.ndarray, width: int,
    most: np.ndarray,
) -> None:  # fmt: skip
    now = np.zeros(most.size, np.int64)
    for r in range(run.size - 1):
        head = run[r]
        for g in range(run[r], run[r + 1]):
            while position[head] <= position[g] - width:
                for e in range(event[head], event[head + 1]):
                    now[letter[e]] -= 1
                head += 1
            for e in range(event[g], event[g + 1]):
                now[letter[e]] += 1
                most[letter[e]] = max(most[letter[e]], now[letter[e]])
        for e in range(event[head], event[run[r + 1]]):
            now[letter[e]] = 0


def boundaries(
    run: np.ndarray,
    limit: np.ndarray,
    position: np.ndarray,
    since: np.ndarray,
    width: int,
    slide: int,
) -> int:
    """How many multiples of `slide` have a group in the window that ends there, over all runs.

    As `kernels.groups.Groups`; those up to `since` and behind `limit` of a run do not count.
    """
    return int(_boundaries(run, limit, position, since, width, slide))


@numba.njit(nogil=True, cache=True)
def _boundaries(
    run: np.ndarray, limit: np.ndarray, position: np.ndarray, since: np.ndarray, width: int,
    slide: int,
) -> int:  # fmt: skip
    found = 0
    for r in range(run.size - 1):
        done = since[r]
        for g in range(run[r], run[r + 1]):
            # A group is in the windows that end from its position to before position + width.
            low = max(done, position[g] - 1) // slide
            high = max(done, min(limit[r], position[g] + width - 1)) // slide
            found += max(0, high - low)
            done = max(done, high * slide)
    return found
