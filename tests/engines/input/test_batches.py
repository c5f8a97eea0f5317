"""Files in batches: every format, and everything that can be wrong with a row."""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input import text_bytes as lines
from engines.input.batches import FileSource, read_events
from engines.input.event_files import LinesFile
from engines.input.event_table import Faults
from engines.limits import BadRowError, EventsError
from workloads.workload import Stream

STREAM = Stream(time="ts", type="kind", sequence="seq", attributes={"x": "float"})
COLUMNS = ["ts", "kind", "seq", "x"]
GOOD = [
    {"ts": 3, "kind": "A", "seq": 1, "x": 1.5},
    {"ts": 1, "kind": "B", "seq": 2, "x": None},
    {"ts": 2, "kind": "C", "seq": 3, "x": -2.0},
]
TEXT = ("csv", "csv.gz", "jsonl", "json")


def write(path: Path, rows: list[Any]) -> str:
    """Rows as they are given: a dict, or a line of text."""
    texts = [row for row in rows if isinstance(row, str)]
    match path.suffixes[0]:
        case ".parquet":
            assert not texts
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
        case ".csv":
            body = [row if isinstance(row, str) else _csv(row) for row in rows]
            text = "\n".join([",".join(COLUMNS), *body]) + "\n"
            path.write_bytes(
                gzip.compress(text.encode()) if ".gz" in path.suffixes else text.encode()
            )
        case ".json":
            path.write_text(json.dumps(rows))
        case _:
            path.write_text(
                "".join(r + "\n" if isinstance(r, str) else json.dumps(r) + "\n" for r in rows)
            )
    return str(path)


def _csv(row: dict[str, Any]) -> str:
    return ",".join("" if row.get(c) is None else str(row[c]) for c in COLUMNS)


