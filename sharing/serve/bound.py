"""What no choice of places can exceed."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from sharing.benefit import Worth
from sharing.candidates import Candidates
from sharing.serve.places import begins


def upper_bound(candidates: Candidates, worth: Worth) -> float:
    """The best choice of places in each query by itself, with what is paid once shared out.

    A place is worth no more than if all the candidate's places were served: its gain less an equal
    part of what is paid once. In one query, places are intervals, and the best that do not overlap
    follow from those that end earlier.
    """
    most = worth.gain - worth.once / np.maximum(candidates.places, 1)
    holder = candidates.holder
    pays = np.flatnonzero(most[holder] > 0)
    starts = begins(candidates)[pays]
    ends = (starts + candidates.length[holder[pays]]).tolist()
    ending: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for start, end, value in zip(starts.tolist(), ends, most[holder[pays]].tolist(), strict=True):
        ending[end].append((start, value))
    best = [0.0] * (int(candidates.start[-1]) + 1)  # up to each cell, of all queries in a row
    for end in range(1, len(best)):
        values = [best[start] + value for start, value in ending.get(end, ())]
        best[end] = max(best[end - 1], *values) if values else best[end - 1]
    return best[-1]
