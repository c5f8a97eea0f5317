"""Result rows in three formats, in one order, and JSON that says the same whoever writes it."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engines.limits import ResultsError
from engines.results.json_text import json_column, json_text, shown_moment
from engines.results.tables import (
    CODES,
    Results,
    aggregate_schema,
    empty_results,
    match_schema,
    no_numbers,
    no_text,
    one_text,
    sorted_results,
)
from engines.results.writers import write_results

UTC = datetime.UTC


def results(time_type: pa.DataType = pa.int64()) -> Results:  # noqa: B008
    def times(values: list[int]) -> pa.Array:
        return pa.array(values, pa.int64()).cast(time_type)

    aggregates = [
        ["b", "a", "a", "a"],
        [None, '{"k":2}', '{"k":1}', None],
        times([1, 5, 7, 9]),
        [None, 3, 3, None],
        ["COUNT(*)", "SUM(a.x)", "SUM(a.x)", "COUNT(*)"],
        [2.0, 1.5, None, 4.0],
        [2, None, None, 4],
        [True, True, True, True],
    ]
    match = ['{"a":{"x":1}}', '{"a":{"x":0}}']
    matches = [["m", "m"], [None, None], times([1, 1]), times([2, 2]), times([2, 2]), match]
    return Results(
        pa.table(aggregates, schema=aggregate_schema(time_type)),
        pa.table(matches, schema=match_schema(time_type)),
    )


def read(path: str) -> list[dict[str, Any]]:
    if path.endswith(".parquet"):
        return list(pq.read_table(path).to_pylist())
    if path.endswith(".csv"):
        convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
        return list(pyarrow.csv.read_csv(path, convert_options=convert).to_pylist())
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_rows_are_sorted_by_query_key_time_and_then_all_else() -> None:
    ordered = sorted_results(results())
    rows = ordered.aggregates.select(["query", "key", "time"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("a", None, 9),
        ("a", '{"k":1}', 7),
        ("a", '{"k":2}', 5),
        ("b", None, 1),
    ]
    assert ordered.matches.column("match").to_pylist() == ['{"a":{"x":0}}', '{"a":{"x":1}}']


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_both_kinds_have_a_file_each(tmp_path: Path, ending: str) -> None:
    written = write_results(results(), str(tmp_path / f"out.{ending}"), True, True)
    assert written == [
        str(tmp_path / f"out.aggregates.{ending}"),
        str(tmp_path / f"out.matches.{ending}"),
    ]
    ordered = sorted_results(results())
    aggregates, matches = read(written[0]), read(written[1])
    if ending == "jsonl":
        # There key and match are objects, as they are meant.
        for row in (*aggregates, *matches):
            row["key"] = row["key"] and json_text(row["key"])
        for row in matches:
            row["match"] = json_text(row["match"])
    assert aggregates == ordered.aggregates.to_pylist()
    assert matches == ordered.matches.to_pylist()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(Path(w).name for w in written)


def test_one_kind_has_the_file_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "out.csv")
    assert write_results(results(), path, True, False) == [path]
    assert "aggregate" in read(path)[0]
    assert write_results(results(), path, False, True) == [path]
    assert "match" in read(path)[0]


def test_nothing_is_written_as_a_file_without_rows(tmp_path: Path) -> None:
    for ending in ("parquet", "csv", "jsonl"):
        written = write_results(
            empty_results(pa.int64()), str(tmp_path / f"out.{ending}"), True, True
        )
        assert [read(path) for path in written] == [[], []]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_times_are_written_as_iso_strings(tmp_path: Path, ending: str) -> None:
    path = str(tmp_path / f"out.{ending}")
    write_results(results(pa.timestamp("ms", "UTC")), path, False, True)
    assert '"1970-01-01T00:00:00.001Z"' in Path(path).read_text()


@pytest.mark.parametrize(
    ("path", "said"), [("out.txt", "by the ending"), ("nowhere/out.csv", "there is no folder")]
)
def test_paths_that_cannot_be_written(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(ResultsError, match=said):
        write_results(results(), str(tmp_path / path), True, True)


def test_a_file_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(table: pa.Table, path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(write_results.__globals__["_WRITERS"], ".csv", fail)
    with pytest.raises(ResultsError, match="No space left"):
        write_results(results(), str(tmp_path / "out.csv"), True, False)
    assert list(tmp_path.iterdir()) == []


def test_both_files_appear_or_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers = write_results.__globals__["_WRITERS"]
    write, calls = writers[".csv"], []

    def second_fails(rows: pa.RecordBatchReader, path: Path) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(rows, path)

    monkeypatch.setitem(writers, ".csv", second_fails)
    with pytest.raises(KeyboardInterrupt):
        write_results(results(), str(tmp_path / "out.csv"), True, True)
    assert list(tmp_path.iterdir()) == []


VALUES = [
    ([1, None, -(2**63)], pa.int64(), ["1", "null", "-9223372036854775808"]),
    ([True, None, False], pa.bool_(), ["true", "null", "false"]),
    (
        [1.0, 0.1, 1e22, float("inf"), float("-inf"), float("nan"), None],
        pa.float64(),
        ["1.0", "0.1", "1e+22", "null", "null", "null", "null"],
    ),
    (['a"b', "ü\n", None, "\\"], pa.string(), ['"a\\"b"', '"ü\\n"', "null", '"\\\\"']),
    ([None], pa.null(), ["null"]),
    ([[1, None], None], pa.list_(pa.int64()), ["[1,null]", "null"]),
    ([datetime.date(2024, 2, 29)], pa.date32(), ['"2024-02-29"']),
    ([b"\x01\xff"], pa.binary(), ['"01ff"']),
]


@pytest.mark.parametrize(("values", "kind", "texts"), VALUES)
def test_columns_and_single_values_are_written_alike(
    values: list[Any], kind: pa.DataType, texts: list[str]
) -> None:
    column = pa.array(values, kind)
    assert json_column(column).to_pylist() == texts
    assert [json_text(v) for v in column.to_pylist()] == texts


def test_doubles_of_any_size_are_written_with_as_few_digits_as_tell_them_apart() -> None:
    draw = np.random.default_rng(1)
    scale = 10.0 ** draw.integers(-9, 20, 3_000)
    values = np.concatenate([draw.random(3_000) * scale, np.round(scale), -np.round(scale, 3)])
    assert json_column(pa.array(values)).to_pylist() == [repr(v) for v in values.tolist()]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_have_as_many_digits_as_they_need(unit: str, zone: str | None) -> None:
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}
    ticks = [0, -1, 10 ** digits[unit], 1_500, 1_500_000, None, 1_600_000_000_123]
    if unit == "s":
        ticks = ticks[:-1]
    column = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))
    texts = json_column(column).to_pylist()
    assert texts == [json_text(v) for v in column.to_pylist()]
    suffix = "Z" if zone else ""
    assert texts[0] == f'"1970-01-01T00:00:00{suffix}"'
    if unit == "ms":
        assert texts[1] == f'"1969-12-31T23:59:59.999{suffix}"'
        assert texts[3] == f'"1970-01-01T00:00:01.500{suffix}"'


def test_objects_are_compact_and_keep_their_order() -> None:
    assert json_text({"b": 1, "a": [1.5, None, float("nan")]}) == '{"b":1,"a":[1.5,null,null]}'


@pytest.mark.parametrize(
    ("text", "unit", "shown"),
    [
        ("2025-03-01T12:50:26.234999999", "ns", "2025-03-01T12:50:26.234"),
        ("2025-03-01T12:50:25.999999999", "ns", "2025-03-01T12:50:25.999"),
        ("2025-03-01T12:50:26.234567999", "ns", "2025-03-01T12:50:26.234567"),
        ("2025-03-01T12:50:26.234567891", "ns", "2025-03-01T12:50:26.234567891"),
        ("2025-03-01T12:50:26.234999", "us", "2025-03-01T12:50:26.234"),
        ("2025-03-01T12:50:25.999", "ms", "2025-03-01T12:50:25.999"),
        ("2025-03-01T12:50:26", "ns", "2025-03-01T12:50:26"),
    ],
)
def test_a_moment_is_shown_as_far_as_it_matters(text: str, unit: str, shown: str) -> None:
    ticks = int(np.datetime64(text, unit).astype(np.int64))
    moment = pa.array([ticks], pa.int64())
    assert shown_moment(moment.cast(pa.timestamp(unit))) == shown
    assert shown_moment(moment.cast(pa.timestamp(unit, "UTC"))) == f"{shown}Z"
    assert shown_moment(moment) == ticks


@pytest.mark.parametrize(
    "time_type", [pa.int64(), pa.timestamp("us", "+02:00"), pa.timestamp("ns"), pa.date32()]
)
def test_parquet_reads_back_with_the_types_of_results(
    tmp_path: Path, time_type: pa.DataType
) -> None:
    row = {"query": "q", "key": '{"k":1}', "aggregate": "COUNT(*)", "exact": True}
    aggregates = pa.Table.from_pylist([row], aggregate_schema(time_type))
    results = Results(aggregates, empty_results(time_type).matches)
    (path,) = write_results(results, str(tmp_path / "out.parquet"), True, False)
    assert pq.read_table(path).equals(aggregates)
    assert pq.read_schema(path).metadata is None


def test_parquet_says_the_least_and_the_greatest_of_what_rows_are_looked_up_by(
    tmp_path: Path,
) -> None:
    (path, _) = write_results(results(), str(tmp_path / "out.parquet"), True, True)
    group = pq.ParquetFile(path).metadata.row_group(0)
    known = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    query, time = known["query"].statistics, known["time"].statistics
    assert (query.min, query.max, time.min, time.max) == ("a", "b", 1, 9)
    assert known["aggregate"].statistics is None


@pytest.mark.parametrize("rows", [0, 1, 100_000, 100_001])
def test_columns_of_one_value_have_as_many_rows_as_are_asked_for(rows: int) -> None:
    assert one_text("a", rows).equals(pa.array(["a"] * rows, CODES))
    assert no_text(rows).equals(pa.nulls(rows, CODES))
    assert no_numbers(rows, pa.int64()).equals(pa.nulls(rows, pa.int64()))
