"""Runs that are followed at once are those that are looked for one by one."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting.runs import run_tables
from engines.counting.tables import Letters
from kernels.groups import Groups, RowSegments, Spans
from kernels.runs import cpu, reference
from optimizer.ir.pattern import Symbol

SYMBOLS = [Symbol(name, ()) for name in "ABC"]
NONE = np.zeros(0, np.int64)


@st.composite
def streams(draw: st.DrawFn) -> Groups:
    """Up to three partitions of groups, of one event or several."""
    sizes: list[int] = []
    positions: list[int] = []
    limits: list[int] = []
    event, letters = [0], list[int]()
    for _ in range(draw(st.integers(1, 3))):
        steps = draw(st.lists(st.integers(1, 4), max_size=9))
        mine = np.cumsum([draw(st.integers(-9, 9)), *steps])[1:].tolist()
        positions += mine
        limits.append(max(mine, default=0) + 14)
        sizes.append(len(steps))
        for _ in steps:
            number = draw(st.sampled_from((1, 1, 1, 2, 3)))
            event.append(event[-1] + number)
            letters += draw(st.lists(st.integers(0, 4), min_size=number, max_size=number))
    ints = [np.array(column, np.int64) for column in (limits, positions, event, letters)]
    runs = np.cumsum([0, *sizes])
    return Groups(runs, ints[0], ints[1], NONE, ints[2], ints[3], np.zeros((0, 0)))


RUNS = st.lists(st.sampled_from(SYMBOLS), min_size=2, max_size=4)
LETTERS = st.lists(st.frozensets(st.sampled_from(SYMBOLS)), min_size=5, max_size=5)
PAIRS = st.tuples(st.integers(1, 14), st.sampled_from((0, 0, 1, 3, 5)))


def room_for(queries: int, room: int) -> RowSegments:
    """So many rows for each query."""
    start, size = np.arange(queries) * room, room * queries
    return RowSegments(
        start.copy(), start + room, np.zeros(size, np.int64), np.zeros(size, np.int64),
        np.zeros(size, np.uint64), np.zeros(0), np.zeros((size, 0)),
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.data(), streams(), st.lists(RUNS, min_size=1, max_size=5), LETTERS)
def test_any_runs(data: Any, groups: Groups, runs: Any, letters: Any) -> None:
    pairs = data.draw(st.lists(PAIRS, min_size=len(runs), max_size=len(runs)))
    spans = Spans(*np.array(pairs, np.int64).T.copy())
    sizes = np.diff(groups.run)
    begun = np.minimum(sizes, data.draw(st.integers(0, 3)))
    since = np.full(len(sizes), -100)
    for r, number in enumerate(begun.tolist()):
        if number:
            since[r] = groups.position[groups.run[r] + number - 1]
    tables = run_tables(runs, spans, Letters([(found, 0) for found in letters], [frozenset()]))

    def rows(module: Any) -> Any:
        out = room_for(len(runs), 200)
        assert module.count_runs(groups, begun, since, tables, out)
        return [column.tolist() for column in (out.end, out.group, out.boundary, out.counts)]

    assert rows(cpu) == rows(reference)


def test_no_room_is_said() -> None:
    """Three events of one kind end two runs of two."""
    zeros = np.zeros(3, np.int64)
    groups = Groups(
        np.array([0, 3]), np.array([9]), np.arange(3), NONE, np.arange(4), zeros, np.zeros((0, 0))
    )
    spans = Spans(np.array([9]), np.array([0]))
    tables = run_tables([SYMBOLS[:1] * 2], spans, Letters([(frozenset(SYMBOLS), 0)], []))
    for module in (cpu, reference):
        for room in (1, 2):
            fits = module.count_runs(groups, zeros[:1], zeros[:1] - 9, tables, room_for(1, room))
            assert fits == (room == 2)
