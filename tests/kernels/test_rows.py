"""The order and the texts of rows are those of plain Python."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.results.row_texts import NumberedTexts, Piece, WholeNumbers, put_together
from kernels.registry import KERNELS
from kernels.rows.cpu import sort_places, sort_ties
from kernels.rows.reference import sort_places as sort_in_python
from kernels.rows.reference import sort_ties as sort_ties_in_python

INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.one_of(st.integers(0, 3), st.integers(0, 5000), st.integers(0, 2**63 - 1))


@given(keys=st.lists(KEYS, max_size=60), seed=st.randoms(use_true_random=False))
def test_places_are_in_order_and_ties_stay(keys: list[int], seed) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(keys)))
    seed.shuffle(order)
    found, expected = np.array(order, np.int32), np.array(order, np.int32)
    numbers = np.array(keys, np.int64)
    sort_places(numbers, found)
    sort_in_python(numbers, expected)
    assert found.tolist() == expected.tolist()


@given(
    texts=st.lists(st.binary(max_size=3), min_size=1, max_size=4),
    rows=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20),
    behind=st.sampled_from([-1, 0x2C]),
)
def test_rows_that_tie_are_in_the_order_of_their_texts(
    texts: list[bytes], rows: list[tuple[int, bool]], behind: int
) -> None:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data, which = (
        np.frombuffer(b"".join(texts) + b"-", np.uint8),
        np.array([row[0] % len(texts) for row in rows], np.int32),
    )
    offsets.flags.writeable = which.flags.writeable = False
    results = []
    for sort in (sort_ties, sort_ties_in_python):
        places, ties = (
            np.arange(len(rows), dtype=np.int32),
            np.array([r[1] for r in rows[1:]], bool),
        )
        sort(offsets, data, which, behind, places, ties)
        results.append((places.tolist(), ties.tolist()))
    assert results[0] == results[1]


@given(
    rows=st.lists(
        st.tuples(st.integers(-1, 2), INT64, st.booleans(), st.integers(0, 1)), max_size=20
    ),
    texts=st.lists(st.text(max_size=4), min_size=3, max_size=3),
)
@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_rows_are_their_pieces_side_by_side(
    backend: str, rows: list[tuple[int, int, bool, int]], texts: list[str]
) -> None:
    from kernels import references

    which = np.array([row[0] for row in rows], np.int32)
    numbers = np.array([row[1] for row in rows], np.int64)
    wanted = np.array([row[2] for row in rows], np.bool_)
    other = np.array([row[3] for row in rows], np.int64)
    # Of an array that begins within its buffers.
    sliced = pa.array(["left out", *texts]).slice(1)
    pieces: list[Piece] = [
        "é(",
        NumberedTexts(sliced, which),
        WholeNumbers(numbers, wanted, ".0"),
        NumberedTexts(pa.array(["", "b"], pa.large_string()), other),
        ")",
    ]
    expected = [
        f"é({'' if w < 0 else texts[w]}{f'{n}.0' if is_wanted else ''}{['', 'b'][o]})"
        for w, n, is_wanted, o in rows
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("add_lengths", "put_texts", "add_digits", "put_digits"):
            kernel = KERNELS[name]["numba"] if backend == "numba" else references.REFERENCES[name]
            patch.setattr(f"engines.results.row_texts.{name}", kernel)
        assert put_together(pieces, len(rows)).to_pylist() == expected
