"""Events as the kernels that count take them, and the rows that they give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Groups(NamedTuple):
    """The groups of one or more runs (keys), in order."""

    run: np.ndarray  # int64 row pointers by run
    limit: np.ndarray  # int64, by run: the last boundary that is evaluated
    position: np.ndarray  # int64, by group: time or rank
    stay_letter: np.ndarray  # int64, by group
    event: np.ndarray  # int64 row pointers by group
    move_letter: np.ndarray  # int64, by event
    inputs: np.ndarray  # float64 (attribute, event); NaN for null


class Spans(NamedTuple):
    """The window and slide of each query: what it holds, and when it is read.

    Queries that are counted together may differ in both; `slide` 0 is per trigger.
    """

    width: np.ndarray  # int64, by query: a time, or a number of events
    slide: np.ndarray  # int64, by query

    def of(self, queries: np.ndarray) -> Spans:
        """Those of some of the queries."""
        return Spans(self.width[queries], self.slide[queries])

    @property
    def widest(self) -> int:
        """The width that holds all windows."""
        return int(self.width.max())

    @property
    def windows(self) -> tuple[np.ndarray, np.ndarray]:
        """The different widths, the smallest first, and by query the number of its own."""
        widths, window = np.unique(self.width, return_inverse=True)
        return widths, window.astype(np.int64)

    @property
    def marks(self) -> Marks:
        """The windows and slides of those queries that are read at boundaries."""
        sliding = np.flatnonzero(self.slide)
        if not len(sliding):
            return Marks(_NONE, _NONE, np.zeros(1, np.int64), _NONE)
        pairs = np.stack([self.width[sliding], self.slide[sliding]], axis=1)
        found, mark = np.unique(pairs, axis=0, return_inverse=True)
        mark = mark.reshape(-1)
        order = np.argsort(mark, kind="stable")
        ends = np.cumsum(np.bincount(mark, minlength=len(found)))
        return Marks(found[:, 0].copy(), found[:, 1].copy(), np.append(0, ends), sliding[order])


_NONE = np.zeros(0, np.int64)


class Marks(NamedTuple):
    """Different windows and slides, and the queries that are read at the boundaries of each."""

    width: np.ndarray  # int64, by mark
    slide: np.ndarray  # int64, by mark: above 0
    marked: np.ndarray  # row pointers by mark
    queries: np.ndarray


class ResultRows(NamedTuple):
    """Results: the group (or, per slide, the boundary) and query of each row, and its numbers."""

    group: np.ndarray
    boundary: np.ndarray
    query: np.ndarray
    counts: np.ndarray  # uint64
    approximate: np.ndarray  # float64; filled where `dual`
    values: np.ndarray  # float64 (row, value result of the query)


class RowSegments(NamedTuple):
    """Results by query: each has a segment of rows, which is filled from its start.

    `end` is where the next row of a query goes, `room` where its segment ends.
    """

    end: np.ndarray  # int64, by query
    room: np.ndarray  # int64, by query
    group: np.ndarray  # int64, by row: the last group of the window
    boundary: np.ndarray  # int64; filled per slide
    counts: np.ndarray  # uint64
    approximate: np.ndarray  # float64; filled where `dual`
    values: np.ndarray  # float64 (row, value result of the query)
