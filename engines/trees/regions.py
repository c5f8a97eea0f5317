"""Where rows look for what is absent, or for what is in a group: ranges of places."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.trees.buffers import Buffer, first_of, last_of
from engines.trees.picked import Picked, Places
from optimizer.physical.joins import Gap


def region(picked: Picked, part: Buffer, gap: Gap, width: int) -> tuple[Places, Places]:
    """The first place of a gap of each row, and the one behind it."""
    if gap.before is None and gap.inside:
        assert part.earliest is not None
        low = part.earliest.astype(np.int32)
    elif gap.before is None:
        low = opening(picked, part, width)
    else:
        low = behind(picked, reduce(np.maximum, [last_of(part.columns[i]) for i in gap.before]))
    if gap.after is not None:
        high = before(picked, reduce(np.minimum, [first_of(part.columns[i]) for i in gap.after]))
    elif gap.inside:
        assert part.latest is not None
        high = part.latest.astype(np.int32)
    elif gap.anywhere:
        high = behind(picked, part.last)
    else:
        high = closing(picked, part, width)
    return low, high


def opening(picked: Picked, part: Buffer, width: int) -> Places:
    """The first place in the window that ends with a row."""
    return _places(picked, picked.position, picked.position[part.last] - width + 1)


def closing(picked: Picked, part: Buffer, width: int) -> Places:
    """The place behind the window that starts with a row."""
    return _places(picked, picked.position, picked.position[part.first] + width)


def before(picked: Picked, places: Places) -> Places:
    """The place behind all that is before an event."""
    return _places(picked, picked.moment, picked.moment[places])


def behind(picked: Picked, places: Places) -> Places:
    """The first place of what an event is before."""
    return _places(picked, picked.moment, picked.moment[places] + 1)


def _places(picked: Picked, values: npt.NDArray[Any], keys: npt.NDArray[Any]) -> Places:
    found: Places = picked.kernels.places_from(values, keys)
    return found
