"""What of a condition would have to hold besides, for it to hold: of `OR`, its nearest part."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import numpy.typing as npt

from workloads import expressions as ex

Mask = npt.NDArray[np.bool_]


def failing_parts(
    condition: ex.Expression, holds: Callable[[ex.Expression], bool]
) -> list[ex.Expression]:
    """The fewest parts of a condition that do not hold and keep it from holding."""
    match condition:
        case ex.Logical("AND", parts):
            return [one for part in parts for one in failing_parts(part, holds)]
        case ex.Logical("OR", parts):
            return min((failing_parts(part, holds) for part in parts), key=len)
        case _:
            return [] if holds(condition) else [condition]


def numbers_failing(
    condition: ex.Expression, test: Callable[[ex.Expression], Mask]
) -> npt.NDArray[np.int64]:
    """How many parts they are, of each event."""
    match condition:
        case ex.Logical("AND", parts):
            return sum((numbers_failing(part, test) for part in parts), np.zeros(1, np.int64))
        case ex.Logical("OR", parts):
            return reduce(np.minimum, (numbers_failing(part, test) for part in parts))
        case _:
            return (~test(condition)).astype(np.int64)
