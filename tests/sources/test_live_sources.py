"""A live stream of several sources: each is late by itself, and the watermark is the least."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from engines.account import Account
from engines.input.event_table import Faults, column_kinds, from_table
from engines.limits import EventsError, StateError
from engines.reference.oracle import run_oracle
from engines.spark.stream.checkpoint import read_manifest
from engines.spark.stream.job import StreamOptions, StreamProgress, finish_stream, start_stream
from engines.spark.stream.source import Packer, open_live_source
from optimizer.bind.binder import bind
from optimizer.ir.query import BoundWorkload
from tests.running import How
from workloads.loading import load_workload
from workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.spark.stream.source import LiveSource

pytestmark = pytest.mark.timeout(600)
QUERIES = [
    "QUERY paid PATTERN SEQ(Order o, payments p) WHERE [customer] AND p.amount >= o.total "
    "RETURN o.id, p.time WITHIN 20 s",
    "QUERY waits PATTERN SEQ(Order o, !payments p) WHERE [customer] RETURN o.id WITHIN 7 s",
    "QUERY counted PATTERN SEQ(Order o, payments p) AGG COUNT(*) WITHIN 10 s",
]


def workload(queries: list[str] = QUERIES, **payments: Any) -> Workload:
    orders = {"time": "ts", "type": "kind", "rename": {"cust": "customer"}, "lateness": "2 s"}
    other = {"time": "paid_at", "unit": "s", "lateness": "5 s", **payments}
    return load_workload(
        {"name": "t", "streams": {"orders": orders, "payments": other}, "queries": queries}
    )


class Shop:
    """Two folders that events come into, and the stream over both."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, list[StreamProgress]()
        self.rows: list[dict[str, Any]] = []
        self.paths = {name: str(folder / name) for name in ("orders", "payments")}
        for path in self.paths.values():
            Path(path).mkdir()

    def order(self, *orders: tuple[int, str, int]) -> None:
        """Events of a time in seconds, a customer and a total."""
        made = []
        for at, customer, total in orders:
            row = {"cust": customer, "id": len(self.rows), "total": total}
            made.append({"ts": 1000 * at, "kind": "Order", **row})
            self.rows.append({**_common(1000 * at, "orders", row), "type": "Order"})
        file = self._file("orders", "parquet")
        pq.write_table(pa.Table.from_pylist(made), file)
        os.utime(file, (10**9 + len(self.rows),) * 2)

    def pay(self, *payments: tuple[int, str, int]) -> None:
        made = []
        for at, customer, amount in payments:
            row = {"customer": customer, "amount": amount}
            made.append({"paid_at": at, **row})
            self.rows.append(_common(1000 * at, "payments", row))
        file = self._file("payments", "jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in made))
        os.utime(file, (10**9 + len(self.rows),) * 2)

    def _file(self, name: str, ending: str) -> Path:
        return Path(self.paths[name], f"{len(self.rows)}.{ending}")

    def open(self, given: Workload) -> None:
        known = read_manifest(str(self.folder / "state"))
        self.source = open_live_source(self.paths, given.stream, known=known and known.schema)
        self.workload = bind(given, column_kinds(self.source.schema))
        self.options = StreamOptions(
            str(self.folder / "state"), str(self.folder / "out"), buckets=2, once=True
        )

    def run(self, spark: "SparkSession", given: Workload | None = None) -> int | None:
        """All that is there; gives the time up to which all rows are given."""
        self.open(workload() if given is None else given)
        program = How().program(self.workload)
        start_stream(spark, program, self.source, self.options, told=self.seen.append).wait()
        return self.seen[-1].until

    def finish(self, spark: "SparkSession") -> None:
        finish_stream(spark, How().program(self.workload), self.source, self.options)

    def found(self) -> Counter[Any]:
        folders = [self.folder / "out" / kind for kind in ("aggregates", "matches")]
        tables = [pyarrow.dataset.dataset(f).to_table() for f in folders if f.exists()]
        return Counter(tuple(row.items()) for table in tables for row in table.to_pylist())

    def expected(self, until: int | None = None) -> Counter[Any]:
        results = run_oracle(*_one_stream(self.workload, self.rows))
        rows = [*results.aggregates.to_pylist(), *results.matches.to_pylist()]
        return Counter(tuple(row.items()) for row in rows if until is None or row["time"] <= until)


def _common(time: int, source: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"time": time, "source": source} | {
        {"cust": "customer"}.get(name, name): value for name, value in row.items()
    }


def _one_stream(bound: BoundWorkload, rows: list[dict[str, Any]]) -> Any:
    stream = replace(bound.stream, sources={})
    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows])
    return replace(bound, stream=stream), from_table(table, stream)


