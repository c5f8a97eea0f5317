"""Rows go to tables of Delta and Iceberg, and their own libraries read what was meant."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sheaf
from engines.input.event_table import list_files
from engines.limits import ResultsError
from engines.results.lake_place import LakePlace, Turn, add_rows, lake_place, replace_rows

KINDS = ["delta", "iceberg"]
ROWS = pa.table({"query": ["q", "r"], "time": pa.array([1, 2], pa.int64()), "x": [1.5, None]})
PAIRS = "QUERY pairs PATTERN SEQ(A a, B b) WHERE [card] RETURN a.x, b.x WITHIN 10 s"
COUNTS = "QUERY counts PATTERN SEQ(A a, B b) PARTITION BY card AGG COUNT(*) WITHIN 10 s"
EVENTS = pa.table(
    {
        "ts": pa.array([1_500_000_000, 2_000_000_000, 3_000_000_000], pa.timestamp("ns")),
        "kind": ["A", "B", "B"],
        "card": ["c", "c", "c"],
        "x": [1.0, 2.0, 3.0],
    }
)


def workload(*queries: str) -> dict[str, Any]:
    return {"name": "w", "stream": {"time": "ts", "type": "kind"}, "queries": list(queries)}


def read(kind: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of a table, by the library whose table it is."""
    if kind == "delta":
        deltalake = pytest.importorskip("deltalake")
        found = deltalake.DeltaTable(folder).to_pyarrow_table()
    else:
        found = pytest.importorskip("pyiceberg.table").StaticTable.from_metadata(str(folder))
        found = found.scan().to_arrow()
    return sorted(found.to_pylist(), key=str)


def table(kind: str, folder: Path) -> Any:
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg")
    place = lake_place(f"{kind}:{folder}")
    assert place is not None
    return place.table(folder)


