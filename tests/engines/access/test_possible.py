"""A block is never ruled out that has an event of which the condition holds."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.access.footers import open_footers
from engines.access.possible import PossibleEvents
from engines.access.stored_blocks import open_stored
from engines.columns.columns import Columns
from engines.input.batches import FileSource
from engines.input.event_table import Faults, from_table
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events

BIG = 2**53
TYPES = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "u": pa.uint64()}
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -3, BIG, BIG + 1, None],
    "f": [0.0, -0.0, 1.5, 2.0, math.nan, math.inf, float(BIG), None],
    "s": ["", "a", "ab", "abc", "b", "é", "ß", None],
    "b": [True, False, None],
    "u": [0, 1, 2**63, None],
}
CONSTANTS = {
    "i": ["0", "1", "1.5", "-3", str(BIG), str(BIG + 1), f"{BIG}.0"],
    "f": ["0", "1.5", "2", "-1", str(BIG)],
    "s": ["'a'", "'ab'", "'b'", "'é'"],
    "b": ["TRUE", "FALSE"],
    "u": ["0", "1", "5"],
}


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth and draw(st.booleans()):
        joined = draw(st.sampled_from(["AND", "OR", "NOT"]))
        if joined == "NOT":
            return f"NOT ({draw(conditions(depth - 1))})"
        return f"({draw(conditions(depth - 1))} {joined} {draw(conditions(depth - 1))})"
    name = draw(st.sampled_from(list(TYPES)))
    constant = draw(st.sampled_from(CONSTANTS[name]))
    signs = ["=", "!="] if name == "b" else ["=", "!=", "<", "<=", ">", ">="]
    forms = [f"a.{name} {sign} {constant}" for sign in signs]
    forms += [f"a.{name} IS NULL", f"a.{name} IS NOT NULL", f"{constant} = a.{name}"]
    forms += [f"a.{name} IN ({constant})", f"a.{name} NOT IN ({constant})"]
    if name == "s":
        forms += [f"a.s STARTS WITH {constant}", f"a.s CONTAINS {constant}", "a.s LIKE '%b'"]
    return draw(st.sampled_from(forms))


rows = st.lists(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
    min_size=1,
    max_size=6,
)


def check(found: list[dict[str, Any]], condition: str, group_rows: int) -> None:
    workload = load_bound(
        {
            "name": "w",
            "stream": {"time": "ts", "type": "kind", "unit": "ms"},
            "queries": [f"QUERY q PATTERN SEQ(A a) WHERE {condition} RETURN a.i WITHIN 1 s"],
        }
    )
    schema = pa.schema({"ts": pa.int64(), "kind": pa.string(), **TYPES})
    rows_ = [{"ts": t, "kind": "A", **row} for t, row in enumerate(found)]
    table = pa.Table.from_pylist(rows_, schema)
    with TemporaryDirectory() as folder:
        pq.write_table(table, Path(folder) / "e.parquet", row_group_size=group_rows)
        source = FileSource(folder, workload.stream, Faults())
        blocks = open_stored(open_footers(source)).blocks(source, workload.stream, schema.names)
    possible = PossibleEvents(blocks, workload.stream)
    columns = Columns(workload, from_table(table, workload.stream))
    for event in events(workload.queries[0].pattern):
        holds = columns.instances(event.symbol)
        mask = possible.symbol(event.symbol)
        for block in range(len(blocks)):
            here = holds[block * group_rows : (block + 1) * group_rows]
            assert mask[block] or not here.any(), (condition, here)


@given(rows, conditions(), st.integers(1, 3))
@settings(max_examples=150)
def test_no_block_with_such_an_event_is_ruled_out(
    found: list[dict[str, Any]], condition: str, group_rows: int
) -> None:
    check(found, condition, group_rows)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("a.i = 7", [1]),
        ("NOT (a.i < 7)", [1, 2]),
        ("a.i IN (2, 3)", [0]),
        ("a.i IS NULL", [2]),
        ("a.s STARTS WITH 'kn'", [1]),
        ("a.s > 'x'", [2]),
        ("a.i > 3 AND a.s = 'left'", []),
        ("a.i > 3 OR a.s = 'left'", [0, 1]),
        ("a.i * 2 > 100", [0, 1, 2]),
    ],
)
def test_blocks_are_ruled_out_by_their_bounds(
    tmp_path: Path, condition: str, kept: list[int]
) -> None:
    workload = load_bound(
        {
            "name": "w",
            "stream": {"time": "ts", "type": "kind", "unit": "ms"},
            "queries": [f"QUERY q PATTERN SEQ(A a) WHERE {condition} RETURN a WITHIN 1 s"],
        }
    )
    table = pa.table(
        {
            "ts": [1, 2, 3, 4, 5, 6],
            "kind": ["A"] * 6,
            "i": pa.array([1, 3, 7, 8, None, None], pa.int64()),
            "s": ["left", "left", "knee", "knight", "y", "z"],
        }
    )
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=2)
    source = FileSource(str(tmp_path), workload.stream, Faults())
    blocks = open_stored(open_footers(source)).blocks(source, workload.stream, table.column_names)
    (event,) = events(workload.queries[0].pattern)
    found = PossibleEvents(blocks, workload.stream).symbol(event.symbol)
    assert [block for block, may in enumerate(found) if may] == kept
