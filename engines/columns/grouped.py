"""Groups of events as columns: all of them behind each other, and where each begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.layout import Rows

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Groups:
    """A group of events for each partial match: `rows[offsets[i] : offsets[i + 1]]`, in order.

    Events are rows of a layout, or places.
    """

    offsets: Rows
    rows: Numbers

    @property
    def sizes(self) -> Rows:
        return np.diff(self.offsets)

    @property
    def first(self) -> Numbers:
        return self.rows[self.offsets[:-1]]

    @property
    def last(self) -> Numbers:
        return self.rows[self.offsets[1:] - 1]

    @property
    def owner(self) -> Rows:
        """For each row, the number of its group."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    def take(self, index: Numbers) -> Groups:
        sizes = self.sizes[index]
        return Groups(ends(sizes), self.rows[ranges(self.offsets[index], sizes)])

    @staticmethod
    def of_matrix(columns: list[Numbers]) -> Groups:
        """Groups of one size, given as their first rows, their second rows and so on."""
        count = len(columns[0])
        return Groups(np.arange(count + 1) * len(columns), np.stack(columns, axis=1).reshape(-1))

    @staticmethod
    def concatenated(parts: list[Groups]) -> Groups:
        sizes = np.concatenate([part.sizes for part in parts])
        return Groups(ends(sizes), np.concatenate([part.rows for part in parts]))


def ends(sizes: Numbers) -> Rows:
    """Offsets of consecutive ranges: 0, and where each ends."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def ranges(starts: Numbers, sizes: Numbers) -> Rows:
    """The numbers of every range `starts[i] … starts[i] + sizes[i] - 1`, one after the other."""
    offsets = ends(sizes)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
