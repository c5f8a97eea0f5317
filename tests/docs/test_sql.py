"""The example of docs/sql.md gives the rows that are printed there, and its lists are complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import yaml

import sheaf
from engines.input.event_table import from_table
from optimizer.bind.binder import load_bound
from tests.running import run_local
from workloads.sql.functions import AGGREGATES, FUNCTIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text("utf-8")
SAME = {"CEILING", "POW", "CHAR_LENGTH", "SUBSTR", "ANY_VALUE", "LIST", "LISTAGG"}


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


def test_the_example_gives_the_rows_that_are_printed() -> None:
    workload = load_bound(yaml.safe_load(block("yaml")))
    rows = [json.loads(line) for line in block("jsonl").splitlines()]
    found = run_local(workload, from_table(pa.Table.from_pylist(rows), workload.stream))
    texts = [
        row | {name: json.loads(row[name]) for name in ("key", "match")}
        for row in found.matches.to_pylist()
    ]
    assert texts == [json.loads(line) for line in block("result").splitlines()]


def test_all_functions_are_listed() -> None:
    words = set(re.findall(r"[A-Z_][A-Z_0-9]*", PAGE))
    spread = {name for name in AGGREGATES if name.endswith(("_SAMP", "_POP"))}
    assert set(FUNCTIONS) | set(AGGREGATES) <= words | SAME | spread


def test_the_file_of_its_own_has_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "ticks.yaml").write_text(block("yaml"))
    (tmp_path / "ticks.jsonl").write_text(block("jsonl"))
    out = tmp_path / "rows.csv"
    sheaf.run(tmp_path / "ticks.yaml", tmp_path / "ticks.jsonl", out, tables=True)
    assert (tmp_path / "rows.vee.csv").read_text() == block("table")
