"""What the kernels for row patterns give, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernels.rowpattern.cpu import (
    AT_START,
    FIRST,
    FIRST_ROW,
    NEXT,
    NO_ROW,
    PAST,
    FoundRows,
    KnownRows,
    PatternCode,
)
from kernels.rowpattern.more_rows import MoreRowsError, needs_end, needs_row, needs_values


def search_rows(
    code: PatternCode,
    holds: np.ndarray,
    bounds: np.ndarray,
    times: np.ndarray,
    within: int,
    skip: int,
    memory: int,
    known: KnownRows | None = None,
) -> FoundRows:
    """As `kernels.rowpattern.cpu.search_rows`, but that nothing that failed is remembered."""
    known = KnownRows.all_of(bounds) if known is None else known
    undecided, covered = known.starts.tolist(), known.matched.tolist()
    first: list[int] = []
    length: list[int] = []
    taken: list[int] = []
    unmatched: list[int] = []
    status, where = 0, 0
    for p, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        start, matched = undecided[p], covered[p]

        def ways(
            at: int, rows: tuple[int, ...], since: dict[int, int]
        ) -> Iterator[tuple[int, ...]]:
            row = start + len(rows)  # noqa: B023
            match int(code.operation[at]):
                case 0:
                    needs_row(known, row, start, end, times, within)  # noqa: B023
                    late = within >= 0 and row < end and times[row] - times[start] >= within  # noqa: B023
                    if row < end and not late and holds[code.left[at], row]:  # noqa: B023
                        yield from ways(at + 1, (*rows, at), since)
                case 1:
                    here = since | {at: row}
                    yield from ways(int(code.left[at]), rows, here)
                    yield from ways(int(code.right[at]), rows, here)
                case 2:
                    yield from ways(int(code.left[at]), rows, since)
                case 3:
                    needs_values(known, row, start, end)  # noqa: B023
                    yield rows
                case 6:
                    if since[int(code.left[at])] < row:
                        yield from ways(at + 1, rows, since)
                case operation:
                    if operation != AT_START:
                        needs_end(known, row, end)  # noqa: B023
                    if row == (begin if operation == AT_START else end):  # noqa: B023
                        yield from ways(at + 1, rows, since)

        while start < end:
            try:
                found = next(ways(0, (), {}), None)
            except MoreRowsError:
                break
            if found is None:
                if start >= matched:
                    unmatched.append(start)
                start += 1
                continue
            first.append(start)
            length.append(len(found))
            taken += found
            matched = max(matched, start + max(len(found), 1))
            if not found or skip == NEXT:
                start += 1
            elif skip == PAST:
                start += len(found)
            else:
                places = [k for k, at in enumerate(found) if code.skipped[at]]
                place = -1 if not places else places[0 if skip == FIRST else -1]
                if place <= 0:
                    status, where = (NO_ROW if place < 0 else FIRST_ROW), start
                    break
                start += place
        undecided[p], covered[p] = start, matched
        if status:
            break
    return FoundRows(
        np.array(first, np.int64),
        np.array(length, np.int64),
        np.array(taken, np.int32),
        np.array(unmatched, np.int64),
        status,
        where,
        np.array(undecided, np.int64),
        np.array(covered, np.int64),
    )


def running_totals(
    values: np.ndarray, counts: np.ndarray, begins: np.ndarray, kind: int, found: np.ndarray
) -> None:
    """As `kernels.rowpattern.cpu.running_totals`."""
    so_far: list[float] = []
    for i in range(len(values)):
        if begins[i]:
            so_far = []
        if counts[i]:
            so_far.append(values[i])
        if so_far:
            found[i] = (sum, min, max)[kind](so_far)