@pytest.fixture
def rows(tmp_path: Path) -> Callable[[pa.Table], Path]:
    def written(found: pa.Table) -> Path:
        pq.write_table(found, tmp_path / "rows.parquet")
        return tmp_path / "rows.parquet"

    return written


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_run_take_the_place_of_those_before(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "found"
    for events in (EVENTS, EVENTS.slice(0, 2)):
        results = sheaf.run(workload(PAIRS), events, out=f"{kind}:{out}")
    assert results.files == (str(out),)
    (row,) = read(kind, out)
    assert (row["query"], row["key"], row["start"].microsecond) == (
        "pairs",
        '{"card":"c"}',
        500_000,
    )
    assert row["match"] == '{"a":{"x":1.0},"b":{"x":2.0}}'
    sheaf.run(workload(PAIRS), EVENTS.slice(0, 1), out=f"{kind}:{out}")
    assert read(kind, out) == []


@pytest.mark.parametrize("kind", KINDS)
def test_both_kinds_of_rows_have_a_table_each_which_are_events_again(
    kind: str, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    results = sheaf.run(workload(PAIRS, COUNTS), EVENTS, out=f"{kind}:{out}")
    assert results.files == (str(out / "aggregates"), str(out / "matches"))
    assert [row["count"] for row in read(kind, out / "aggregates")] == [1, 2]
    again = {"name": "again", "stream": {"time": "time", "type": "query"}}
    query = "QUERY two PATTERN SEQ(pairs p, pairs q) RETURN q.end WITHIN 1 min"
    found = sheaf.run({**again, "queries": [query]}, str(out / "matches"))["two"]
    assert [str(end) for end in found["q_end"].to_pylist()] == ["1970-01-01 00:00:03"]
    with pytest.raises(ResultsError, match="with 'aggregates', and is no table of"):
        sheaf.run(workload(COUNTS), EVENTS, out=f"{kind}:{out}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_in_a_table_once(
    kind: str, tmp_path: Path, rows: Callable[[pa.Table], Path]
) -> None:
    out = tmp_path / "table"
    for batch in (0, 1, 1, 0, 3):
        add_rows(table(kind, out), [rows(ROWS)], Turn("one" * 8, batch))
    add_rows(table(kind, out), [], Turn("one" * 8, 4))
    assert len(read(kind, out)) == 3 * 2
    add_rows(table(kind, out), [rows(ROWS)] * 2, Turn("two" * 8, 1))  # somebody else's
    assert len(read(kind, out)) == 5 * 2
    assert table(kind, out).last_batch("one" * 8) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_was_cut_off_before_its_commit_is_done_again(
    kind: str, tmp_path: Path, rows: Callable[[pa.Table], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, turn = tmp_path / "table", Turn("one" * 8, 7)

    def cut_off(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(table(kind, out)), "commit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            add_rows(table(kind, out), [rows(ROWS)], turn)
    assert list(out.glob("*.parquet"))  # which nobody reads
    add_rows(table(kind, out), [rows(ROWS.slice(1))], turn)
    assert [row["query"] for row in read(kind, out)] == ["r"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_who_write_at_the_same_time_lose_nothing(
    kind: str, tmp_path: Path, rows: Callable[[pa.Table], Path]
) -> None:
    out = tmp_path / "table"
    replace_rows(table(kind, out), rows(ROWS.slice(0, 0)))
    file = rows(ROWS)

    def write(writer: str) -> None:
        for batch in range(5):
            add_rows(table(kind, out), [file], Turn(writer * 8, batch))

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(write, ("one", "two"))) == [None, None]
    assert len(read(kind, out)) == 2 * 5 * 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_table_of_rows_is_refused_and_left_alone(
    kind: str, tmp_path: Path, rows: Callable[[pa.Table], Path]
) -> None:
    other = "iceberg" if kind == "delta" else "delta"
    out = tmp_path / "table"
    replace_rows(table(kind, out), rows(pa.table({"mine": [1, 2, 3]})))
    with pytest.raises(ResultsError, match="has other columns than these rows"):
        sheaf.run(workload(PAIRS), EVENTS, out=f"{kind}:{out}")
    with pytest.raises(ResultsError, match="is a table of"):
        sheaf.run(workload(PAIRS), EVENTS, out=f"{other}:{out}")
    with pytest.raises(ResultsError, match="is a table, and there are rows of both kinds"):
        sheaf.run(workload(PAIRS, COUNTS), EVENTS, out=f"{kind}:{out}")
    assert len(read(kind, out)) == 3
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(ResultsError, match=r"with 'cat\.jpg', and is no table of"):
        sheaf.run(workload(PAIRS), EVENTS, out=f"{kind}:{tmp_path / 'photos'}")
    with pytest.raises(ResultsError, match="there is no folder"):
        LakePlace("Delta" if kind == "delta" else "Iceberg", str(tmp_path / "no" / "t")).check()
    with pytest.raises(ResultsError, match="names no folder of this machine"):
        lake_place(f"{kind}:s3://bucket/table")


def test_a_hint_that_lags_behind_hides_no_rows(
    tmp_path: Path, rows: Callable[[pa.Table], Path]
) -> None:
    """As when two have written at the same time, and the first named its description last."""
    out = tmp_path / "table"
    for batch in range(2):
        add_rows(table("iceberg", out), [rows(ROWS)], Turn("one" * 8, batch))
    hint = out / "metadata" / "version-hint.text"
    hint.write_text(str(int(hint.read_text()) - 1))
    assert len(list_files(str(out))) == 2


def test_times_finer_than_a_table_holds_are_refused(
    tmp_path: Path, rows: Callable[[pa.Table], Path]
) -> None:
    fine = pa.table({"time": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(ResultsError, match="times in whole microseconds"):
        replace_rows(table("delta", tmp_path / "table"), rows(fine))


def test_a_table_of_a_catalog_is_not_written_behind_its_back(
    tmp_path: Path, rows: Callable[[pa.Table], Path]
) -> None:
    out = tmp_path / "table"
    replace_rows(table("iceberg", out), rows(ROWS))
    (out / "metadata" / "v1.metadata.json").rename(out / "metadata" / "00000-ab.metadata.json")
    for file in (out / "metadata").glob("v*"):
        file.unlink()
    with pytest.raises(ResultsError, match="is one of a catalog"):
        replace_rows(table("iceberg", out), rows(ROWS))
