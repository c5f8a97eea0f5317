"""Random small inputs for kernels: groups of letters, and tables by letter."""

from __future__ import annotations

import itertools

import numpy as np

from kernels.groups import Groups, ResultRows, Spans

MIXED = -1  # each query has a slide of its own, or none


def random_groups(random, moves, stays, inputs=2, most=24):
    """Groups of up to three events, in a few runs, with nulls among the inputs."""
    run = np.cumsum([0, *random.integers(0, most, random.integers(1, 4))])
    groups = int(run[-1])
    sizes = random.choice([1, 1, 1, 2, 3], groups)
    events = int(sizes.sum())
    values = random.integers(-3, 4, (inputs, events)).astype(float)
    values[random.random(values.shape) < 0.2] = np.nan
    position = np.zeros(groups, np.int64)
    for first, last in itertools.pairwise(run):
        position[first:last] = np.cumsum(random.integers(0, 3, last - first))
    return Groups(
        run=run,
        limit=np.array([position[last - 1] if last else 0 for last in run[1:]]) + 5,
        position=position,
        stay_letter=random.integers(0, stays, groups),
        event=np.append(0, np.cumsum(sizes)),
        move_letter=random.integers(0, moves, events),
        inputs=values,
    )


def random_table(random, rows, below, chance):
    """Pointers by row, and for each row a random set of the numbers below a bound."""
    found = [np.flatnonzero(random.random(below) < chance) for _ in range(rows)]
    return np.cumsum([0, *map(len, found)]), np.concatenate([np.zeros(0, np.int64), *found])


def random_slots(random, parent, chance):
    """Values that are carried along a tree: rows of node, kind, source and input, and by node.

    Each of a parent's is carried on with this chance.
    """
    slots, of_node = [], {}
    for node in range(len(parent)):
        carried = [s for s in of_node.get(parent[node], []) if random.random() < chance]
        of_node[node] = []
        for source in carried + [-1] * int(random.random() < 0.6):
            kind, column = random.integers(0, 4), random.integers(0, 2)
            if source >= 0:
                _, kind, _, column = slots[source]
            of_node[node].append(len(slots))
            slots.append((node, kind, source, column))
    return np.array(slots, np.int64).reshape(-1, 4), of_node


def random_spans(random, queries, most, slide):
    """Windows of up to so much, some of them alike, read at this slide."""
    width = random.choice(random.integers(1, most, 2), queries)
    slides = random.choice([0, 1, 3, 25], queries) if slide == MIXED else np.full(queries, slide)
    return Spans(width, slides.astype(np.int64))


def empty_rows(capacity, dual, values):
    return ResultRows(
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.uint64),
        np.zeros(capacity if dual else 0),
        np.zeros((capacity, values)),
    )


def assert_same_rows(found, expected, made):
    """The first rows are the same, whatever the order of one group's queries."""
    order, expected_order = (
        np.lexsort((r.query[:made], r.boundary[:made], r.group[:made])) for r in (found, expected)
    )
    for name, column, wanted in zip(ResultRows._fields, found, expected, strict=True):
        if len(column):
            np.testing.assert_allclose(
                column[order], wanted[expected_order], rtol=1e-12, err_msg=name
            )
