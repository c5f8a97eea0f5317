"""Times in formats, and with fractions: read alike from every kind of file."""

import datetime
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input.batches import FileSource, read_events
from engines.input.event_table import Faults, from_table
from engines.input.line_files import parse_json
from engines.input.time_texts import parse_times
from engines.limits import BadRowError, EventsError
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.time_format import TimeFormatError, time_format
from workloads.workload import Stream, to_document

UTC = datetime.UTC
FORMATS = [
    "%d/%m/%Y %H:%M",
    "%b %d, %Y %I:%M %p",
    "%A %d %B %Y, %H.%M.%S",
    "%Y%m%d%H%M%S",
    "%Y-%j",
    "%y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%d.%m.%Y %H:%M:%S %z",
    "100%% %Y|%m|%d",
]


@pytest.mark.parametrize("format", FORMATS)
def test_times_are_those_of_python(format: str) -> None:
    chance = random.Random(format)
    texts, expected = [], []
    for _ in range(500):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
            seconds=chance.randrange(-(10**8), 3 * 10**9), microseconds=chance.randrange(10**6)
        )
        if "%z" in format:
            minutes = chance.randrange(-720, 720, 15)
            zone = datetime.timezone(datetime.timedelta(minutes=minutes))
            moment = moment.replace(tzinfo=zone)
        text = moment.strftime(format)
        texts.append(text.upper() if chance.random() < 0.2 else text)
        expected.append(datetime.datetime.strptime(text, format))
    found, bad = parse_times(pa.array(texts), time_format(format))
    assert not bad.any()
    assert [value.as_py() for value in found.cast(pa.timestamp("us", found.type.tz))] == expected


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("%d/%m/%Y", "31/02/2025"),
        ("%d/%m/%Y", "29/02/2023"),
        ("%d/%m/%Y", "01/13/2025"),
        ("%d/%m/%Y", "01/03/2025 08:00"),
        ("%d/%m/%Y", "0/03/2025"),
        ("%d/%m/%Y", ""),
        ("%d/%m/%Y", "1740816000"),
        ("%Y-%j", "2023-366"),
        ("%d/%m/%Y %H:%M", "01/03/2025 24:00"),
        ("%d/%m/%Y %I:%M %p", "01/03/2025 13:00 PM"),
        ("%b %d, %Y", "Foo 01, 2025"),
    ],
)
def test_what_does_not_fit_is_bad(format: str, text: str) -> None:
    found, bad = parse_times(pa.array([text, None]), time_format(format))
    assert bad.tolist() == [True, False]
    assert found.null_count == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%Q", "no directive '%Q'"),
        ("%", "no directive '%'"),
        ("%H:%M", "no year"),
        ("%Y-%m", "no day"),
        ("%Y-%m-%d %Y", "'%Y' stands for"),
        ("%Y-%y-%m-%d", "give the same"),
        ("%Y-%m-%d %I:%M", "needs %p"),
        ("%Y-%m-%d %M", "without '%H'"),
        ("%Y-%m-%d %Z", "no directive '%Z'"),
        ("", "no year"),
    ],
)
def test_formats_that_tell_no_time(text: str, said: str) -> None:
    with pytest.raises(TimeFormatError, match=said):
        time_format(text)


def document(**stream: Any) -> dict[str, Any]:
    query = "QUERY q PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 5 min"
    return {"name": "w", "stream": {"time": "ts", "type": "kind", **stream}, "queries": [query]}


def test_a_workload_keeps_its_format_and_delimiter() -> None:
    workload = load_workload(document(format="%d/%m/%Y %H:%M", delimiter="tab"))
    assert workload.stream.format == "%d/%m/%Y %H:%M"
    assert workload.stream.delimiter == "\t"
    again = load_workload(json.loads(json.dumps(to_document(workload))))
    assert again.stream == workload.stream


@pytest.mark.parametrize("stream", [{"format": "%H"}, {"format": 7}, {"delimiter": "ab"}])
def test_mistakes_in_them_are_said(stream: dict[str, Any]) -> None:
    (name,) = stream
    with pytest.raises(WorkloadError, match=rf"stream\.{name} is"):
        load_workload(document(**stream))


