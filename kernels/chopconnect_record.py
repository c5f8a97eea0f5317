"""What Chop-Connect keeps of a run between two batches: its record in a state.

Numbers: the boundary that comes next, the last closing of each gate, and for each segment the
number of its STARTs, their positions, for each of its gates the last closing before each, and for
each of its links the number of rows of each START's snapshot. Counts (and floats) and values: those
of each segment's nodes and slots, START by START; then link by link the rows of each START's
snapshot, lane by lane. All snapshots begin with the first START that is kept.
"""

from __future__ import annotations

import numba
import numpy as np

from kernels.counters import pack, unpack


@numba.njit(cache=True)
def most_kept(
    number_run: np.ndarray, numbers: np.ndarray, barred: np.ndarray, linked: np.ndarray
) -> int:
    """The largest number of STARTs of one segment in a record."""
    most = numbers.size - numbers.size
    for r in range(number_run.size - 1):
        at = number_run[r] + 1 + barred[-1]
        while at < number_run[r + 1]:
            for i in range(barred.size - 1):
                size = numbers[at]
                most = max(most, size)
                each = 1 + barred[i + 1] - barred[i] + linked[i + 1] - linked[i]
                at += 1 + size * each
    return most


@numba.njit(cache=True)
def most_counts(count_run: np.ndarray) -> int:
    """The largest number of counts in a record."""
    most = 0
    for r in range(count_run.size - 1):
        most = max(most, count_run[r + 1] - count_run[r])
    return most


@numba.njit(cache=True)
def restore(
    r: int, number_run: np.ndarray, numbers: np.ndarray, count_run: np.ndarray,
    held_counts: np.ndarray, held_floats: np.ndarray, value_run: np.ndarray,
    held_values: np.ndarray, node: np.ndarray, barred: np.ndarray, slotted: np.ndarray,
    linked: np.ndarray, link_last: np.ndarray, laned: np.ndarray, last_closed: np.ndarray,
    tail: np.ndarray, started: np.ndarray, closed: np.ndarray, counts: np.ndarray,
    floats: np.ndarray, values: np.ndarray, row_start: np.ndarray, row_count: np.ndarray,
    row_place: np.ndarray, kept: np.ndarray, kept_f: np.ndarray, kept_v: np.ndarray, dual: bool,
) -> tuple[int, int]:  # fmt: skip
    """Read a run's record; returns the boundary that comes next and how many rows it has."""
    record = numbers[number_run[r] : number_run[r + 1]]
    record_counts = held_counts[count_run[r] : count_run[r + 1]]
    record_floats = held_floats[count_run[r] : count_run[r + 1]] if dual else held_floats
    record_values = held_values[value_run[r] : value_run[r + 1]]
    c, v = _restore_starts(
        record, record_counts, record_floats, record_values, node, barred, slotted, linked,
        last_closed, tail, started, closed, counts, floats, values, row_count,
    )  # fmt: skip
    _restore_rows(
        record_counts[c:], record_floats[c:] if dual else record_floats, record_values[v:],
        link_last, laned, tail, row_start, row_count, row_place, kept, kept_f, kept_v,
    )  # fmt: skip
    return record[0], record_counts.size - c


