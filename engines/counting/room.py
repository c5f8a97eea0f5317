"""Room for the rows of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engines.counting.prepare import rows_for
from kernels.product import Groups, Rows
from kernels.state import State

_FIRST = 1024  # rows per slide that are made room for at first


def filled(
    run: Callable[[State, Rows], tuple[int, State]],
    state: State,
    capacity: int,
    dual: bool,
    most_values: int,
) -> tuple[Rows, State]:
    """The rows that `run` fills in, and its state after them.

    Where it says -1 it is given more room and asked again.
    """
    while True:
        out = rows_for(capacity, dual, most_values)
        made, after = run(state, out)
        if made >= 0:
            return Rows(*(column[:made] for column in out)), after
        capacity = 4 * max(1, capacity)


def capacity_for(groups: Groups, triggered: np.ndarray, slide: int) -> int:
    """How many rows there may be per trigger, by how many each move letter triggers.

    Per slide nobody knows before, and it is a guess.
    """
    return int(triggered[groups.move_letter].sum()) if slide == 0 else _FIRST
