"""Partial matches as columns of row numbers, gathered only when they are asked for."""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias

from engines.columns.grouped import Groups
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

    def binds(self, alias: str) -> bool:
        """Not so for the alias of a part of an OR that did not match."""
        own = alias in self._columns or alias in self._groups
        return own or (self.base is not None and self.base.binds(alias))

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
