"""Sources as files: times of other units and kinds, columns that clash, rows that are no events."""

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input.batches import FileSource, merged_batches, read_events
from engines.input.event_paths import given_paths
from engines.input.event_table import Faults
from engines.input.lateness import allowed_lateness
from engines.limits import BadRowError, EventsError
from workloads.loading import load_workload
from workloads.workload import Stream

ORDERS = {"time": "ts", "type": "kind"}
PAYMENTS = {"time": "paid_at", "unit": "s"}


def stream(orders: dict[str, Any] | None = None, payments: dict[str, Any] | None = None) -> Stream:
    streams = {"orders": ORDERS | (orders or {}), "payments": PAYMENTS | (payments or {})}
    queries = ["PATTERN payments p RETURN p WITHIN 1 s"]
    return load_workload({"name": "w", "streams": streams, "queries": queries}).stream


def paths(folder: Path, orders: dict[str, Any], payments: dict[str, Any]) -> dict[str, str]:
    for name, columns in (("orders", orders), ("payments", payments)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return {name: str(folder / f"{name}.parquet") for name in ("orders", "payments")}


def test_times_are_in_the_finest_unit(tmp_path: Path) -> None:
    given = paths(tmp_path, {"ts": [1500], "kind": ["A"]}, {"paid_at": [1, 2]})
    events = read_events(given, stream())
    assert events.ticks.tolist() == [1000, 1500, 2000]
    assert events.tick == 10**6
    assert events.table.column("type").to_pylist() == [None, "A", None]


def test_numbers_beside_timestamps_count_from_1970(tmp_path: Path) -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 500)
    times = pa.array([moment], pa.timestamp("us"))
    events = read_events(paths(tmp_path, {"ts": times, "kind": ["A"]}, {"paid_at": [1]}), stream())
    assert events.ticks.tolist() == [1_000_000, 1_000_500]
    assert events.time_type == pa.timestamp("us")


def test_times_without_a_zone_are_in_utc_beside_others(tmp_path: Path) -> None:
    there = pa.array([1_000], pa.timestamp("ms", "Europe/Paris"))
    here = pa.array([1, 2], pa.timestamp("s"))
    events = read_events(paths(tmp_path, {"ts": there, "kind": ["A"]}, {"paid_at": here}), stream())
    assert events.ticks.tolist() == [1000, 1000, 2000]
    assert events.time_type == pa.timestamp("ms", "Europe/Paris")
    days = paths(tmp_path, {"ts": there, "kind": ["A"]}, {"paid_at": pa.array([1], pa.date32())})
    assert read_events(days, stream()).ticks.tolist() == [1000, 86_400_000]


@pytest.mark.parametrize("time", [2**62 // 1000 + 1, -(2**62) // 1000, None])
def test_a_time_that_does_not_fit_is_told_of_its_own_row_and_column(
    tmp_path: Path, time: int | None
) -> None:
    bad = pa.array([1, time, 2], pa.int64())
    given = paths(tmp_path, {"ts": [5], "kind": ["A"]}, {"paid_at": bad})
    with pytest.raises(BadRowError, match=r"payments\.parquet', row 2, column 'paid_at'"):
        read_events(given, stream())
    events = read_events(given, stream(), "skip")
    assert events.ticks.tolist() == [5, 1000, 2000]


@pytest.mark.parametrize(
    ("orders", "payments", "declared", "said"),
    [
        ({"source": ["x"]}, {}, {}, "the column 'source' is called like the source that events"),
        (
            {},
            {"type": ["x"]},
            {},
            r"the column 'type' is called like the type .*{type: pay",
        ),
        ({"id": [1]}, {"id": ["x"]}, {}, r"'id' has type int64 in streams\.orders and string in"),
        ({"a": [1], "b": [1]}, {}, {"rename": {"a": "b"}}, "'a' and 'b' would both be called 'b'"),
        ({"cust": [1]}, {}, {"rename": {"cst": "b"}}, "no column 'cst', .* did you mean 'cust'"),
    ],
)
def test_columns_that_clash(
    tmp_path: Path,
    orders: dict[str, Any],
    payments: dict[str, Any],
    declared: dict[str, Any],
    said: str,
) -> None:
    given = paths(tmp_path, {"ts": [5], "kind": ["A"], **orders}, {"paid_at": [1], **payments})
    with pytest.raises(EventsError, match=said):
        FileSource(given, stream(declared), Faults())


def test_every_source_needs_a_path_and_no_other(tmp_path: Path) -> None:
    for given, said in (
        ("a.csv", "say which is whose"),
        ({"orders": "a.csv"}, "no events are given for 'payments'"),
        ({"orders": "a.csv", "payment": "b.csv"}, "did you mean 'payments'"),
    ):
        with pytest.raises(EventsError, match=said):
            FileSource(given, stream(), Faults())
    alone = Stream("ts", "kind")
    with pytest.raises(EventsError, match="the workload has one stream"):
        FileSource({"orders": "a.csv"}, alone, Faults())


def test_paths_as_they_are_written() -> None:
    both = ["orders=o.csv", "payments=year=2024/p.csv"]
    assert given_paths(both, stream().sources) == {"orders": "o.csv", "payments": "year=2024/p.csv"}
    assert given_paths(["year=2024/p.csv"], ()) == "year=2024/p.csv"
    with pytest.raises(EventsError, match="given twice for 'orders'"):
        given_paths(["orders=a", "orders=b"], stream().sources)
    with pytest.raises(EventsError, match="given 2 times"):
        given_paths(["a", "b"], ())


def test_the_source_that_is_furthest_behind_is_read_next_and_is_how_far_all_have_come(
    tmp_path: Path,
) -> None:
    orders = {"ts": list(range(0, 9000, 1000)), "kind": ["A"] * 9}
    given = paths(tmp_path, orders, {"paid_at": [3, 4, 20]})
    late = {"lateness": "2 s"}
    source = FileSource(given, stream(late), Faults(), batch_rows=1)
    lateness = allowed_lateness(source, stream(late), None)
    read, complete = [], []
    for batch in source.batches(source.schema.names):
        read.append((batch.source, int(batch.ticks[0])))
        lateness.on_time(batch)
        complete.append(lateness.complete)
    times = [time for _, time in read]
    assert times == [0, 3000, 1000, 2000, 3000, 4000, 4000, 5000, 20000, 6000, 7000, 8000]
    # Orders are complete to two seconds before the last of them, until there are no more.
    assert complete[1:5] == [-2000, -1000, 0, 1000]
    assert complete[-2:] == [5000, 20000]


def test_lines_of_json_and_csv_are_read_as_the_common_types(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("ts;kind;amount\n1;A;2\n")
    (tmp_path / "payments.jsonl").write_text(json.dumps({"paid_at": 2, "sum": 2.5}) + "\n")
    given = {"orders": str(tmp_path / "orders.csv"), "payments": str(tmp_path / "payments.jsonl")}
    whole = stream({"delimiter": ";"}, {"rename": {"sum": "amount"}})
    table = read_events(given, whole).table
    assert table.column("amount").to_pylist() == [2.0, 2.5]
    assert table.column("source").to_pylist() == ["orders", "payments"]


def test_merged_batches_of_no_events() -> None:
    assert list(merged_batches([iter(()), iter(())])) == []
