"""Files of events that are damaged in every way: a run gives rows, or says what is wrong.

Where only whole lines are damaged, and bad rows are to be left out, the rows are those of the file
without these lines.
"""

import gzip
import json
import random
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.parquet as pq

from engines.execution import EventSource, Execution, RowSink
from engines.run import run
from engines.statistics.measure import sample_files
from optimizer.bind.binder import bind
from optimizer.plan.plan import Plan
from sharing.planner import make_plan
from tests.fuzzing.duration import QUICK_SECONDS, SOAK_SECONDS, fuzz, soak
from workloads.errors import SheafError
from workloads.loading import load_workload
from workloads.workload import Workload, to_document

Row = dict[str, Any]
NAMES = ["ts", "kind", "card", "amount", "note"]
DECLARED = {"card": "string", "amount": "float", "note": "string"}
QUERIES = {
    "count": "QUERY count PATTERN SEQ(A a, !C c, B b) PARTITION BY card AGG COUNT(*) WITHIN 9 s",
    "sum": "QUERY sum PATTERN SEQ(A a, B b) AGG COUNT(*), SUM(b.amount) WITHIN 9 s SLIDE 3 s",
    "match": "QUERY match PATTERN SEQ(A a, B b) WHERE a.amount < b.amount AND a.card = b.card "
    "RETURN a.time, b.note WITHIN 9 s",
    "whole": "QUERY whole PATTERN SEQ(A a, B b) WHERE a.note != 'x' RETURN a, b WITHIN 3 s",
    "all": "QUERY whole PATTERN SEQ(A a, ALL B b) RETURN a.card, count(b.card) WITHIN 3 s",
}
TIMES = ("number", "iso", "fraction", "format")
FORMAT = "%d/%m/%Y %H:%M:%S"
START = datetime(2025, 3, 1, tzinfo=UTC)


@cache
def planned(times: str, declared: bool, queries: tuple[str, ...]) -> tuple[Workload, Plan]:
    stream: dict[str, Any] = {"time": "ts", "type": "kind", "unit": "s"}
    if times == "format":
        stream["format"] = FORMAT
    if declared:
        stream["attributes"] = DECLARED
    texts = [QUERIES[name] for name in queries]
    workload = load_workload({"name": "fuzz", "stream": stream, "queries": texts})
    return workload, make_plan(bind(workload), to_document(workload))


def rows_of(
    path: Path, workload: Workload, plan: Plan, on_error: OneOf["stop", "skip"]
) -> list[list[Row]]:
    """Aggregates and matches, in an order of their own."""
    del workload
    source = EventSource(str(path), on_error)
    report = run(plan, source, RowSink(None, None), Execution())
    assert report.first is not None
    tables = (report.first.aggregates, report.first.matches)
    return [sorted(table.to_pylist(), key=repr) for table in tables]


# --- events --------------------------------------------------------------------------------------


def some_rows(chance: random.Random, times: str, most: int = 40) -> list[Row]:
    found: list[Row] = []
    now = 0.0
    for _ in range(chance.randrange(most)):
        now += chance.choice((0, 0, 1, 1, 2, 5))
        moment = START + timedelta(seconds=now)
        match times:
            case "number":
                written: Any = int(moment.timestamp())
            case "fraction":
                written = moment.timestamp() + 0.25
            case "iso":
                written = moment.strftime("%Y-%m-%dT%H:%M:%S")
            case _:
                written = moment.strftime(FORMAT)
        notes = ["x", "", "a, b", 'say "hi"', "two\nlines", "naïve €", None]
        found.append(
            {
                "ts": written,
                "kind": chance.choice("AABBC"),
                "card": chance.choice(["c1", "c2", None]),
                "amount": chance.choice([1.5, 2.0, 7, None]),
                "note": chance.choice(notes),
            }
        )
    return found


def csv_value(value: Any, mark: str) -> str:
    if value is None:
        return ""
    text = str(value)
    if text == "" or any(c in text for c in f'"\n{mark}'):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_line(row: Row, mark: str) -> bytes:
    return mark.join(csv_value(row[name], mark) for name in NAMES).encode()


def text_lines(rows: list[Row], kind: str, mark: str) -> list[bytes]:
    if kind == "csv":
        return [csv_line(row, mark) for row in rows]
    return [json.dumps(row).encode() for row in rows]


