"""What the kernel of runs gives, in plain Python: each run is looked for by itself."""

from __future__ import annotations

import numpy as np

from kernels.groups import Groups, RowSegments


def count_runs(
    groups: Groups,
    begun: np.ndarray,
    masks: np.ndarray,
    length: np.ndarray,
    width: np.ndarray,
    dual: bool,
    out: RowSegments,
) -> bool:
    """For each trigger all ends of runs before it are tried."""
    for q, number in enumerate(length.tolist()):

        def fits(g: int, place: int, q: int = q) -> bool:
            return bool(int(masks[q, groups.move_letter[g]]) >> place & 1)

        for r in range(len(groups.run) - 1):
            first, stop = int(groups.run[r]), int(groups.run[r + 1])
            for g in range(first + int(begun[r]), stop):
                if not fits(g, number - 1):
                    continue
                opens = groups.position[g] - width[q]
                found = sum(
                    all(fits(b + place, place) for place in range(number))
                    for b in range(first, g - number + 2)
                    if groups.position[b] > opens
                )
                if not found:
                    continue
                if out.end[q] == out.room[q]:
                    return False
                out.group[out.end[q]] = g
                out.counts[out.end[q]] = found
                if dual:
                    out.approximate[out.end[q]] = found
                out.end[q] += 1
    return True
