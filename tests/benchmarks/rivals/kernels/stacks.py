"""The automaton with stacks (SASE, Wu et al. 2006): events wait in a stack for each component.

An event is pushed onto the stack of its component if the stack before has an event in the window,
and remembers how high that one was. An event of the last component starts a search backwards along
these marks, depth first; a test is made as soon as both of its events are chosen, and a negation
as soon as all that it depends on is.
"""

from __future__ import annotations

import numba
import numpy as np

from tests.benchmarks.rivals.kernels.given import (
    Comparisons,
    Events,
    Found,
    Gaps,
    doubled,
    holds,
    occurs,
)


def find_by_stacks(
    events: Events, tests: Comparisons, gaps: Gaps, length: int, width: int
) -> Found:
    """The matches of a sequence of the first `length` components within a window of `width`.

    Tests and gaps belong to the component that is bound last where the last one is bound first.
    """
    rows, tried = _find(*events, *tests, *gaps, length, width)
    return Found(rows, int(tried))


@numba.njit(cache=True)
def _find(
    moment: np.ndarray, position: np.ndarray, places: np.ndarray, starts: np.ndarray,
    values: np.ndarray, test_starts: np.ndarray, kind: np.ndarray, other: np.ndarray,
    own: np.ndarray, their: np.ndarray, gap_starts: np.ndarray, negated: np.ndarray,
    gap: np.ndarray, length: int, width: int,
) -> tuple[np.ndarray, int]:  # fmt: skip
    size = starts[length]
    stack, mark = np.empty(size, np.int32), np.empty(size, np.int64)
    bottom, top, seen = starts[:length].copy(), starts[:length].copy(), starts[:length].copy()
    following = starts[:length].copy()  # the next event of each component
    chosen, cursor = np.zeros(length, np.int32), np.zeros(length, np.int64)
    found, count, tried = np.empty((1024, length), np.int32), 0, 0
    last = length - 1
    now = np.int64(-1)
    first_time = True
    while True:
        # The next event of any component; of one that is of several, each in turn.
        at, place = -1, np.int32(2**31 - 1)
        for i in range(length):
            if following[i] < starts[i + 1] and places[following[i]] < place:
                at, place = i, places[following[i]]
        if at < 0:
            break
        following[at] += 1
        if first_time or moment[place] != now:
            first_time = False
            now = moment[place]
            for i in range(length):
                seen[i] = top[i]  # what is simultaneous is not behind it
        opening = position[place] - width
        if at > 0:
            below = at - 1
            while bottom[below] < seen[below] and position[stack[bottom[below]]] <= opening:
                bottom[below] += 1
            if bottom[below] == seen[below]:
                continue
        if at < last:
            stack[top[at]] = place
            mark[top[at]] = seen[at - 1] if at > 0 else 0
            top[at] += 1
            continue
        chosen[last] = place
        tried += 1
        fits = True
        for g in range(gap_starts[last], gap_starts[last + 1]):
            if fits and occurs(
                moment, position, places, starts, values, test_starts, kind, other, own, their,
                negated[g], gap[g], last, width, chosen,
            ):  # fmt: skip
                fits = False
        if not fits:
            continue
        if last == 0:
            if count == found.shape[0]:
                found = doubled(found)
            found[count, 0] = place
            count += 1
            continue
        depth = last - 1
        cursor[depth] = seen[depth] - 1
        while depth < last:
            k = cursor[depth]
            if k < bottom[depth] or position[stack[k]] <= opening:
                depth += 1
                continue
            cursor[depth] = k - 1
            tried += 1
            candidate = stack[k]
            fits = True
            for t in range(test_starts[depth], test_starts[depth + 1]):
                if not holds(
                    kind[t], values[own[t], candidate], values[their[t], chosen[other[t]]]
                ):
                    fits = False
                    break
            if not fits:
                continue
            chosen[depth] = candidate
            for g in range(gap_starts[depth], gap_starts[depth + 1]):
                if fits and occurs(
                    moment, position, places, starts, values, test_starts, kind, other, own, their,
                    negated[g], gap[g], last, width, chosen,
                ):  # fmt: skip
                    fits = False
                    if (
                        gap[g] == depth + 1
                        and test_starts[negated[g]] == test_starts[negated[g] + 1]
                    ):
                        cursor[depth] = bottom[depth] - 1  # it is behind all earlier ones too
            if not fits:
                continue
            if depth == 0:
                if count == found.shape[0]:
                    found = doubled(found)
                for i in range(length):
                    found[count, i] = chosen[i]
                count += 1
                continue
            depth -= 1
            cursor[depth] = mark[k] - 1
    return found[:count].copy(), tried
