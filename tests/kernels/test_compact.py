"""Matches in order are those of plain Python, however little room there is for them."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.compact.cpu import STATE_SIZE, list_matches
from kernels.compact.reference import list_matches as listed_in_python

# Moments of each component, with the number of events at each.
COMPONENTS = st.lists(
    st.dictionaries(st.integers(0, 7), st.sampled_from([1, 1, 1, 2]), max_size=4),
    min_size=1,
    max_size=3,
)


@given(
    found=COMPONENTS,
    groups=st.lists(st.booleans(), min_size=3, max_size=3),
    width=st.integers(1, 9),
    limit=st.integers(0, 4),
    room=st.sampled_from([8, 9, 1000]),
)
def test_any_components(
    found: list[dict[int, int]], groups: list[bool], width: int, limit: int, room: int
) -> None:
    moments = [sorted(each.items()) for each in found]
    start = np.cumsum([0, *map(len, moments)])
    moment = np.array([m for each in moments for m, _ in each], np.int64)
    first = np.cumsum([0, *(count for each in moments for _, count in each)])
    tables = (
        start,
        moment,
        3 * moment,  # any measure of windows
        first,
        np.arange(first[-1], dtype=np.int32) + 100,
        np.array(groups[: len(found)]),
    )
    settings = (3 * width, limit)
    size = len(found)

    def run(kernel, room: int) -> list[list[list[int]]]:  # type: ignore[no-untyped-def]
        state, latest = np.zeros(STATE_SIZE, np.int64), start[:-1] - 1
        held = [np.zeros(len(moment) + size + 1, np.int64) for _ in range(2)]
        rows = []
        while True:
            sizes = np.zeros((size, room), np.int32)
            events = np.zeros((size, 12 * room), np.int32)
            number = kernel(*tables, *settings, state, latest, *held, sizes, events)
            ends = [np.cumsum([0, *each[:number]]) for each in sizes]
            spans = [list(pairwise(each.tolist())) for each in ends]
            rows += [
                [events[p, slice(*spans[p][i])].tolist() for p in range(size)]
                for i in range(number)
            ]
            if state[0] == start[-1] - start[-2]:
                return rows
            room = room if number else 2 * room  # of matches at the same moments

    assert run(list_matches, room) == run(listed_in_python, 20_000)
