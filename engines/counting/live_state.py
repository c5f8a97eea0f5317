"""The state of live counting: the groups of events that later windows can reach, key by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.counting.kept import TimedState
from optimizer.ir.automaton import Symbols

Int64s = npt.NDArray[np.int64]
NEVER = -(2**62)  # before any time


@dataclass(frozen=True)
class LiveCounterState:
    """What is left of earlier batches, a run of groups for each key."""

    keys: pa.Array  # strings; one null where there is no key
    events: Int64s  # by run: all events of the key so far, which ranks are counted from
    last: Int64s  # by run: the time of the last of them
    since: Int64s  # by run: the last time or rank that rows have been given for
    run: Int64s  # row pointers by run
    position: Int64s  # by group
    event: Int64s  # row pointers by group
    codes: Int64s  # by event: numbers of `sets`
    inputs: npt.NDArray[np.float64]  # (attribute, event)
    sets: tuple[Symbols, ...]

    def __len__(self) -> int:
        return len(self.keys)


def by_time(state: LiveCounterState) -> TimedState:
    """The groups of a state in the order of time."""
    order = np.argsort(state.position, kind="stable")
    sizes = np.diff(state.event)[order]
    event = np.append(0, np.cumsum(sizes))
    events = np.repeat(state.event[:-1][order] - event[:-1], sizes) + np.arange(int(event[-1]))
    run = np.repeat(np.arange(len(state)), np.diff(state.run))[order]
    codes, inputs = state.codes[events], state.inputs[:, events]
    return TimedState(state.keys, run, state.position[order], sizes, codes, inputs, state.sets)


def by_key(state: TimedState, since: int) -> LiveCounterState:
    """The same groups key by key; keys without any are left out."""
    held = np.bincount(state.run, minlength=len(state.keys))
    used = held > 0
    run = state.run.astype(np.uint16) if len(held) < 2**16 else state.run  # sorted by its bits
    order = np.argsort(run, kind="stable")
    sizes = state.sizes[order]
    starts = (np.cumsum(state.sizes) - state.sizes)[order]
    event = np.append(0, np.cumsum(sizes))
    events = np.repeat(starts - event[:-1], sizes) + np.arange(int(event[-1]))
    runs = int(used.sum())
    return LiveCounterState(
        state.keys.filter(pa.array(used)),
        np.zeros(runs, np.int64),
        np.full(runs, NEVER, np.int64),
        np.full(runs, since, np.int64),
        np.append(0, np.cumsum(held[used])),
        state.position[order],
        event,
        state.codes[events],
        state.inputs[:, events],
        state.sets,
    )


def small(values: Int64s, least: int) -> pa.Array:
    """How much more numbers are than the least of them, in as few bytes as hold it.

    From `NEVER` to a time far ahead is more than a number holds: it wraps, and back when read.
    """
    above = (values - least).view(np.uint64)
    return pa.array(above.astype(np.min_scalar_type(int(above.max(initial=0)))))


def int32(pointers: Int64s) -> pa.Array:
    """Numbers in half the bytes."""
    return pa.array(pointers.astype(np.int32))


def lists(table: pa.Table, column: str) -> pa.ListArray:
    """A column of lists, all of it."""
    chunks = table.column(column)
    return chunks.chunk(0) if chunks.num_chunks else pa.array([], chunks.type)


def strings(column: pa.ChunkedArray) -> pa.Array:
    """A column of texts, all of it."""
    return column.combine_chunks().cast(pa.string())
