"""Matches that are structs are those of the reference, for all queries and types of columns."""

import datetime
import json
import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.execution import EventSource, Execution, RowSink
from engines.input.event_table import Events, from_table
from engines.limits import Limits, ResultsError
from engines.local.run import event_chunks
from engines.program import RunContext, RunOptions
from engines.reference.oracle import run_oracle
from engines.results.sorting import FileOutput
from engines.results.struct_sorting import StructRows
from engines.results.struct_texts import table_with_texts
from engines.results.structs import match_structs
from engines.results.tables import Results, empty_results
from engines.run import run
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from sharing.planner import make_plan
from tests.differential.test_local import events_of
from tests.differential.test_trees import DENSE, PLAIN_NEGATIONS, TAKEN, Case, cases
from tests.running import How

LIMITED = replace(DENSE, limit=True)
WAYS = (How(), How(detection="left"), How(detection="stepwise"), How(sharing=False))


def found_rows(workload: BoundWorkload, events: Events, how: How, chunk: int) -> Results:
    """All rows of a run, with structs."""
    structs = match_structs(workload, events.table.schema)
    assert structs is not None
    output = StructRows(structs)
    output.add(empty_results(events.time_type))
    context = RunContext(RunOptions(limits=Limits(chunk=chunk)))
    for part in how.program(workload).separate():
        for chunk_ in event_chunks(part, events, context):
            output.take(chunk_)
    assert output.first is not None
    return output.first


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: plain(v) for name, v in value.items()}
        case list():
            return [plain(v) for v in value]
        case datetime.datetime():
            zone = "" if value.tzinfo is None else "Z"
            whole, _, fraction = value.replace(tzinfo=None).isoformat().partition(".")
            while fraction.endswith("000"):
                fraction = fraction[:-3]
            return whole + (f".{fraction}" if fraction else "") + zone
        case datetime.date():
            return value.isoformat()
        case _:
            return value


