"""What a slice of events comes to under conditions: the events of a type, and tables by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from engines.columns.vectors import Mask
from engines.input.event_table import Events

Rows: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]


@dataclass(eq=False)
class Scope:
    """Some events, with the numbers of their values and how often each occurs."""

    rows: Rows
    events: Events
    _codes: dict[str, Codes] = field(default_factory=dict)
    _counts: dict[str, Rows] = field(default_factory=dict)
    _nulls: dict[str, Mask] = field(default_factory=dict)

    def codes(self, name: str, picked: Rows | None = None) -> Codes:
        if name not in self._codes:
            numbers = self.events.codes(name).numbers
            whole = len(self.rows) == len(self.events)
            self._codes[name] = numbers if whole else numbers[self.rows]
        found = self._codes[name]
        return found if picked is None else found[picked]

    def is_null(self, name: str, picked: Rows | None = None) -> Mask:
        """Where an attribute has no value."""
        if name not in self._nulls:
            column = self.events.column(name)
            if not column.null_count:
                self._nulls[name] = np.zeros(len(self.rows), bool)
            else:
                self._nulls[name] = np.asarray(pc.is_null(column))[self.rows]
        found = self._nulls[name]
        return found if picked is None else found[picked]

    def nulls(self, name: str) -> int:
        """How many events have no value of an attribute."""
        return int(np.count_nonzero(self.is_null(name)))

    def counts(self, name: str) -> Rows:
        """How often each value occurs; the last entry is for null."""
        if name not in self._counts:
            size = len(self.events.codes(name).values)
            counts = np.bincount(self.codes(name).astype(np.int64) + 1, minlength=size + 1)
            self._counts[name] = np.roll(counts, -1)
        return self._counts[name]


class Atom:
    """A condition on one attribute, as a table over its distinct values; the last is for null.

    With `later`, entries are made for the values that are asked for.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name, self._size = name, size
        self.later: Callable[[Rows], Mask] | None = None
        self._where: Rows | None = None

    def fill(self, table: Mask) -> None:
        self._where = np.flatnonzero(table)

    def found(self, numbers: Rows) -> None:
        """The values for which it holds, in order."""
        self._where = numbers

    def fill_having(self, found: Sequence[Rows], every: bool, absent: Mask | None) -> None:
        """The values that have some of the patterns, or all of them.

        With `absent`, those that have not, and are not null.
        """
        if every:
            where = found[0]
            for part in found[1:]:
                where = np.intersect1d(where, part, assume_unique=True)
        else:
            some = [part for part in found if len(part)]
            where = found[0] if len(found) == 1 else np.concatenate(some or [found[0]])
        if absent is None:
            self._where = where if len(found) == 1 or not len(where) else np.unique(where)
            return
        table = np.ones(self._size + 1, bool)
        table[where] = False
        table[:-1][absent] = False
        table[-1] = False
        self.fill(table)

    def most(self, scope: Scope) -> int:
        if self._where is None:
            return len(scope.rows)
        return int(scope.counts(self.name)[self._where].sum()) if len(self._where) else 0

    @cached_property
    def _table(self) -> Mask:
        table = np.zeros(self._size + 1, bool)
        if self._where is not None:
            table[self._where] = True
        return table

    @cached_property
    def _known(self) -> Mask:
        known = np.zeros(self._size + 1, bool)
        known[-1] = True
        return known

    def test(self, codes: Codes) -> Mask:
        if self.later is not None:
            asked = np.zeros(self._size + 1, bool)
            asked[codes] = True
            numbers = np.flatnonzero(asked & ~self._known)
            if len(numbers):
                self._table[numbers] = self.later(numbers)
                self._known[numbers] = True
        found: Mask = self._table[codes]
        return found
