"""What a kernel keeps of each run between two batches of groups, in plain arrays.

A run's record is a stretch of each array; what stands in it is the kernel's own affair, and an
empty record is a run of which nothing need be kept. A kernel never changes a state that it is
given: it makes a new one, so a batch can be tried again. A state holds what the window holds: of a
run whose last group has left the window nothing is needed, and the caller may leave it out
(`taken`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


class State(NamedTuple):
    """The records of runs, end to end."""

    number_run: np.ndarray  # int64 pointers by run
    numbers: np.ndarray  # int64
    count_run: np.ndarray  # int64 pointers by run, of the counts and of the floats
    counts: np.ndarray  # uint64
    floats: np.ndarray  # float64: the counts once more where they are `dual`, else empty
    value_run: np.ndarray  # int64 pointers by run
    values: np.ndarray  # float64


# What a compiled kernel returns: how many rows it made, and the arrays of a state.
Array: TypeAlias = np.ndarray
Saved: TypeAlias = tuple[int, Array, Array, Array, Array, Array, Array, Array]


def empty(runs: int) -> State:
    """The state of runs that have not begun."""
    none = np.zeros(runs + 1, np.int64)
    return State(
        none,
        np.empty(0, np.int64),
        none,
        np.empty(0, np.uint64),
        np.empty(0, np.float64),
        none,
        np.empty(0, np.float64),
    )


def runs_of(state: State) -> int:
    """How many runs a state has."""
    return len(state.number_run) - 1


def grown(state: State, runs: int) -> State:
    """The state with as many runs more as make it `runs`; they come last and have not begun."""
    more = runs - runs_of(state)
    if more < 0:
        raise ValueError(f"a state of {runs_of(state)} runs does not grow to {runs}")
    return state._replace(
        number_run=np.append(state.number_run, np.repeat(state.number_run[-1:], more)),
        count_run=np.append(state.count_run, np.repeat(state.count_run[-1:], more)),
        value_run=np.append(state.value_run, np.repeat(state.value_run[-1:], more)),
    )


def taken(state: State, runs: npt.ArrayLike) -> State:
    """The state of some of the runs, in the order given."""
    chosen = np.asarray(runs, np.int64)
    number_run, numbers = _records(state.number_run, chosen)
    count_run, counts = _records(state.count_run, chosen)
    value_run, values = _records(state.value_run, chosen)
    return State(
        number_run,
        state.numbers[numbers],
        count_run,
        state.counts[counts],
        state.floats[counts] if len(state.floats) else state.floats,
        value_run,
        state.values[values],
    )


def ready(state: State, runs: int, dual: bool) -> State:
    """The state as the next batch needs it: with floating-point counts, or without them.

    Counts that were not dual cannot have passed 2^63, so they are their floats.
    """
    if runs_of(state) != runs:
        raise ValueError(f"the groups are of {runs} runs and the state of {runs_of(state)}")
    floats = np.empty(0, np.float64)
    if dual and len(state.floats) == len(state.counts):
        floats = state.floats
    elif dual:
        floats = state.counts.astype(np.float64)
    # Kernels would be compiled once more for arrays that cannot be written.
    return State(*(np.require(a, requirements=["C", "W"]) for a in state._replace(floats=floats)))


def _records(pointers: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """New pointers, and the places of the records' entries one after the other."""
    sizes = np.diff(pointers)[chosen]
    ends = np.append(0, np.cumsum(sizes))
    places = np.arange(ends[-1]) + np.repeat(pointers[chosen] - ends[:-1], sizes)
    return ends, places
