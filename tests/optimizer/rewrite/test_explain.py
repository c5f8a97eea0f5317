"""What `sheaf check --explain` prints, as golden text; `REGENERATE=1` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from optimizer.bind.binder import load_bound
from optimizer.explain.rewriting import explain_query, explain_workload
from optimizer.rewrite.normalize import normalize
from tests.optimizer.rewriting import query_of

GOLDEN = Path(__file__).parents[2] / "fixtures" / "explain" / "tools.txt"
TOOLS = {
    "name": "tools",
    "stream": {"time": "ts", "unit": "s", "type": "step"},
    "queries": [
        "QUERY untreated PATTERN SEQ(Recycle r, Washing w, "
        "!SEQ(Sharpening s, Disinfection d, Checking c), Operating o) "
        "WHERE d.ward = o.ward AND c.ward = o.ward RETURN r, o WITHIN 1 hour",
        "QUERY either PATTERN SEQ(Washing w, OR(Checking c, SEQ(Packing p, !Recycle r, "
        "Checking c2)), AND(!Failed f, !ColdWash x), Operating o) WHERE [id] AND c.passed = TRUE "
        "AGG COUNT(*) WITHIN 30 min SLIDE 5 min",
        "QUERY nested PATTERN SEQ(Washing w, !SEQ(Disinfection d, Checking c), Operating o) "
        "WHERE d.ward = c.ward AGG COUNT(*) WITHIN 30 min",
        "QUERY plain PATTERN SEQ(Washing w, Operating o) AGG COUNT(*) WITHIN 30 min",
        "QUERY nothing PATTERN SEQ(Washing w, Operating o) WHERE w.id = NULL RETURN w WITHIN 9 s",
    ],
}


def test_the_explanation_of_a_workload() -> None:
    text = explain_workload(load_bound(TOOLS)) + "\n"
    if os.environ.get("REGENERATE"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_no_line_is_too_long_to_read() -> None:
    names = ", ".join(f"Component{i} c{i}" for i in range(40))
    choices = ", ".join(f"OR(A a{i}, B b{i})" for i in range(8))
    where = " AND ".join(f"c{i}.x < c{i + 1}.x" for i in range(39))
    for text in (f"SEQ({names}) WHERE {where}", f"SEQ({choices})"):
        explained = explain_query(normalize(query_of(text)))
        assert max(map(len, explained.splitlines())) <= 100


def test_many_disjuncts_are_not_all_listed() -> None:
    choices = ", ".join(f"OR(A a{i}, B b{i})" for i in range(6))
    explained = explain_query(normalize(query_of(f"SEQ({choices})")))
    assert "OR … 52 more" in explained
    assert "form: DNF, 64 disjuncts" in explained
