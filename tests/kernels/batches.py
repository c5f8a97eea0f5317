"""Groups cut into batches, and kernels that go through them with their state saved in between."""

from __future__ import annotations

import io

import numpy as np

from kernels import state
from kernels.groups import Groups, Rows
from tests.kernels.tables import empty_rows


def cuts(random, groups):
    """Times by batch and run: up to them, each time included, the groups of the batch come."""
    runs = len(groups.limit)
    many = int(random.choice([1, 2, 3, 8, 40]))
    low, high = groups.position.min(initial=0), groups.position.max(initial=0)
    # Some runs are cut at the same times, as by a clock, others anywhere.
    clock = np.sort(random.integers(low - 1, high + 2, many))
    own = np.sort(random.integers(low - 1, high + 2, (runs, many)), axis=1)
    found = np.where(random.random((runs, 1)) < 0.5, clock, own)
    return until(groups, found.T)


def until(groups, times):
    """Times that end with the limits of the runs."""
    return [*np.minimum(times, groups.limit), groups.limit]


def batches(groups, times):
    """The batches, and the number of each of their groups before."""
    runs = len(groups.limit)
    of = np.repeat(np.arange(runs), np.diff(groups.run))
    start = np.full(runs, np.iinfo(np.int64).min)
    for i, end in enumerate(times):
        is_last = i == len(times) - 1
        chosen = groups.position > start[of]
        if not is_last:
            chosen &= groups.position <= end[of]
        numbers = np.flatnonzero(chosen)
        sizes = np.diff(groups.event)[numbers]
        events = [np.arange(groups.event[g], groups.event[g + 1]) for g in numbers]
        rows = np.concatenate([np.zeros(0, np.int64), *events])
        yield (
            numbers,
            Groups(
                run=np.append(0, np.cumsum(np.bincount(of[numbers], minlength=runs))),
                limit=np.asarray(end).copy(),
                position=groups.position[numbers],
                stay_letter=groups.stay_letter[numbers],
                event=np.append(0, np.cumsum(sizes)),
                move_letter=groups.move_letter[rows],
                inputs=np.ascontiguousarray(groups.inputs[:, rows]),
            ),
        )
        start = np.asarray(end)


def of_first_runs(groups, runs):
    """The groups of the first runs alone; the others have none."""
    return groups._replace(run=groups.run[: runs + 1].copy(), limit=groups.limit[:runs].copy())


def carried(kept):
    """A state as it arrives in another process."""
    file = io.BytesIO()
    np.savez(file, **kept._asdict())
    file.seek(0)
    with np.load(file) as arrays:
        return type(kept)(**arrays)


def in_batches(kernel, groups, times, dual, values, kept=None, grown=state.grown):
    """All rows of `kernel(groups, state, out)` over the batches, with their groups' own numbers.

    Runs join the state when their first groups come.
    """
    found = []
    runs = 0
    kept = state.empty(0) if kept is None else kept
    latest = np.full(len(groups.limit), -1)
    for numbers, batch in batches(groups, times):
        runs = max(runs, *(r + 1 for r in range(len(latest)) if batch.run[r] < batch.run[r + 1]), 0)
        out = empty_rows(5000, dual, values)
        made, kept = kernel(of_first_runs(batch, runs), grown(carried(kept), runs), out)
        rows = Rows(*(column[:made] for column in out))
        is_here = rows.group >= 0
        here = np.append(numbers, -1)[np.where(is_here, rows.group, -1)]
        group = np.where(is_here, here, latest[np.where(is_here, 0, -1 - rows.group)])
        found.append(rows._replace(group=group))
        for r in range(len(latest)):
            if batch.run[r] < batch.run[r + 1]:
                latest[r] = numbers[batch.run[r + 1] - 1]
    return Rows(*(np.concatenate(columns) for columns in zip(*found, strict=True))), kept
