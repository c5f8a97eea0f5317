"""The groups of a window in the order of time, which grows behind and shrinks in front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class NewGroups(NamedTuple):
    """Groups that come behind those that are there."""

    run: Int64s
    position: Int64s
    event: Int64s  # row pointers by group
    codes: Int64s  # by event
    inputs: Float64s  # (attribute, event)


@dataclass
class QueueLetters:
    """The letters of a unit, by group and by event of the queue."""

    stay: Int64s
    move: Int64s


class GroupQueue:
    """Groups from `start` to before `stop`, those from `fresh` on new; arrays have more room.

    `event` are row pointers into `codes`, `inputs` and the move letters. `base` is how many groups
    stood before the first place of the arrays, since there are any: a place and it make a number
    that stays the group's.
    """

    def __init__(self, units: int, inputs: int) -> None:
        none = np.zeros(0, np.int64)
        self.start = self.fresh = self.stop = self.base = 0
        self.run, self.position, self.event = none, none, np.zeros(1, np.int64)
        self.codes, self.inputs = none, np.zeros((inputs, 0))
        self.letters = [QueueLetters(none, none) for _ in range(units)]

    @property
    def held(self) -> int:
        """How many events there are."""
        return int(self.event[self.stop] - self.event[self.start])

    @property
    def nbytes(self) -> int:
        """How many bytes its arrays take."""
        letters = sum(own.stay.nbytes + own.move.nbytes for own in self.letters)
        arrays = (self.run, self.position, self.event, self.codes, self.inputs)
        return letters + sum(array.nbytes for array in arrays)

    def append(self, new: NewGroups, letters: Sequence[tuple[Int64s, Int64s]]) -> None:
        """Put groups behind those that are there, with the letters of each unit."""
        many, events = len(new.run), len(new.codes)
        self._make_room(many, events)
        groups = slice(self.stop, self.stop + many)
        first = int(self.event[self.stop])
        own_events = slice(first, first + events)
        self.run[groups], self.position[groups] = new.run, new.position
        self.event[self.stop + 1 : self.stop + many + 1] = new.event[1:] + first
        self.codes[own_events], self.inputs[:, own_events] = new.codes, new.inputs
        for own, (stay, move) in zip(self.letters, letters, strict=True):
            own.stay[groups], own.move[own_events] = stay, move
        self.stop += many

    def arrived(self, horizon: int) -> tuple[Int64s, Int64s]:
        """Nothing is new any more, and what is not behind a time is gone.

        Gives the run and the code of each event that is gone.
        """
        before = self.start
        times = self.position[self.start : self.stop]
        self.start += int(np.searchsorted(times, horizon, "right"))
        self.fresh = self.stop
        event = self.event[before : self.start + 1]
        run = np.repeat(self.run[before : self.start], np.diff(event))
        return run, self.codes[event[0] : event[-1]]

    def _make_room(self, many: int, events: int) -> None:
        """Move what is held to the front of arrays, larger ones where they would be half full."""
        first = int(self.event[self.start])
        held = slice(self.start, self.stop)
        kept, held_events = self.stop - self.start, self.held
        if self.stop + many > len(self.run):
            room = _room(len(self.run), kept + many)
            self.run, self.position = (
                _moved(self.run[held], room),
                _moved(self.position[held], room),
            )
            self.event = _moved(self.event[self.start : self.stop + 1], room + 1)
            for own in self.letters:
                own.stay = _moved(own.stay[held], room)
            self.base += self.start
            self.fresh, self.start, self.stop = self.fresh - self.start, 0, kept
        if int(self.event[self.stop]) + events > len(self.codes):
            room = _room(len(self.codes), held_events + events)
            own_events = slice(first, first + held_events)
            self.codes = _moved(self.codes[own_events], room)
            self.inputs = _moved(self.inputs[:, own_events], room)
            for own in self.letters:
                own.move = _moved(own.move[own_events], room)
            self.event[self.start : self.stop + 1] -= first


def _room(now: int, wanted: int) -> int:
    return now if 2 * wanted <= now else 4 * wanted


def _moved(values: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    found = np.zeros((*values.shape[:-1], room), values.dtype)
    found[..., : values.shape[-1]] = values
    return found
