"""What the kernels of baselines are given: events, tests, and what is negated.

Components have numbers: those of a sequence in their order, and what is negated behind them. An
event is a place in the order of all that is looked at; `moment` and `position` are as in
`kernels.joins.cpu`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np


class Events(NamedTuple):
    """The events of each component: those of c are `places[starts[c] : starts[c + 1]]`, ascending.

    `values[r]` is what tests look at, by place; NaN for null.
    """

    moment: np.ndarray
    position: np.ndarray
    places: np.ndarray
    starts: np.ndarray
    values: np.ndarray


class Comparisons(NamedTuple):
    """What is asked when a component is bound: those of c are `starts[c] : starts[c + 1]`.

    Its value of row `own` must stand to that of row `their` of the component `other`, bound
    before, as `kind` says (the constants of `kernels.joins.cpu`).
    """

    starts: np.ndarray
    kind: np.ndarray
    other: np.ndarray
    own: np.ndarray
    their: np.ndarray


class Gaps(NamedTuple):
    """Negated events: none of `component` may be in the gap before the component `gap`.

    The gap of 0 begins with the window, and that of the number of components ends with it. What
    is decided when component c is bound is `starts[c] : starts[c + 1]`.
    """

    starts: np.ndarray
    component: np.ndarray
    gap: np.ndarray


class Found(NamedTuple):
    """The places of each match's components, a row for each, and how many events were tried."""

    rows: np.ndarray
    tried: int


@numba.njit(cache=True, inline="always")
def holds(kind: int, a: float, b: float) -> bool:
    """As the tests of `kernels.joins.cpu`: nothing holds for NaN."""
    if kind == 0:
        fits = a == b
    elif kind == 1:
        fits = a < b or a > b
    elif kind == 2:
        fits = a < b
    elif kind == 3:
        fits = a <= b
    elif kind == 4:
        fits = a > b
    else:
        fits = a >= b
    return fits


@numba.njit(cache=True)
def first_behind(order: np.ndarray, places: np.ndarray, low: int, high: int, key: int) -> int:
    """The first of some places whose `order` is more than `key`."""
    while low < high:
        middle = (low + high) // 2
        if order[places[middle]] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, inline="always")
def occurs(
    moment: np.ndarray, position: np.ndarray, places: np.ndarray, starts: np.ndarray,
    values: np.ndarray, test_starts: np.ndarray, kind: np.ndarray, other: np.ndarray,
    own: np.ndarray, their: np.ndarray, negated: int, gap: int, last: int, width: int,
    chosen: np.ndarray,
) -> bool:  # fmt: skip
    """Is there an event of a negated component in its gap among the chosen places?"""
    stop = starts[negated + 1]
    if gap == 0:
        opening = position[chosen[last]] - width
        k = first_behind(position, places, starts[negated], stop, opening)
    else:
        k = first_behind(moment, places, starts[negated], stop, moment[chosen[gap - 1]])
    found = False
    while k < stop and not found:
        place = places[k]
        if gap <= last:
            if moment[place] >= moment[chosen[gap]]:
                break
        elif position[place] >= position[chosen[0]] + width:
            break
        found = True
        for t in range(test_starts[negated], test_starts[negated + 1]):
            if not holds(kind[t], values[own[t], place], values[their[t], chosen[other[t]]]):
                found = False
                break
        k += 1
    return found


@numba.njit(cache=True)
def doubled(rows: np.ndarray) -> np.ndarray:
    """The same rows with room for as many again."""
    larger = np.empty((2 * rows.shape[0], rows.shape[1]), rows.dtype)
    larger[: rows.shape[0]] = rows
    return larger
