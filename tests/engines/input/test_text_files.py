"""Text files as people have them: other delimiters and encodings, packed, torn, and no text."""

import ast
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input import text_bytes
from engines.input.batches import FileSource
from engines.input.csv_records import count_fields, split_records
from engines.input.event_files import LinesFile
from engines.input.event_table import ENDINGS, Faults, list_files
from engines.input.json_values import arrow_takes, is_deep
from engines.input.text_bytes import arrow_reader
from engines.limits import BadRowError, EventsError
from workloads.workload import Stream

STREAM = Stream(time="ts", type="kind")
ROOT = Path(__file__).parents[3]
LINES = ["ts,kind,note", "1,A,x", "2,B,y", "3,C,z"]


def rows(path: Path, stream: Stream = STREAM, faults: Faults | None = None) -> list[list[Any]]:
    source = FileSource(str(path), stream, faults or Faults())
    return [
        list(row.values())
        for batch in source.batches(source.schema.names)
        for row in batch.table.to_pylist()
    ]


def refused(path: Path, stream: Stream = STREAM) -> str:
    with pytest.raises(EventsError) as caught:
        rows(path, stream)
    return str(caught.value)


# --- memory that Arrow's threads may free --------------------------------------------------------


def test_what_arrow_parses_is_in_memory_of_its_own() -> None:
    text = b"x" * 1_000_000
    before, references = pa.total_allocated_bytes(), sys.getrefcount(text)
    reader = arrow_reader(text)
    assert pa.total_allocated_bytes() - before >= len(text)
    assert sys.getrefcount(text) == references
    assert reader.read() == text


def test_arrow_is_never_given_bytes_of_python_to_parse() -> None:
    calls = 0
    for folder in ("api", "engines", "optimizer", "sharing", "workloads"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                    (".read_csv", ".open_csv", "json.read_json", "json.open_json")
                ):
                    calls += 1
                    assert ast.unparse(node.args[0]).startswith("arrow_reader("), (file, node)
    assert calls == 5


READ = """
from engines.input.batches import FileSource
from engines.input.event_table import Faults
from workloads.workload import Stream
source = FileSource({path!r}, Stream(time="ts", type="kind"), Faults())
assert sum(map(len, source.batches(source.schema.names))) == 2000
"""


def exits(path: Path, times: int) -> list[int]:
    """The exit codes of processes that read a small file last of all."""
    body = "".join(f"{i},A,x\n" for i in range(2_000))
    path.write_text("ts,kind,note\n" + body)
    command = [sys.executable, "-c", READ.format(path=str(path))]
    return [subprocess.run(command, cwd=ROOT, check=False).returncode for _ in range(times)]


def test_a_process_that_reads_last_of_all_ends_well(tmp_path: Path) -> None:
    assert exits(tmp_path / "e.csv", 3) == [0] * 3


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_processes_that_read_last_of_all_end_well(tmp_path: Path) -> None:
    assert exits(tmp_path / "e.csv", 100) == [0] * 100


# --- delimiters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_told_from_the_header(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text("\n".join(LINES).replace(",", mark))
    assert rows(path) == [[1, "A", "x"], [2, "B", "y"], [3, "C", "z"]]


def test_other_delimiters_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("\n".join(LINES).replace(",", "^"))
    assert rows(path, Stream(time="ts", type="kind", delimiter="^"))[2] == [3, "C", "z"]
    assert "no column 'ts'" in refused(path)


def test_a_comma_goes_first_and_a_declared_delimiter_before_it(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("ts,kind,a;b\n1,A,2;3\n")
    assert rows(path) == [[1, "A", "2;3"]]
    path.write_text("ts;kind;a,b\n1;A;2,3\n")
    assert rows(path) == [[1, "A", "2,3"]]
    semicolon = Stream(time="a;b", type="kind", delimiter=",")
    path.write_text("kind,a;b\nA,7\n")
    assert rows(path, semicolon) == [["A", 7]]


# --- encodings and packing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("ts,kind,pr€is\n1,A,2\n".encode("cp1252"), "not UTF-8: byte 0x80 in line 1"),
        ("ts,kind\n1,A\n".encode("utf-16"), "byte 0xff in line 1; convert it: iconv -f utf-16"),
        (
            "ts,kind\n1,A\n".encode("utf-16-be"),
            "0x00 in line 1; convert it: iconv -f utf-16be",
        ),
        (b"ts,\x00kind\n" + b"1,A\n" * 200, "not text: byte 0x00 in line 1"),
        (b"ts,kind\n" + b"\x00\x01\x02,A\n" * 200, "not text: byte 0x00 in line 2"),
        (b"BZh91AY&SY", "packed with bzip2"),
        (b"\xfd7zXZ\x00\x00", "packed with xz"),
        (b"PK\x03\x04rest", "zip archive or an Excel workbook"),
        (b"PAR1rest", "is Parquet"),
    ],
)
@pytest.mark.parametrize("name", ["e.csv", "e.jsonl"])
def test_what_is_no_utf8_is_said_with_byte_and_line(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = refused(path)
    if name == "e.csv" or "0x80" not in said:
        assert said in found
    assert name in found


def test_json_lines_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    line = '{"ts": 1, "kind": "café"}\n'
    path.write_bytes(line.encode("cp1252") * 2)
    assert "not UTF-8: byte 0xe9 in line 1" in refused(path)
    path.write_bytes(line.encode() + line.encode("cp1252"))
    assert "row 2: byte 0xe9 is not UTF-8; convert the file" in refused(path)
    assert rows(path, faults=Faults("skip")) == [[1, "café"]]


def test_values_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b"ts,kind\n1,A\n2,caf\xe9\n")
    assert "row 2, column 'kind': 'caf\ufffd' is no UTF-8 text: byte 0xe9" in refused(path)
    assert rows(path, faults=Faults("skip")) == [[1, "A"]]