def read(path: str, faults: Faults | None = None, **options: Any) -> list[dict[str, Any]]:
    source = FileSource(path, STREAM, faults or Faults(), **options)
    found = []
    for batch in source.batches(source.schema.names):
        rows = batch.table.to_pylist()
        assert [row["ts"] for row in rows] == batch.ticks.tolist()
        found += [{**row, "row": int(n)} for row, n in zip(rows, batch.rows, strict=True)]
    return found


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
@pytest.mark.parametrize("ending", ["parquet", *TEXT])
def test_every_format_in_batches(tmp_path: Path, ending: str, batch_rows: int) -> None:
    path = write(tmp_path / f"e.{ending}", GOOD)
    expected = [{**row, "row": number} for number, row in enumerate(GOOD, 1)]
    assert read(path, batch_rows=batch_rows) == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_blocks_end_where_lines_do(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK", 20)
    rows = [{"ts": i, "kind": "A" * (i % 40 + 1), "seq": i, "x": 0.5} for i in range(1, 60)]
    path = write(tmp_path / f"e.{ending}", rows)
    assert read(path) == [{**row, "row": number} for number, row in enumerate(rows, 1)]


BAD: list[tuple[dict[str, Any], str, str]] = [
    (
        {"ts": "soon", "kind": "A", "seq": 4, "x": 1.0},
        "wrong type",
        "column 'ts': 'soon' is no whole",
    ),
    ({"ts": 1.5, "kind": "A", "seq": 4, "x": 1.0}, "wrong type", "column 'ts': "),
    ({"ts": None, "kind": "A", "seq": 4, "x": 1.0}, "null time", "column 'ts': it is null"),
    (
        {"ts": 2**62, "kind": "A", "seq": 4, "x": 1.0},
        "time out of range",
        "column 'ts': the time is",
    ),
    (
        {"ts": 1, "kind": "A", "seq": None, "x": 1.0},
        "null sequence number",
        "column 'seq': it is null",
    ),
    (
        {"ts": 1, "kind": "A", "seq": "four", "x": 1.0},
        "wrong type",
        "column 'seq': 'four' is no whole",
    ),
    (
        {"ts": 1, "kind": "A", "seq": 4, "x": "much"},
        "wrong type",
        "column 'x': 'much' is no number",
    ),
]


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(("row", "kind", "said"), BAD)
@pytest.mark.parametrize("ending", TEXT)
def test_a_bad_row_is_named_or_left_out(
    tmp_path: Path, ending: str, row: dict[str, Any], kind: str, said: str, place: int
) -> None:
    path = write(tmp_path / f"e.{ending}", [*GOOD[:place], row, *GOOD[place:]])
    with pytest.raises(BadRowError) as caught:
        read(path)
    assert f"e.{ending}', row {place + 1}, {said}" in str(caught.value)
    faults = Faults("skip")
    numbers = [n for n in range(1, len(GOOD) + 2) if n != place + 1]
    assert read(path, faults) == [{**good, "row": n} for n, good in zip(numbers, GOOD, strict=True)]
    assert dict(faults.counts) == {kind: 1}
    assert faults.first == str(caught.value)


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize(("row", "kind", "said"), [bad for bad in BAD if bad[1] != "wrong type"])
def test_a_bad_row_of_parquet(
    tmp_path: Path, row: dict[str, Any], kind: str, said: str, place: int
) -> None:
    path = write(tmp_path / "e.parquet", [*GOOD[:place], row, *GOOD[place:]])
    with pytest.raises(BadRowError) as caught:
        read(path, batch_rows=1)
    assert f"e.parquet', row {place + 1}, {said}" in str(caught.value)
    faults = Faults("skip")
    assert [{k: v for k, v in r.items() if k != "row"} for r in read(path, faults)] == GOOD
    assert dict(faults.counts) == {kind: 1}


@pytest.mark.parametrize(
    ("ending", "line", "said"),
    [
        ("csv", "1,A", "row 2: 2 fields, and not 4"),
        ("csv", "1,A,2,3,4", "row 2: 5 fields, and not 4"),
        ("jsonl", '{"ts": 1', "row 2: it is no JSON"),
        ("jsonl", "[1, 2]", "row 2: it is no JSON object"),
    ],
)
def test_a_line_that_cannot_be_parsed(tmp_path: Path, ending: str, line: str, said: str) -> None:
    path = write(tmp_path / f"e.{ending}", [GOOD[0], line, *GOOD[1:]])
    with pytest.raises(BadRowError, match=said):
        read(path)
    faults = Faults("skip")
    assert [row["row"] for row in read(path, faults)] == [1, 3, 4]
    assert dict(faults.counts) == {"unparsable": 1}


def test_text_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b"ts,kind,seq,x\n1,A,1,1\n2,\xff\xfe,2,1\n")
    with pytest.raises(BadRowError, match=r"row 2, column 'kind': .* is no UTF-8 text"):
        read(str(path))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_times_as_text(tmp_path: Path, ending: str) -> None:
    moments = ["2020-01-01T00:00:00", "soon", "2020-01-01T00:00:02"]
    rows = [{"ts": m, "kind": "A", "seq": i, "x": 0.0} for i, m in enumerate(moments)]
    faults = Faults("skip")
    source = FileSource(write(tmp_path / f"e.{ending}", rows), STREAM, faults)
    ticks = [
        tick for batch in source.batches(["ts", "kind", "seq"]) for tick in batch.ticks.tolist()
    ]
    assert [tick - ticks[0] for tick in ticks] == [0, 2]
    assert source.tick == 10**9
    assert faults.first is not None
    assert "row 2, column 'ts': 'soon' is no time" in faults.first


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_times_as_text_may_have_fractions_of_a_second(
    tmp_path: Path, ending: str, zone: str
) -> None:
    moments = ["2020-01-01T00:00:00", "2020-01-01T00:00:00.5", "2020-01-01 00:00:01.000001"]
    rows = [{"ts": m + zone, "kind": "A", "seq": i} for i, m in enumerate(moments)]
    path = write(tmp_path / f"e.{ending}", rows)
    source = FileSource(path, STREAM, Faults("stop"))
    ticks = [tick for batch in source.batches(["ts", "seq"]) for tick in batch.ticks.tolist()]
    assert [tick - ticks[0] for tick in ticks] == [0, 500_000_000, 1_000_001_000]
    assert read_events(path, STREAM).ticks.tolist() == ticks


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_a_bad_row_of_json_leaves_the_times_of_others_alone(tmp_path: Path, zone: str) -> None:
    moments = ["2020-01-01T00:00:00", "2020-01-01T00:00:01", "2020-01-01T00:00:02"]
    rows: list[dict[str, Any]] = [
        {"ts": m + zone, "kind": "A", "seq": i, "x": i} for i, m in enumerate(moments)
    ]
    good = write(tmp_path / "good.jsonl", rows)
    expected = read_events(good, STREAM).ticks.tolist()
    rows[1]["x"] = "one"
    path = write(tmp_path / "bad.jsonl", rows)
    with pytest.raises(BadRowError, match="row 2, column 'x': 'one' is no whole number"):
        read(path, Faults("stop"))
    faults = Faults("skip")
    source = FileSource(path, STREAM, faults)
    ticks = [tick for batch in source.batches(["ts", "seq", "x"]) for tick in batch.ticks.tolist()]
    assert ticks == [expected[0], expected[2]]
    assert faults.total == 1


