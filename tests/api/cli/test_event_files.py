"""What commands say of files that are no events, or hardly those that were meant."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner, Result

from api.cli.main import app
from engines.limits import ResultsError
from engines.results.tables import Results
from engines.results.writers import write_results

QUERY = "QUERY q PATTERN SEQ(A a, B b) PARTITION BY card AGG COUNT(*), SUM(b.amount) WITHIN 5 min"
LINES = ["ts,kind,card,amount", *(f"{1740816000 + i},{'AB'[i % 2]},c1,{i}" for i in range(40))]


def workload(folder: Path, query: str = QUERY, **stream: Any) -> str:
    path = folder / "w.yaml"
    stream = {"time": "ts", "type": "kind", "unit": "s", **stream}
    path.write_text(yaml.safe_dump({"stream": stream, "queries": [query]}, allow_unicode=True))
    return str(path)


def write(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def invoke(*arguments: str) -> Result:
    found = CliRunner().invoke(app, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def report(result: Result) -> Any:
    return json.loads(result.stderr.splitlines()[-1])


@pytest.mark.parametrize("lines", [[""], LINES[:1]])
def test_a_file_without_events_is_said_as_such(tmp_path: Path, lines: list[str]) -> None:
    path = write(tmp_path / "empty.csv", lines)
    ran = invoke("run", workload(tmp_path), "--events", path)
    assert ran.exit_code == 0
    assert f"note: '{path}' has no events" in ran.stderr
    assert "no event has" not in ran.stderr
    assert report(ran)["notes"] == [f"'{path}' has no events"]
    planned = invoke("plan", workload(tmp_path), "--events", path)
    assert planned.exit_code == 1
    assert f"'{path}' has no events" in planned.stderr


def test_a_unit_that_makes_no_sense_is_said_by_run_and_plan(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", LINES)
    said = "the numbers in 'ts', as ms since 1970, lie in the year 1970; as s they would lie on "
    said += "2025-03-01: write `unit: s`"
    for command in (["run"], ["plan"], ["plan", "--json"]):
        found = invoke(*command, workload(tmp_path, unit="ms"), "--events", path)
        assert found.exit_code == 0
        # Where it is text, the plan itself has its notes, in lines of their own.
        shown = found.stdout if command == ["plan"] else found.stderr
        assert said in " ".join(shown.split())
        good = invoke(*command, workload(tmp_path), "--events", path)
        assert "the numbers in" not in good.stdout + good.stderr


def test_a_column_that_a_few_values_spoil_is_named_with_row_and_remedy(tmp_path: Path) -> None:
    lines = [line.replace("amount", "amount (€)") for line in LINES]
    lines[18] = lines[18].rpartition(",")[0] + ",N/A"
    path = write(tmp_path / "dirty.csv", lines)
    query = QUERY.replace("b.amount", 'b."amount (€)"')
    said = (
        f"row 18 of '{path}' has 'N/A' in 'amount (€)' where the other 39 are numbers; declare "
        "`attributes: {card: string, amount (€): int}` under stream, and leave such rows out "
        "(on_error: skip, or --on-error skip)"
    )
    for command in ("run", "plan"):
        found = invoke(command, workload(tmp_path, query), "--events", path)
        assert found.exit_code == 1
        assert found.stderr.startswith(f"error: {said}")  # of the events, not of a plan
        assert "by an earlier use" not in found.stderr
    declared = workload(tmp_path, query, attributes={"card": "string", "amount (€)": "int"})
    ran = invoke("run", declared, "--events", path, "--on-error", "skip")
    assert ran.exit_code == 0, ran.stderr
    assert report(ran)["skipped"] == 1


def test_a_column_of_words_is_not_called_spoilt(tmp_path: Path) -> None:
    lines = [LINES[0], *(line.rpartition(",")[0] + ",much" for line in LINES[1:])]
    found = invoke("run", workload(tmp_path), "--events", write(tmp_path / "e.csv", lines))
    assert found.exit_code == 1
    assert "sum takes a number, not a string" in found.stderr


ODD = {
    "list": pa.array([[1]] * 4),
    "empty list": pa.array([[]] * 4, pa.list_(pa.null())),
    "struct": pa.array([{"a": 1}] * 4),
    "map": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"\xff"] * 4),
    "duration": pa.array([1] * 4, pa.duration("s")),
    "time of day": pa.array([1] * 4, pa.time32("s")),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("column", ["kind", "card", "amount"])
def test_a_column_that_cannot_be_compared_is_named(tmp_path: Path, kind: str, column: str) -> None:
    columns: dict[str, Any] = {"ts": [1, 2, 3, 4], "kind": list("ABAB"), "card": ["c"] * 4}
    columns |= {"amount": [1.0] * 4, column: ODD[kind]}
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table(columns), path)
    query = "QUERY q PATTERN SEQ(A a, B b) WHERE a.amount = b.amount AND [card] RETURN a WITHIN 9 s"
    found = invoke("run", workload(tmp_path, query), "--events", str(path))
    assert found.exit_code == 1
    assert f"column '{column}' has type" in found.stderr


def test_a_list_can_be_returned(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    rows = [{"ts": i, "kind": "AB"[i % 2], "tags": [i, "x"]} for i in range(2)]
    path.write_text("".join(json.dumps({**row, "tags": [row["ts"]]}) + "\n" for row in rows))
    query = "QUERY q PATTERN SEQ(A a, B b) RETURN a.tags, b.tags WITHIN 9 s"
    out = tmp_path / "r.jsonl"
    found = invoke("run", workload(tmp_path, query), "--events", str(path), "--out", str(out))
    assert found.exit_code == 0
    (row,) = map(json.loads, out.read_text().splitlines())
    match = row["match"] if isinstance(row["match"], dict) else json.loads(row["match"])
    assert match == {"a": {"tags": [0]}, "b": {"tags": [1]}}


def test_a_file_that_cannot_be_written_is_said_by_its_own_name(tmp_path: Path) -> None:
    name = "r" * 245 + ".csv"  # longer than a file's name can be with anything before and behind
    none = pa.schema([("query", pa.string())]).empty_table()
    with pytest.raises(ResultsError) as caught:
        write_results(Results(none, none), str(tmp_path / name), True, False)
    assert f"'{tmp_path / name}' cannot be written" in str(caught.value)
    assert ".partial" not in str(caught.value)


def test_a_workload_that_may_not_be_read_is_said_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workload(tmp_path)

    def forbidden(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    found = invoke("check", path)
    assert found.exit_code == 1
    assert "help: allow the user who runs this to read it" in found.stderr


def test_results_are_not_written_over_their_events(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", LINES)
    before = Path(path).read_bytes()
    found = invoke("run", workload(tmp_path), "--events", path, "--out", f"{tmp_path}/./e.csv")
    assert found.exit_code == 1
    assert "--out is what --events names, which would be lost" in found.stderr
    assert Path(path).read_bytes() == before
