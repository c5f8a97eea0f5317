"""`sheaf import` makes a workload of rules, and lists what is not taken."""

import json
from pathlib import Path

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


def test_rules_of_no_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("none")
    done = CliRunner().invoke(app, ["import", "eql", str(tmp_path)])
    assert done.exit_code != 0
    assert "no file ends with .yml or .yaml or .toml or .eql" in done.output


def test_an_unknown_format_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["import", "sqll", str(tmp_path)])
    assert done.exit_code != 0
    assert "there are" in done.output or "did you mean" in done.output
