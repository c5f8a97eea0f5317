"""Keys of result rows of which conditions fix a part: the object is the one without that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.reference.oracle import run_oracle
from engines.results.json_text import with_fixed
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload, FixedAttribute
from optimizer.rewrite.normalize import normalize_workload
from tests.running import How, run_local

ODD = ['say "hi"', "a\\b", "{},:", "é", "\n"]


def query_with(key: tuple[str, ...], *fixed: FixedAttribute) -> Any:
    text = "PATTERN A a AGG COUNT(*) WITHIN 1 s"
    bound = load_bound({"stream": {"time": "ts", "type": "kind"}, "queries": [text]})
    return replace(bound.queries[0], key=key, fixed_key=fixed)


@pytest.mark.parametrize(
    ("key", "fixed", "names"),
    [
        (("k",), [FixedAttribute(0, "m", ODD[0])], ["m", "k"]),
        (("k",), [FixedAttribute(1, "m", ODD[1])], ["k", "m"]),
        (("k", "n"), [FixedAttribute(1, "m", ODD[2])], ["k", "m", "n"]),
        (
            ("k", "n"),
            [
                FixedAttribute(0, "p", "x"),
                FixedAttribute(2, "m", ODD[3]),
                FixedAttribute(4, "q", ""),
            ],
            ["p", "k", "m", "n", "q"],
        ),
        ((), [FixedAttribute(0, "m", ODD[4]), FixedAttribute(1, "n", "y")], ["m", "n"]),
    ],
)
def test_fixed_attributes_stand_at_their_places(
    key: tuple[str, ...], fixed: list[FixedAttribute], names: list[str]
) -> None:
    query = query_with(key, *fixed)
    for value in [*ODD, 1, 1e300, True]:
        own = dict.fromkeys(key, value)
        text = json.dumps(own, ensure_ascii=False, separators=(",", ":")) if key else None
        (found,) = with_fixed(pa.array([text], pa.string()), query).to_pylist()
        whole = {f.name: f.value for f in fixed} | own
        expected = {name: whole[name] for name in names}
        assert found == json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    assert with_fixed(pa.array([], pa.string()), query).to_pylist() == []


def test_a_key_without_fixed_attributes_stays_as_it_is() -> None:
    keys = pa.array(['{"k":1}', None])
    assert with_fixed(keys, query_with(("k",))) is keys


# --- all engines ---------------------------------------------------------------------------------

COLUMNS = pa.schema(
    {"ts": pa.int64(), "kind": pa.string(), "k": pa.float64(), "m": pa.string(), "n": pa.string()}
)
OUTPUTS = {
    "counted": "AGG COUNT(*) WITHIN 6 ms",
    "sliding": "AGG COUNT(*), MAX(b.ts) WITHIN 6 ms SLIDE 2 ms",
    "returned": "RETURN a.ts, b.ts WITHIN 6 ms",
}
KEYS = ("m", "k, m", "m, k", "k, m, n", "n, m, k")


def workload(pattern: str) -> BoundWorkload:
    queries = [
        f"QUERY {name}_{i} {pattern} PARTITION BY {key} {output}"
        for name, output in OUTPUTS.items()
        for i, key in enumerate(KEYS)
    ]
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    return load_bound({"name": "w", "stream": stream, "queries": queries})


def rows() -> list[dict[str, Any]]:
    kinds = "ABAXBBAABXAB" * 4
    return [
        {
            "ts": i // 2,
            "kind": kind,
            "k": (0.0, -0.0, 1.5, None)[i % 4 if i % 3 else 0],
            "m": ("t", "t", "t", "s", None)[(i * i) % 5],
            "n": ODD[(i // 3) % 2],
        }
        for i, kind in enumerate(kinds)
    ]


PATTERNS = (
    "PATTERN SEQ(A a, B b) WHERE a.m = 't'",
    "PATTERN SEQ(A a, !X x, B b) WHERE b.m = 't'",
    "PATTERN SEQ(A a, B b) WHERE a.m = 't' AND a.ts < b.ts - 1",
)


def listed(results: Any) -> list[Any]:
    tables = (results.aggregates, results.matches)
    return sorted(tuple(map(str, row.values())) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_engine_writes_the_key_as_if_it_were_not_fixed(pattern: str) -> None:
    written = workload(pattern)
    planned = normalize_workload(written)
    assert all(query.fixed_key for query in planned.queries)
    events = from_table(pa.Table.from_pylist(rows(), COLUMNS), written.stream)
    expected = listed(run_oracle(written, events))
    assert len({row[0] for row in expected}) == len(written.queries)
    ways = (How(), How(counting=False), How(counting=False, detection="stepwise"))
    for how in ways:
        assert listed(run_local(planned, events, how=how)) == expected
    live = LiveRun(How().program(planned), 10**6)
    batches = [from_table(pa.Table.from_pylist(rows()[i : i + 8], COLUMNS), written.stream) for i in
               range(0, 48, 8)]  # fmt: skip
    found = [live.add(batch, int(batch.ticks[-1])) for batch in batches]
    found.append(live.add(from_table(pa.Table.from_pylist([], COLUMNS), written.stream), None))
    assert sorted(row for part in found for row in listed(part)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "PATTERN SEQ(A a, B b) WHERE a.m = 'u' PARTITION BY m, (a.x, b.y) AS t "
            "AGG COUNT(*) WITHIN 9 s SLIDE 10 s",
            [{"m": "u", "t": 1}],
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE a.m = 'u' PARTITION BY m "
            "AGG COUNT(*) GROUP BY b.y AS g WITHIN 9 s SLIDE 10 s",
            [{"m": "u", "g": 1}, {"m": "u", "g": 2}],
        ),
    ],
)
def test_keys_by_component_and_groups_stand_beside_attributes_that_are_fixed(
    text: str, expected: list[dict[str, Any]]
) -> None:
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    bound = load_bound({"stream": stream, "queries": [text]})
    rows = [("A", "u", 1, 2), ("A", "v", 2, 2), ("B", "u", 2, 1), ("B", "u", 1, 2)]
    table = pa.Table.from_pylist(
        [dict(zip("kmxy", row, strict=True)) | {"ts": i + 2} for i, row in enumerate(rows)]
    ).rename_columns({"k": "kind"})
    events = from_table(table, bound.stream)
    for results in (run_local(bound, events), run_oracle(bound, events)):
        keys = [json.loads(key) for key in results.aggregates.column("key").to_pylist()]
        assert sorted(keys, key=str) == sorted(expected, key=str)
        assert results.aggregates.column("count").to_pylist() == [1] * len(expected)