def packed(text: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(text)
    return bytes(pa.compress(text, codec, asbytes=True))


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_files_are_unpacked_by_what_they_are(tmp_path: Path, ending: str, codec: str) -> None:
    text = "\n".join(LINES) if ending == "csv" else '{"ts": 1, "kind": "A"}\n{"ts": 2, "kind": "B"}'
    expected = 3 if ending == "csv" else 2
    suffix = {"gzip": ".gz", "zstd": ".zst"}[codec]
    for name in (f"e.{ending}{suffix}", f"e.{ending}"):
        path = tmp_path / name
        path.write_bytes(packed(text.encode(), codec))
        assert len(rows(path)) == expected
        (file,) = FileSource(str(path), STREAM, Faults()).files
        assert isinstance(file, LinesFile)
        assert not file.is_splittable()
    plain = tmp_path / f"f.{ending}{suffix}"
    plain.write_text(text)
    assert f"it ends in {suffix}, and is not packed with {codec}" in refused(plain)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_packed_file_that_is_cut_is_refused(tmp_path: Path, codec: str) -> None:
    text = "\n".join(["ts,kind,note", *(f"{i},A,{i * i}" for i in range(5_000))]).encode()
    path = tmp_path / "e.csv"
    path.write_bytes(packed(text, codec)[:-2000])
    assert "cannot be read" in refused(path)


# --- rows that are torn --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("5,A", "2 fields, and not 3"),
        ("5,A,x,y,z", "5 fields, and not 3"),
        ('5,A,"never ended', "a quote that nothing ends"),
        ('"5,A,x', "a quote that nothing ends"),
        ("\x00", "1 fields, and not 3"),
        ('5,"A"",x', "a quote that nothing ends"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_torn_row_is_left_out_alone(tmp_path: Path, damage: str, why: str, place: int) -> None:
    good = ["1,A,x", '2,B,"a, ""b"""', "3,C,z"]
    path = tmp_path / "e.csv"
    path.write_text("\n".join(["ts,kind,note", *good[:place], damage, *good[place:]]) + "\n")
    assert f"row {place + 1}: {why}" in refused(path)
    faults = Faults("skip")
    assert rows(path, faults=faults) == [[1, "A", "x"], [2, "B", 'a, "b"'], [3, "C", "z"]]
    assert faults.counts == {"unparsable": 1}


def test_newlines_in_quotes_are_values_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [[i, "AB"[i % 2], "one\ntwo, three" if i % 3 else "plain"] for i in range(60)]
    body = "".join(f'{t},{k},"{n}"\n' for t, k, n in expected)
    path = tmp_path / "e.csv"
    path.write_text("ts,kind,note\n" + body + "soon,A,x\n")
    for block in (64, 100, 1000, 2**22):
        monkeypatch.setattr(text_bytes, "BLOCK", block)
        faults = Faults("skip")
        assert rows(path, faults=faults) == expected, block
        assert faults.total == 1
        assert faults.first is not None
        assert "row 61, column 'ts'" in faults.first


def test_empty_lines_in_quotes_are_part_of_a_value(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text('ts,kind,note\n\n1,A,"a\n\nb"\n\nlost\n2,B,c\n')
    assert rows(path, faults=Faults("skip")) == [[1, "A", "a\n\nb"], [2, "B", "c"]]


def test_a_stray_quote_does_not_reach_to_the_next_quoted_value(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text('ts,kind,note\n1,A,"lost\n2,B,x\n3,C,"say ""hi"""\n4,D,"z"\n')
    assert "row 1: a quote that nothing ends" in refused(path)
    found = rows(path, faults=Faults("skip"))
    assert found == [[2, "B", "x"], [3, "C", 'say "hi"'], [4, "D", "z"]]


def test_a_first_line_that_is_a_list_does_not_make_one_of_all(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('[1, 2]\n{"ts": 1, "kind": "A"}\n{"ts": 2, "kind": "B"}\n')
    assert "row 1: it is no JSON object" in refused(path)
    assert rows(path, faults=Faults("skip")) == [[1, "A"], [2, "B"]]


@pytest.mark.parametrize(
    "line", ["null", "  null{", '{"ts": 9, "kind": "A", "deep": ' + "[" * 5000 + "]" * 5000 + "}"]
)
@pytest.mark.parametrize("place", [0, 2])
def test_json_that_arrow_cannot_be_given_is_a_bad_row(
    tmp_path: Path, line: str, place: int
) -> None:
    good = ['{"ts": 1, "kind": "A"}', '{"ts": 2, "kind": "B"}']
    path = tmp_path / "e.jsonl"
    path.write_text("\n".join([*good[:place], line, *good[place:]]))
    assert f"row {place + 1}: it is" in refused(path)
    assert rows(path, faults=Faults("skip")) == [[1, "A"], [2, "B"]]


@pytest.mark.parametrize(("depth", "is_taken"), [(64, True), (65, False), (10_000, False)])
def test_json_is_nested_so_deep_at_most(depth: int, is_taken: bool) -> None:
    value: Any = 7
    for _ in range(depth):
        value = [value]
    assert is_deep(value) is not is_taken
    assert arrow_takes(b"[" * depth + b"7" + b"]" * depth) is is_taken
    assert arrow_takes(b'{"a": "null"}\n' * 1000)


def test_records_are_what_arrow_reads(tmp_path: Path) -> None:
    block = b'1,"a\nb",x\n\n2,6" pipe,y\r\n3,"a"b"c,z\r4,"q""",w'
    assert split_records(block, b",", 3) == [
        b'1,"a\nb",x', b'2,6" pipe,y', b'3,"a"b"c,z', b'4,"q""",w',
    ]  # fmt: skip
    assert [count_fields(r, b",") for r in split_records(block, b",", 3)] == [3] * 4
    path = tmp_path / "e.csv"
    path.write_bytes(b"ts,kind,note\n" + block)
    assert [row[1] for row in rows(path)] == ["a\nb", '6" pipe', 'ab"c', 'q"']


def test_a_line_without_end_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_bytes, "BLOCK", 1000)
    monkeypatch.setattr(text_bytes, "LONGEST_LINE", 5000)
    path = tmp_path / "e.csv"
    path.write_text("ts,kind,note\n1,A," + "x" * 20_000)
    assert "a line of more than" in refused(path)


# --- tables, permissions, other files ------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "kind"),
    [("_delta_log", "Delta"), (".hoodie", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")],
)
def test_the_folder_of_a_table_is_refused_where_nothing_reads_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, kind: str
) -> None:
    for library in ("deltalake", "pyiceberg.table"):
        monkeypatch.setitem(sys.modules, library, None)
    folder = tmp_path / "deep" / "table"
    (folder / "day=1").mkdir(parents=True)
    for file in (folder / "a.parquet", folder / "day=1" / "b.parquet"):
        pq.write_table(pa.table({"ts": [1], "kind": ["A"]}), file)
    assert len(list_files(str(tmp_path))) == 2
    if log.endswith(".json"):
        (folder / log).parent.mkdir()
        (folder / log).write_text("{}")
    else:
        (folder / log).mkdir()
    for path in (
        folder,
        tmp_path,
        folder / "*.parquet",
        folder / "day=1",
        folder / "*/*.parquet",
    ):
        with pytest.raises(EventsError, match=rf"table \({kind}\).*--events table:NAME"):
            list_files(str(path))
    assert list_files(str(folder / "a.parquet"))


def test_files_of_a_folder_that_would_be_left_out_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join(LINES))
    (tmp_path / "b.csv.bz2").write_bytes(b"BZh")
    with pytest.raises(EventsError, match=r"b\.csv\.bz2' is in a folder of events"):
        list_files(str(tmp_path))


def test_a_file_that_may_not_be_read_is_said_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e.csv"
    path.write_text("\n".join(LINES))

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Failed to open local file")

    monkeypatch.setattr(text_bytes.pa, "OSFile", forbidden)
    assert "e.csv' cannot be read: permission denied; allow the user" in refused(path)


def test_every_ending_that_is_taken_is_listed_once() -> None:
    assert len(set(ENDINGS)) == len(ENDINGS) == 13
    assert ".csv.zst" in ENDINGS


def test_a_bad_row_of_a_spoilt_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("ts,kind,n\n1,A,5\n2,A,N/A\n3,A,7\n")
    stream = Stream(time="ts", type="kind", attributes={"n": "float"})
    with pytest.raises(BadRowError, match="row 2, column 'n': 'N/A' is no number"):
        rows(path, stream)
    assert rows(path, stream, Faults("skip")) == [[1, "A", 5.0], [3, "A", 7.0]]