@numba.njit(cache=True)
def _restore_starts(
    record: np.ndarray, record_counts: np.ndarray, record_floats: np.ndarray,
    record_values: np.ndarray, node: np.ndarray, barred: np.ndarray, slotted: np.ndarray,
    linked: np.ndarray, last_closed: np.ndarray, tail: np.ndarray, started: np.ndarray,
    closed: np.ndarray, counts: np.ndarray, floats: np.ndarray, values: np.ndarray,
    row_count: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Read the STARTs of a run's record; returns how many counts and values were theirs."""
    at = 1 + last_closed.size
    c = v = record.size - record.size
    for i in range(last_closed.size):
        last_closed[i] = record[1 + i]
    for i in range(tail.size):
        size = record[at]
        tail[i] = size
        unpack(record[at + 1 :], size, started[i : i + 1])
        at += 1 + size
        unpack(record[at:], size, closed[barred[i] : barred[i + 1]])
        at += size * (barred[i + 1] - barred[i])
        unpack(record[at:], size, row_count[linked[i] : linked[i + 1]])
        at += size * (linked[i + 1] - linked[i])
        unpack(record_counts[c:], size, counts[node[i] : node[i + 1]])
        if record_floats.size > 0:
            unpack(record_floats[c:], size, floats[node[i] : node[i + 1]])
        c += size * (node[i + 1] - node[i])
        first, end = slotted[node[i]], slotted[node[i + 1]]
        unpack(record_values[v:], size, values[first:end])
        v += size * (end - first)
    return c, v


@numba.njit(cache=True)
def _restore_rows(
    record_counts: np.ndarray, record_floats: np.ndarray, record_values: np.ndarray,
    link_last: np.ndarray, laned: np.ndarray, tail: np.ndarray, row_start: np.ndarray,
    row_count: np.ndarray, row_place: np.ndarray, kept: np.ndarray, kept_f: np.ndarray,
    kept_v: np.ndarray,
) -> None:  # fmt: skip
    """Read the snapshots of a run's record, behind its STARTs."""
    at = v = record_counts.size - record_counts.size
    for j in range(link_last.size):
        for s in range(tail[link_last[j]]):
            size = row_count[j, s]
            row_start[j, s], row_place[j, s] = 0, at
            for i in range(laned[j + 1] - laned[j]):
                for k in range(size):
                    kept_v[i, at + k] = record_values[v + k]
                v += size
            at += size
    for k in range(at):
        kept[k] = record_counts[k]
        if record_floats.size > 0:
            kept_f[k] = record_floats[k]


@numba.njit(cache=True)
def record_sizes(
    head: np.ndarray, tail: np.ndarray, number: np.ndarray, node: np.ndarray, barred: np.ndarray,
    slotted: np.ndarray, linked: np.ndarray, link_last: np.ndarray, link_root: np.ndarray,
    laned: np.ndarray, row_start: np.ndarray, row_count: np.ndarray,
) -> tuple[int, int, int]:  # fmt: skip
    """How many numbers, counts and values a run's record takes."""
    n, c, v = 1 + barred[-1], node[0], node[0]
    for i in range(head.size):
        size = tail[i] - head[i]
        n += 1 + size * (1 + barred[i + 1] - barred[i] + linked[i + 1] - linked[i])
        c += size * (node[i + 1] - node[i])
        v += size * (slotted[node[i + 1]] - slotted[node[i]])
    for j in range(link_last.size):
        first_root = number[link_root[j]] + head[link_root[j]]
        for s in range(head[link_last[j]], tail[link_last[j]]):
            left = max(0, row_start[j, s] + row_count[j, s] - first_root)
            c += left
            v += left * (laned[j + 1] - laned[j])
    return n, c, v


@numba.njit(cache=True)
def save(
    record: np.ndarray, record_counts: np.ndarray, record_floats: np.ndarray,
    record_values: np.ndarray, boundary: int, node: np.ndarray, barred: np.ndarray,
    slotted: np.ndarray, linked: np.ndarray, link_last: np.ndarray, link_root: np.ndarray,
    laned: np.ndarray, last_closed: np.ndarray, head: np.ndarray, tail: np.ndarray,
    number: np.ndarray, started: np.ndarray, closed: np.ndarray, counts: np.ndarray,
    floats: np.ndarray, values: np.ndarray, row_start: np.ndarray, row_count: np.ndarray,
    row_place: np.ndarray, kept_from: int, kept: np.ndarray, kept_f: np.ndarray,
    kept_v: np.ndarray, dual: bool,
) -> None:  # fmt: skip
    """Write a run's record."""
    record[0] = boundary
    for i in range(last_closed.size):
        record[1 + i] = last_closed[i]
    at = 1 + last_closed.size
    c = v = node[0]
    for i in range(head.size):
        h, t = head[i], tail[i]
        record[at] = t - h
        pack(started[i : i + 1], h, t, record[at + 1 :])
        at += 1 + t - h
        pack(closed[barred[i] : barred[i + 1]], h, t, record[at:])
        at += (t - h) * (barred[i + 1] - barred[i])
        for j in range(linked[i], linked[i + 1]):
            first_root = number[link_root[j]] + head[link_root[j]]
            for s in range(h, t):
                record[at] = max(0, row_start[j, s] + row_count[j, s] - first_root)
                at += 1
        pack(counts[node[i] : node[i + 1]], h, t, record_counts[c:])
        if dual:
            pack(floats[node[i] : node[i + 1]], h, t, record_floats[c:])
        c += (t - h) * (node[i + 1] - node[i])
        first, end = slotted[node[i]], slotted[node[i + 1]]
        pack(values[first:end], h, t, record_values[v:])
        v += (t - h) * (end - first)
    for j in range(link_last.size):
        first_root = number[link_root[j]] + head[link_root[j]]
        for s in range(head[link_last[j]], tail[link_last[j]]):
            gone = first_root - row_start[j, s]
            left = max(0, row_count[j, s] - gone)
            place = row_place[j, s] - kept_from + gone
            for k in range(left):
                record_counts[c + k] = kept[place + k]
                if dual:
                    record_floats[c + k] = kept_f[place + k]
            c += left
            for i in range(laned[j + 1] - laned[j]):
                for k in range(left):
                    record_values[v + k] = kept_v[i, place + k]
                v += left
