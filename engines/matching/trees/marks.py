"""Rows with a bit for each reader whose negations leave them, and the rows of one reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from engines.matching.trees.buffers import Buffer, SelectedEvents
from engines.matching.trees.conditions import Search, prepare, region
from kernels.joins.cpu import NOWHERE
from kernels.marks.cpu import Check, mark_rows
from optimizer.plan.join_operators import Marked, Operator

Words = npt.NDArray[np.uint64]
WORD = 64  # readers in a word


def marked(
    operator: Marked,
    picked: SelectedEvents,
    part: Buffer,
    negations: Mapping[Operator, Buffer],
    width: int,
    chunk: int,
) -> tuple[Buffer, int]:
    """The rows that are left for a reader, with the marks of these; and how many were tried.

    `negations` are the rows of what checks look for. Comparisons that no kernel makes are left for
    last, and made only of rows that a reader is left for.
    """
    asked, every = _asked(operator)
    if not len(part):
        return replace(part, marks=np.zeros((len(every), 0), np.uint64)), 0
    gaps = list(dict.fromkeys(check.gap for check in operator.checks))
    regions = [region(picked, part, gap, width) for gap in gaps]
    low, high = (
        np.stack([each[side] for each in regions])
        if regions
        else np.zeros((0, len(part)), np.int32)
        for side in (0, 1)
    )
    checks: list[Check] = []
    made: list[int] = []
    rest: list[int] = []
    for number, check in enumerate(operator.checks):
        negation = negations[check.negation]
        if not len(negation):
            continue
        ready = prepare(picked, negation, part, check.conditions, swapped=True)
        if ready.rest:
            rest.append(number)
            continue
        made.append(number)
        checks.append(
            Check(
                ready.left.first,
                ready.left.last,
                ready.left.values,
                ready.groups,
                ready.right.values,
                ready.group,
                ready.tests,
                gaps.index(check.gap),
            )
        )
    if low.shape[0] == 0:
        low = high = np.zeros((1, len(part)), np.int32)
    marks, tried = mark_rows(low, high, checks, asked[made], every)
    for number in rest:
        check = operator.checks[number]
        open_ = np.flatnonzero((marks & asked[number][:, None]).any(axis=0))
        search = Search(
            picked, part.take(open_), negations[check.negation], check.conditions, chunk
        )
        place = gaps.index(check.gap)
        found, more = search.earliest(low[place, open_], high[place, open_])
        marks[:, open_[found < NOWHERE]] &= ~asked[number][:, None]
        tried += more
    left = marks.any(axis=0)
    rows = replace(part, marks=marks)
    return rows if left.all() else rows.take(np.flatnonzero(left)), tried


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
