from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import ResultsError
from engines.results import kept_texts, text_store
from engines.results.kept_texts import KeptTexts
from engines.results.row_texts import NumberedTexts
from engines.results.text_store import TextStore
from optimizer.bind.binder import load_bound

TEXTS = st.lists(st.text(max_size=4), max_size=4)


@given(
    parts=st.lists(st.tuples(TEXTS, st.booleans()), max_size=5),
    asked=st.lists(st.lists(st.integers(-1, 30), max_size=5), max_size=4),
    at_once=st.integers(1, 6),
)
def test_texts_are_found_by_number_wherever_they_are(
    parts: list[tuple[list[str], bool]],
    asked: list[list[int]],
    at_once: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = TextStore(tmp_path_factory.mktemp("texts") / "folder")
    every: list[str] = []
    for texts, is_spilled in parts:
        # A slice of others, whose offsets do not begin at zero.
        assert store.add(pa.array(["before", *texts])[1:]) == len(every)
        every += texts
        if is_spilled:
            store.spill()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_store, "NUMBERS_AT_ONCE", at_once)
        for wanted in asked:
            numbers = np.array([min(n, len(every) - 1) for n in wanted], np.int64)
            found = ["" for _ in wanted]
            for texts, which in store.numbered(numbers):
                for row, number in enumerate(which.tolist()):
                    found[row] += texts[number].as_py() if number >= 0 else ""
            assert found == [every[n] if n >= 0 else "" for n in numbers.tolist()]


PIECES = st.lists(st.sampled_from(["", "{", "a", ","]) | st.just(None), max_size=6)


@given(tables=st.lists(st.tuples(PIECES, st.integers(0, 3)), max_size=4), data=st.data())
def test_matches_of_several_forms_are_put_together(
    tables: list[tuple[list[str | None], int]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    kept = KeptTexts(tmp_path_factory.mktemp("texts"))
    expected: list[str] = []
    rows: list[Any] = []
    for form, size in tables:
        pieces: list[str | NumberedTexts] = []
        texts = ["" for _ in range(size)]
        for piece in form:
            if piece is None:
                some = data.draw(st.lists(st.text(max_size=3), min_size=1, max_size=9))
                numbers = st.lists(st.integers(-1, len(some) - 1), min_size=size, max_size=size)
                which = data.draw(numbers)
                pieces.append(NumberedTexts(pa.array(some), np.array(which, np.int32)))
                piece_of = [some[n] if n >= 0 else "" for n in which]
            else:
                pieces.append(piece)
                piece_of = [piece] * size
            texts = [text + own for text, own in zip(texts, piece_of, strict=True)]
        expected += texts
        rows.append(kept.rows(pieces, size))
    if not rows:
        return
    order = data.draw(st.permutations(range(len(expected))))
    found = kept.texts(pa.concat_arrays(rows).take(pa.array(order, pa.int64())))
    assert found.to_pylist() == [expected[place] for place in order]


def test_texts_that_many_queries_have_are_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptTexts(tmp_path)
    table = pa.table({"ts": range(3), "kind": ["E"] * 3})
    stream = load_bound(
        {"stream": {"time": "ts", "type": "kind"}, "queries": ["PATTERN E AGG COUNT(*) WITHIN 9 s"]}
    ).stream
    first, second = from_table(table, stream), from_table(table, stream)
    texts, others = pa.array(["a", "b", "c"]), pa.array(["x", "y"])
    rows = []
    for events, some, numbers in (
        *((first, texts, [0, 2]), (first, others, [1, 0]), (first, texts, [2, 1])),
        *((second, texts, [1, 1]), (first, others, [0, 1])),
    ):
        if events is second:  # what comes then is written to files
            monkeypatch.setattr(kept_texts, "HELD_BYTES", 0)
        rows.append(kept.rows(["<", kept.column(some, np.array(numbers), events), ">"], 2))
    expected = ["<a>", "<c>", "<y>", "<x>", "<c>", "<b>", "<b>", "<b>", "<x>", "<y>"]
    assert kept.texts(pa.concat_arrays(rows)).to_pylist() == expected
    numbers = [row[1] for part in rows for row in part.to_pylist()]
    assert numbers[:6] == [0, 2, 4, 3, 2, 1]
    assert (tmp_path / "texts").exists()


def test_texts_leave_memory_when_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_texts, "MOST_BYTES", 100)
    kept = KeptTexts(tmp_path)
    every = [f"{number:10}" for number in range(60)]
    rows = [
        kept.rows([NumberedTexts(pa.array(every[start : start + 6]), np.arange(6))], 6)
        for start in range(0, 60, 6)
    ]
    assert (tmp_path / "texts").stat().st_size >= 400
    assert kept.texts(pa.concat_arrays(rows)).to_pylist() == every


def test_a_full_disk_is_said_with_the_folder(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()  # in the place of the file
    store = TextStore(tmp_path)
    store.add(pa.array(["a"]))
    with pytest.raises(ResultsError, match="cannot be written to"):
        store.spill()
