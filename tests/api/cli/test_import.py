"""`sheaf import` makes a workload of rules, and lists what is not taken."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from typer.testing import CliRunner

from api.cli.main import app
from optimizer.bind.binder import load_bound

TAKEN = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES x AS x PATTERN (A))"


def test_statements_become_queries_and_others_are_listed(tmp_path: Path) -> None:
    source, out = tmp_path / "ticks.sql", tmp_path / "w.yaml"
    source.write_text(f"{TAKEN};\nSELECT 1 FROM t; -- no clause\n{TAKEN}", encoding="utf-8")
    done = CliRunner().invoke(app, ["import", "sql", str(source), "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["read"], said["queries"]) == (3, 2)
    assert "without MATCH_RECOGNIZE" in said["refused"][0]["reason"]
    document = yaml.safe_load(out.read_text("utf-8"))
    assert [query["name"] for query in document["queries"]] == ["ticks_1", "ticks_3"]
    assert len(load_bound(document).queries) == 2


def test_rules_in_eql_and_sigma_become_queries_and_others_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.eql").write_text("process where x == 1")
    (tmp_path / "b.eql").write_text("process where x ==")
    (tmp_path / "notes.md").write_text("none of them")
    out = tmp_path / "w.yaml"
    options = ["--time", "at", "--sequence", "n", "--out", str(out), "--json"]
    done = CliRunner().invoke(app, ["import", "eql", str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["read"], said["queries"]) == (2, 1)
    assert said["refused"][0]["place"].endswith("b.eql, b")
    assert said["refused"][0]["reason"] == "the query ends too early"
    document = yaml.safe_load(out.read_text("utf-8"))
    assert document["stream"]["sequence"] == "n"
    assert [query.name for query in load_bound(document).queries] == ["a"]
    rule = tmp_path / "rule.yml"
    rule.write_text("title: t\nlogsource: {category: c}\ndetection: {s: {x: 1}, condition: s}\n")
    done = CliRunner().invoke(app, ["import", "sigma", str(rule), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert len(load_bound(yaml.safe_load(out.read_text("utf-8"))).queries) == 1


def test_a_folder_of_sigma_rules_and_a_file_of_events_give_alerts_in_two_commands(
    tmp_path: Path,
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "one.yml").write_text(
        "title: Encoded\nlevel: high\nlogsource: {product: windows, category: process_creation}\n"
        "detection: {s: {CommandLine|contains: ' -enc', EventID: 1}, condition: s}\n"
    )
    (tmp_path / "rules" / "two.yml").write_text(
        "title: Words\nlogsource: {product: windows}\n"
        "detection: {k: [whoami], s: {Missing: x}, condition: k and not s}\n"
    )
    events, made, alerts = (tmp_path / name for name in ("e.jsonl", "w.yaml", "alerts.parquet"))
    lines = [
        {"@timestamp": "2020-09-04T15:48:31.123Z", "EventID": 1, "CommandLine": "p -ENC SQ=="},
        {"@timestamp": "2020-09-04T15:48:30.001Z", "EventID": 1, "CommandLine": "WhoAmI /all"},
        {"@timestamp": "2020-09-04T15:48:33Z", "EventID": 4624, "User": "p -enc"},
    ]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["--events", str(events), "--out", str(made)]
    done = CliRunner().invoke(app, ["import", "sigma", str(tmp_path / "rules"), *options])
    assert done.exit_code == 0, done.output
    assert "each rule sees every event" in done.output
    assert yaml.safe_load(made.read_text("utf-8"))["name"] == "rules"
    options = ["--events", str(events), "--out", str(alerts)]
    done = CliRunner().invoke(app, ["run", str(made), *options])
    assert done.exit_code == 0, done.output
    rows = pq.read_table(alerts).to_pylist()
    assert [(row["query"], row["time"].microsecond) for row in rows] == [
        ("Encoded", 123_000),
        ("Words", 1_000),
    ]
    done = CliRunner().invoke(
        app, ["import", "sigma", str(tmp_path / "rules"), "--events", str(events), "--time", "User"]
    )
    assert "'User' is no column of times" in done.output


def test_a_rule_that_the_events_do_not_fit_is_listed_and_the_others_run(tmp_path: Path) -> None:
    events, rules, made = (tmp_path / name for name in ("e.jsonl", "r.yaml", "w.yaml"))
    events.write_text('{"ts": 1, "n": 1, "number": 5, "text": "a", "event": {"category": "x"}}\n')
    rules.write_text(
        "- {name: good, query: 'x where number == \"5\"'}\n"
        "- {name: bad, query: 'x where number == text'}\n"
    )
    options = ["--events", str(events), "--out", str(made)]
    done = CliRunner().invoke(app, ["import", "eql", str(rules), *options])
    assert done.exit_code == 0, done.output
    assert "1 queries of 2 read" in done.output
    assert "not taken: bad: a number cannot be compared with a string" in done.output
    done = CliRunner().invoke(app, ["run", str(made), "--events", str(events), "--json"])
    assert done.exit_code == 0, done.output
    assert '"good": 1' in done.output


def test_rules_of_no_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("none")
    done = CliRunner().invoke(app, ["import", "eql", str(tmp_path)])
    assert done.exit_code != 0
    assert "no file ends with .yml or .yaml or .toml or .eql" in done.output


def test_an_unknown_format_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["import", "sqll", str(tmp_path)])
    assert done.exit_code != 0
    assert "there are" in done.output or "did you mean" in done.output
