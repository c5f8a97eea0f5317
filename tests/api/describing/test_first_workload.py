"""The workload that is written for a file of events: it runs over the file, and finds rows."""

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import sheaf
from api.cli.main import app
from api.describing.service import describe_events, workload_name
from engines.limits import EventsError

ODD = """Event Time,Customer ID,event,amount (€)
2025-03-01T10:00:00,c1,page view,0
2025-03-01T10:00:30,c2,page view,0
2025-03-01T10:01:00,c1,add-to-cart,2.5
2025-03-01T10:09:00,c2,add-to-cart,4.5
"""
SPOILT = "ts,kind,user,amount\n" + "".join(
    f"{1_700_000_000_000 + 1000 * i},{'Login' if i % 2 else 'Payment'},u{i // 2 % 3},"
    f"{'N/A' if i == 7 else i}\n"
    for i in range(24)
)
EUROPEAN = """at;action;user
01/03/2025 08:00;Login;a
01/03/2025 08:05;Payment;a
25/03/2025 08:00;Login;a
"""
UNTYPED = "ts,host,load\n" + "".join(f"{i},h{i % 2},{i / 2}\n" for i in range(8))


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("name", "text", "stream", "options"),
    [
        ("odd.csv", ODD, {"time": "Event Time", "type": "event"}, {}),
        (
            "spoilt.csv",
            SPOILT,
            {
                "time": "ts",
                "unit": "ms",
                "type": "kind",
                "attributes": {"user": "string", "amount": "int"},
            },
            {"on_error": "skip"},
        ),
        (
            "european.csv",
            EUROPEAN,
            {"time": "at", "format": "%d/%m/%Y %H:%M", "type": "action"},
            {},
        ),
        (
            "untyped.csv",
            UNTYPED,
            {"time": "ts", "unit": "s", "types": {"Event": "ts IS NOT NULL"}},
            {},
        ),
    ],
)
def test_the_first_workload_runs_over_its_events_and_finds_rows(
    tmp_path: Path, name: str, text: str, stream: dict[str, object], options: dict[str, str]
) -> None:
    events = written(tmp_path, name, text)
    found = describe_events(events)
    document = yaml.safe_load(found["workload"])
    assert document["stream"] == stream
    rows = sheaf.run(document, events, **options)  # type: ignore[arg-type]
    assert rows.report["rows_by_query"]["first"] > 0


def test_columns_have_kinds_values_ranges_and_roles(tmp_path: Path) -> None:
    found = describe_events(written(tmp_path, "odd.csv", ODD))
    assert (found["rows"], found["whole"], found["files"]) == (4, True, 1)
    assert (found["from"], found["to"]) == ("2025-03-01 10:00:00", "2025-03-01 10:09:00")
    columns = {column["name"]: column for column in found["columns"]}
    assert {name: c["role"] for name, c in columns.items()} == {
        "Event Time": "time",
        "Customer ID": "key",
        "event": "type",
        "amount (€)": "number",
    }
    amount = columns["amount (€)"]
    assert (amount["kind"], amount["least"], amount["most"]) == ("float", "0", "4.5")
    assert (amount["distinct"], amount["examples"][0]) == (3, "0")
    # The window is the shortest of those that most of the gaps fit in: 1 and 8.5 minutes.
    assert 'SEQ("page view" a, "add-to-cart" b)' in found["workload"]
    assert "WITHIN 10 min" in found["workload"]


def test_a_column_that_a_few_texts_spoil_is_named_and_declared(tmp_path: Path) -> None:
    found = describe_events(written(tmp_path, "spoilt.csv", SPOILT))
    (note,) = found["notes"]
    assert "'amount' has 'N/A' in row 8" in note
    assert next(c["kind"] for c in found["columns"] if c["name"] == "amount") == "int"


def test_parquet_folders_nested_columns_and_sequence_numbers_are_described(tmp_path: Path) -> None:
    table = pa.table(
        {
            "when": [datetime(2025, 1, 1, 0, minute) for minute in range(6)],
            "seq": list(range(6)),
            "kind": ["A", "B"] * 3,
            "tags": [["x"]] * 6,
            "place": [{"city": "Bern"}] * 6,
        }
    )
    (tmp_path / "events").mkdir()
    for part in ("a", "b"):
        pq.write_table(table, tmp_path / "events" / f"{part}.parquet")
    found = describe_events(str(tmp_path / "events"))
    assert (found["files"], found["whole"], found["rows"]) == (2, False, 6)
    stream = yaml.safe_load(found["workload"])["stream"]
    assert stream == {"time": "when", "type": "kind", "sequence": "seq"}
    place = next(c for c in found["columns"] if c["name"] == "place")
    assert place["examples"] == ["{'city': 'Bern'}"]


