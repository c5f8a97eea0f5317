"""Places chosen greedily, candidate by candidate."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sharing.apriori import FEWEST_QUERIES
from sharing.benefit import Worth
from sharing.candidates import Candidates
from sharing.serve.bound import upper_bound
from sharing.serve.exchange import exchanged
from sharing.serve.places import Served, begins, possible, served, weight_of, worthwhile
from sharing.solve.solution import DEFAULT, Options

EXCHANGES = 50_000  # candidates looked at: about a second
Measure = Callable[[float, int], float]  # of a value, and of the steps that it takes


def greedy(candidates: Candidates, worth: Worth, options: Options = DEFAULT) -> Served:
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
