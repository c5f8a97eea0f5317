"""The example of docs/situations.md gives the rows that are printed there."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pyarrow.csv
import pytest
import yaml

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from tests.running import run_local

PAGE = Path(__file__).resolve().parents[2] / "docs" / "situations.md"


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("run", [run_local, run_oracle])
def test_the_example_gives_the_rows_that_are_printed(run) -> None:
    workload = load_bound(yaml.safe_load(block("yaml")))
    table = pyarrow.csv.read_csv(io.BytesIO(block("csv").encode()))
    found = run(workload, from_table(table, workload.stream)).matches.to_pylist()
    rows = [row | {"match": json.loads(row["match"])} for row in found]
    printed = [json.loads(line) for line in block("json").splitlines()]
    assert sorted(rows, key=lambda row: row["query"]) == printed


def test_the_refusal_on_the_page_is_what_check_says() -> None:
    named = "DEFINE A AS x > 1, B AS x > 2, C AS x > 3"
    text = f"{named} PATTERN A before B AND B before C AND C before A RETURN A WITHIN 1 s"
    said = re.search(r"^error: (.*)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert said is not None
    with pytest.raises(Exception, match=re.escape(said[1])):
        load_bound({"stream": {"time": "t", "type": "k"}, "queries": [text]})
