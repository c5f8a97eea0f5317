"""Vectors for every START give what every window multiplied from scratch gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engines.columns.columns import Columns
from engines.columns.layout import arrange
from engines.counting.letters import CountingPlan, filled, prepare
from engines.counting.pane_tables import WindowSpan
from engines.counting.sem import compile_starts
from engines.input.event_table import from_table
from kernels.starts import cpu, reference
from optimizer.bind.binder import load_bound

PATTERNS = [
    "SEQ(OR(A a, B b), C c) AGG COUNT(*)",
    "SEQ(A a, B+ b, C c) AGG COUNT(*), SUM(b.x), MAX(c.x)",
    "SEQ(A a, !SEQ(B b, C c), D d) AGG COUNT(*), MIN(a.x)",
    "SEQ(A a, B+ b, !C c, D d, !B e) AGG COUNT(*)",
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dual", [False, True])
def test_windows_and_slides_of_each_query_are_those_of_the_reference(seed: int, dual: bool) -> None:
    rng = np.random.default_rng(seed)
    workload = load_bound(
        {
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [f"PATTERN {p} PARTITION BY k WITHIN 9 ms" for p in PATTERNS],
        }
    )
    n = 90
    table = pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 2, n)),
            "kind": rng.choice(list("ABCD"), n),
            "k": rng.integers(0, 2, n),
            "x": pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.2),
        }
    )
    events = from_table(table, workload.stream)
    plan = CountingPlan(workload.queries)
    layout = arrange(events, ("k",), False, False)
    prepared = prepare(plan, Columns(workload, events), layout, 15, False)
    assert prepared is not None
    slides = rng.integers(1, 6, 4) if seed % 2 else rng.choice([0, 0, 3], 4)
    spans = [
        WindowSpan(int(w), int(s)) for w, s in zip(rng.integers(4, 16, 4), slides, strict=True)
    ]
    operators, readings = compile_starts(plan.terms, prepared.letters, spans)
    found = []
    for kernel in (cpu, reference):

        def run(out, kernel=kernel):
            return kernel.count_starts(prepared.groups, operators, readings, dual, out)

        rows = filled(run, 1, dual, plan.most_values)
        values = [
            row[: readings.result[q + 1] - readings.result[q]].tolist()
            for q, row in zip(rows.query, rows.values, strict=True)
        ]
        boundary = np.where(readings.slide[rows.query] > 0, rows.boundary, 0)
        found.append(
            sorted(
                zip(
                    rows.query.tolist(),
                    rows.group.tolist(),
                    boundary.tolist(),
                    rows.counts.tolist(),
                    rows.approximate.tolist() if dual else rows.group.tolist(),
                    values,
                    strict=True,
                )
            )
        )
    assert found[0] == found[1]
    assert len(found[0]) > 20
