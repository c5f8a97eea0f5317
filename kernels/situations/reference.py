"""Situations and their matches in plain Python: by looking at every stretch, and every choice."""

from __future__ import annotations

import itertools

import numpy as np

from kernels.situations.cpu import ALL, BY_GAP, FOREVER, ONGOING


def derive_runs(
    starts: np.ndarray, ticks: np.ndarray, holds: np.ndarray, gap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As in `cpu.py`."""
    found = []
    for p, (begin, stop) in enumerate(itertools.pairwise(starts.tolist())):
        runs: list[list[int]] = []
        for moment in range(begin, stop):
            near = moment > begin and not (gap >= 0 and ticks[moment] - ticks[moment - 1] > gap)
            if holds[moment] and near and holds[moment - 1]:
                runs[-1].append(moment)
            elif holds[moment]:
                runs.append([moment])
        for run in runs:
            behind = run[-1] + 1
            ended = BY_GAP if gap >= 0 else ONGOING
            if behind < stop and not (gap >= 0 and ticks[behind] - ticks[run[-1]] > gap):
                ended = behind
            found.append((p, run[0], behind, ended))
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return columns[0], columns[1], columns[2], columns[3]


def _matches(
    offsets: np.ndarray, order: np.ndarray, start: np.ndarray, end: np.ndarray, sure: np.ndarray,
    tick: np.ndarray, run: np.ndarray, masks: np.ndarray, alike: np.ndarray,
    moment_ticks: np.ndarray, width: int, complete: bool,
) -> list[tuple[tuple[int, ...], int]]:  # fmt: skip
    found = []
    names = range(len(order))
    for p in range(offsets.shape[1] - 1):
        streams = [range(int(offsets[k, p]), int(offsets[k, p + 1])) for k in names]
        for choice in itertools.product(*streams):
            moments = [int(sure[y]) for y in choice]
            for j, k in itertools.combinations(names, 2):
                if alike[j, k] and run[choice[j]] == run[choice[k]]:
                    break
                if masks[j, k] == ALL:
                    continue
                x, y = choice[j], choice[k]
                when = _certain(int(masks[j, k]), (start[x], end[x]), (start[y], end[y]), complete)
                if when is None:
                    break
                moments.append(int(when))
            else:
                certain = max(moments)
                time = int(moment_ticks[certain]) if len(moment_ticks) else certain
                if time - min(int(tick[y]) for y in choice) < width:
                    found.append((choice, certain))
    return found


def _certain(
    mask: int, first: tuple[int, int], second: tuple[int, int], complete: bool
) -> int | None:
    (s, e), (t, f) = first, second
    group = {-1: (2, 3, 4), 0: (5, 6, 7), 1: (8, 9, 10)}[int(s > t) - int(s < t)]
    whole = all(mask >> code & 1 for code in group)
    later = max(s, t)
    if not complete and e == f == FOREVER:
        return later if whole else None
    if e <= t:
        code = 0 if e < t else 1
    elif f <= s:
        code = 12 if f < s else 11
    else:
        code = group[1 + int(e > f) - int(e < f)]
    if not mask >> code & 1:
        return None
    return later if complete or code in (0, 1, 11, 12) or whole else min(e, f)


def _of_seed(
    found: list[tuple[tuple[int, ...], int]], order: np.ndarray, seed: np.ndarray
) -> list[tuple[tuple[int, ...], int]]:
    first = order[: len(seed)].tolist()
    return [each for each in found if [each[0][k] for k in first] == seed.tolist()]


def find_matches(
    offsets: np.ndarray, order: np.ndarray, seeds: np.ndarray, partitions: np.ndarray,
    start: np.ndarray, end: np.ndarray, sure: np.ndarray, tick: np.ndarray, run: np.ndarray,
    masks: np.ndarray, implied: np.ndarray, alike: np.ndarray, moment_ticks: np.ndarray,
    width: int, complete: bool, begin: int, room: int,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """As in `cpu.py`, in an order of its own."""
    found = _matches(
        offsets, order, start, end, sure, tick, run, masks, alike, moment_ticks, width, complete
    )  # fmt: skip
    kept: list[tuple[tuple[int, ...], int]] = []
    left = begin
    for seed in seeds.T[begin:]:
        own = _of_seed(found, order, seed)
        if own and kept and len(kept) + len(own) > room:
            break
        kept += own
        left += 1
    chosen = np.array([choice for choice, _ in kept], np.int64).reshape(len(kept), len(order)).T
    return chosen, np.array([certain for _, certain in kept], np.int64), left


def _code(s: int, e: int, t: int, f: int) -> int:
    if e == f == FOREVER:
        return 14 + int(s > t) - int(s < t)
    if e <= t:
        return 0 if e < t else 1
    if f <= s:
        return 12 if f < s else 11
    return 6 + 3 * (int(s > t) - int(s < t)) + int(e > f) - int(e < f)


def relation_codes(
    start: np.ndarray, end: np.ndarray, other: np.ndarray, other_end: np.ndarray
) -> np.ndarray:
    """As in `cpu.py`."""
    edges = zip(start.tolist(), end.tolist(), other.tolist(), other_end.tolist(), strict=True)
    return np.array([_code(*four) for four in edges], np.uint8)


def related_pairs(
    offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray, end: np.ndarray,
    tick: np.ndarray, other: np.ndarray, other_end: np.ndarray, other_tick: np.ndarray, bits: int,
    width: int, most: int,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """As in `cpu.py`."""
    found = []
    for p in range(len(offsets) - 1):
        firsts, seconds = range(*offsets[p : p + 2]), range(*other_offsets[p : p + 2])
        for a, b in itertools.product(firsts, seconds):
            code = _code(int(start[a]), int(end[a]), int(other[b]), int(other_end[b]))
            if abs(int(tick[a]) - int(other_tick[b])) < width and bits >> code & 1:
                found.append((a, b, code))
    if len(found) > most:
        return None
    columns = np.array(found, np.int64).reshape(-1, 3).T
    return columns[:2], columns[2].astype(np.uint8)


def select_matches(
    asked: np.ndarray, chosen: np.ndarray, codes: np.ndarray, sides: np.ndarray, bits: np.ndarray,
    start: np.ndarray, end: np.ndarray, sure: np.ndarray, width: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """As in `cpu.py`, by what is certain of each two."""
    found = []
    for match in asked.tolist():
        some = chosen[:, match]
        moments = [int(sure[y]) for y in some]
        for (i, j), mask in zip(sides.tolist(), bits.tolist(), strict=True):
            a, b = some[i], some[j]
            when = _certain(mask & ALL, (start[a], end[a]), (start[b], end[b]), False)
            moments.append(FOREVER if when is None else int(when))
        certain, first = max(moments), min(int(start[y]) for y in some)
        if certain < FOREVER and certain - first < width:
            found.append((match, first, certain))
    columns = np.array(found, np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]


def count_relations(
    offsets: np.ndarray, other_offsets: np.ndarray, start: np.ndarray, end: np.ndarray,
    tick: np.ndarray, other: np.ndarray, other_end: np.ndarray, other_tick: np.ndarray, width: int,
) -> np.ndarray:  # fmt: skip
    """As in `cpu.py`."""
    counts = np.zeros(16, np.int64)
    for p in range(len(offsets) - 1):
        firsts, seconds = range(*offsets[p : p + 2]), range(*other_offsets[p : p + 2])
        for a, b in itertools.product(firsts, seconds):
            if abs(int(tick[a]) - int(other_tick[b])) < width:
                edges = (start[a], end[a], other[b], other_end[b])
                counts[_code(*map(int, edges))] += 1
    return counts
