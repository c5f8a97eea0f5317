"""Marks of rows are those of plain Python, for few readers and for more than fit into a word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.marks.cpu import Check, mark_rows, timeline
from kernels.marks.reference import mark_rows as marked_in_python

PLACES = 12
VALUES = st.sampled_from([0.0, 1.0, 2.0, float("nan")])


@st.composite
def checks(draw: st.DrawFn, gaps: int, rows: int) -> Check:
    size = draw(st.integers(0, 6))
    last = sorted(draw(st.lists(st.integers(0, PLACES), min_size=size, max_size=size)))
    first = [draw(st.integers(max(0, place - 3), place)) for place in last]
    cut = draw(st.integers(0, size)) if draw(st.booleans()) else None
    groups = [0, size] if cut is None else [0, cut, size]
    group = [] if cut is None else [draw(st.integers(-1, 1)) for _ in range(rows)]
    tests = draw(st.lists(st.integers(0, 5), max_size=2))
    negated = [[draw(VALUES) for _ in range(size)] for _ in tests]
    values = [[draw(VALUES) for _ in range(rows)] for _ in tests]
    return Check(
        np.array(first, np.int32),
        np.array(last, np.int32),
        np.array(negated, np.float64).reshape(len(tests), size),
        np.array(groups),
        np.array(values, np.float64).reshape(len(tests), rows),
        np.array(group, np.int32),
        np.array(tests, np.int8),
        draw(st.integers(0, gaps - 1)),
    )


@given(st.data())
def test_any_checks(data: st.DataObject) -> None:
    gaps, rows = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 5))
    readers = data.draw(st.sampled_from([1, 3, 64, 65, 130]))
    many = data.draw(st.integers(0, 4))
    found = [data.draw(checks(gaps, rows)) for _ in range(many)]
    place = st.integers(0, PLACES + 1)
    low, high = (
        np.array([[data.draw(place) for _ in range(rows)] for _ in range(gaps)], np.int32).reshape(
            gaps, rows
        )
        for _ in range(2)
    )
    single = st.lists(st.integers(0, PLACES), max_size=5, unique=True).map(sorted)
    lines, numbers = [], list(range(many))
    for _ in range(data.draw(st.integers(0, 2))):
        own = list(range(many, many + data.draw(st.integers(1, 4))))
        places = [np.array(data.draw(single), np.int32) for _ in own]
        lines.append(timeline(data.draw(st.integers(0, gaps - 1)), own, places))
        many += len(own)
    readers_of = st.sets(st.integers(0, readers - 1), max_size=4)
    asked = [data.draw(readers_of) for _ in range(many)]
    every = words_of(range(readers), readers)
    needs = np.array([words_of(each, readers) for each in asked], np.uint64)
    given_ = low, high, lines, found, numbers, needs.reshape(many, every.size), every
    marks, tried = mark_rows(*given_)
    expected, most = marked_in_python(*given_)
    assert marks.tolist() == expected.tolist()
    assert tried <= most


def words_of(readers: object, many: int) -> np.ndarray:
    words = np.zeros((many + 63) // 64, np.uint64)
    for reader in readers:  # type: ignore[attr-defined]
        words[reader // 64] |= np.uint64(1) << np.uint64(reader % 64)
    return words


@pytest.mark.parametrize(("asked", "tried"), [([{0}, {0}], 1), ([{0}, {0, 1}], 2)])
def test_what_no_reader_is_left_for_is_not_looked_at(asked: list[set[int]], tried: int) -> None:
    """The second check is left out where the first one has ruled out all that ask for it."""
    place = np.array([3], np.int32)
    check = Check(
        place,
        place,
        np.zeros((0, 1)),
        np.array([0, 1]),
        np.zeros((0, 1)),
        np.zeros(0, np.int32),
        np.zeros(0, np.int8),
        0,
    )
    low, high = np.array([[2]], np.int32), np.array([[5]], np.int32)
    needs = np.array([words_of(each, 2) for each in asked])
    every = words_of(range(2), 2)
    marks, found = mark_rows(low, high, [], [check, check], [0, 1], needs, every)
    assert marks.tolist() == [[2 if tried == 1 else 0]]
    assert found == tried
    lines = [timeline(0, [number], [place]) for number in range(2)]
    assert mark_rows(low, high, lines, [], [], needs, every)[1] == tried