def test_what_has_no_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventsError, match="has no events"):
        describe_events(written(tmp_path, "empty.csv", "ts,kind\n"))


def test_names_that_yaml_reads_as_something_else_are_quoted(tmp_path: Path) -> None:
    text = "on,yes,a: b\n" + "".join(
        f"2025-01-01T00:0{i}:00,{'null' if i % 2 else '1'},k{i % 2}\n" for i in range(6)
    )
    found = describe_events(written(tmp_path, "null.csv", text))
    document = yaml.safe_load(found["workload"])
    assert (document["name"], document["stream"]["time"]) == ("null", "on")
    assert sheaf.load(document)


def test_the_command_prints_columns_or_a_workload_that_holds(tmp_path: Path) -> None:
    events = written(tmp_path, "odd.csv", ODD)
    shown = CliRunner().invoke(app, ["describe", events])
    assert shown.exit_code == 0
    assert "times from 2025-03-01 10:00:00" in shown.stdout
    assert "page view, add-to-cart  (type)" in shown.stdout
    text = CliRunner().invoke(app, ["describe", events, "--workload"]).stdout
    (tmp_path / "mine.yaml").write_text(text)
    assert CliRunner().invoke(app, ["check", str(tmp_path / "mine.yaml")]).exit_code == 0
    found = json.loads(CliRunner().invoke(app, ["describe", events, "--json"]).stdout)
    assert found["workload"] == text


def test_a_workload_is_named_for_its_file() -> None:
    assert workload_name("/data/uploads/3f2a90b1c4d5-my clicks.csv.gz") == "my_clicks"
    assert workload_name("events/*.csv") == "my_workload"


def test_what_is_summed_up_is_there_in_most_events_of_the_second_type(tmp_path: Path) -> None:
    lines = ["ts,kind,user,amount"]
    for i in range(60):
        kind = ("View", "Login", "View", "Buy")[i % 4]
        lines.append(f"{1_700_000_000 + i},{kind},u,{i if kind == 'Buy' else ''}")
    events = written(tmp_path, "sparse.csv", "\n".join(lines) + "\n")
    found = describe_events(events)
    assert "PATTERN SEQ(View a, Buy b)" in found["workload"]
    assert "SUM(b.amount)" in found["workload"]
    rows = sheaf.run(yaml.safe_load(found["workload"]), events)
    assert any(value for value in rows["first"].column("sum_b_amount").to_pylist())


def test_nothing_is_summed_up_that_hardly_any_event_has(tmp_path: Path) -> None:
    lines = ["ts,kind,user,amount"]
    for i in range(60):
        kind, amount = "View" if i % 2 else "Login", i if i % 20 == 0 else ""
        lines.append(f"{1_700_000_000 + i},{kind},u,{amount}")
    found = describe_events(written(tmp_path, "rare.csv", "\n".join(lines) + "\n"))
    assert "AGG COUNT(*)" in found["workload"]
    assert "SUM" not in found["workload"]


def test_a_few_texts_that_are_no_times_are_named_and_hide_nothing_else(tmp_path: Path) -> None:
    """The format, the span and the pair are those of all the other rows."""
    lines = ["when,what,who,amount"]
    for day in range(1, 29):
        for minute, kind, amount in ((0, "seen", ""), (1, "seen", ""), (9, "bought", f"{day}.5")):
            lines.append(f"{day:02d}/03/2025 08:{minute:02d}:00,{kind},u{day % 3},{amount}")
    lines[3] = lines[3].replace("01/03/2025 08:09:00", "yesterday")
    path = written(tmp_path, "e.csv", "\n".join(lines) + "\n")
    found = describe_events(path)
    assert (found["from"], found["to"]) == ("2025-03-01 08:00:00", "2025-03-28 08:09:00")
    assert found["notes"] == [
        "'when' has 'yesterday' in row 3, which is no time: leave such rows out (on_error: skip)",
    ]
    query = yaml.safe_load(found["workload"])["queries"][0]
    assert "SEQ(seen a, bought b)" in query
    assert "SUM(b.amount)" in query
    assert sheaf.run(found["workload"], path, on_error="skip")["first"].num_rows == 27
