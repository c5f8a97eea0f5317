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
from workloads import bundled
from workloads.generators import generate_table

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


def test_the_row_of_the_bundled_machines_is_the_one_that_is_printed() -> None:
    said = re.search(r"^pressure_after_heat +(\d+) +(.*)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert said is not None
    workload = load_bound(bundled.path("machines"))
    table = generate_table(bundled.stream("machines", events=20_000))
    found = run_local(workload, from_table(table, workload.stream)).matches.to_pylist()
    rows = [row for row in found if row["query"] == "pressure_after_heat"]
    assert len(rows) == int(said[1])
    first = min(rows, key=lambda row: (row["key"], row["time"]))
    match = json.loads(first["match"])
    h, p = match.pop("h"), match.pop("p")
    printed = (
        f"machine=0 at {first['time']}: cooled={match['cooled']} "
        f"h.temperature={h['temperature']:.10f} builds={match['builds']} "
        f"p.pressure={p['pressure']:.10f}"
    )
    assert said[2] == printed
