"""A file of each query, with the columns it names: command line, HTTP, client, Python module."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import sheaf
from api.cli.main import app as command_line
from api.client import Client, ServiceError
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.run_settings import OptionError

WORKLOAD = {
    "name": "ticks",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        {
            "name": "vee",
            "sql": "SELECT sym, low, n FROM t MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts "
            "MEASURES LAST(DOWN.price) AS low, COUNT(*) AS n PATTERN (STRT DOWN+ UP+) "
            "DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))",
        },
        'QUERY "rises/falls" PATTERN SEQ(Q a, Q b) WHERE a.price < b.price RETURN a, '
        "b.price AS top WITHIN 2 s",
        "QUERY Matches PATTERN Q a AGG COUNT(*), SUM(a.price) PARTITION BY sym WITHIN 9 s "
        "SLIDE 9 s",
    ],
}
EVENTS = "ts,kind,sym,price\n1,Q,a,9\n2,Q,a,6\n4,Q,a,5\n5,Q,a,8\n"
# Worked out by hand.
VEE = [{"sym": "a", "low": 5, "n": 4}]
RISES = [
    {"start": 4, "end": 5, "time": 5, "a": {"ts": 4, "kind": "Q", "sym": "a", "price": 5}, "top": 8}
]
COUNTED = [{"sym": "a", "time": 9, "count": 4, "sum_a_price": 28.0}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w.json").write_text(json.dumps(WORKLOAD))
    (tmp_path / "events.csv").write_text(EVENTS)
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    settings = Settings(data=folder / "data", roots=(folder,))
    with serving(create_app(settings)) as address, Client(address) as made:
        yield made


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command_line, ["run", *map(str, arguments)])


def is_right(folder: Path) -> None:
    """The files beside `found.parquet` have each query's own rows."""
    assert pq.read_table(folder / "found.vee.parquet").to_pylist() == VEE
    assert pq.read_table(folder / "found.rises%2Ffalls.parquet").to_pylist() == RISES
    # `found.matches.parquet` are the rows of all queries that return matches.
    assert pq.read_table(folder / "found.Matches_.parquet").to_pylist() == COUNTED
    assert pq.read_table(folder / "found.matches.parquet").num_rows == 2
    assert not list(folder.glob(".found*"))


@pytest.mark.parametrize("engine", ["local", "oracle", "spark"])
def test_each_query_has_a_file(folder: Path, engine: str) -> None:
    events, out = folder / "events.csv", folder / "found.parquet"
    result = run(
        folder / "w.json", "--events", events, "--engine", engine, "--out", out, "--tables"
    )
    assert result.exit_code == 0, result.stderr
    named = [Path(line).name for line in result.stdout.splitlines()]
    assert named == [
        "found.aggregates.parquet",
        "found.matches.parquet",
        "found.vee.parquet",
        "found.rises%2Ffalls.parquet",
        "found.Matches_.parquet",
    ]
    is_right(folder)


def test_structs_give_the_same_files(folder: Path) -> None:
    queries = {**WORKLOAD, "queries": WORKLOAD["queries"][1:]}
    found = sheaf.run(
        sheaf.load(queries),
        folder / "events.csv",
        folder / "found.parquet",
        match="struct",
        tables=True,
    )
    assert len(found.files) == 4
    assert pq.read_table(folder / "found.rises%2Ffalls.parquet").to_pylist() == RISES


def test_text_has_what_it_can_say(folder: Path) -> None:
    events = folder / "events.csv"
    for ending in ("csv", "jsonl"):
        out = folder / f"found.{ending}"
        assert run(folder / "w.json", "--events", events, "--out", out, "--tables").exit_code == 0
    lines = (folder / "found.rises%2Ffalls.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == RISES
    assert list(map(json.loads, (folder / "found.vee.jsonl").read_text().splitlines())) == VEE
    assert pyarrow.csv.read_csv(folder / "found.vee.csv").to_pylist() == VEE
    (row,) = pyarrow.csv.read_csv(folder / "found.rises%2Ffalls.csv").to_pylist()
    assert json.loads(row["a"]) == RISES[0]["a"]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_job_writes_them_beside_its_sink(folder: Path, client: Client, engine: str) -> None:
    plan = client.plan(client.post_workload(WORKLOAD).id)
    job = client.launch(
        plan.id, folder / "events.csv", folder / "found.parquet", engine=engine, tables=True
    )
    done = client.wait(job.id)
    assert done.status == "succeeded", done.error
    assert len(done.files) == 5
    is_right(folder)


def test_rows_have_to_go_to_a_file(folder: Path, client: Client) -> None:
    said = "are files of each query beside that of all rows: say where that is written"
    result = run(folder / "w.json", "--events", folder / "events.csv", "--tables")
    assert result.exit_code == 1
    assert f"--tables {said}" in " ".join(result.stderr.split())
    with pytest.raises(OptionError, match=said):
        sheaf.run(sheaf.load(WORKLOAD), folder / "events.csv", tables=True)
    plan = client.plan(client.post_workload(WORKLOAD).id)
    with pytest.raises(ServiceError, match=said):
        client.launch(plan.id, folder / "events.csv", tables=True)
