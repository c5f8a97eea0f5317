"""The events behind rows: of a match its own, of an aggregate as many matches as it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from engines.input.batches import FileSource
from engines.input.event_table import Faults
from engines.reference import run
from engines.why.behind import SHOWN_MATCHES, RowPlace, matches_behind
from optimizer.ir.query import BoundWorkload
from tests.oracle.notation import rows, workload
from tests.strategies import SHAPE, queries_with_rows


def source_of(bound: BoundWorkload, events: list[dict[str, Any]], folder: Path) -> FileSource:
    path = folder / "events.parquet"
    pq.write_table(pa.Table.from_pylist(events), path)
    return FileSource(str(path), bound.stream, Faults("stop"))


def place_of(row: dict[str, Any]) -> RowPlace:
    start, end = (None if row.get(name) is None else str(row[name]) for name in ("start", "end"))
    time = str(row["time"])
    return RowPlace(time, row.get("seq"), row["key"], start, end, row.get("match"))


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(queries_with_rows(SHAPE, max_size=8))
def test_each_row_has_its_events(tmp_path: Path, case: tuple[BoundWorkload, Any]) -> None:
    bound, events = case
    if not events:
        return
    source = source_of(bound, events, tmp_path)
    for row in run(bound, events)[:5]:
        found = matches_behind(source, bound, place_of(row))
        if found["is_cut"]:
            continue
        assert found["matches"] == len(found["shown"]) or found["matches"] > SHOWN_MATCHES
        assert found["matches"] > 0 or row.get("count") == 0, row
        if row.get("aggregate") == "COUNT(*)":
            assert found["matches"] == row["count"]
        for shown in found["shown"] if "start" in row else []:
            times = [event["time"] for event in shown]
            assert (times[0], times[-1]) == (row["start"], row["end"])


PRICES = "PATTERN SEQ(A a, B b) WHERE a.x < b.x PARTITION BY k {} WITHIN 10 s"


def test_events_have_what_the_query_reads_of_them(tmp_path: Path) -> None:
    bound = workload(PRICES.format("RETURN a.x, b.x"))
    events = rows("a1(x=1,k=1) a2(x=5,k=1) a2(x=0,k=2) b3(x=4,k=1)")
    source = source_of(bound, events, tmp_path)
    (row,) = run(bound, events)
    found = matches_behind(source, bound, place_of(row))
    assert (found["matches"], found["is_cut"], found["note"]) == (1, False, None)
    (match,) = found["shown"]
    assert [(e["alias"], e["time"], e["values"]["x"]) for e in match] == [("a", 1, 1), ("b", 3, 4)]
    assert all("name" not in event["values"] for event in match)


@pytest.mark.parametrize("slide", ["", "SLIDE 5 s"])
def test_of_a_large_aggregate_some_matches_are_shown(tmp_path: Path, slide: str) -> None:
    bound = workload(PRICES.format("AGG COUNT(*)") + f" {slide}")
    events = rows(" ".join(f"a{i}(x={i},k=1) b{i}(x={i},k=1)" for i in range(1, 31)))
    source = source_of(bound, events, tmp_path)
    row = max(run(bound, events), key=lambda row: row["count"])
    found = matches_behind(source, bound, place_of(row))
    assert found["matches"] == row["count"] > SHOWN_MATCHES == len(found["shown"])
