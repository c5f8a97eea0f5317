"""Matches as structs through each door: command line, HTTP, client, Python module."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import sheaf
from api.cli.main import app as command_line
from api.client import Client, ServiceError
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings

WORKLOAD = {
    "name": "cards",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        "QUERY spent PATTERN SEQ(login l, OR(pay p, drop d)) PARTITION BY card "
        "RETURN l.ts, p.amount, d WITHIN 9 s",
        "QUERY many PATTERN SEQ(login l, pay+ p) RETURN l.card, p.amount, sum(p.amount) AS total "
        "WITHIN 3 s",
    ],
}
EVENTS = "ts,kind,card,amount\n1,login,c1,\n2,pay,c1,5.5\n3,pay,c2,7\n4,drop,c1,\n"
DROPPED = {"ts": 4, "kind": "drop", "card": "c1", "amount": None}
# By query, then by time: what is said of each match, as JSON has it.
MATCHES = [
    {"l": {"card": "c1"}, "p": [{"amount": 5.5}], "total": 5.5},
    {"l": {"card": "c1"}, "p": [{"amount": 5.5}, {"amount": 7.0}], "total": 12.5},
    {"l": {"card": "c1"}, "p": [{"amount": 7.0}], "total": 7.0},
    {"l": {"ts": 1}, "p": {"amount": 5.5}},
    {"l": {"ts": 1}, "d": DROPPED},
]
STRUCT = pa.struct(
    {
        "l": pa.struct({"ts": pa.int64(), "card": pa.string()}),
        "spent_p": pa.struct({"amount": pa.float64()}),
        "many_p": pa.list_(pa.struct({"amount": pa.float64()})),
        "d": pa.struct(
            {"ts": pa.int64(), "kind": pa.string(), "card": pa.string(), "amount": pa.float64()}
        ),
        "total": pa.float64(),
    }
)


def texts(matches: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(match, sort_keys=True) for match in matches)


def is_right(table: pa.Table) -> None:
    """The columns are those of `STRUCT`, and the rows those of `MATCHES`."""
    kind = table.schema.field("match").type
    assert {field.name: field.type for field in kind} == {f.name: f.type for f in STRUCT}
    assert table.column("query").to_pylist() == ["many"] * 3 + ["spent"] * 2
    found = [
        {
            name.split("_")[-1]: {k: v for k, v in value.items() if k in kept(query, name)}
            if isinstance(value, dict)
            else value
            for name, value in match.items()
            if value is not None
        }
        for query, match in (
            (row["query"], row["match"]) for row in table.select(["query", "match"]).to_pylist()
        )
    ]
    assert texts(found) == texts(MATCHES)


def kept(query: str, name: str) -> tuple[str, ...]:
    """What a query returns of an alias for which others return something else."""
    return {"spent": ("ts",), "many": ("card",)}[query] if name == "l" else tuple(DROPPED)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    workload, events = tmp_path / "cards.json", tmp_path / "events.csv"
    workload.write_text(json.dumps(WORKLOAD))
    events.write_text(EVENTS)
    return workload, events


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command_line, [str(argument) for argument in arguments])


@pytest.mark.parametrize("more", [[], ["--no-sharing"], ["--slice", "2"]])
def test_the_command_line_writes_them(
    files: tuple[Path, Path], tmp_path: Path, more: list[str]
) -> None:
    for out in (tmp_path / "rows.parquet", tmp_path / "rows.arrow"):
        result = run(
            "run", files[0], "--events", files[1], "--out", out, "--match", "struct", *more
        )
        assert result.exit_code == 0, result.output
    is_right(pq.read_table(tmp_path / "rows.parquet"))
    with pa.ipc.open_file(tmp_path / "rows.arrow") as file:
        is_right(file.read_all())


def test_text_is_what_files_have_otherwise(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "rows.arrow"
    assert run("run", files[0], "--events", files[1], "--out", out).exit_code == 0
    with pa.ipc.open_file(out) as file:
        table = file.read_all()
    assert [str(kind) for kind in table.schema.types] == [
        "string", "string", "int64", "int64", "int64", "string",
    ]  # fmt: skip
    assert texts([json.loads(text) for text in table["match"].to_pylist()]) == texts(MATCHES)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--out", "rows.csv"], "CSV and JSON lines have matches as text"),
        (["--out", "rows.jsonl"], "CSV and JSON lines have matches as text"),
        ([], "--out"),
        (["--out", "rows.parquet", "--engine", "oracle"], "oracle"),
    ],
)
def test_what_has_no_structs_says_so(
    files: tuple[Path, Path], arguments: list[str], why: str
) -> None:
    result = run("run", files[0], "--events", files[1], "--match", "struct", *arguments)
    assert result.exit_code != 0
    assert why in " ".join(result.output.split())


def test_the_python_module_has_them_in_memory(files: tuple[Path, Path]) -> None:
    is_right(sheaf.run(files[0], files[1], match="struct").matches)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path,)))
    with serving(app) as address, Client(address) as made:
        yield made


def test_a_job_gives_them_in_arrow_and_parquet(
    client: Client, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """Pages of JSON and CSV have the objects that they always have."""
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    sink = tmp_path / "copy.parquet"
    launched = client.launch(plan, files[1], sink, engine="local", match="struct")
    job = client.wait(launched.id)
    assert job.options["match"] == "struct"
    is_right(client.table(job.id, "matches"))
    is_right(pq.read_table(sink))
    client.download(job.id, tmp_path / "got.parquet", "matches")
    is_right(pq.read_table(tmp_path / "got.parquet"))
    page = client.results(job.id)
    assert texts([row.match for row in page.matches]) == texts(MATCHES)
    only = client.results(job.id, "spent", sort="time", order="desc").matches
    assert [row.match for row in only] == [MATCHES[4], MATCHES[3]]
    client.download(job.id, tmp_path / "got.csv", "matches")
    found = list(csv.DictReader(io.StringIO((tmp_path / "got.csv").read_text())))
    assert texts([json.loads(row["match"]) for row in found]) == texts(MATCHES)
    told = [event.data for event in client.follow(job.id) if event.name == "matches"]
    assert texts([row["match"] for data in told for row in data["rows"]]) == texts(MATCHES)


def test_a_job_with_a_sink_of_text_refuses_them(client: Client, files: tuple[Path, Path]) -> None:
    plan = client.plan(client.post_workload(WORKLOAD).id).id
    with pytest.raises(ServiceError, match="CSV and JSON lines have matches as text"):
        client.launch(plan, files[1], files[1].with_suffix(".jsonl"), match="struct")
    with pytest.raises(ServiceError, match="a live stream writes matches as text"):
        client.launch(plan, files[1], mode="stream", match="struct")
