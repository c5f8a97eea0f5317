"""`sheaf run` says by which trees it finds matches, and changes them when the stream changes."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.cli import app

WORKLOAD = """
name: flip
stream: {time: ts, unit: ms, type: kind}
queries:
  - QUERY q PATTERN SEQ(A a, B b, C c) RETURN a.ts, c.ts WITHIN 60 ms
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """`run` over a stream in which A is rare at first, and then C; its rows and what it said."""
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
    assert [line for line in said if not line.startswith("  ")] == [
        "batch 1: plan of q planned: these are the first events",
        next(line for line in said if line.startswith("batch 3: plan of q changed: the rate of ")),
    ]
    assert said[1] == "  q: ((a ; b) ; c)"
    assert said[-1] == "  q: (a ; (b ; c))"
    fixed, said, report = run("-v", "--no-adaptive")
    assert report["plan_changes"] == 0
    assert len(said) == 2
    assert found.num_rows > 10_000
    assert found.equals(fixed)


def test_nothing_is_said_of_trees_unless_it_is_asked(run):
    _, said, report = run()
    assert not said
    assert report["plan_changes"] == 1
