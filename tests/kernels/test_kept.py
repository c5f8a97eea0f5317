"""Counters that go on from call to call are those of the plain-Python ones, from scratch."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.kept import cpu, reference
from kernels.prefixes.cpu import PrefixTree
from kernels.reversible.cpu import Steps
from tests.kernels.tables import random_groups, random_table

MOVES, STAYS, WIDTH = 5, 3, 9


def timed(random):
    """Groups of several runs in the order of time."""
    found = random_groups(random, MOVES, STAYS)
    run = np.repeat(np.arange(len(found.run) - 1), np.diff(found.run))
    order = np.argsort(found.position, kind="stable")
    sizes = np.diff(found.event)[order]
    letters = [found.move_letter[found.event[g] : found.event[g + 1]] for g in order]
    return cpu.TimedGroups(
        run[order],
        found.position[order],
        np.append(0, np.cumsum(sizes)),
        found.stay_letter[order],
        np.concatenate([np.zeros(0, np.int64), *letters]),
        np.zeros((0, len(found.move_letter))),
    ), len(found.run) - 1


def chain_steps(random):
    """The steps of sequences over letters: each adds a prefix's count to the next one's."""
    sequences = [random.permutation(MOVES)[: random.integers(1, 4)] for _ in range(2)]
    first = np.cumsum([0, *(len(s) + 1 for s in sequences)])
    start = np.zeros(first[-1], np.uint64)
    start[first[:-1]] = 1
    levels = max(map(len, sequences)) + 1
    arrive = []  # by letter and level
    for letter in range(MOVES):
        on = [(f + i + 1, f + i, i + 1) for f, s in zip(first, sequences, strict=False)
              for i, x in enumerate(s) if x == letter]  # fmt: skip
        arrive += ([(into, of) for into, of, at in on if at == levels - 1 - level]
                   for level in range(levels))  # fmt: skip
    # What leaves is divided off on the left, which needs the counts of suffixes: none here, so
    # that windows hold all groups.
    leave = [[] for _ in arrive]

    def table(rows):
        pointers = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
        flat = [pair for row in rows for pair in row]
        return pointers, *(np.array([p[i] for p in flat], np.uint32) for i in (0, 1))

    triggers = [[q for q, s in enumerate(sequences) if s[-1] == x] for x in range(MOVES)]
    trigger = np.cumsum([0, *map(len, triggers)]).astype(np.uint64)
    asked = np.array([q for row in triggers for q in row], np.uint64)
    finals = (first[1:] - 1).astype(np.uint64)
    final = np.arange(len(sequences) + 1).astype(np.uint64)
    return Steps(start, np.zeros(1, np.int64), levels, *table(arrive), *table(leave), trigger,
                 asked, final, finals)  # fmt: skip


def prefix_tree(random):
    nodes, queries = (int(random.integers(1, n)) for n in (7, 4))
    parent = np.array([random.integers(-1, node) for node in range(nodes)], np.int64)
    none, ends = np.zeros(0, np.int64), np.zeros(nodes + 1, np.int64)
    return PrefixTree(
        parent, *random_table(random, MOVES, nodes, 0.4), *random_table(random, STAYS, nodes, 0.2),
        np.zeros(STAYS + 1, np.int64), none, np.zeros(1, np.int64), ends, none, none, none,
        *random_table(random, MOVES, queries, 0.4), random.permutation(queries),
        random.integers(0, nodes, queries), np.full(queries, -1),
        np.zeros(queries + 1, np.int64), none,
    )  # fmt: skip


def rows_of(out, made):
    columns = (column[:made].tolist() for column in out[:4])
    return sorted(zip(*columns, strict=True))


def room(size):
    numbers = (np.zeros(size, np.int64) for _ in range(3))
    return cpu.KeptRows(*numbers, np.zeros(size, np.uint64), np.zeros((size, 0)))


def in_calls(random, advance, groups, slide, least):
    """The rows of calls that each take some more groups; no room is larger than it has to be."""
    many = len(groups.position)
    found, head, taken, since = [], 0, 0, -1
    while taken < many:
        end = min(many, taken + int(random.integers(1, 6)))
        while end < many and groups.position[end] == groups.position[end - 1]:
            end += 1
        limit = int(groups.position[end - 1])
        progress = np.zeros(cpu.PROGRESS, np.int64)
        progress[[cpu.HEAD, cpu.NEXT, cpu.END]] = head, taken, end
        progress[cpu.BOUNDARY] = (since // slide + 1) * slide if slide else 0
        done = False
        while not done:
            out = room(least)
            done = advance(groups, progress, limit, slide, out)
            found += rows_of(out, progress[cpu.ROWS])
        head, taken, since = int(progress[cpu.HEAD]), end, limit
    return sorted(found), since


def whole(advance, groups, slide, limit, most):
    progress = np.zeros(cpu.PROGRESS, np.int64)
    progress[cpu.END] = len(groups.position)
    out = room(most)
    assert advance(groups, progress, limit, slide, out)
    return rows_of(out, progress[cpu.ROWS])


@pytest.mark.parametrize("slide", [0, 1, 4])
@pytest.mark.parametrize("seed", range(40))
def test_prefix_counts_that_go_on_are_those_of_the_reference(seed, slide):
    random = np.random.default_rng(seed)
    (groups, runs), tree = timed(random), prefix_tree(random)
    many = len(groups.position)
    none = np.zeros(many, np.int64)
    starts = cpu.KeptStarts(
        np.zeros((many, len(tree.parent)), np.uint64), none, none.copy(),
        np.full(runs, -1), np.full(runs, -1), np.zeros(1, np.int64),
    )  # fmt: skip

    def compiled(*given):
        return cpu.advance_prefixes(*given[:3], starts, tree, WIDTH, *given[3:])

    def plain(*given):
        return reference.advance_prefixes(*given[:3], starts, tree, WIDTH, *given[3:])

    queries = len(tree.query)
    found, limit = in_calls(random, compiled, groups, slide, max(1, queries * runs))
    assert found == whole(plain, groups, slide, limit, queries * (many + 1) * (limit + 2) * runs)


@pytest.mark.parametrize("slide", [0, 1, 4])
@pytest.mark.parametrize("seed", range(40))
def test_reversible_counts_that_go_on_are_those_of_the_reference(seed, slide):
    random = np.random.default_rng(seed)
    (groups, runs), steps = timed(random), chain_steps(random)
    counts = np.tile(steps.start, (runs, 1))
    width = 10**6

    def compiled(*given):
        return cpu.advance_reversible(*given[:3], counts, steps, width, *given[3:])

    def plain(*given):
        return reference.advance_reversible(*given[:3], counts, steps, width, *given[3:])

    found, limit = in_calls(random, compiled, groups, slide, 2 * runs)
    assert found == whole(plain, groups, slide, limit, 4 * (len(groups.run) + 1) * (limit + 2) * 3)
