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
