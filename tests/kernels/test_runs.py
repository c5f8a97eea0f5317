"""Runs that are followed by bits are those that are looked for one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.groups import Groups, RowSegments
from kernels.runs import cpu, reference

NONE = np.zeros(0, np.int64)


@given(
    partitions=st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=3),
    masks=st.lists(st.lists(st.integers(0, 7), min_size=4, max_size=4), min_size=1, max_size=3),
    widths=st.lists(st.integers(1, 12), min_size=3, max_size=3),
    gap=st.integers(1, 3),
    begun=st.integers(0, 3),
    dual=st.booleans(),
)
def test_any_runs(
    partitions: list[list[int]],
    masks: list[list[int]],
    widths: list[int],
    gap: int,
    begun: int,
    dual: bool,
) -> None:
    letters = np.array([letter for part in partitions for letter in part], np.int64)
    run = np.cumsum([0, *map(len, partitions)])
    groups = Groups(
        run, NONE, gap * np.arange(len(letters)), NONE, np.arange(len(letters) + 1), letters,
        np.zeros((0, 0)),
    )  # fmt: skip
    first = np.minimum(begun, np.diff(run))
    queries = len(masks)
    length, width = 1 + np.arange(queries), np.array(widths[:queries])
    places = (
        np.array(masks, np.uint64)
        & ((np.uint64(1) << length.astype(np.uint64)) - np.uint64(1))[:, None]
    )

    def rows(module) -> tuple[list[int], list[int], list[int], list[float]]:  # type: ignore[no-untyped-def]
        start = np.arange(queries) * len(letters)
        number = queries * len(letters)
        out = RowSegments(
            start.copy(), start + len(letters), np.zeros(number, np.int64), NONE,
            np.zeros(number, np.uint64), np.zeros(number if dual else 0), np.zeros((number, 0)),
        )  # fmt: skip
        assert module.count_runs(groups, first, places, length, width, dual, out)
        return (
            out.end.tolist(), out.group.tolist(), out.counts.tolist(), out.approximate.tolist(),
        )  # fmt: skip

    assert rows(cpu) == rows(reference)
