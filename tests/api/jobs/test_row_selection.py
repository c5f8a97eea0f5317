"""Rows by query and key, in an order that was asked for, beside the same done row by row."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.jobs import row_selection
from api.jobs.folder import JobFolder
from api.jobs.live_rows import LiveRows, RowCountCache
from api.jobs.model import JobSummary
from api.jobs.row_selection import KeyFilter, RowSelection, TooDeepError
from api.jobs.rows import Rows, StoredRows
from engines.results.tables import aggregate_schema
from tests.api.jobs.test_stream_jobs import COMMAND, in_batch, planned, posted_stream
from tests.api.service import finished, is_problem, posted_job

Row = dict[str, Any]
SCHEMA = aggregate_schema(pa.timestamp("ms"))
KEYS = ({"user": "u1"}, {"user": 'ü"2\\'}, {"user": "u1", "n": 17}, {"n": 1}, {"ok": True}, None)


def made_rows(chance: random.Random, many: int) -> list[Row]:
    """Rows as a job gives them, but for their order."""
    found = []
    for _ in range(many):
        key = chance.choice(KEYS)
        found.append(
            {
                "query": chance.choice("abc"),
                "key": None if key is None else json.dumps(key, ensure_ascii=False),
                "time": chance.randrange(20),
                "seq": None,
                "aggregate": "COUNT(*)",
                "value": chance.choice((None, -1.5, 2.0, float("inf"), chance.random())),
                "count": None,
                "exact": True,
            }
        )
    return found


def stored(folder: Path, rows: list[Row]) -> Rows:
    rows.sort(key=lambda row: row["query"])
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, folder / "results.aggregates.parquet", row_group_size=7)
    counts = {name: sum(row["query"] == name for row in rows) for name in "abc"}
    done = JobSummary(1, {}, {"aggregates": counts}, ("aggregates",))
    return StoredRows(JobFolder(folder), done)


def live(folder: Path, rows: list[Row]) -> Rows:
    (folder / "aggregates").mkdir()
    for number, first in enumerate(range(0, len(rows), 13)):
        table = pa.Table.from_pylist(rows[first : first + 13], SCHEMA)
        pq.write_table(table, folder / "aggregates" / f"{number:09}-0.parquet")
    return LiveRows(folder, folder / "checkpoint", RowCountCache())


def expected(rows: list[Row], chosen: RowSelection) -> list[Row]:
    """The selection as its definition says it."""
    wanted = []
    for place, row in enumerate(rows):
        key = None if row["key"] is None else json.loads(row["key"])
        if chosen.query is not None and row["query"] != chosen.query:
            continue
        if chosen.key is not None and (key is None or not chosen.key.fits(key)):
            continue
        wanted.append((place, row))
    sign = -1 if chosen.descending else 1

    def order(pair: tuple[int, Row]) -> Any:
        place, row = pair
        if chosen.sort == "place":
            return sign * place
        if chosen.sort == "time":
            return sign * row["time"], sign * place
        value = row["value"]
        # Nothing comes last, with what is as large as can be.
        return sign * (sign * float("inf") if value is None else value), sign * place

    return [row for _, row in sorted(wanted, key=order)]


def shown(row: Row) -> tuple[Any, ...]:
    time = row["time"] if isinstance(row["time"], int) else round(row["time"].timestamp() * 1000)
    return row["query"], row["key"], time, row["value"]


@pytest.mark.parametrize("lie", [stored, live])
def test_a_page_is_what_it_is_said_to_be(
    lie: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.spark.stream.checkpoint.readable_batch", lambda path: 10**6)
    monkeypatch.setattr(row_selection, "NEAR_ROWS", 3)
    monkeypatch.setenv("TZ", "UTC")
    chance = random.Random(5)
    rows = made_rows(chance, 100)
    found = lie(tmp_path, rows)
    keys = (None, "u1", '{"user": "u1"}', '{"n": 17}', "17", "true", "nobody", 'ü"2\\', "{u1", "")
    for _ in range(150):
        key = chance.choice(keys)
        chosen = RowSelection(
            chance.choice((None, "a", "c")),
            None if key is None else KeyFilter(key),
            chance.choice(("place", "time", "value")),
            chance.random() < 0.5,
        )
        offset, limit = chance.randrange(30), chance.randrange(30)
        table, total = chosen.page(found, "aggregates", offset, limit)
        right = expected(rows, chosen)
        assert total == len(right), chosen
        utc = table.set_column(2, "time", table.column("time").cast(pa.int64()))
        assert list(map(shown, utc.to_pylist())) == [
            shown(row) for row in right[offset : offset + limit]
        ], chosen
        as_they_lie = RowSelection(chosen.query, chosen.key)
        pieces = as_they_lie.pieces(found, "aggregates", offset, offset + limit)
        whole = pa.Table.from_batches(pieces, SCHEMA)
        assert whole.num_rows == len(expected(rows, as_they_lie)[offset : offset + limit])


@pytest.mark.parametrize(
    ("given", "key", "fits"),
    [
        ("u1", {"user": "u1"}, True),
        ("u", {"user": "u1"}, False),
        ("1", {"n": 1}, True),
        ("1", {"n": "1"}, True),
        ('{"n": 1}', {"n": "1"}, False),
        ('{"n": 1}', {"n": 1, "user": "u1"}, True),
        ('{"n": 1, "user": "u2"}', {"n": 1, "user": "u1"}, False),
        ("[1]", {"n": [1]}, True),
        ("null", {"n": None}, True),
    ],
)
def test_a_key_is_named_by_a_value_or_by_an_object(given: str, key: Row, fits: bool) -> None:
    assert KeyFilter(given).fits(key) is fits
    assert KeyFilter(given).mask(pa.array([json.dumps(key), None])).to_pylist() == [fits, False]


def test_sorted_pages_end_somewhere(tmp_path: Path) -> None:
    rows = stored(tmp_path, made_rows(random.Random(1), 10))
    with pytest.raises(TooDeepError, match="up to number 100,000"):
        RowSelection(sort="time").page(rows, "aggregates", 100_000, 1)
    assert RowSelection(descending=True).page(rows, "aggregates", 10**15, 1)[1] == 10


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture
def client(pretend: list[str], tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(Settings(data=tmp_path / "data", roots=(Path.cwd(), tmp_path)), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def test_results_are_filtered_and_ordered_over_http(client: httpx.Client) -> None:
    id = posted_job(client, "fine")["id"]
    finished(client, id)

    def times(**params: Any) -> list[int]:
        answer = client.get(f"/v1/jobs/{id}/results", params=params)
        assert answer.status_code == 200, answer.text
        return [row["time"] for row in answer.json()["aggregates"]]

    assert times() == [10, 20, 30]
    assert times(order="desc", limit=2) == [30, 20]
    assert times(sort="time", order="desc", offset=1) == [20, 10]
    assert times(key="u1") == times(key='{"user":"u1"}') == [10, 20, 30]
    assert times(key="u2") == []
    csv = client.get(f"/v1/jobs/{id}/results", params={"format": "csv", "key": "u2"} | KIND)
    assert csv.text.count("\n") == 1
    both = {"format": "csv", "order": "desc"} | KIND
    for params in (both, {"sort": "size"}, {"sort": "time", "offset": 100_000}):
        answer = client.get(f"/v1/jobs/{id}/results", params=params)
        is_problem(answer, 422, "invalid-request")


KIND = {"kind": "aggregates"}


def test_rows_of_a_query_that_a_stream_has_lost_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.spark.stream.checkpoint.readable_batch", lambda path: 5)
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path, Path.cwd())), COMMAND)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        events = pa.table({"ts": [1], "action": ["View"], "user": ["u"], "price": [1.0]})
        pq.write_table(events, tmp_path / "like.parquet")
        (tmp_path / "runs").mkdir()
        like = {"like": str(tmp_path / "like.parquet")}
        id = posted_stream(client, str(tmp_path / "runs"), stream=like)["id"]
        job = in_batch(client, id, 1)
        rows = [row | {"query": "abandoned"} for row in made_rows(random.Random(1), 4)]
        folder = tmp_path / "data/jobs" / id / "rows/aggregates"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "000000001-0.parquet")
        document = client.get(f"/v1/workloads/{job['workload']}").json()["document"]
        plan = planned(client, {**document, "queries": document["queries"][:1]})
        assert client.patch(f"/v1/jobs/{id}", json={"plan": plan}).status_code == 202
        assert client.get(f"/v1/plans/{plan}").json()["queries"] == ["purchases"]
        found = client.get(f"/v1/jobs/{id}/results", params={"query": "abandoned"})
        assert found.json()["total"] == {"aggregates": 4, "matches": 0}
        never = client.get(f"/v1/jobs/{id}/results", params={"query": "never"})
        is_problem(never, 404, "not-found")
