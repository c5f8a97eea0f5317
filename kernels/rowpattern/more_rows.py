"""What searches ask that are no kernels: does what matches depend on rows that may come?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.rowpattern.cpu import NO_MORE, KnownRows


class MoreRowsError(Exception):
    """What matches depends on rows that may come."""


def needs_row(
    known: KnownRows,
    row: int,
    start: int,
    end: int,
    times: Sequence[int] | np.ndarray,
    within: int,
) -> None:
    """Raises where rows to come decide whether a match that began at `start` can take a row."""
    if known.until == NO_MORE or row + known.ahead < end:
        return
    time = times[row] if row < end else known.until
    if within < 0 or time - times[start] < within:
        raise MoreRowsError


def needs_values(known: KnownRows, row: int, start: int, end: int) -> None:
    """Raises where what is given of a match before `row` is read of rows to come."""
    if known.until != NO_MORE and row > start and row - 1 + known.after >= end:
        raise MoreRowsError


def needs_end(known: KnownRows, row: int, end: int) -> None:
    """Raises where a row is the last only as long as none comes."""
    if known.until != NO_MORE and row == end:
        raise MoreRowsError
