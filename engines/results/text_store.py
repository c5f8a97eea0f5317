"""Texts by number, of which memory holds the last ones and files the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.limits import ResultsError
from engines.results.row_texts import NumberedTexts, offsets_and_data

NUMBERS_AT_ONCE = 2**31  # that a kernel tells apart

Numbers: TypeAlias = npt.NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=np.generic)


class TextStore:
    """Takes texts, and gives them again by their number, which is the place in which they came.

    `folder` is made when it is needed; whoever gave its name removes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = _HeldTexts()
        self._first = 0  # number that is held
        self._files = _no_texts()

    @property
    def held(self) -> int:
        """The bytes of texts in memory."""
        return self._held.size

    def add(self, texts: pa.Array) -> int:
        """Take texts; gives the number of the first of them."""
        first = self._first + self._held.number
        self._held.add(texts)
        return first

    def spill(self) -> None:
        """Write the texts in memory to files."""
        if not self._held.number:
            return
        self._folder.mkdir(exist_ok=True)
        ends, data = self._held.arrays()
        if self._first:
            ends = ends[1:] + self._files[0][-1]
        try:
            self._files = (
                _appended(self._folder / "ends", ends),
                _appended(self._folder / "texts", data),
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ResultsError(
                f"texts of rows cannot be written to '{self._folder}': {why}; make room there"
            ) from error
        self._first += self._held.number
        self._held = _HeldTexts()

    def numbered(self, numbers: Numbers) -> list[NumberedTexts]:
        """The texts of rows, none where the number is -1: each row's is in one of those given."""
        wanted = numbers[numbers >= 0] if numbers.min(initial=0) < 0 else numbers
        if not len(wanted):
            return []
        low, high = int(wanted.min()), int(wanted.max()) + 1
        found = []
        for start in range(low, high, NUMBERS_AT_ONCE):
            stop = min(high, start + NUMBERS_AT_ONCE)
            which = numbers - start
            which[(numbers < start) | (numbers >= stop)] = -1
            found.append(NumberedTexts(self._between(start, stop), which.astype(np.int32)))
        return found

    def _between(self, low: int, high: int) -> pa.LargeStringArray:
        """The texts from one number to before another."""
        if low < self._first < high:
            self.spill()
        (ends, data), first = self._files, 0
        if low >= self._first:
            (ends, data), first = self._held.arrays(), self._first
        places = ends[low - first : high - first + 1]
        buffers = pa.py_buffer(places), pa.py_buffer(data)
        return pa.LargeStringArray.from_buffers(high - low, *buffers)


class _HeldTexts:
    """Texts side by side, in arrays that grow."""

    def __init__(self) -> None:
        self.number = self.size = 0
        self._ends, self._data = _no_texts()

    def add(self, texts: pa.Array) -> None:
        offsets, data = offsets_and_data(texts)
        first, last = int(offsets[0]), int(offsets[-1])
        number, size = self.number + len(texts), self.size + last - first
        self._ends = _with_room(self._ends, self.number + 1, number + 1)
        self._data = _with_room(self._data, self.size, size)
        self._ends[self.number + 1 : number + 1] = offsets[1:].astype(np.int64) + (
            self.size - first
        )
        self._data[self.size : size] = data[first:last]
        self.number, self.size = number, size

    def arrays(self) -> tuple[Numbers, npt.NDArray[np.uint8]]:
        """Zero and where each text ends, and the texts."""
        return self._ends[: self.number + 1], self._data[: self.size]


def _no_texts() -> tuple[Numbers, npt.NDArray[np.uint8]]:
    return np.zeros(1, np.int64), np.zeros(0, np.uint8)


def _appended(path: Path, part: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """All of a file that a part was written behind."""
    with path.open("ab") as out:
        part.tofile(out)
    if not path.stat().st_size:  # of which there is no map
        return part
    return np.memmap(path, part.dtype, "r")


def _with_room(array: npt.NDArray[_Kind], filled: int, size: int) -> npt.NDArray[_Kind]:
    """An array that has room, with what was filled of the given one."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * filled), array.dtype)
    larger[:filled] = array[:filled]
    return larger