def text_file(lines: list[bytes], kind: str, mark: str, chance: random.Random) -> bytes:
    end = chance.choice((b"\n", b"\n", b"\r\n"))
    head = [mark.join(NAMES).encode()] if kind == "csv" else []
    return end.join([*head, *lines]) + chance.choice((b"", end, end + end))


def written(folder: str, text: bytes, kind: str, packing: str, name: str = "e") -> Path:
    path = Path(folder) / f"{name}.{kind}{packing}"
    if packing == ".gz":
        text = gzip.compress(text, mtime=0)
    elif packing == ".zst":
        text = pa.compress(text, "zstd", asbytes=True)
    path.write_bytes(text)
    return path


# --- damage --------------------------------------------------------------------------------------


def damaged_bytes(chance: random.Random, content: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place = chance.randrange(len(found) + 1)
        size = chance.choice((1, 1, 2, 8, 100))
        match chance.randrange(6):
            case 0:
                found[place : place + size] = chance.randbytes(size)
            case 1:
                found[place:place] = chance.choice(
                    (
                        b'"',
                        b",",
                        b"\n",
                        b"\r",
                        b"\0",
                        b"\xff",
                        b"[",
                        b"{",
                        b"}",
                        b"null",
                        b"1e999",
                        b"[" * 999,
                    )
                )
            case 2:
                del found[place : place + size]
            case 3:
                found[place:place] = found[place : place + size]
            case 4:
                del found[place:]
            case _ if place < len(found):
                found[place] ^= 1 << chance.randrange(8)
    return bytes(found)


def damaged_line(chance: random.Random, row: Row, kind: str, mark: str, can_open: bool) -> bytes:
    """A line that is no event, whatever is around it."""
    whole = {**row, "note": "plain"}
    bad_time = {**whole, "ts": chance.choice(["soon", "99/99/9999", "1e", "٣"])}
    no_time = {**whole, "ts": None}
    if kind == "csv":
        line = csv_line(whole, mark)
        choices = [
            csv_line(bad_time, mark),
            csv_line(no_time, mark),
            line + mark.encode() + b"more",
            line.rpartition(mark.encode())[0],
            b"\xff\xfe" + line,
            b"lost",
            b"\x00" + line,
        ]
        if can_open:
            choices += [line.rpartition(mark.encode())[0] + mark.encode() + b'"open']
        return chance.choice(choices)
    line = json.dumps(whole).encode()
    return chance.choice(
        [
            json.dumps(bad_time).encode(),
            json.dumps(no_time).encode(),
            json.dumps({**whole, "ts": [1]}).encode(),
            json.dumps({**whole, "amount": {"a": "much"}}).encode(),
            line[:-1],
            line[: len(line) // 2],
            line.replace(b"plain", b"\xe9"),
            b"[1, 2]",
            b"7",
            b"null",
            line + b"}",
            b"lost",
        ]
    )


# --- cases ---------------------------------------------------------------------------------------


def some_queries(chance: random.Random) -> tuple[str, ...]:
    return tuple(sorted(chance.sample(["count", "sum", "match", "whole"], 2)))


def outcome(path: Path, workload: Workload, plan: Plan) -> str:
    """Rows, or an error for people, whether bad rows stop the run or not."""
    found = "ok"
    for on_error in ("stop", "skip"):
        try:
            rows_of(path, workload, plan, on_error)  # type: ignore[arg-type]
        except SheafError:
            found = "refused"
    with suppress(SheafError):
        sample_files(workload, str(path))
    return found


def damaged_text(chance: random.Random) -> str:
    times, kind = chance.choice(TIMES), chance.choice(("csv", "jsonl"))
    workload, plan = planned(times, chance.random() < 0.5, some_queries(chance))
    mark = chance.choice(",,;\t|")
    lines = text_lines(some_rows(chance, times), kind, mark)
    packing = chance.choice(("", "", "", ".gz", ".zst"))
    text = text_file(lines, kind, mark, chance)
    inside = chance.random() < 0.7
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, damaged_bytes(chance, text) if inside else text, kind, packing)
        if not inside:
            path.write_bytes(damaged_bytes(chance, path.read_bytes()))
        return outcome(path, workload, plan)


def torn_lines(chance: random.Random) -> str:
    """Whole lines are damaged: the others give the rows that they give alone."""
    times, kind = chance.choice(TIMES), chance.choice(("csv", "jsonl"))
    workload, plan = planned(times, True, some_queries(chance))
    mark = chance.choice(",,;\t|")
    rows = some_rows(chance, times)
    good = text_lines(rows, kind, mark)
    if len(good) < 3:  # most lines have to be good, for the type of the times to be told
        return "empty"
    mixed = list(good)
    can_open = not any(b"\n" in line for line in good)
    for _ in range(chance.randrange(1, max(2, len(good) // 3))):
        line = damaged_line(chance, chance.choice(rows), kind, mark, can_open)
        can_open = can_open and b'"open' not in line
        mixed.insert(chance.randrange(len(mixed) + 1), line)
    packing = chance.choice(("", "", ".gz", ".zst"))
    with tempfile.TemporaryDirectory() as folder:
        clean = written(folder, text_file(good, kind, mark, chance), kind, packing, "clean")
        torn = written(folder, text_file(mixed, kind, mark, chance), kind, packing, "torn")
        expected = rows_of(clean, workload, plan, "stop")
        assert rows_of(torn, workload, plan, "skip") == expected
        try:
            rows_of(torn, workload, plan, "stop")
        except SheafError:
            return "rows" if any(expected) else "no rows"
        raise AssertionError("a damaged line was taken for an event")


def odd_columns(chance: random.Random) -> str:
    """Parquet, and JSON, with columns of types that nobody expects."""
    times = chance.choice(TIMES)
    workload, plan = planned(times, chance.random() < 0.5, some_queries(chance))
    rows = some_rows(chance, times)
    table = pa.Table.from_pylist(rows) if rows else pa.table({name: [] for name in NAMES})
    size = table.num_rows
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(NAMES)
        table = table.set_column(NAMES.index(name), name, odd_column(chance, size))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.parquet"
        try:
            pq.write_table(table, path, row_group_size=7)
        except (pa.ArrowException, ValueError):
            return "not written"
        if chance.random() < 0.3:
            path.write_bytes(damaged_bytes(chance, path.read_bytes()))
        return outcome(path, workload, plan)


def odd_column(chance: random.Random, size: int) -> pa.Array:
    kinds: list[tuple[pa.DataType, list[Any]]] = [
        (pa.list_(pa.int64()), [[1], [], None]),
        (pa.list_(pa.null()), [[], None]),
        (pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None]),
        (pa.binary(), [b"\xff", b"A", None]),
        (pa.large_binary(), [b"\xff"]),
        (pa.duration("ns"), [5, None]),
        (pa.time64("us"), [5, None]),
        (pa.time32("s"), [5, None]),
        (pa.decimal128(30, 3), [1, None]),
        (pa.decimal256(60, 3), [10**40]),
        (pa.int8(), [1, None, -5]),
        (pa.uint64(), [2**64 - 1, 1]),
        (pa.int64(), [2**62, -(2**63), 0, None]),
        (pa.float32(), [float("nan"), float("inf"), 1.5]),
        (pa.float64(), [1e300, -1e-300, None, 1.5]),
        (pa.bool_(), [True, False, None]),
        (pa.date32(), [0, 2**31 - 1, None]),
        (pa.date64(), [0, 86_400_000 * 10**9]),
        (pa.timestamp("s"), [0, 2**61, None]),
        (pa.timestamp("ns", "Europe/Berlin"), [0, 2**62, None]),
        (pa.timestamp("ms", "UTC"), [0, 2**55]),
        (pa.string(), ["A", "B", "\0", None]),
        (pa.large_string(), ["A", "B"]),
        (pa.string_view(), ["A", "B", None]),
        (pa.dictionary(pa.int32(), pa.string()), ["A", "B", None]),
        (pa.null(), [None]),
    ]
    kind, values = chance.choice(kinds)
    chosen = [chance.choice(values) for _ in range(size)]
    if pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(chosen, width).cast(kind)
    return pa.array(chosen, kind)


FUZZERS = {"bytes": damaged_text, "lines": torn_lines, "columns": odd_columns}


def one_case(chance: random.Random) -> str:
    name = chance.choice(list(FUZZERS))
    return f"{name}: {FUZZERS[name](chance)}"


def test_damaged_files_give_rows_or_reasons() -> None:
    outcomes = fuzz(one_case, cases=150, at_least=QUICK_SECONDS)
    assert outcomes["lines: rows"]
    assert outcomes["bytes: refused"]


@soak
def test_damaged_files_give_rows_or_reasons_for_long() -> None:
    fuzz(one_case, seconds=SOAK_SECONDS)
