"""Least squares whose solution is nowhere negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TINY = 1e-10


def nonnegative(matrix: Floats, target: Floats) -> Floats:
    """The x >= 0 for which |matrix @ x - target| is least (Lawson and Hanson 1974, chapter 23).

    Unknowns are set free one by one, the steepest first; where the solution over the free ones
    turns negative, those that would are held at zero again.
    """
    columns = matrix.shape[1]
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    # The normal equations: there are few unknowns, and each is scaled to length one.
    scaled = matrix / scale
    squares, wanted = scaled.T @ scaled, scaled.T @ target
    x = np.zeros(columns)
    free = np.zeros(columns, np.bool_)
    tolerance = _TINY * max(1.0, float(np.abs(wanted).max(initial=0.0)))
    for _ in range(10 * columns + 10):
        gradient = wanted - squares @ x
        gradient[free] = -np.inf
        if free.all() or gradient.max() <= tolerance:
            break
        free[int(np.argmax(gradient))] = True
        while True:
            solved = np.zeros(columns)
            solved[free] = np.linalg.lstsq(squares[np.ix_(free, free)], wanted[free], rcond=None)[0]
            bad = free & (solved <= 0)
            if not bad.any():
                break
            # Go as far as none turns negative, and hold those that reach zero.
            step = float((x[bad] / np.maximum(x[bad] - solved[bad], 1e-300)).min())
            x += step * (solved - x)
            free &= x > _TINY
            x[~free] = 0.0
        x = solved
    found: Floats = x / scale
    return found
