"""Positions given to candidates greedily, then improved by exchanges."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharing.counting.benefit import Worth
from sharing.counting.candidates import FEWEST_QUERIES, Candidates
from sharing.solvers.candidates.solution import DEFAULT, Options
from sharing.solvers.placements.placement import (
    Placement,
    begins,
    possible,
    served,
    upper_bound,
    weight_of,
    worthwhile,
)

_PASSES = 8
_MORE = 1e-9  # an exchange must gain more than rounding, as a part of what is at stake


class Exchange:
    """A choice of places under way."""

    def __init__(self, candidates: Candidates, worth: Worth, kept: NDArray[np.bool_]) -> None:
        self.gain, self.once = worth.gain.tolist(), worth.once.tolist()
        self.open: list[int] = worthwhile(candidates, worth).tolist()
        self.first, self.length = candidates.first.tolist(), candidates.length.tolist()
        self.holder, self.query = candidates.holder.tolist(), candidates.query.tolist()
        self.begin = begins(candidates).tolist()
        self.owner: list[int] = [-1] * int(candidates.start[-1])  # the place that takes each cell
        self.kept = kept.tolist()
        self.served: dict[int, set[int]] = {}  # places by candidate
        for place in np.flatnonzero(kept).tolist():
            self._put(place)

    @cached_property
    def ranked(self) -> list[int]:
        """The candidates that pay, those first that are worth the most at all their places."""
        value = {
            i: self.gain[i] * (self.first[i + 1] - self.first[i]) - self.once[i] for i in self.open
        }
        return sorted(self.open, key=lambda i: (-value[i], i))

    def run(self, most: int) -> int:
        """Exchange until nothing is gained or so many candidates were looked at; gives how many."""
        steps = 0
        for _ in range(_PASSES):
            better = False
            for i in self.ranked:
                if steps >= most:
                    return steps
                steps += 1
                better |= self._enter(i)
            if not better:
                break
        return steps

    def _enter(self, i: int) -> bool:
        """Let a candidate take the places at which it gains more than it displaces."""
        mine = self.served.get(i, set())
        entering: list[int] = []
        displaced: dict[int, None] = {}
        cells: set[int] = set()
        won = 0.0
        for place in range(self.first[i], self.first[i + 1]):
            if place in mine:
                continue
            span = range(self.begin[place], self.begin[place] + self.length[i])
            out = {self.owner[cell] for cell in span} - {-1}
            if out & mine or not cells.isdisjoint(span):
                continue
            new = [other for other in out if other not in displaced]
            net = self.gain[i] - sum(self.gain[self.holder[other]] for other in new)
            if net > 0:
                entering.append(place)
                cells.update(span)
                displaced.update(dict.fromkeys(new))
                won += net
        if not entering or len({self.query[p] for p in (*mine, *entering)}) < FEWEST_QUERIES:
            return False
        won -= 0.0 if mine else self.once[i]
        dropped, regained = self._dropped(Counter(self.holder[p] for p in displaced), displaced)
        won += regained
        if won <= _MORE * abs(self.gain[i]):
            return False
        for place in (*displaced, *dropped):
            self._take(place)
        for place in entering:
            self._put(place)
        return True

    def force(self, i: int) -> None:
        """Put a candidate in everywhere, and drop what no longer pays."""
        for place in range(self.first[i], self.first[i + 1]):
            span = range(self.begin[place], self.begin[place] + self.length[i])
            out = {self.owner[cell] for cell in span} - {-1}
            if any(self.holder[other] == i for other in out):
                continue
            for other in out:
                self._take(other)
            self._put(place)
        for j, places in self.served.items():
            few = len({self.query[place] for place in places}) < FEWEST_QUERIES
            if places and (few or self.gain[j] * len(places) <= self.once[j]):
                for place in list(places):
                    self._take(place)

    def _dropped(self, losing: Counter[int], displaced: dict[int, None]) -> tuple[list[int], float]:
        """Places of candidates that no longer pay with what they keep, and what that gives back."""
        places: list[int] = []
        regained = 0.0
        for j in losing:
            left = [place for place in self.served[j] if place not in displaced]
            rest = self.gain[j] * len(left) - self.once[j]
            if rest <= 0 or len({self.query[place] for place in left}) < FEWEST_QUERIES:
                places += left
                regained -= rest
        return places, regained

    def _put(self, place: int) -> None:
        i = self.holder[place]
        start = self.begin[place]
        self.owner[start : start + self.length[i]] = [place] * self.length[i]
        self.kept[place] = True
        self.served.setdefault(i, set()).add(place)

    def _take(self, place: int) -> None:
        i = self.holder[place]
        start = self.begin[place]
        self.owner[start : start + self.length[i]] = [-1] * self.length[i]
        self.kept[place] = False
        self.served[i].discard(place)


def exchanged(
    candidates: Candidates, worth: Worth, kept: NDArray[np.bool_], most: int
) -> tuple[NDArray[np.bool_], int]:
    """The places when nothing tried makes them worth more, and the candidates looked at.

    At most about `most` are looked at.
    """
    found = Exchange(candidates, worth, kept)
    steps = found.run(most)
    best = np.array(found.kept, np.bool_)
    value = weight_of(candidates, worth, best)
    better = True
    while better:
        better = False
        for i in found.ranked:
            if steps >= most:
                return best, steps
            trial = Exchange(candidates, worth, best)
            trial.force(i)
            steps += 1 + trial.run(most - steps)
            kept = np.array(trial.kept, np.bool_)
            worth_now = weight_of(candidates, worth, kept)
            if worth_now > value * (1 + _MORE):
                best, value, better = kept, worth_now, True
    return best, steps


EXCHANGES = 50_000  # candidates looked at: about a second
Measure = Callable[[float, int], float]  # of a value, and of the steps that it takes


def greedy(candidates: Candidates, worth: Worth, options: Options = DEFAULT) -> Placement:
    """The candidate that saves most at the places still free, again and again.

    "Most" is tried both ways, in all and for each step that is taken; each choice is then made
    better by exchanges, and the better one is given. Steps are candidates looked at.
    """
    steps = 0
    found = []
    for measure in (in_all, per_step):
        kept, looked = serve_by(measure, candidates, worth)
        kept, more = exchanged(candidates, worth, kept, min(EXCHANGES, options.steps))
        found.append(kept)
        steps += looked + more
    kept = max(found, key=lambda kept: weight_of(candidates, worth, kept))
    return served("greedy", candidates, worth, kept, upper_bound(candidates, worth), steps)


def start_of(candidates: Candidates, worth: Worth, options: Options) -> NDArray[np.bool_]:
    """Where exact solvers begin: the greedy choice, or the places of `options.start` where these
    are worth more."""
    simple = greedy(candidates, worth, options).kept
    given = np.zeros_like(simple)
    given[list(options.start)] = True
    if not possible(candidates, given):
        return simple
    return max(simple, given, key=lambda some: weight_of(candidates, worth, some))


def in_all(value: float, steps: int) -> float:
    """What is saved."""
    return value


def per_step(value: float, steps: int) -> float:
    """What is saved for each step that is taken."""
    return value / steps


def serve_by(
    measure: Measure, candidates: Candidates, worth: Worth
) -> tuple[NDArray[np.bool_], int]:
    """The places chosen by one measure, and the steps that it took."""
    taken = np.zeros(int(candidates.start[-1]), np.bool_)
    kept = np.zeros(len(candidates.query), np.bool_)
    starts = begins(candidates)
    gain, once, length = worth.gain.tolist(), worth.once.tolist(), candidates.length.tolist()

    def rated(i: int, places: int) -> tuple[float, int]:
        return -measure(gain[i] * places - once[i], places * length[i]), i

    places = candidates.places.tolist()
    heap = [rated(i, places[i]) for i in worthwhile(candidates, worth).tolist()]
    heapq.heapify(heap)
    steps = 0
    while heap:
        _, i = heapq.heappop(heap)
        steps += 1
        at = slice(candidates.first[i], candidates.first[i + 1])
        cells = starts[at, None] + np.arange(length[i])
        free = ~taken[cells].any(axis=1)
        number = int(free.sum())
        if gain[i] * number <= once[i] or _queries(candidates.query[at][free]) < FEWEST_QUERIES:
            continue
        # Fewer places are worth less by either measure, so what is rated anew and still ahead of
        # all older ratings is ahead of all.
        now = rated(i, number)
        if heap and now > heap[0]:
            heapq.heappush(heap, now)
            continue
        kept[at] = free
        taken[cells[free]] = True
    return kept, steps


def _queries(query: np.ndarray) -> int:
    """How many different ones there are; equal ones stand together."""
    return int(np.count_nonzero(np.diff(query))) + 1 if len(query) else 0
