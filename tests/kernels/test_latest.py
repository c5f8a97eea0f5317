"""The compiled pass over sequences agrees with lists that wait."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.latest.cpu import select_latest
from kernels.latest.reference import select_latest as selected_in_python

items = st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 2), st.integers(0, 2)), max_size=30)


@settings(max_examples=100)
@given(
    st.lists(items, min_size=1, max_size=3), st.integers(1, 12), st.booleans(), st.integers(2, 5)
)
def test_both_find_the_same(
    given_items: list[list[tuple[int, int, int]]], width: int, ties: bool, refused: int
) -> None:
    ordered = [sorted(set(one), key=lambda i: (i[0], -i[1])) for one in given_items]
    flat = np.array([item for one in ordered for item in one], np.int64).reshape(-1, 3)
    offsets = np.cumsum([0, *map(len, ordered)])
    position = np.array([0, 1, 1, 3, 4, 6, 6, 7, 9, 10])
    moment = np.array([0, 1, 1, 2, 3, 4, 5, 6, 7, 8]) if ties else np.arange(10)
    found = []
    for kernel in (select_latest, selected_in_python):
        previous, first = np.full(len(flat), -7), np.full(len(flat), -7)
        number, widths = np.full(len(ordered), 3), np.full(len(ordered), width)
        tied = kernel(
            offsets, number, widths, flat[:, 0].copy(), flat[:, 1].copy(), flat[:, 2].copy(),
            np.arange(len(flat)) % refused > 0, position, moment, 3, previous, first,
        )  # fmt: skip
        found.append((tied, previous.tolist(), first.tolist()) if tied < 0 else tied)
    assert found[0] == found[1]
