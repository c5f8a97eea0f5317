"""What the kernels for rows compute, in plain Python."""

from __future__ import annotations

import numpy as np


def sort_places(keys: np.ndarray, places: np.ndarray) -> None:
    """Python's sort, which is stable too."""
    places[:] = sorted(places.tolist(), key=lambda place: int(keys[place]))


def add_lengths(offsets: np.ndarray, which: np.ndarray, lengths: np.ndarray) -> None:
    """Row by row."""
    for row, text in enumerate(which.tolist()):
        lengths[row] += 0 if text < 0 else offsets[text + 1] - offsets[text]


def put_texts(
    offsets: np.ndarray, data: np.ndarray, which: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    """Row by row."""
    for row, text in enumerate(which.tolist()):
        if text >= 0:
            _put(data[offsets[text] : offsets[text + 1]].tobytes(), row, ends, out)


def add_digits(
    numbers: np.ndarray, wanted: np.ndarray, suffix: np.ndarray, lengths: np.ndarray
) -> None:
    """As long as Python writes it."""
    for row, number in enumerate(numbers.tolist()):
        lengths[row] += len(str(number)) + len(suffix) if wanted[row] else 0


def put_digits(
    numbers: np.ndarray, wanted: np.ndarray, suffix: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    """As Python writes it."""
    for row, number in enumerate(numbers.tolist()):
        if wanted[row]:
            _put(str(number).encode() + suffix.tobytes(), row, ends, out)


def sort_ties(
    offsets: np.ndarray,
    data: np.ndarray,
    which: np.ndarray,
    behind: int,
    places: np.ndarray,
    ties: np.ndarray,
) -> None:
    """Python's sort of each stretch of ties, by the bytes and what follows them."""

    def text(place: int) -> list[int]:
        number = which[place]
        return [*data[offsets[number] : offsets[number + 1]].tolist(), behind]

    first = 0
    while first < len(places):
        end = first + 1
        while end < len(places) and ties[end - 1]:
            end += 1
        places[first:end] = sorted(places[first:end].tolist(), key=text)
        first = end
    for at in np.flatnonzero(ties).tolist():
        ties[at] = text(places[at]) == text(places[at + 1])


def _put(text: bytes, row: int, ends: np.ndarray, out: np.ndarray) -> None:
    end = int(ends[row])
    out[end : end + len(text)] = np.frombuffer(text, np.uint8)
    ends[row] = end + len(text)