def test_the_watermark_is_the_least_and_a_restart_repeats_and_loses_nothing(
    spark: "SparkSession", tmp_path: Path
) -> None:
    shop = Shop(tmp_path)
    shop.order((1, "a", 5), (3, "b", 7), (30, "a", 2), (29, "b", 1))
    shop.pay((2, "a", 6), (12, "b", 9), (8, "b", 9))
    # Orders are complete to 28 s, payments to 7 s.
    assert shop.run(spark) == 7000 - 1
    assert shop.found() == shop.expected(7000 - 1)
    # Payments are far ahead: what counts are orders, which are complete to 31 s.
    shop.pay((31, "a", 4), (27, "b", 3), (32, "a", 9), (90, "a", 4))
    shop.order((31, "b", 2), (33, "a", 3))
    assert shop.run(spark) == 31000 - 1
    assert shop.found() == shop.expected(31000 - 1)
    with pytest.raises(StateError, match="counted: no query can begin in a running stream of sev"):
        shop.run(spark, workload([QUERIES[0], QUERIES[2].replace("10 s", "11 s")]))
    with pytest.raises(StateError, match="is of a stream with sources"):
        shop.run(spark, workload(rename={"paid_at ": "x"}))
    shop.open(workload())
    shop.finish(spark)
    assert shop.found() == shop.expected()
    assert {row[0][1] for row in shop.expected()} == {"paid", "waits", "counted"}
    assert sum(seen.late for seen in shop.seen) == 0


def read(source: "LiveSource", name: str, batch: pa.RecordBatch) -> list[pa.Table]:
    query = "PATTERN ANY a RETURN a WITHIN 1 s"
    bound = bind(load_workload({"stream": {"time": "time"}, "queries": [query]}))
    packer = Packer(source, source.schema, {"[]": ()}, 1, bound, name)
    return list(packer._tables([batch], Faults(source.on_error), Account()))


def test_messages_of_a_source_are_read_as_its_own(tmp_path: Path) -> None:
    number, text = "int", "string"
    orders = {"cust": text, "id": number}
    streams = {
        "orders": {"time": "ts", "rename": {"cust": "customer"}, "attributes": orders},
        "payments": {"time": "at", "unit": "s", "format": "%d/%m/%Y", "attributes": {"x": number}},
    }
    document = {
        "name": "w",
        "streams": streams,
        "queries": ["PATTERN orders o RETURN o WITHIN 1 s"],
    }
    stream = load_workload(document).stream
    paths = {"orders": "kafka://one:9092/orders", "payments": "kafka://one:9092/payments"}
    source = open_live_source(paths, stream, on_error="skip")
    assert source.schema.field("time").type == pa.timestamp("ms")
    good, bad = '{"at": "02/01/1970", "x": 3}', '{"at": null, "x": 4}'
    batch = pa.RecordBatch.from_pydict({"value": pa.array([good.encode(), bad.encode()])})
    (table,) = read(source, "payments", batch)
    assert [str(row["time"]) for row in table.to_pylist()] == ["1970-01-02 00:00:00"]
    assert table.column("x").to_pylist() == [3]
    assert table.column("source").to_pylist() == ["payments"]


def test_every_source_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    with pytest.raises(EventsError, match="no events are given for 'payments'"):
        open_live_source({"orders": str(tmp_path / "orders")}, workload().stream)
    paths = {"orders": str(tmp_path / "orders"), "payments": str(tmp_path / "payments")}
    with pytest.raises(EventsError, match=r"'.*orders' has no events yet"):
        open_live_source(paths, workload().stream)