def test_many_bad_rows_are_all_found(tmp_path: Path) -> None:
    rows = [
        {"ts": i if i % 3 else "x", "kind": "A", "seq": i, "x": 1.0 if i % 5 else "y"}
        for i in range(1, 5001)
    ]
    for ending in ("csv", "jsonl"):
        faults = Faults("skip")
        found = read(write(tmp_path / f"e.{ending}", rows), faults)
        assert [row["row"] for row in found] == [i for i in range(1, 5001) if i % 3 and i % 5]
        assert faults.total == 5000 - len(found)


def test_types_are_guessed_from_the_start_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK", 200)
    monkeypatch.setattr(lines, "SAMPLE", 400)
    rows = [{"ts": i, "kind": "A", "seq": i, "x": 1.0, "y": 1} for i in range(100)]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "y": "one"}]))
    with pytest.raises(BadRowError, match="row 101, column 'y': 'one' is no whole number; if that"):
        read(str(path))
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "z": 1}]))
    with pytest.raises(BadRowError, match="row 101, column 'z': no row before has this field"):
        read(str(path))
    # Where nothing asks for it, it does not matter.
    source = FileSource(str(path), STREAM, Faults())
    assert sum(map(len, source.batches(["ts", "seq"]))) == 101


def test_a_list_of_objects_that_is_too_long_to_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK", 20)
    monkeypatch.setattr(lines, "SAMPLE", 40)
    path = tmp_path / "e.json"
    path.write_text(json.dumps(GOOD, indent=1))
    with pytest.raises(EventsError, match="write one object a line"):
        read(str(path))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "e.csv",
            "ts,kind,x\n1,A,2\n",
            "no column 'seq', which the stream declares as its sequence",
        ),
        ("e.csv", "ts,kind,seq,ts\n1,A,2,3\n", "two columns are called 'ts'"),
        ("e.csv", "ts,kind,seq\nsoon,A,1\nlater,A,2\n", "the time column 'ts' has type string"),
        ("e.csv", "ts,kind,seq\n1,A,x\n2,A,y\n", "the sequence column 'seq' has type string"),
        ("e.jsonl", '{"ts":1,"kind":"A"}\n', "no column 'seq'"),
        ("e.jsonl", "what is this\n", "cannot be read"),
        ("e.csv.gz", "not compressed", "cannot be read"),
        ("e.parquet", "not parquet", "cannot be read as Parquet"),
    ],
)
def test_what_no_row_can_be_right_with(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    for faults in (Faults(), Faults("skip")):
        with pytest.raises(EventsError) as caught:
            read(str(tmp_path / name), faults)
        assert not isinstance(caught.value, BadRowError)
        assert name in str(caught.value)
        assert said in str(caught.value)


def test_a_column_of_parquet_that_is_not_as_declared(tmp_path: Path) -> None:
    path = write(tmp_path / "e.parquet", [{"ts": 1, "kind": "A", "seq": 1, "x": "much"}])
    with pytest.raises(EventsError, match=r"e\.parquet': the column 'x' has type string, and"):
        read(path)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_folders_have_the_union_of_columns(tmp_path: Path, ending: str) -> None:
    write(tmp_path / f"a.{ending}", GOOD)
    more = pa.table({"ts": [9], "kind": ["Z"], "seq": [1], "extra": [1]})
    other = tmp_path / f"b.{ending}"
    match ending:
        case "parquet":
            pq.write_table(more, other)
        case "csv":
            pyarrow.csv.write_csv(more, other)
        case _:
            other.write_text(json.dumps(more.to_pylist()[0]) + "\n")
    found = read(str(tmp_path))
    assert [(row["row"], row["x"], row["extra"]) for row in found] == [
        (1, 1.5, None),
        (2, None, None),
        (3, -2.0, None),
        (1, None, 1),
    ]


def test_folders_of_parquet_are_columns(tmp_path: Path) -> None:
    for region in ("1", "eu"):
        (tmp_path / f"region={region}").mkdir()
        write(tmp_path / f"region={region}" / "e.parquet", GOOD[:1])
    assert [row["region"] for row in read(str(tmp_path))] == ["1", "eu"]


@pytest.mark.parametrize("content", ["", "\n\n", "ts,kind,seq,x\n", "ts,kind,seq,x\n\n\n"])
def test_files_without_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "e.csv").write_text(content)
    assert read(str(tmp_path / "e.csv")) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_newline(tmp_path: Path, newline: str) -> None:
    text = newline.join(["ts,kind,seq,x", "1,A,1,1.5", "", "2,B,2,", "x,C,3,1"])
    (tmp_path / "e.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    faults = Faults("skip")
    found = read(str(tmp_path / "e.csv"), faults)
    assert [(row["row"], row["kind"]) for row in found] == [(1, "A"), (2, "B")]
    assert faults.first is not None
    assert "row 3, column 'ts'" in faults.first


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    for name in ("a.csv", "b.jsonl", "c.parquet"):
        write(tmp_path / name, GOOD)
    told: list[float] = []
    read(str(tmp_path), progress=told.append, batch_rows=1)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


def test_a_row_group_is_not_held_as_a_whole(tmp_path: Path) -> None:
    rows = 2_000_000
    numbers = np.random.default_rng(1).integers(0, 2**60, rows)
    table = pa.table({"ts": np.arange(rows), "kind": ["A"] * rows, "seq": numbers, "x": numbers})
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=rows)
    before = pa.total_allocated_bytes()
    source = FileSource(str(tmp_path / "e.parquet"), STREAM, Faults(), batch_rows=20_000)
    held = [pa.total_allocated_bytes() - before for _ in source.batches(["ts", "seq", "x"])]
    assert len(held) == 100
    assert max(held) < table.nbytes / 3


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_parts_of_a_file_have_its_rows_once_wherever_they_are_cut(
    tmp_path: Path, ending: str, end: str
) -> None:
    path = Path(write(tmp_path / f"e.{ending}", GOOD * 2))
    path.write_text(path.read_text().rstrip("\n") + end)
    (file,) = FileSource(str(path), STREAM, Faults()).files
    assert isinstance(file, LinesFile)
    assert file.is_splittable()
    size = path.stat().st_size
    whole = [row for table, _, _ in file.read(file.schema, 100) for row in table.to_pylist()]
    assert len(whole) == 6
    for cut in range(size + 1):
        parts = [
            [row for table, _, _ in file.read(file.schema, 100, part) for row in table.to_pylist()]
            for part in ((0, cut), (cut, size))
        ]
        assert parts[0] + parts[1] == whole, cut
        assert file.rows_before(cut) == len(parts[0])


@given(st.data())
@settings(max_examples=20)
def test_rows_keep_their_numbers_whatever_is_left_out(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 30))
    size = data.draw(st.integers(1, 5))
    chosen = sorted(data.draw(st.sets(st.integers(0, (rows - 1) // size))))
    times = [data.draw(st.sampled_from([number, None])) for number in range(rows)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        pq.write_table(pa.table({"ts": pa.array(times, pa.int64())}), path, row_group_size=size)
        faults = Faults("skip")
        source = FileSource(str(path), Stream("ts"), faults, data.draw(st.integers(1, 8)))
        source.only({str(path): chosen})
        found = [
            (r, t) for b in source.batches(["ts"]) for r, t in zip(b.rows, b.ticks, strict=True)
        ]
    read = [number for group in chosen for number in range(rows)[group * size : (group + 1) * size]]
    assert found == [(number + 1, number) for number in read if times[number] is not None]
    assert faults.total == sum(times[number] is None for number in read)
    first = next((number + 1 for number in read if times[number] is None), None)
    assert faults.first is None if first is None else f"row {first}," in str(faults.first)
