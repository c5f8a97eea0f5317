"""The same as `kernels.predicates.cpu`, event by event."""

from __future__ import annotations

import numpy as np


def find_intervals(values: np.ndarray, breaks: np.ndarray, nulls: np.ndarray | None) -> np.ndarray:
    """As `kernels.predicates.cpu.find_intervals`."""
    found = [
        len(breaks) + 1 if value != value else sum(other <= value for other in breaks.tolist())
        for value in values.tolist()
    ]
    absent = [False] * len(values) if nulls is None else nulls.tolist()
    return np.array([-1 if a else f for a, f in zip(absent, found, strict=True)], np.int32)


def join_sets(
    sets: np.ndarray,
    merged: np.ndarray,
    numbers: np.ndarray,
    classes: np.ndarray,
    width: int,
    counts: np.ndarray,
) -> None:
    """As `kernels.predicates.cpu.join_sets`."""
    for i, number in enumerate(numbers.tolist()):
        sets[i] = int(merged[sets[i]]) * width + int(classes[number])
        counts[sets[i]] += 1


def rows_in_sets(sets: np.ndarray, wanted: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """As `kernels.predicates.cpu.rows_in_sets`."""
    found = [i for i, one in enumerate(sets.tolist()) if wanted[one]]
    rows[: len(found)] = found
    return rows[: len(found)]


def and_words(words: np.ndarray, numbers: np.ndarray, tables: np.ndarray) -> None:
    """As `kernels.predicates.cpu.and_words`."""
    for w in range(len(words)):
        for i, number in enumerate(numbers.tolist()):
            words[w, i] = int(words[w, i]) & int(tables[w, number])
