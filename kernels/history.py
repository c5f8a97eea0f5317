"""A stream so far and the windows of it that are looked at, as plain Python.

What the references of the kernels keep as their state is the whole history: every group of every
run. So they count each window from scratch, whatever the batches were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from kernels.groups import Groups

State: TypeAlias = Groups  # of all batches so far


class History(NamedTuple):
    """All groups so far, and which of them are new. Letters mean the same in every batch."""

    groups: Groups
    number: list[int]  # of each group in the last batch, or -1 less its run if it came before
    since: list[int | None]  # by run: the last boundary that was evaluated in earlier batches


class Look(NamedTuple):
    """An evaluation: the last group of the window, its boundary if per slide, and its groups."""

    group: int
    boundary: int
    window: list[int]


def empty(runs: int) -> State:
    """The state of runs that have not begun."""
    none = np.zeros(0, np.int64)
    low = np.full(runs, np.iinfo(np.int64).min)
    return Groups(np.zeros(runs + 1, np.int64), low, none, none, np.zeros(1, np.int64), none,
                  np.zeros((0, 0)))  # fmt: skip


def grown(state: State, runs: int) -> State:
    """The state with as many runs more as make it `runs`."""
    more = runs - len(state.limit)
    return state._replace(
        run=np.append(state.run, np.repeat(state.run[-1:], more)),
        limit=np.append(state.limit, np.full(more, np.iinfo(np.int64).min)),
    )


def followed(state: State, batch: Groups) -> History:
    """The history with a batch behind it."""
    sources, number = [], []  # which history, and which group of it
    for r in range(len(batch.limit)):
        for part, groups in enumerate((state, batch)):
            for g in range(groups.run[r], groups.run[r + 1]):
                sources.append((part, g))
                number.append(g if part else -1 - r)
    both = (state, batch)
    events = [
        (part, e)
        for part, g in sources
        for e in range(both[part].event[g], both[part].event[g + 1])
    ]
    sizes = [both[part].event[g + 1] - both[part].event[g] for part, g in sources]
    inputs = [both[part].inputs[:, e] for part, e in events]
    groups = Groups(
        run=state.run + batch.run,
        limit=batch.limit,
        position=np.array([both[part].position[g] for part, g in sources], np.int64),
        stay_letter=np.array([both[part].stay_letter[g] for part, g in sources], np.int64),
        event=np.cumsum([0, *sizes]),
        move_letter=np.array([both[part].move_letter[e] for part, e in events], np.int64),
        inputs=np.stack(inputs, axis=1) if inputs else batch.inputs[:, :0],
    )
    low = np.iinfo(np.int64).min
    return History(groups, number, [None if x == low else int(x) for x in state.limit])


def looks(history: History, width: int, slide: int) -> Iterator[Look]:
    """Every new group, or per slide every new boundary whose window holds a group."""
    groups = history.groups
    for r, limit in enumerate(groups.limit):
        run = range(groups.run[r], groups.run[r + 1])
        if slide == 0:
            for g in run:
                low = groups.position[g] - width
                if history.number[g] >= 0:
                    yield Look(g, 0, [h for h in run if low < groups.position[h] and h <= g])
        elif len(run):
            since = history.since[r]
            begin = int(groups.position[run[0]]) if since is None else since + 1
            end = min(int(limit), int(groups.position[run[-1]]) + width)
            for boundary in range(-(-begin // slide) * slide, end + 1, slide):
                window = [g for g in run if boundary - width < groups.position[g] <= boundary]
                if window:
                    yield Look(window[-1], boundary, window)
