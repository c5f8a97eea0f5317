"""`sheaf run` says by which trees it finds matches, and changes them when the stream changes."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.cli.main import app

WORKLOAD = """
name: flip
stream: {time: ts, unit: ms, type: kind}
statistics: {rates: {A: 2.5, B: 500, C: 500}}
queries:
  - QUERY q PATTERN SEQ(A a, B b, C c) RETURN a.ts, c.ts WITHIN 60 ms
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """`run` over a stream in which A is rare at first, as its statistics say, and then C."""
    folder = tmp_path_factory.mktemp("adaptive")
    (folder / "flip.yaml").write_text(WORKLOAD, encoding="utf-8")
    draw = np.random.default_rng(1)
    shares = (np.array([1, 200, 200]) / 401, np.array([200, 200, 1]) / 401)
    kind = np.concatenate([draw.choice(list("ABC"), 30_000, p=p) for p in shares])
    pq.write_table(pa.table({"ts": np.arange(len(kind)), "kind": kind}), folder / "events.parquet")

    def call(*options):
        out = folder / "rows.parquet"
        result = CliRunner().invoke(
            app,
            ["run", str(folder / "flip.yaml"), "--events", str(folder / "events.parquet"),
             "--slice", "15000", "--out", str(out), *options],
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        *said, report = result.stderr.strip().splitlines()
        return pq.read_table(out), said, json.loads(report)

    return call


def test_trees_change_with_the_stream(run):
    found, said, report = run("-v")
    assert report["plan_changes"] == 1
    first, trees = said
    assert first.startswith("batch 3: trees of q changed: the rate of ")
    assert trees == "  q: WALK(c, a, b) (was WALK(a, b, c))"
    (decision,) = report["trees"]
    assert (decision["what"], decision["batch"], decision["queries"]) == ("changed", 3, ["q"])
    assert (decision["old"], decision["new"]) == ({"q": "WALK(a, b, c)"}, {"q": "WALK(c, a, b)"})
    # The operators of the new tree are listed as what the plan does not have.
    planned = [o["about"] for o in report["operators"] if o["kind"] == "walk"]
    assert planned[0] == "WALK(A, B, C)"
    others = [o for o in report["operators"] if o.get("unplanned")]
    assert {o["kind"] for o in others} == {"walk"}
    assert all(o["rows_out"] for o in others)
    fixed, said, report = run("-v", "--no-adaptive")
    assert (report["plan_changes"], report["trees"], said) == (0, [], [])
    assert not any(o.get("unplanned") for o in report["operators"])
    assert found.num_rows > 10_000
    assert found.equals(fixed)


def test_nothing_is_said_of_trees_unless_it_is_asked(run):
    _, said, report = run()
    assert not said
    assert report["plan_changes"] == 1
