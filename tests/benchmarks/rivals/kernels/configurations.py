"""The automaton with configurations (Odense thesis, section 2.3): all partial matches are kept.

A configuration is a state with the events bound so far. An event of the next component is tried
with every configuration of the state before it, and each that takes it is copied; `E+` has an edge
that takes further events. Configurations whose window has passed, or that a negated event spoiled,
are dropped once they are half of their state's. (The thesis looks at the configurations of all
states for each event, and finds their events by version numbers; looking at those of one state,
with their events copied, is quicker.)
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tests.benchmarks.rivals.kernels.given import Comparisons, Events, Gaps, doubled, holds, occurs


class FoundGroups(NamedTuple):
    """Matches as in `Found`; of an `E+` a row has the number of a member instead of a place.

    A member is the place of an event, and the number of the member before it, or -1.
    """

    rows: np.ndarray
    member: np.ndarray
    before: np.ndarray
    tried: int


def find_by_configurations(
    events: Events, tests: Comparisons, gaps: Gaps, plus: np.ndarray, length: int, width: int
) -> FoundGroups:
    """The matches of a sequence of the first `length` components within a window of `width`.

    `plus` tells which components are `E+`; these have no tests and stand next to no gap. Tests and
    gaps belong to the component that is bound last where the first one is bound first.
    """
    rows, members, tried = _find(*events, *tests, *gaps, plus, length, width)
    return FoundGroups(rows[:, :length].copy(), members[:, 0], members[:, 1], int(tried))


@numba.njit(cache=True)
def _current(
    rows: np.ndarray, count: int, length: int, moment: np.ndarray, position: np.ndarray,
    opening: int, spoiled: int,
) -> int:  # fmt: skip
    """Keep the configurations that can become matches, in their order; how many there are.

    Their first event is in the window, and their last one is not before the moment `spoiled`.
    """
    kept = 0
    for k in range(count):
        if position[rows[k, length + 1]] > opening and moment[rows[k, length]] >= spoiled:
            if kept < k:
                for i in range(length + 2):
                    rows[kept, i] = rows[k, i]
            kept += 1
    return kept


@numba.njit(cache=True)
def _find(
    moment: np.ndarray, position: np.ndarray, places: np.ndarray, starts: np.ndarray,
    values: np.ndarray, test_starts: np.ndarray, kind: np.ndarray, other: np.ndarray,
    own: np.ndarray, their: np.ndarray, gap_starts: np.ndarray, negated: np.ndarray,
    gap: np.ndarray, plus: np.ndarray, length: int, width: int,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    last = length - 1
    # Of each state the configurations that are in it: places, the last event, the first.
    states = [np.empty((64, length + 2), np.int32) for _ in range(length)]
    counts = np.zeros(length, np.int64)
    found, finished, tried = np.empty((1024, length + 2), np.int32), 0, 0
    members, many = np.empty((64, 2), np.int32), 0
    following = starts[:length].copy()
    chosen = np.zeros(length + 2, np.int32)
    spoiled = np.full(length, np.iinfo(np.int64).min)
    plain, behind = np.zeros(gap.size, np.bool_), np.zeros(gap.size, np.int64)
    for g in range(gap.size):
        plain[g] = 0 < gap[g] < length and test_starts[negated[g]] == test_starts[negated[g] + 1]
        behind[g] = starts[negated[g]]
    while True:
        at, place = -1, np.int32(2**31 - 1)
        for i in range(length):
            if following[i] < starts[i + 1] and places[following[i]] < place:
                at, place = i, places[following[i]]
        if at < 0:
            break
        following[at] += 1
        now, opening = moment[place], position[place] - width
        # A negated event that asks nothing spoils all configurations of before it, for good.
        for g in range(gap_starts[at], gap_starts[at + 1]):
            if plain[g]:
                while behind[g] < starts[negated[g] + 1] and moment[places[behind[g]]] < now:
                    spoiled[at - 1] = max(spoiled[at - 1], moment[places[behind[g]]])
                    behind[g] += 1
        # The begin edge comes from the state before, the take edge from the component's own.
        for source in range(at - 1, at + 1 if plus[at] else at):
            begins = source < at
            size = 1 if source < 0 else counts[source]
            rows = states[max(source, 0)]
            expired = 0
            for k in range(size):
                if source >= 0:
                    if (
                        position[rows[k, length + 1]] <= opening
                        or moment[rows[k, length]] < spoiled[source]
                    ):
                        expired += 1
                        continue
                    tried += 1
                    if moment[rows[k, length]] >= now:
                        break  # the others are as late
                fits = True
                if begins:
                    for t in range(test_starts[at], test_starts[at + 1]):
                        if not holds(
                            kind[t], values[own[t], place], values[their[t], rows[k, other[t]]]
                        ):
                            fits = False
                            break
                if not fits:
                    continue
                if source >= 0:
                    for i in range(length + 2):
                        chosen[i] = rows[k, i]
                else:
                    chosen[length + 1] = place
                chosen[length] = place
                if plus[at]:
                    if many == members.shape[0]:
                        members = doubled(members)
                    members[many, 0] = place
                    members[many, 1] = -1 if begins else chosen[at]
                    chosen[at] = many
                else:
                    chosen[at] = place
                for g in range(gap_starts[at], gap_starts[at + 1]):
                    if fits and not plain[g] and occurs(
                        moment, position, places, starts, values, test_starts, kind, other, own,
                        their, negated[g], gap[g], last, width, chosen,
                    ):  # fmt: skip
                        fits = False
                if not fits:
                    continue
                many += plus[at]
                if at == last:
                    if finished == found.shape[0]:
                        found = doubled(found)
                    for i in range(length + 2):
                        found[finished, i] = chosen[i]
                    finished += 1
                if at < last or plus[at]:
                    target = states[at]
                    if counts[at] == target.shape[0]:
                        if source < at:
                            counts[at] = _current(
                                target, counts[at], length, moment, position, opening, spoiled[at]
                            )
                        if 2 * counts[at] > target.shape[0]:
                            states[at] = doubled(target)
                            target = states[at]
                    for i in range(length + 2):
                        target[counts[at], i] = chosen[i]
                    counts[at] += 1
            if source >= 0 and 2 * expired > size:
                counts[source] = _current(
                    states[source], counts[source], length, moment, position, opening,
                    spoiled[source],
                )  # fmt: skip
    return found[:finished].copy(), members[:many].copy(), tried
