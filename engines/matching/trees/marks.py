"""Rows with a bit for each reader whose negations leave them, and the rows of one reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from engines.matching.trees.buffers import Buffer, EventNumbers, SelectedEvents
from engines.matching.trees.conditions import Search, prepare, region
from kernels.joins.cpu import NOWHERE
from kernels.marks.cpu import Check, Timeline, mark_rows, timeline
from optimizer.plan.join_operators import Marked, Operator

Words = npt.NDArray[np.uint64]
WORD = 64  # readers in a word
IN_LINE = 16  # checks that are made together: each event has a place for all of them


class Marker:
    """Marks the rows of a piece, a chunk at a time; `negations` are the rows of what is negated."""

    def __init__(
        self,
        operator: Marked,
        picked: SelectedEvents,
        negations: Mapping[Operator, Buffer],
        width: int,
        chunk: int,
    ) -> None:
        self._checks, self._picked, self._width, self._chunk = (
            operator.checks,
            picked,
            width,
            chunk,
        )
        self._negations = [negations[check.negation] for check in operator.checks]
        self._asked, self._every = _asked(operator)
        self._gaps = list(dict.fromkeys(check.gap for check in operator.checks))
        self._gap = [self._gaps.index(check.gap) for check in operator.checks]
        self._lines = list(self._timelines())
        lined = {number for line in self._lines for number in line.check.tolist()}
        self._others = [
            number
            for number, negation in enumerate(self._negations)
            if len(negation) and number not in lined
        ]

    def _timelines(self) -> Iterator[Timeline]:
        """What is looked for together in each gap: single events, under no conditions."""
        for gap in range(len(self._gaps)):
            some = [
                number
                for number, negation in enumerate(self._negations)
                if self._gap[number] == gap
                and len(negation)
                and negation.first is negation.last
                and not self._checks[number].conditions
            ]
            for start in range(0, len(some), IN_LINE):
                own = some[start : start + IN_LINE]
                yield timeline(gap, own, [self._negations[number].last for number in own])

    def rows(self, part: Buffer) -> tuple[Buffer, int]:
        """Those that are left for a reader, with the marks of these; and how many were tried.

        Comparisons that no kernel makes are left for last, and made only of rows that a reader is
        left for.
        """
        if not len(part):
            return replace(part, marks=np.zeros((len(self._every), 0), np.uint64)), 0
        regions = [region(self._picked, part, gap, self._width) for gap in self._gaps]
        none = np.zeros((1, len(part)), np.int32)
        low, high = (np.stack([each[i] for each in regions]) if regions else none for i in (0, 1))
        checks: list[Check] = []
        made: list[int] = []
        rest: list[int] = []
        for number in self._others:
            found = self._check(number, part)
            if found is None:
                rest.append(number)
            else:
                checks.append(found)
                made.append(number)
        marks, tried = mark_rows(low, high, self._lines, checks, made, self._asked, self._every)
        for number in rest:
            tried += self._compare(number, part, marks, low, high)
        left = marks.any(axis=0)
        rows = replace(part, marks=marks)
        return rows if left.all() else rows.take(np.flatnonzero(left)), tried

    def _check(self, number: int, part: Buffer) -> Check | None:
        conditions = self._checks[number].conditions
        ready = prepare(self._picked, self._negations[number], part, conditions, swapped=True)
        if ready.rest:
            return None
        negation, rows = ready.left, ready.right
        return Check(
            negation.first,
            negation.last,
            negation.values,
            ready.groups,
            rows.values,
            ready.group,
            ready.tests,
            self._gap[number],
        )

    def _compare(
        self, number: int, part: Buffer, marks: Words, low: EventNumbers, high: EventNumbers
    ) -> int:
        """Take out the readers of a check, pair by pair; how many were tried."""
        asked, gap = self._asked[number][:, None], self._gap[number]
        rows = np.flatnonzero((marks & asked).any(axis=0))
        conditions = self._checks[number].conditions
        negation = self._negations[number]
        search = Search(self._picked, part.take(rows), negation, conditions, self._chunk)
        found, tried = search.earliest(low[gap, rows], high[gap, rows])
        marks[:, rows[found < NOWHERE]] &= ~asked
        return tried


def _asked(operator: Marked) -> tuple[Words, Words]:
    """The readers that ask for each check, and all of them."""
    words = -(-len(operator.readers) // WORD)
    asked = np.zeros((len(operator.checks), words), np.uint64)
    every = np.zeros(words, np.uint64)
    for reader, checks in enumerate(operator.readers):
        bit = np.uint64(1 << reader % WORD)
        every[reader // WORD] |= bit
        asked[list(checks), reader // WORD] |= bit
    return asked, every


def taken(part: Buffer, reader: int) -> Buffer:
    """The rows that have the mark of a reader."""
    if part.marks is None:
        return part  # without rows
    own = (part.marks[reader // WORD] & np.uint64(1 << reader % WORD)) != 0
    rows = replace(part, marks=None)
    return rows if own.all() else rows.take(np.flatnonzero(own))
