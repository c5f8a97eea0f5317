"""Counters that lie side by side, one for each active START: what an event does to them.

Shared by the kernels that keep counters for every START: A-Seq, PreTree, Chop-Connect, SEM and
Fenwick trees. A node's
counters are a row of a table, the STARTs of the window a stretch of its columns.
"""

from __future__ import annotations

import numba
import numpy as np

from kernels.values import NUMBER, combine, neutral

# Stretches of counters are passed as views that begin at 0: with a first and a last number instead,
# the compiler would guard against negative ones and add one counter at a time.


@numba.njit(cache=True)
def add_counts(target: np.ndarray, source: np.ndarray, times: int, clear: bool) -> None:
    """Add the counts before an event, once for each of `times` events; `clear`: to nothing."""
    if clear:
        for s in range(target.size):
            target[s] = source[s] * np.uint64(times)
    elif times == 1:
        for s in range(target.size):
            target[s] += source[s]
    else:
        for s in range(target.size):
            target[s] += source[s] * np.uint64(times)


@numba.njit(cache=True)
def add_floats(target: np.ndarray, source: np.ndarray, times: float, clear: bool) -> None:
    """The same for floating-point ones."""
    if clear:
        for s in range(target.size):
            target[s] = source[s] * times
    else:
        for s in range(target.size):
            target[s] += source[s] * times


@numba.njit(cache=True)
def join_values(kind: int, target: np.ndarray, source: np.ndarray, times: int, clear: bool) -> None:
    """A slot that goes on with its parent's."""
    if kind <= NUMBER:
        add_floats(target, source, float(times), clear)
    else:
        for s in range(target.size):
            kept = neutral(kind) if clear else target[s]
            target[s] = combine(kind, kept, source[s])


@numba.njit(cache=True)
def tag_values(
    kind: int, target: np.ndarray, counts: np.ndarray, floats: np.ndarray, term: float,
    clear: bool, dual: bool,
) -> None:  # fmt: skip
    """A slot of the events' own inputs, once for each way that leads to them."""
    for s in range(target.size):
        kept = neutral(kind) if clear else target[s]
        ways = floats[s] if dual else float(counts[s])
        if ways > 0.0:
            kept = combine(kind, kept, term * ways if kind <= NUMBER else term)
        target[s] = kept


@numba.njit(cache=True)
def add_row(target: np.ndarray, source: np.ndarray) -> None:
    """Add counters to others."""
    for s in range(target.size):
        target[s] += source[s]


@numba.njit(cache=True)
def copy_row(target: np.ndarray, source: np.ndarray) -> None:
    """Put counters into the place of others."""
    for s in range(target.size):
        target[s] = source[s]


@numba.njit(cache=True)
def combine_row(kind: int, target: np.ndarray, source: np.ndarray) -> None:
    """Combine values of a kind with others."""
    for s in range(target.size):
        target[s] = combine(kind, target[s], source[s])


@numba.njit(cache=True)
def fill(target: np.ndarray, value: float) -> None:
    """Set all to one value."""
    for s in range(target.size):
        target[s] = value


@numba.njit(cache=True)
def clear_counts(target: np.ndarray) -> None:
    """Set all to zero."""
    for s in range(target.size):
        target[s] = 0


@numba.njit(cache=True)
def total_count(counts: np.ndarray) -> np.uint64:
    """The sum of all."""
    total = np.uint64(0)
    for s in range(counts.size):
        total += counts[s]
    return total


@numba.njit(cache=True)
def total_value(kind: int, values: np.ndarray) -> float:
    """All values of a kind, combined."""
    total = neutral(kind)
    for s in range(values.size):
        total = combine(kind, total, values[s])
    return total


@numba.njit(cache=True)
def extend(
    node: int, above: int, times: int, clear: bool, head: int, tail: int, dual: bool,
    counts: np.ndarray, floats: np.ndarray, values: np.ndarray, slotted: np.ndarray,
    slot_kind: np.ndarray, slot_source: np.ndarray, term: np.ndarray,
) -> None:  # fmt: skip
    """What a group does to a node's counters of the STARTs before it.

    `above` is the node that it goes on with, -1 if it is a START's own; `term` are the group's
    inputs by slot, combined.
    """
    stays = above < 0 or times == 0
    for slot in range(slotted[node], slotted[node + 1]):
        kind, source = slot_kind[slot], slot_source[slot]
        mine = values[slot, head:tail]
        if stays and clear:
            fill(mine, neutral(kind))
        elif not stays and source >= 0:
            join_values(kind, mine, values[source, head:tail], times, clear)
        elif not stays:
            ways = floats[above, head:tail]
            tag_values(kind, mine, counts[above, head:tail], ways, term[slot], clear, dual)
    if stays and clear:
        clear_counts(counts[node, head:tail])
        if dual:
            fill(floats[node, head:tail], 0.0)
    elif not stays:
        add_counts(counts[node, head:tail], counts[above, head:tail], times, clear)
        if dual:
            add_floats(floats[node, head:tail], floats[above, head:tail], float(times), clear)