def in_type(value: Any, kind: pa.DataType) -> Any:
    """What JSON has as it stands in a type: what is absent is null."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: in_type(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return [in_type(v, kind.value_type) for v in value]
    return value


def expected_match(query: str, text: str, whole: pa.StructType) -> dict[str, Any]:
    """A match of the reference as the struct of all queries has it."""
    found: dict[str, Any] = {field.name: None for field in whole}
    for name, value in json.loads(text).items():
        place = name if name in found else f"{query}_{name}"
        found[place] = in_type(value, whole.field(place).type)
    return found


def check(found: Results, expected: Results) -> None:
    """The same rows, each with the match of the reference, and in the order of files."""
    whole = found.matches.schema.field("match").type
    wanted = Counter(
        repr(row | {"match": expected_match(row["query"], row["match"], whole)})
        for row in expected.matches.to_pylist()
    )
    rows = found.matches.to_pylist()
    assert Counter(repr(row | {"match": plain(row["match"])}) for row in rows) == wanted
    places = [(r["query"], r["key"] or "", r["time"], r["start"], r["end"]) for r in rows]
    assert places == sorted(places)
    texts = table_with_texts(found.matches).to_pylist()
    assert Counter(map(repr, texts)) == Counter(map(repr, expected.matches.to_pylist()))
    assert found.aggregates.num_rows == expected.aggregates.num_rows


@given(
    cases(TAKEN, queries=3)
    | cases(DENSE, queries=2)
    | cases(LIMITED, queries=2)
    | cases(replace(DENSE, outputs=("return", "trigger"), keys=True), queries=3)
    | cases(PLAIN_NEGATIONS),
    st.sampled_from(WAYS),
    st.sampled_from([1, 3, 1 << 18]),
)
@settings(max_examples=200, deadline=None)
def test_structs_are_the_matches_of_the_reference(case: Case, how: How, chunk: int) -> None:
    workload, events = case[0], events_of(*case)
    if match_structs(workload, events.table.schema) is None:
        return
    check(found_rows(workload, events, how, chunk), run_oracle(workload, events))


# --- types of columns -----------------------------------------------------------------------------

TYPES = {
    "ts": pa.timestamp("ms"),
    "kind": pa.dictionary(pa.int32(), pa.string()),
    "i": pa.int64(),
    "small": pa.int16(),
    "unsigned": pa.uint32(),
    "f": pa.float64(),
    "half": pa.float32(),
    "b": pa.bool_(),
    "text": pa.string(),
    "large": pa.large_string(),
    "us": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "money": pa.decimal128(9, 2),
    "none": pa.null(),
    "list": pa.list_(pa.int64()),
    "object": pa.struct({"p": pa.int64(), "q": pa.string()}),
}
TYPED = [
    """QUERY whole
    PATTERN SEQ(A a, B+ b, OR(C c, D d))
    RETURN a, b, c.text, c.i, d AS other, count(b.i) AS number, sum(b.small) AS total,
        first(b.text) AS begins, max(b.f) AS most, avg(b.money) AS mean, a.i / 2 AS part
    WITHIN 20 ms""",
    """QUERY parts
    PATTERN SEQ(A+ a, B b)
    WHERE [text]
    RETURN a.us, a.day, b.large, b.list, b.object, b.none, b.f * 2 AS total, b.b AS flag,
        b.us AS at, b.day AS on, max(a.us) AS latest, -b.i AS below
    WITHIN 10 ms""",
    """QUERY tied
    PATTERN AND(A a, C c)
    RETURN a.i, a.text, c.half, c.unsigned, a.i + c.i AS number, a.text AS begins
    WITHIN 4 ms""",
]
TEXTS = st.sampled_from(["", "a", "é ü", '"quoted"\\', "\n\t\x01", "日本", "\U0001f600", "null"])


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_integer(kind):
        low = 0 if pa.types.is_unsigned_integer(kind) else -3
        return st.integers(low, 3) | st.none()
    if pa.types.is_float64(kind):
        return st.sampled_from([0.0, -0.5, 1e-7, 3.0, 1e22, 0.1, math.nan, math.inf, None])
    if pa.types.is_floating(kind):
        return st.sampled_from([0.5, -2.0, None])
    if pa.types.is_boolean(kind):
        return st.sampled_from([True, False, None])
    if pa.types.is_timestamp(kind):
        zone = None if kind.tz is None else datetime.UTC
        base = datetime.datetime(2024, 2, 29, 23, 59, 59, tzinfo=zone)
        return st.sampled_from([0, 1, 1000, 1_500_000, None]).map(
            lambda n: None if n is None else base + datetime.timedelta(microseconds=n)
        )
    if pa.types.is_date(kind):
        return st.sampled_from([datetime.date(2024, 2, 29), datetime.date(1969, 1, 1), None])
    if pa.types.is_decimal(kind):
        return st.sampled_from([Decimal("0.10"), Decimal("-12.50"), Decimal("3"), None])
    if pa.types.is_list(kind):
        return st.sampled_from([[], [1, None], [2, 3], None])
    if pa.types.is_struct(kind):
        return st.sampled_from([{"p": 1, "q": "é"}, {"p": None, "q": None}, None])
    return TEXTS | st.none()


@st.composite
def typed_tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 9))
    gaps = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    start, times = datetime.datetime(2024, 5, 1), []
    for gap in gaps:
        start += datetime.timedelta(milliseconds=gap)
        times.append(start)
    columns: dict[str, Any] = {"ts": times}
    columns["kind"] = draw(st.lists(st.sampled_from("ABCD"), min_size=size, max_size=size))
    for name, kind in TYPES.items():
        if name not in columns:
            columns[name] = draw(st.lists(values(kind), min_size=size, max_size=size))
    arrays = [
        pa.array(columns[name], pa.string()).dictionary_encode()
        if pa.types.is_dictionary(kind)
        else pa.array(columns[name], kind)
        for name, kind in TYPES.items()
    ]
    return pa.table(arrays, names=list(TYPES))


def typed(queries: list[str]) -> BoundWorkload:
    return load_bound({"name": "t", "stream": {"time": "ts", "type": "kind"}, "queries": queries})


@given(typed_tables(), st.sampled_from(WAYS), st.permutations(TYPED))
@settings(max_examples=150, deadline=None)
def test_structs_have_every_type_of_column(table: pa.Table, how: How, queries: list[str]) -> None:
    workload = typed(queries)
    events = from_table(table, workload.stream)
    found = found_rows(workload, events, how, 1 << 18)
    check(found, run_oracle(workload, events))
    whole = found.matches.schema.field("match").type
    assert {f.name for f in whole} >= {"c", "tied_a", "whole_a", "parts_a", "other", "mean", "flag"}
    assert whole.field("whole_b").type.value_type.field("day").type == pa.date32()
    assert whole.field("tied_a").type == pa.struct({"i": pa.int64(), "text": pa.string()})
    assert whole.field("parts_a").type.value_type.field("us").type == pa.timestamp("us", "UTC")
    assert {str(whole.field(f"{q}_total").type) for q in ("whole", "parts")} == {"int64", "double"}
    assert whole.field("number").type == pa.int64()


# --- files ----------------------------------------------------------------------------------------

PAIRS = {
    "name": "pairs",
    "stream": {"time": "ts", "type": "kind", "unit": "ms"},
    "queries": [
        "QUERY near PATTERN SEQ(A a, B b) RETURN a.n, b WITHIN 40 ms",
        "QUERY keyed PATTERN SEQ(A a, B b) PARTITION BY card RETURN a.name, b.n WITHIN 90 ms",
        "QUERY none PATTERN SEQ(A a, Z z) RETURN a.n, z.card WITHIN 90 ms",
        "QUERY counted PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 40 ms",
    ],
}


def pairs(size: int) -> pa.Table:
    return pa.table(
        {
            "ts": [i * 5 for i in range(size)],
            "kind": ["AB"[(i * i) % 3 % 2] for i in range(size)],
            "card": [i % 7 if i % 5 else None for i in range(size)],
            "n": list(range(size)),
            "name": [f"né{i % 11}" for i in range(size)],
        }
    )


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    with pa.ipc.open_file(path) as file:
        return file.read_all()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("threads", [1, 2])
def test_files_have_the_matches_of_the_reference(tmp_path: Path, ending: str, threads: int) -> None:
    """Also where each slice goes to a thread of its own, and memory does not hold all rows."""
    workload, table = load_bound(PAIRS), pairs(400)
    pyarrow.parquet.write_table(table, tmp_path / "events.parquet")
    out = tmp_path / f"rows{ending}"
    plan = make_plan(workload, PAIRS)
    execution = Execution(options=RunOptions(threads=threads), slice_rows=60)
    source = EventSource(str(tmp_path / "events.parquet"))
    report = run(plan, source, RowSink(str(out), match="struct"), execution)
    files = [Path(name) for name in report.files]
    assert [file.name for file in files] == [f"rows.aggregates{ending}", f"rows.matches{ending}"]
    found = Results(*map(read, files))
    events = from_table(table, workload.stream)
    check(found, run_oracle(workload, events))
    assert found.matches.num_rows > 500
    assert [str(kind) for kind in found.matches.schema.types[:2]] == ["string", "string"]
    named = found.matches.schema.field("match").type
    assert named.field("a").type == pa.struct({"n": pa.int64(), "name": pa.string()})
    assert named.field("z").type == pa.struct({"card": pa.int64()})


def test_rows_that_memory_does_not_hold_are_merged(tmp_path: Path) -> None:
    workload = load_bound(PAIRS)
    events = from_table(pairs(400), workload.stream)
    structs = match_structs(workload, events.table.schema)
    out = tmp_path / "rows.parquet"
    with FileOutput(str(out), False, True, run_bytes=5_000, structs=structs) as output:
        output.add(empty_results(events.time_type))
        for found in event_chunks(How().program(workload), events, RunContext()):
            for start in range(0, len(found), 50):
                output.take(found.take(np.arange(start, min(start + 50, len(found)))))
        assert len(list(tmp_path.glob(".*/*.arrow"))) > 5
        output.write()
    expected = run_oracle(workload, events)
    check(replace(expected, matches=read(out)), expected)


def test_values_beyond_64_bits_are_refused() -> None:
    queries = ["QUERY q PATTERN SEQ(A a, B+ b) RETURN sum(b.i) AS total WITHIN 9 ms"]
    workload = load_bound(
        {"name": "t", "stream": {"time": "ts", "type": "kind", "unit": "ms"}, "queries": queries}
    )
    table = pa.table({"ts": [1, 2, 3], "kind": ["A", "B", "B"], "i": [0, 2**62, 2**62]})
    with pytest.raises(ResultsError, match="query q: 'total' has values beyond 64 bits"):
        found_rows(workload, from_table(table, workload.stream), How(), 1 << 18)
