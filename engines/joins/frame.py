"""Partial matches as columns of row numbers, gathered only when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

import numpy as np

from engines.columns.layout import Rows


class Slot(Enum):
    """The columns of a frame besides its aliases."""

    LOW = auto()  # the rows that a further component can be bound to: from here
    HIGH = auto()  # to before here
    OPENING = auto()  # the region's first row
    CLOSING = auto()  # the row behind its last
    LAST = auto()  # the row behind the last that a negation in an AND looks at
    SEED = auto()  # the row of the frame that this enumeration started from
    START = auto()  # the windows that a match is in: from this one
    STOP = auto()  # to before this one


Name: TypeAlias = str | Slot


@dataclass(frozen=True, eq=False)
class Groups:
    """A group of rows for each partial match: `rows[offsets[i] : offsets[i + 1]]`, in order."""

    offsets: Rows
    rows: Rows

    @property
    def sizes(self) -> Rows:
        return np.diff(self.offsets)

    @property
    def first(self) -> Rows:
        return self.rows[self.offsets[:-1]]

    @property
    def last(self) -> Rows:
        return self.rows[self.offsets[1:] - 1]

    @property
    def owner(self) -> Rows:
        """For each row, the number of its group."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    def take(self, index: Rows) -> Groups:
        sizes = self.sizes[index]
        return Groups(ends(sizes), self.rows[ranges(self.offsets[index], sizes)])

    @staticmethod
    def of_matrix(columns: list[Rows]) -> Groups:
        """Groups of one size, given as their first rows, their second rows and so on."""
        count = len(columns[0])
        return Groups(np.arange(count + 1) * len(columns), np.stack(columns, axis=1).reshape(-1))

    @staticmethod
    def concatenated(parts: list[Groups]) -> Groups:
        sizes = np.concatenate([part.sizes for part in parts])
        return Groups(ends(sizes), np.concatenate([part.rows for part in parts]))


def ends(sizes: Rows) -> Rows:
    """Offsets of consecutive ranges: 0, and where each ends."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def ranges(starts: Rows, sizes: Rows) -> Rows:
    """The numbers of every range `starts[i] … starts[i] + sizes[i] - 1`, one after the other."""
    offsets = ends(sizes)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)


class Frame:
    """Partial matches: a row number for each single component, a group for each other one.

    A frame that extends another holds only what is new, and for each of its rows the row of the
    other (`index`; None where they are the same). What it is asked for it gathers from there and
    keeps.
    """

    def __init__(
        self,
        size: int,
        columns: dict[Name, Rows],
        groups: dict[str, Groups] | None = None,
        base: Frame | None = None,
        index: Rows | None = None,
    ) -> None:
        self.size = size
        self.base, self.index = base, index
        self._columns, self._groups = columns, groups or {}

    def column(self, name: Name) -> Rows:
        """A column of the frame or of the one it extends."""
        found = self._columns.get(name)
        if found is None:
            assert self.base is not None, name
            found = self.base.column(name)
            if self.index is not None:
                found = found[self.index]
            self._columns[name] = found
        return found

    def group(self, alias: str) -> Groups:
        found = self._groups.get(alias)
        if found is None:
            assert self.base is not None, alias
            found = self.base.group(alias)
            if self.index is not None:
                found = found.take(self.index)
            self._groups[alias] = found
        return found

    def is_group(self, alias: str) -> bool:
        if alias in self._columns:
            return False
        return alias in self._groups or (self.base is not None and self.base.is_group(alias))

    def first(self, alias: str) -> Rows:
        """The first row that an alias is bound to."""
        return self.group(alias).first if self.is_group(alias) else self.column(alias)

    def last(self, alias: str) -> Rows:
        return self.group(alias).last if self.is_group(alias) else self.column(alias)

    def extended(
        self,
        index: Rows | None,
        columns: dict[Name, Rows],
        groups: dict[str, Groups] | None = None,
    ) -> Frame:
        """A frame over rows of this one, with further columns."""
        size = self.size if index is None else len(index)
        return Frame(size, columns, groups, self, index)

    def take(self, keep: Rows) -> Frame:
        """The given rows of the frame."""
        return Frame(
            len(keep),
            {name: column[keep] for name, column in self._columns.items()},
            {alias: group.take(keep) for alias, group in self._groups.items()},
            self.base,
            keep if self.index is None else self.index[keep],
        )
