"""Stacks that go on from call to call give what the plain-Python product finds in every window.

Their tables say of two directions what one pattern means, so they are made of queries.
"""

from __future__ import annotations

import numpy as np
import pytest

from engines.counting.compile import compile_tables
from engines.counting.letters import CountingPlan
from engines.counting.tables import Letters
from kernels.kept import cpu as kept
from kernels.stacks import cpu, reference
from optimizer.bind.binder import load_bound
from tests.kernels.test_kept import MOVES, STAYS, WIDTH, timed

QUERIES = [
    "QUERY one PATTERN SEQ(A a, !E, B b, C c) AGG COUNT(*), SUM(a.x), MIN(b.x) WITHIN 9 ms",
    "QUERY two PATTERN SEQ(B b, C c) AGG COUNT(*), AVG(c.y) WITHIN 9 ms",
    "QUERY three PATTERN SEQ(A a, C c, !E, D d) AGG COUNT(*) WITHIN 9 ms",
]


def tables_of_queries():
    """The tables of the queries: each letter is a symbol, and each stay the negated one or none."""
    workload = load_bound({"stream": {"time": "t", "unit": "ms", "type": "k"}, "queries": QUERIES})
    plan = CountingPlan(workload.queries)
    symbols = [frozenset({symbol}) for symbol in plan.symbols]
    watched = [s for s in symbols if any("E" in str(symbol) for symbol in s)]
    stays = [frozenset(), *watched, frozenset()]
    assert (len(symbols), len(stays), len(watched)) == (MOVES, STAYS, 1)
    moves = [(s, 1 if s in watched else 0) for s in symbols]
    return plan, compile_tables(plan.terms, Letters(moves, stays))


def room(size, values):
    numbers = (np.zeros(size, np.int64) for _ in range(3))
    return kept.KeptRows(*numbers, np.zeros(size, np.uint64), np.full((size, values), -1.0))


def rows_of(plan, out, made):
    values = [len(plan.terms[q].values) for q in out.query[:made]]
    rows = zip(*(column[:made].tolist() for column in out[:4]), strict=True)
    return sorted((*row, *out.values[i, : values[i]].tolist()) for i, row in enumerate(rows))


@pytest.mark.parametrize("slide", [0, 1, 4])
@pytest.mark.parametrize("seed", range(40))
def test_a_product_that_goes_on_is_that_of_the_reference(seed, slide):
    random = np.random.default_rng(seed)
    groups, runs = timed(random)
    plan, tables = tables_of_queries()
    events = np.diff(groups.event)
    watched = np.maximum.reduceat(groups.move_letter == MOVES - 1, groups.event[:-1])
    groups = groups._replace(
        stay_letter=watched.astype(np.int64),
        inputs=random.integers(0, 5, (2, int(events.sum()))).astype(float),
    )
    many, values = len(groups.position), plan.most_values
    ring = 1 << many.bit_length()
    back, front = tables.back, tables.front
    stacks = cpu.KeptStacks(
        np.tile(back.start_counts, (runs, 1)),
        np.tile(back.start_values, (runs, 1)),
        np.full(runs, -1),
        np.full(runs, -1),
        np.zeros(runs, np.int64),
        np.zeros(ring, np.int64),
        np.zeros(ring, np.int64),
        np.zeros((ring, int(front.logged.sum())), np.uint64),
        np.zeros((ring, int(front.logged_values.sum()))),
    )
    found, head, taken, since = [], 0, 0, -1
    while taken < many:
        end = min(many, taken + int(random.integers(1, 6)))
        while end < many and groups.position[end] == groups.position[end - 1]:
            end += 1
        limit = int(groups.position[end - 1])
        progress = np.zeros(kept.PROGRESS, np.int64)
        progress[[kept.HEAD, kept.NEXT, kept.END]] = head, taken, end
        progress[kept.BOUNDARY] = (since // slide + 1) * slide if slide else 0
        done = False
        while not done:
            out = room(3 * runs, values)
            done = cpu.advance_stacks(
                groups, progress, limit, False, stacks, *tables, WIDTH, slide, out
            )
            found += rows_of(plan, out, progress[kept.ROWS])
        head, taken, since = int(progress[kept.HEAD]), end, limit
    out = room(3 * (many + 1) * (since + 2) * runs, values)
    progress = np.zeros(kept.PROGRESS, np.int64)
    progress[kept.END] = many
    assert reference.advance_stacks(
        groups, progress, since, False, stacks, *tables, WIDTH, slide, out
    )
    assert sorted(found) == rows_of(plan, out, progress[kept.ROWS])