@numba.njit(cache=True)
def gather(
    e: int, node: int, slotted: np.ndarray, slot_kind: np.ndarray, slot_source: np.ndarray,
    slot_input: np.ndarray, inputs: np.ndarray, is_first: bool, term: np.ndarray,
) -> None:  # fmt: skip
    """Combine an event's inputs with those of its group's other events that extend a node."""
    for slot in range(slotted[node], slotted[node + 1]):
        if is_first:
            term[slot] = neutral(slot_kind[slot])
        x = inputs[slot_input[slot], e]
        if slot_source[slot] < 0 and not np.isnan(x):
            x = 1.0 if slot_kind[slot] == NUMBER else x
            term[slot] = combine(slot_kind[slot], term[slot], x)


@numba.njit(cache=True)
def move_down(table: np.ndarray, head: int, tail: int) -> None:
    """Move the columns of active STARTs to the front."""
    for row in range(table.shape[0]):
        for s in range(head, tail):
            table[row, s - head] = table[row, s]


@numba.njit(cache=True, inline="always")
def first_after(times: np.ndarray, head: int, tail: int, opening: int) -> int:
    """The first of ascending times, from `head` on, that is after the opening of a window.

    Of STARTs: the first one in the window. Of the closings of a gate before them: the first one
    that finds it closed; a closing is forgotten when it leaves the window.
    """
    while head < tail and times[head] <= opening:
        head += 1
    return head


@numba.njit(cache=True)
def first_held(times: np.ndarray, head: int, tail: int, opening: int) -> int:
    """The same by halves, for windows that are smaller than the widest."""
    while head < tail:
        middle = (head + tail) // 2
        if times[middle] <= opening:
            head = middle + 1
        else:
            tail = middle
    return head


@numba.njit(cache=True)
def boundary_from(position: int, slide: int) -> int:
    """The first multiple of the slide that is not before a position."""
    return -((-position) // slide) * slide


@numba.njit(cache=True)
def ask_at(
    boundary: int, due: np.ndarray, slides: np.ndarray, marked: np.ndarray, queries: np.ndarray,
    asked: np.ndarray,
) -> int:  # fmt: skip
    """Put the queries that are read at a boundary into `asked`; returns how many they are."""
    number = 0
    for m in range(slides.size):
        if due[m] == boundary:
            for i in range(marked[m], marked[m + 1]):
                asked[number] = queries[i]
                number += 1
            due[m] += slides[m]
    return number


@numba.njit(cache=True)
def ask_triggered(
    first: int, last: int, move_letter: np.ndarray, triggered: np.ndarray, triggers: np.ndarray,
    slide: np.ndarray, stamp: np.ndarray, mark: int, asked: np.ndarray,
) -> int:  # fmt: skip
    """The same for the queries that an event of a group triggers, each once."""
    number = 0
    for e in range(first, last):
        for k in range(triggered[move_letter[e]], triggered[move_letter[e] + 1]):
            q = triggers[k]
            if slide[q] == 0 and stamp[q] != mark:
                stamp[q] = mark
                asked[number] = q
                number += 1
    return number


@numba.njit(cache=True)
def sort_down(order: np.ndarray, size: int) -> None:
    """Sort the first numbers of an array, the largest first; they are few."""
    for i in range(1, size):
        number = order[i]
        k = i
        while k > 0 and order[k - 1] < number:
            order[k] = order[k - 1]
            k -= 1
        order[k] = number


@numba.njit(cache=True)
def most_starts(
    run: np.ndarray, position: np.ndarray, event: np.ndarray, move_letter: np.ndarray,
    starts: np.ndarray, width: int,
) -> int:  # fmt: skip
    """The largest number of groups with a START in one window; `starts` says it by letter."""
    most = 0
    for r in range(run.size - 1):
        head = run[r]
        active = 0
        for g in range(run[r], run[r + 1]):
            if not _any(starts, move_letter, event[g], event[g + 1]):
                continue
            active += 1
            while position[head] <= position[g] - width:
                active -= _any(starts, move_letter, event[head], event[head + 1])
                head += 1
            most = max(most, active)
    return most


@numba.njit(cache=True)
def _any(marked: np.ndarray, letter: np.ndarray, first: int, last: int) -> bool:
    for e in range(first, last):  # noqa: SIM110 (compiled)
        if marked[letter[e]]:
            return True
    return False


@numba.njit(cache=True)
def grown(numbers: np.ndarray, size: int) -> np.ndarray:
    """An array with room for so many numbers, and for twice as many as before."""
    larger = np.empty(max(size, 2 * numbers.size), numbers.dtype)
    for i in range(numbers.size):  # a slice would pull in the formatting of its error
        larger[i] = numbers[i]
    return larger


@numba.njit(cache=True)
def with_room(numbers: np.ndarray, size: int) -> np.ndarray:
    """The array, or a larger one where it has no room for so many numbers."""
    return numbers if size <= numbers.size else grown(numbers, size)
