"""The same in plain Python: attempts that wait, by prefix, block after block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

NOT_REACHED = -1
Lists = tuple[np.ndarray, np.ndarray]


class _Attempt(NamedTuple):
    began: int
    last: int


def _blocks(key: int, starts: np.ndarray, block: np.ndarray) -> Iterator[list[int]]:
    """The events of a key, those that are simultaneous together."""
    events = range(int(starts[key]), int(starts[key + 1]))
    for _, some in groupby(events, lambda event: int(block[event])):
        yield list(some)


def _listed(lists: Lists, letters: list[int]) -> set[int]:
    starts, nodes = lists
    return {int(n) for one in letters for n in nodes[int(starts[one]) : int(starts[one + 1])]}


def follow_funnels(
    starts: np.ndarray,
    block: np.ndarray,
    ticks: np.ndarray,
    letter: np.ndarray,
    up: tuple[np.ndarray, np.ndarray],
    down: tuple[np.ndarray, np.ndarray],
    cleared: tuple[np.ndarray, np.ndarray],
    parent: np.ndarray,
    depth: np.ndarray,
    width: np.ndarray,
    gaps: np.ndarray,
) -> None:
    """As `kernels.funnels.cpu.follow_funnels`."""
    for key in range(len(starts) - 1):
        waiting: dict[int, _Attempt] = {}
        for events in _blocks(key, starts, block):
            now = int(ticks[events[0]])
            letters = [int(letter[event]) for event in events]
            before, new = dict(waiting), dict[int, _Attempt]()
            rising, shared = _listed(down, letters), _listed(up, letters)
            for node in sorted(rising | shared, key=lambda n: int(depth[n])):
                base = int(parent[node])
                known = before if node in rising else {**before, **new}
                attempt = _Attempt(now, now) if base < 0 else known.get(base)
                if attempt is None or (now - attempt.began >= width[node] and base >= 0):
                    continue
                if gaps[key, node] == NOT_REACHED:
                    gaps[key, node] = now - attempt.last
                new[node] = _Attempt(attempt.began, now)
            ended = _listed(cleared, letters)
            waiting = {n: a for n, a in before.items() if n not in ended} | new


def read_in_turn(
    starts: np.ndarray,
    block: np.ndarray,
    ticks: np.ndarray,
    letter: np.ndarray,
    steps: np.ndarray,
    cleared: np.ndarray,
    sizes: np.ndarray,
    settings: np.ndarray,
    widths: np.ndarray,
    gaps: np.ndarray,
) -> None:
    """As `kernels.funnels.cpu.read_in_turn`."""
    node = 0
    for f, size in enumerate(sizes.tolist()):
        for key in range(len(starts) - 1):
            blocks = list(_blocks(key, starts, block))
            setting = (settings[f].tolist(), int(widths[f]))
            found = _gaps(f, size, blocks, ticks, letter, steps, cleared, *setting)
            for step, gap in enumerate(found):
                gaps[key, node + step] = gap
        node += size


def _gaps(
    f: int, size: int, blocks: list[list[int]], ticks: np.ndarray, letter: np.ndarray,
    steps: np.ndarray, cleared: np.ndarray, settings: list[bool], width: int,
) -> list[int]:  # fmt: skip
    ordered, once, rising = settings
    waiting: dict[int, _Attempt] = {}
    found: list[int] = []
    for events in blocks:
        now = int(ticks[events[0]])
        bits = [int(steps[f, letter[event]]) for event in events]
        if ordered and found and 0 in bits:
            return found
        before, new = dict(waiting), dict[int, _Attempt]()
        items = sorted(step for own in bits for step in range(size) if own >> step & 1)
        for step in items:
            if step and once and len(found) > step:
                return found
            if step and ordered and 0 < len(found) < step:
                return found
            known = before if rising else {**before, **new}
            attempt = known.get(step - 1) if step else _Attempt(now, now)
            if attempt is None or (step and now - attempt.began >= width):
                continue
            new[step] = _Attempt(attempt.began, now)
            if len(found) == step:
                found.append(now - attempt.last)
        ended = {s for e in events for s in range(size) if int(cleared[f, letter[e]]) >> s & 1}
        waiting = {s: a for s, a in before.items() if s not in ended} | new
    return found
