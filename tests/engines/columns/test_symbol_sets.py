"""Each event has the number of the symbols that it is an instance of, whatever its type column."""

import itertools

import pyarrow as pa
import pytest

from engines.columns.columns import Columns
from engines.input.event_table import from_table
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import Symbol

TYPES = ["A", None, "B", "", "AB", "A", "Größe", "C", None, "B"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("cuts", [[], [3], [0, 1, 5]])
def test_types_in_any_layout(kind: pa.DataType, cuts: list[int]) -> None:
    whole = pa.array(["Z", *TYPES], pa.string()).cast(kind)[1:]
    ends = [0, *cuts, len(TYPES)]
    chunks = [whole[a:b] for a, b in itertools.pairwise(ends)]
    table = pa.table({"ts": range(len(TYPES)), "kind": pa.chunked_array(chunks, kind)})
    workload = load_bound(
        {
            "name": "types",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": ["QUERY q PATTERN SEQ(A a, B b) RETURN a WITHIN 5 ms"],
        }
    )
    columns = Columns(workload, from_table(table, workload.stream))
    asked = [Symbol("A"), Symbol("B"), Symbol("Größe"), Symbol("missing")]
    codes, meanings = columns.symbol_sets(asked)
    found = [{symbol.type for symbol in meanings[code]} for code in codes]
    assert found == [{t} if t in ("A", "B", "Größe") else set() for t in TYPES]


@pytest.mark.parametrize("number", [0, 1])
def test_few_events_have_as_many_instances_as_there_are(number: int) -> None:
    stream = {"time": "ts", "unit": "ms", "type": "kind", "attributes": {"x": "int"}}
    queries = ["QUERY q PATTERN SEQ(A a, B b) WHERE a.x > 1 AND b.x < 5 RETURN a WITHIN 5 ms"]
    workload = load_bound({"stream": stream, "queries": queries})
    events = pa.table({"ts": [1], "kind": ["A"], "x": [7]})[:number]
    columns = Columns(workload, from_table(events, workload.stream))
    asked = [Symbol("A"), Symbol("B")]
    codes, meanings = columns.symbol_sets(asked)
    assert [{symbol.type for symbol in meanings[code]} for code in codes] == [{"A"}] * number
    assert [columns.number(symbol) for symbol in asked] == [number, 0]
