"""Room for the rows of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engines.counting.prepare import rows_for
from kernels.groups import Groups, Rows

_FIRST, _MOST = 1 << 10, 1 << 21  # rows per slide that are made room for at first


def filled(run: Callable[[Rows], int], capacity: int, dual: bool, most_values: int) -> Rows:
    """The rows that `run` fills in; where it says -1 it is given more room and asked again."""
    while True:
        out = rows_for(capacity, dual, most_values)
        made = run(out)
        if made >= 0:
            return Rows(*(column[:made] for column in out))
        capacity = 4 * max(1, capacity)


def capacity_for(groups: Groups, triggered: np.ndarray, slide: int) -> int:
    """How many rows there may be, by how many queries each move letter triggers.

    Per slide that is a guess where boundaries are very many, as after a gap in the stream.
    """
    if slide == 0:
        return int(triggered[groups.move_letter].sum())
    firsts = groups.run[:-1][np.diff(groups.run) > 0]
    spans = groups.limit[np.diff(groups.run) > 0] - groups.position[firsts]
    boundaries = float(np.floor_divide(spans, slide).sum()) + len(spans)
    return int(min(_MOST, max(_FIRST, boundaries * float(triggered.sum()))))