EURO = Stream(time="ts", type="kind", format="%d/%m/%Y %H:%M")
TEXTS = ["01/03/2025 08:00", "01/03/2025 08:05", "28/02/2025 23:59"]
SECONDS = [1740816000, 1740816300, 1740787140]


def write(path: Path, times: list[Any]) -> str:
    table = pa.table({"ts": times, "kind": ["A"] * len(times)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        lines = [f'"{t}",A' if isinstance(t, str) else f"{t},A" for t in times]
        path.write_text("\n".join(["ts,kind", *lines]) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_every_kind_of_file_has_times_in_a_format(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"e.{ending}", TEXTS)
    source = FileSource(path, EURO, Faults())
    ticks = [t for batch in source.batches(["ts"]) for t in batch.ticks.tolist()]
    assert ticks == SECONDS
    assert source.tick == 10**9
    events = read_events(path, EURO)
    assert events.ticks.tolist() == sorted(SECONDS)
    assert events.time_type == pa.timestamp("s")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_time_of_another_format_is_a_bad_row(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"e.{ending}", [TEXTS[0], "2025-03-01", TEXTS[1]])
    with pytest.raises(BadRowError) as caught:
        read_events(path, EURO)
    said = "row 2, column 'ts': '2025-03-01' is no time of the format '%d/%m/%Y %H:%M'"
    assert said in str(caught.value)
    source = FileSource(path, EURO, Faults("skip"))
    (batch,) = source.batches(["ts", "kind"])
    assert (batch.ticks.tolist(), batch.rows.tolist()) == (SECONDS[:2], [1, 3])


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_digits_alone_may_be_a_format(tmp_path: Path, ending: str) -> None:
    stream = Stream(time="ts", type="kind", format="%Y%m%d%H%M")
    path = write(tmp_path / f"e.{ending}", [202503010800, 202503010805])
    assert read_events(path, stream).ticks.tolist() == SECONDS[:2]


def test_tables_in_memory_have_formats_too() -> None:
    events = from_table(pa.table({"ts": TEXTS, "kind": ["A"] * 3}), EURO)
    assert events.ticks.tolist() == sorted(SECONDS)
    with pytest.raises(EventsError, match="'soon', which is no time of the format"):
        from_table(pa.table({"ts": ["soon"], "kind": ["A"]}), EURO)


def test_messages_have_formats_too() -> None:
    schema = pa.schema([("ts", pa.timestamp("s")), ("kind", pa.string())])
    block = b'{"ts": "01/03/2025 08:00", "kind": "A"}\n{"ts": 5, "kind": "B"}\n'
    table, rows, faults = parse_json(block, schema, EURO)
    assert rows.tolist() == [0]
    assert table.column("ts").cast(pa.int64()).to_pylist() == SECONDS[:1]
    assert [fault.row for fault in faults] == [2]


# --- fractions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 1000)])
def test_numbers_with_fractions_are_moments(
    tmp_path: Path, ending: str, unit: Any, scale: int
) -> None:
    times = [1740816000.25, 1740816000.0, 1740816001.123456]
    path = write(tmp_path / f"e.{ending}", [t * scale for t in times])
    events = read_events(path, Stream(time="ts", type="kind", unit=unit))
    assert events.time_type == pa.timestamp("us", "UTC")
    assert events.ticks.tolist() == sorted(round(t * 10**6) for t in times)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_whole_numbers_with_a_few_fractions_stay_whole(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"e.{ending}", [1, 2, 3, 4])
    with Path(path).open("a") as file:
        file.write("5.5,A\n" if ending == "csv" else '{"ts": 5.5, "kind": "A"}\n')
    with pytest.raises(BadRowError, match=r"row 5, column 'ts': .*5\.5.* is no whole number"):
        read_events(path, Stream(time="ts", type="kind", unit="s"))


def test_a_later_file_of_whole_seconds_is_of_the_same_stream(tmp_path: Path) -> None:
    stream = Stream(time="ts", type="kind", unit="s")
    first = FileSource(write(tmp_path / "a.csv", [1.5, 2.5]), stream, Faults())
    for name in ("b.csv", "b.jsonl"):
        later = FileSource(write(tmp_path / name, [3, 4]), stream, Faults(), schema=first.schema)
        assert [b.ticks.tolist() for b in later.batches(["ts"])] == [[3_000_000, 4_000_000]]
