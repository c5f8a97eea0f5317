"""Rows sorted through files come out as rows sorted in memory."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.results import sorting
from engines.results.first_rows import FirstRows
from engines.results.sorting import FileOutput
from engines.results.tables import (
    AGGREGATE_ORDER,
    MATCH_ORDER,
    Results,
    aggregate_schema,
    coded,
    empty_results,
    match_schema,
    plain,
    sorted_rows,
)
from engines.results.writers import write_results

TIME = pa.timestamp("ns")

rows = st.builds(
    lambda query, key, time, seq: {
        "query": query,
        "key": key,
        "time": time,
        "seq": seq,
        "aggregate": "COUNT(*)",
        "value": 1.0,
        "count": 1,
        "exact": True,
    },
    st.sampled_from("ab"),
    st.sampled_from([None, '{"k":1}', '{"k":"é"}', '{"k":"𝄞"}']),
    st.integers(-5, 5),
    st.sampled_from([None, 1, 2]),
)


@given(parts=st.lists(st.lists(rows, max_size=6), max_size=40))
def test_any_rows(
    parts: list[list[dict[str, object]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sorting") / "runs"
    schema = aggregate_schema(TIME)
    tables = [pa.Table.from_pylist(part, schema) for part in parts]
    sorter = sorting.Sorter(schema, AGGREGATE_ORDER, folder, run_bytes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FAN_IN", 8)
        for table in tables:
            sorter.add(table)
    every = pa.concat_tables([schema.empty_table(), *tables])
    expected = sorted(every.to_pylist(), key=_in_order)
    assert plain(sorter.reader().read_all()).to_pylist() == expected
    assert plain(sorted_rows(coded(every), AGGREGATE_ORDER)).to_pylist() == expected
    assert sorted_rows(every, AGGREGATE_ORDER).to_pylist() == expected
    assert sorter.rows == len(expected)
    assert not folder.exists() or len(list(folder.iterdir())) < 16


matches = st.builds(
    lambda key, start, length, match: {
        "query": "q",
        "key": key,
        "start": start,
        "end": start + length,
        "time": start + length,
        "match": match,
    },
    st.sampled_from([None, '{"k":1}', '{"k":"é"}']),
    st.integers(-3, 3),
    st.integers(0, 2),
    st.text("aé𝄞\uffff", max_size=3),
)


@given(
    parts=st.lists(st.lists(matches, max_size=6), max_size=12),
    apart=st.booleans(),
    run_bytes=st.sampled_from([1, 200, 2**20]),
    few_moves=st.sampled_from([0, 2_000]),
)
def test_any_matches(
    parts: list[list[dict[str, Any]]],
    apart: bool,
    run_bytes: int,
    few_moves: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Also where runs follow each other, as those of slices do where a query has no key."""
    folder = tmp_path_factory.mktemp("sorting") / "runs"
    schema = match_schema(pa.int64())
    if apart:
        for number, part in enumerate(parts):
            for row in part:
                row |= {"key": None} | {k: row[k] + 10 * number for k in ("start", "end", "time")}
    sorter = sorting.Sorter(schema, MATCH_ORDER, folder, run_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW_MOVES", few_moves)
        for part in parts:
            sorter.add(pa.Table.from_pylist(part, schema))
        found = plain(sorter.reader().read_all()).to_pylist()
    expected = sorted((r for part in parts for r in part), key=lambda r: _in_order(r, MATCH_ORDER))
    assert found == expected


def test_rows_that_come_in_order_are_not_moved(tmp_path: Path) -> None:
    schema = match_schema(pa.int64())
    rows = [_match(7 * number) for number in range(9)]
    for number, row in enumerate(rows):
        row["time"] = number
    table = coded(pa.Table.from_pylist(rows, schema))
    sorter = sorting.Sorter(schema, MATCH_ORDER, tmp_path)
    for start in range(0, 9, 3):
        sorter.add(table.slice(start, 3))
    found = sorter.reader().read_all()
    assert plain(found).to_pylist() == rows
    texts = table["match"].chunk(0).buffers()[2].address
    assert {chunk.buffers()[2].address for chunk in found["match"].chunks} == {texts}


def _in_order(
    row: dict[str, Any], order: tuple[str, ...] = AGGREGATE_ORDER
) -> list[tuple[bool, Any]]:
    """Nulls first, texts by their bytes."""
    values = [row[name] for name in order]
    return [(v is not None, v.encode() if isinstance(v, str) else v) for v in values]


def _match(number: int) -> dict[str, object]:
    return {
        "query": "q",
        "key": None,
        "start": 0,
        "end": 1,
        "time": number % 7,
        "match": f"{number}",
    }


def _parts(count: int, size: int) -> list[Results]:
    none = empty_results(pa.int64()).aggregates
    schema = match_schema(pa.int64())
    return [
        Results(none, pa.Table.from_pylist([_match(i * size + j) for j in range(size)], schema))
        for i in range(count)
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_files_are_the_same_as_if_written_at_once(tmp_path: Path, ending: str) -> None:
    parts = _parts(40, 3)
    whole = Results(parts[0].aggregates, pa.concat_tables([part.matches for part in parts]))
    (expected,) = write_results(whole, str(tmp_path / f"whole.{ending}"), False, True)
    with FileOutput(str(tmp_path / f"out.{ending}"), False, True, run_bytes=200) as output:
        for part in parts:
            output.add(part)
        assert any(path.name.endswith(".sorting") for path in tmp_path.iterdir())
        (written,) = output.write()
    assert (output.aggregates, output.matches) == (0, 120)
    assert Path(written).read_bytes() == Path(expected).read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_what_was_sorted_is_removed_when_something_fails(tmp_path: Path) -> None:
    def run() -> None:
        with FileOutput(str(tmp_path / "out.csv"), False, True, run_bytes=1) as output:
            output.add(_parts(1, 3)[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert list(tmp_path.iterdir()) == []


def test_the_first_rows_are_those_of_all() -> None:
    first = FirstRows(5)
    for part in reversed(_parts(10, 4)):
        first.add(part)
    assert first.first is not None
    assert (first.aggregates, first.matches) == (0, 40)
    assert first.first.matches.column("match").to_pylist() == ["0", "14", "21", "28", "35"]


@given(parts=st.lists(st.lists(rows, max_size=6), max_size=10), limit=st.integers(1, 4))
def test_the_first_rows_are_kept_of_each_query(
    parts: list[list[dict[str, object]]], limit: int
) -> None:
    schema = aggregate_schema(TIME)
    first = FirstRows(limit)
    first.add(empty_results(TIME))
    for part in parts:
        first.add(Results(pa.Table.from_pylist(part, schema), empty_results(TIME).matches))
    every = sorted_rows(
        pa.Table.from_pylist([row for part in parts for row in part], schema), AGGREGATE_ORDER
    ).to_pylist()
    expected = [row for query in "ab" for row in [r for r in every if r["query"] == query][:limit]]
    assert first.first is not None
    assert first.first.aggregates.to_pylist() == expected
    assert first.aggregates == len(every)
