"""Situations of a definition, and the matches of a pattern over situations.

A situation is a run of moments: `first` is its first one, `last` the one behind its last, and
`ended` the moment that ended it, or `BY_GAP`, or `ONGOING`. Situations of one definition
and partition are apart, so that they have one order by start and by end.
"""

from __future__ import annotations

import numba
import numpy as np

BY_GAP, ONGOING = -1, -2
FOREVER = 2**62  # the end of a situation that goes on
NO_GAP = -1
ALL = (1 << 13) - 1
_MOMENTS_EACH, _LEAST_ROOM = 8, 64  # of a situation, to guess how many there are
_EIGHT_HOLD = np.uint64(0x0101010101010101)
BEFORE, MEETS, MET_BY, AFTER = 1, 2, 1 << 11, 1 << 12
_GROUPS = (0b11100, 0b11100000, 0b11100000000)  # prefix groups: earlier, together, later start


def derive_runs(
    starts: np.ndarray, ticks: np.ndarray, holds: np.ndarray, gap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Partition, first moment, moment behind the last, and what ended each situation.

    Partitions of moments begin at `starts`; the condition `holds` at a moment or not. A distance of
    more than `gap` ticks ends a situation, if it is not `NO_GAP`.
    """
    if not (holds.flags.c_contiguous and holds.flags.writeable and holds.ctypes.data % 8 == 0):
        holds = holds.copy()  # the kernel is compiled for arrays of one sort
    words = holds[: len(holds) // 8 * 8].view(np.uint64)
    room = len(holds) // _MOMENTS_EACH + _LEAST_ROOM
    while True:
        found = np.empty((4, room), np.int64)
        number = _derive(starts, ticks, holds, words, gap, *found)
        if number <= room:
            partition, first, last, ended = found
            return partition[:number], first[:number], last[:number], ended[:number]
        room = number


@numba.njit(cache=True, nogil=True)
def _derive(
    starts: np.ndarray, ticks: np.ndarray, holds: np.ndarray, words: np.ndarray, gap: int,
    partition: np.ndarray, first: np.ndarray, last: np.ndarray, ended: np.ndarray,
) -> int:  # fmt: skip
    found = 0
    room = len(first)
    skips = gap < 0  # eight moments at once, where nothing changes in them
    for p in range(len(starts) - 1):
        row, end = starts[p], starts[p + 1]
        begun = np.int64(-1)
        while row < end:
            same = _EIGHT_HOLD if begun >= 0 else np.uint64(0)
            if skips and row & 7 == 0 and row + 8 <= end and words[row >> 3] == same:
                row += 8
                continue
            held = holds[row]
            if begun >= 0:
                silent = gap >= 0 and ticks[row] - ticks[row - 1] > gap
                if silent or not held:
                    if found < room:
                        partition[found], first[found], last[found] = p, begun, row
                        ended[found] = BY_GAP if silent else row
                    found += 1
                    begun = np.int64(-1)
            if held and begun < 0:
                begun = row
            row += 1
        if begun >= 0:
            if found < room:
                partition[found], first[found], last[found] = p, begun, end
                ended[found] = BY_GAP if gap >= 0 else ONGOING
            found += 1
    return found


@numba.njit(cache=True, nogil=True, inline="always")
def _relation(start: int, end: int, other: int, other_end: int) -> int:
    """The place of Allen's relation of one stretch to another."""
    if end <= other:
        return 0 if end < other else 1
    if other_end <= start:
        return 12 if other_end < start else 11
    by_end = 0 if end < other_end else (1 if end == other_end else 2)
    if start < other:
        return 2 + by_end
    return 5 + by_end if start == other else 8 + by_end


@numba.njit(cache=True, nogil=True)
def _first_at_least(values: np.ndarray, low: int, high: int, bound: int) -> int:
    while low < high:
        middle = (low + high) // 2
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def _certain(mask: int, s: int, e: int, other: int, other_end: int, complete: bool) -> int:
    """When a relation of the mask is certain to hold; `FOREVER` where none does, or none yet."""
    second = max(s, other)
    if not complete and e == FOREVER and other_end == FOREVER:
        group = _GROUPS[0] if s < other else (_GROUPS[1] if s == other else _GROUPS[2])
        return second if mask & group == group else FOREVER
    code = _relation(s, e, other, other_end)
    if not mask >> code & 1:
        return FOREVER
    if complete or code <= 1 or code >= 11:
        return second
    group = _GROUPS[(code - 2) // 3]
    return second if mask & group == group else min(e, other_end)


@numba.njit(cache=True, nogil=True)
def _near(values: np.ndarray, low: int, high: int, bound: int, hint: int) -> int:
    """The first place of some whose value is at least `bound`, looked for from `hint` on.

    It is asked for one place after the other, which mostly lie side by side.
    """
    place = min(max(hint, low), high)
    step = 1
    if place < high and values[place] < bound:
        low = place + 1
        probe = low
        while probe < high and values[probe] < bound:
            low = probe + 1
            step *= 2
            probe = low + step
        high = min(probe, high)
    else:
        high = place
        probe = place - 1
        while probe >= low and values[probe] >= bound:
            high = probe
            step *= 2
            probe = high - step
        low = max(low, probe + 1)
    return _first_at_least(values, low, high, bound)


@numba.njit(cache=True, nogil=True)
def _join(
    offsets: np.ndarray, order: np.ndarray, seeds: np.ndarray, partitions: np.ndarray, begin: int,
    start: np.ndarray, end: np.ndarray, sure: np.ndarray, tick: np.ndarray, run: np.ndarray,
    masks: np.ndarray, implied: np.ndarray, alike: np.ndarray, moment_ticks: np.ndarray,
    width: int, complete: bool, chosen: np.ndarray, certain: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    names, seeded, room = len(order), len(seeds), len(certain)
    at = np.zeros(names, np.int64)
    high = np.zeros(names, np.int64)
    least = np.zeros(names, np.int64)  # the first tick so far
    known = np.zeros(names, np.int64)  # the moment at which all so far is certain
    # Where the searches for candidates ended last, by what they look for.
    ended = np.zeros((names, 2), np.int64)
    bounds = np.zeros((names, names, 4), np.int64)
    found = 0
    for top in range(begin, len(partitions)):
        partition = partitions[top]
        before = found
        for m in range(seeded):
            at[m], high[m] = seeds[m, top], seeds[m, top] + 1
        level = 0
        while level >= 0:
            if at[level] >= high[level]:
                level -= 1
                continue
            k = order[level]
            y = at[level]
            at[level] += 1
            moment = sure[y]
            first = tick[y]
            ok = True
            if level > 0:
                moment = max(moment, known[level - 1])
                first = min(first, least[level - 1])
                for m in range(level):
                    j = order[m]
                    x = at[m] - 1
                    mask = masks[j, k]
                    if alike[j, k] and run[x] == run[y]:
                        ok = False
                        break
                    if mask != ALL:
                        when = _certain(mask, start[x], end[x], start[y], end[y], complete)
                        if when == FOREVER:
                            ok = False
                            break
                        moment = max(moment, when)
            if not ok:
                continue
            time = moment_ticks[moment] if len(moment_ticks) else moment
            if time - first >= width:
                continue
            if level == names - 1:
                if found < room:
                    for m in range(names):
                        chosen[order[m], found] = at[m] - 1
                    certain[found] = moment
                elif before:  # the seed is left for the next time
                    return before, top
                found += 1
                continue
            known[level] = moment
            least[level] = first
            level += 1
            if level < seeded:
                at[level] = seeds[level, top]
                continue
            k = order[level]
            low, up = offsets[k, partition], offsets[k, partition + 1]
            for m in range(level):
                j = order[m]
                x = at[m] - 1
                mask = implied[j, k]
                if mask == ALL:
                    continue
                hints = bounds[level, m]
                if not mask & AFTER:
                    bound = start[x] + (0 if mask & MET_BY else 1)
                    low = hints[0] = _near(end, low, up, bound, hints[0])
                if not mask & BEFORE:
                    bound = end[x] + (1 if mask & MEETS else 0)
                    up = hints[1] = _near(start, low, up, bound, hints[1])
                if not mask & ~(BEFORE | MEETS):
                    low = hints[2] = _near(start, low, up, end[x], hints[2])
                if not mask & ~(AFTER | MET_BY):
                    up = hints[3] = _near(end, low, up, start[x] + 1, hints[3])
            low = ended[level, 0] = _near(tick, low, up, time - width + 1, ended[level, 0])
            up = ended[level, 1] = _near(tick, low, up, first + width, ended[level, 1])
            at[level], high[level] = low, up
        if found > room:
            return found, top
    return found, len(partitions)


def find_matches(
    offsets: np.ndarray, order: np.ndarray, seeds: np.ndarray, partitions: np.ndarray,
    start: np.ndarray, end: np.ndarray, sure: np.ndarray, tick: np.ndarray, run: np.ndarray,
    masks: np.ndarray, implied: np.ndarray, alike: np.ndarray, moment_ticks: np.ndarray,
    width: int, complete: bool, begin: int, room: int,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """The matches of the seeds from `begin` on that there is room for, and the first seed left.

    Of a match by name its situation, and the moment at which it is certain. A seed is a situation
    of each of the first names in `order`, a column of `seeds`, of one of the `partitions`; it is
    given with all its matches, of which the first may be more than there is room for. Situations of
    name k and partition p are those from `offsets[k, p]` on. Each has a `start` and an `end`,
    numbers of moments, a `tick`, a number `run` that tells it from others of its definition, and
    the moment at which it is `sure` by itself. `masks[j, k]` has the relations that situations of j
    may have to those of k, `implied` those that are left by all constraints; names that are `alike`
    may not stand for one situation. Moments are ticks, or numbers of `moment_ticks`.
    """
    while True:
        chosen, certain = np.empty((len(order), room), np.int64), np.empty(room, np.int64)
        found, left = _join(
            offsets, order, seeds, partitions, begin, start, end, sure, tick, run, masks, implied,
            alike, moment_ticks, width, complete, chosen, certain,
        )  # fmt: skip
        if found <= room:
            return chosen[:, :found], certain[:found], left
        room = found


def relation_codes(
    start: np.ndarray, end: np.ndarray, other: np.ndarray, other_end: np.ndarray
) -> np.ndarray:
    """The relation of each stretch to another, as the place of its bit in a mask.

    Of two that both go on only the order of their starts is known: 13, 14 and 15 stand for the
    three groups of relations that this leaves.
    """
    codes = np.empty(len(start), np.uint8)
    _relation_codes(start, end, other, other_end, codes)
    return codes


@numba.njit(cache=True, nogil=True)
def _relation_codes(
    start: np.ndarray, end: np.ndarray, other: np.ndarray, other_end: np.ndarray, codes: np.ndarray
) -> None:
    for i in range(len(codes)):
        s, t = start[i], other[i]
        if end[i] == FOREVER and other_end[i] == FOREVER:
            codes[i] = 13 if s < t else (14 if s == t else 15)
        else:
            codes[i] = _relation(s, end[i], t, other_end[i])


def related_pairs(
    offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray, end: np.ndarray,
    tick: np.ndarray, other: np.ndarray, other_end: np.ndarray, other_tick: np.ndarray, bits: int,
    width: int, most: int,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """The pairs of situations of two names that start in one window and have a relation of a mask
    with groups, and what that is, as `relation_codes` has it; None where they are more than `most`.

    Each name's are in order, those of partition p from `offsets[p]` on.
    """
    room = min(2 * (len(start) + len(other)) + _LEAST_ROOM, most)
    while True:
        pairs, codes = np.empty((2, room), np.int64), np.empty(room, np.uint8)
        number = _related_pairs(
            offsets, other_offsets, start, end, tick, other, other_end, other_tick, bits, width,
            pairs, codes,
        )  # fmt: skip
        if number <= room:
            return pairs[:, :number], codes[:number]
        if number > most:
            return None
        room = number


@numba.njit(cache=True, nogil=True)
def _related_pairs(
    offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray, end: np.ndarray,
    tick: np.ndarray, other: np.ndarray, other_end: np.ndarray, other_tick: np.ndarray, bits: int,
    width: int, pairs: np.ndarray, codes: np.ndarray,
) -> int:  # fmt: skip
    # Situations of a name are apart, so that all places move on with the first name's.
    found, room = 0, len(codes)
    for p in range(len(offsets) - 1):
        low, stop = other_offsets[p], other_offsets[p + 1]
        touching, behind, up = low, low, low
        for a in range(offsets[p], offsets[p + 1]):
            s, e, t = start[a], end[a], tick[a]
            while low < stop and other_tick[low] <= t - width:
                low += 1
            while up < stop and other_tick[up] < t + width:
                up += 1
            while touching < stop and other_end[touching] < s:
                touching += 1
            behind = max(behind, touching)
            while behind < stop and other[behind] <= e:
                behind += 1
            begin = low if bits & AFTER else max(low, touching)
            for b in range(begin, up if bits & BEFORE else min(up, behind)):
                if e == FOREVER and other_end[b] == FOREVER:
                    code = 13 if s < other[b] else (14 if s == other[b] else 15)
                else:
                    code = _relation(s, e, other[b], other_end[b])
                if bits >> code & 1:
                    if found < room:
                        pairs[0, found], pairs[1, found], codes[found] = a, b, code
                    found += 1
    return found


def select_matches(
    asked: np.ndarray, chosen: np.ndarray, codes: np.ndarray, sides: np.ndarray, bits: np.ndarray,
    start: np.ndarray, end: np.ndarray, sure: np.ndarray, width: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Of the matches that are asked for, by number, those that a pattern takes: their numbers,
    first ticks, and the ticks at which they are certain.

    A match is one situation of each name, a column of `chosen`. `codes[p]` are the relations of the
    two names `sides[p]` as `relation_codes` has them, `bits[p]` the mask that the pattern has for
    them, with groups. A situation is sure by itself at a tick, `FOREVER` for never.
    """
    room = len(asked)
    found = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    number = _select(asked, chosen, codes, sides, bits, start, end, sure, width, *found)
    numbers, first, certain = (values[:number] for values in found)
    return numbers, first, certain


@numba.njit(cache=True, nogil=True)
def _select(
    asked: np.ndarray, chosen: np.ndarray, codes: np.ndarray, sides: np.ndarray, bits: np.ndarray,
    start: np.ndarray, end: np.ndarray, sure: np.ndarray, width: int, numbers: np.ndarray,
    first: np.ndarray, certain: np.ndarray,
) -> int:  # fmt: skip
    found = 0
    for match in asked:
        moment = np.int64(-FOREVER)
        ok = True
        for pair in range(len(bits)):
            code = codes[pair, match]
            if not bits[pair] >> code & 1:
                ok = False
                break
            a, b = chosen[sides[pair, 0], match], chosen[sides[pair, 1], match]
            group = np.int64(code if code > 12 else 13 + (code - 2) // 3)
            if code <= 1 or code == 11 or code == 12 or bits[pair] >> group & 1:
                moment = max(moment, start[a], start[b])
            else:
                moment = max(moment, min(end[a], end[b]))
        if not ok:
            continue
        least = np.int64(FOREVER)
        for name in range(len(chosen)):
            y = chosen[name, match]
            moment, least = max(moment, sure[y]), min(least, start[y])
        if moment < FOREVER and moment - least < width:
            numbers[found], first[found], certain[found] = match, least, moment
            found += 1
    return found


def with_groups(mask: int) -> int:
    """A mask with the bits of the groups that are wholly in it."""
    for place, group in enumerate(_GROUPS):
        if mask & group == group:
            mask |= 1 << 13 + place
    return mask


def count_relations(
    offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray, end: np.ndarray,
    tick: np.ndarray, other: np.ndarray, other_end: np.ndarray, other_tick: np.ndarray, width: int,
) -> np.ndarray:  # fmt: skip
    """How many pairs of situations of two names have each relation, starting in one window.

    Each name's are in order, those of partition p from `offsets[p]` on.
    """
    counts = np.zeros(16, np.int64)
    _count_relations(
        offsets, other_offsets, start, end, tick, other, other_end, other_tick, width, counts
    )
    return counts


@numba.njit(cache=True, nogil=True)
def _count_relations(
    offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray, end: np.ndarray,
    tick: np.ndarray, other: np.ndarray, other_end: np.ndarray, other_tick: np.ndarray, width: int,
    counts: np.ndarray,
) -> None:  # fmt: skip
    # Situations of a name are apart, so that all four places move on with the first name's.
    for p in range(len(offsets) - 1):
        low, stop = other_offsets[p], other_offsets[p + 1]
        touching, behind, up = low, low, low
        for a in range(offsets[p], offsets[p + 1]):
            while low < stop and other_tick[low] <= tick[a] - width:
                low += 1
            while touching < stop and other_end[touching] < start[a]:
                touching += 1
            behind = max(behind, touching)
            while behind < stop and other[behind] <= end[a]:
                behind += 1
            while up < stop and other_tick[up] < tick[a] + width:
                up += 1
            counts[12] += max(min(touching, up) - low, 0)
            counts[0] += max(up - max(behind, low), 0)
            for b in range(max(touching, low), min(behind, up)):
                if end[a] == FOREVER and other_end[b] == FOREVER:
                    counts[13 if start[a] < other[b] else (14 if start[a] == other[b] else 15)] += 1
                else:
                    counts[_relation(start[a], end[a], other[b], other_end[b])] += 1


def warm() -> None:
    """Compile the kernels, or load them from the cache, before they are needed."""
    rows, ticks = np.array([0, 1]), np.array([0])
    derive_runs(rows, ticks, np.ones(1, bool), NO_GAP)
    masks = np.full((1, 1), ALL)
    given = (
        *(np.array([[0, 1]]), np.array([0]), np.array([[0]]), np.array([0])),
        *(ticks, ticks + 1, ticks, ticks, ticks, masks, masks),
        *(np.zeros((1, 1), bool), ticks[:0], 2, False),
    )
    find_matches(*given, 0, 1)
    relation_codes(ticks, ticks, ticks, ticks)
    count_relations(rows, rows, ticks, ticks, ticks, ticks, ticks, ticks, 2)
    related_pairs(rows, rows, ticks, ticks, ticks, ticks, ticks, ticks, ALL, 2, 9)
    chosen, codes, bits = np.zeros((2, 1), np.int64), np.zeros((1, 1), np.uint8), np.array([ALL])
    select_matches(rows[:1], chosen, codes, np.array([[0, 1]]), bits, ticks, ticks, ticks, 2)
