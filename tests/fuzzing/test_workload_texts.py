"""Whatever stands in a workload's text: it is used, or refused with a reason; nothing else.

Each text goes the way of a user's file: `sheaf check`, also with `--explain`; what is accepted is
printed and read again, and planned where it is small. `-m soak` goes on for half an hour.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer

from api.cli.commands.check import check
from optimizer.bind.binder import bind, load_bound
from optimizer.explain.text import render_text
from optimizer.ir.pattern import Neg, Pattern, events
from optimizer.ir.query import BoundWorkload
from optimizer.plan.plan import to_json
from sharing.planner import make_plan
from sharing.solvers.candidates import Options
from tests.fuzzing.duration import QUICK_SECONDS, SOAK_SECONDS, Case, fuzz, soak
from tests.fuzzing.workload_texts import bundled_texts, query_text, workload_text
from workloads.errors import Diagnostic, QueryError, SheafError, Span, WorkloadError
from workloads.loading import load_workload, parse_document, read_workload
from workloads.parser import parse_query
from workloads.printing import print_query
from workloads.syntax import Exactly
from workloads.workload import to_document


@pytest.fixture
def case(tmp_path: Path) -> Case:
    known = bundled_texts()

    def try_text(chance: random.Random) -> str:
        parse_broken(query_text(chance, known))
        text, ending = workload_text(chance, known)
        path = tmp_path / f"fuzzed{ending}"
        path.write_bytes(text.encode(errors="surrogatepass"))
        accepted = checked(path, explain=bool(chance.randrange(2)))
        in_process = bound_or_findings(path)
        assert accepted == isinstance(in_process, BoundWorkload)
        if ending == ".yaml" and "\ud800" not in text:
            parse_document(text)
        if not isinstance(in_process, BoundWorkload):
            return "refused"
        return used(path, in_process, chance)

    return try_text


def parse_broken(text: str) -> None:
    """A query alone: what is wrong with it has a place in it."""
    try:
        parse_query(text)
    except QueryError as error:
        look_at([error.diagnostic(text, "q")])
        place = error.span
    else:
        place = Span(0, 0)
    assert 0 <= place.start <= place.end <= len(text) + 1  # the end is a place, too


def checked(path: Path, explain: bool) -> bool:
    """Does `sheaf check` accept it? If not, it says what is wrong."""
    out, errors = io.StringIO(), io.StringIO()
    accepted = True
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            check([str(path)], explain)
        except typer.Exit as ended:
            accepted = ended.exit_code == 0
    said = out.getvalue() if accepted else errors.getvalue()
    assert said.encode()
    assert accepted or said.startswith("error: ")
    return accepted


def bound_or_findings(path: Path) -> BoundWorkload | WorkloadError:
    """The bound workload, or the error, whose findings have places in their texts and in order."""
    try:
        workload, findings = read_workload(path)
        if workload is None:
            raise WorkloadError(findings)
        return bind(workload, None, findings)
    except WorkloadError as error:
        look_at(error.diagnostics)
        return error


def look_at(findings: Sequence[Diagnostic]) -> None:
    assert findings
    for found in findings:
        assert found.message
        assert len(found.message) < 2_000
        assert found.render().encode()
        if found.source is not None and found.column is not None:
            assert 1 <= found.column <= len(found.source) + 2
    lines = [found.file_line for found in findings if found.file_line is not None]
    assert lines == sorted(lines)


def used(path: Path, bound: BoundWorkload, chance: random.Random) -> str:
    """What is accepted says the same when printed and read again, and has a plan if it is small."""
    workload = load_workload(path)
    for query in workload.queries:
        assert parse_query(print_query(query)) == query
    document = json.loads(json.dumps(to_document(workload)))
    assert load_bound(document).queries == bound.queries
    if not small(bound):
        return "accepted"
    solver = chance.choice(("greedy", "greedy", "cpsat", "exhaustive"))
    budget = Options(steps=2_000, effort=0.05, seconds=0.5)
    try:
        plan = make_plan(bound, document, solver, sharing=bool(chance.randrange(4)), options=budget)
    except SheafError as error:
        return "not planned" if str(error) else "refused without a word"
    assert render_text(plan)
    json.dumps(to_json(plan), allow_nan=False)
    return "planned"


def small(bound: BoundWorkload) -> bool:
    """Is it far from what planning takes long for? Large patterns have tests of their own."""
    if len(bound.queries) > 6:
        return False
    for query in bound.queries:
        found = list(events(query.pattern))
        groups = [e.quantifier.count for e in found if isinstance(e.quantifier, Exactly)]
        if len(found) > 7 or depth(query.pattern) > 6 or max(groups, default=0) > 5:
            return False
    return True


def depth(pattern: Pattern) -> int:
    inner = (pattern.part,) if isinstance(pattern, Neg) else getattr(pattern, "parts", ())
    return 1 + max(map(depth, inner), default=0)


def test_every_text_is_used_or_refused_with_a_reason(case: Case) -> None:
    outcomes = fuzz(case, cases=150, at_least=QUICK_SECONDS, case_cpu_seconds=30)
    assert outcomes["refused"]
    assert outcomes["planned"]
    assert not outcomes["refused without a word"]


@soak
def test_many_texts_are_used_or_refused_with_a_reason(case: Case) -> None:
    outcomes = fuzz(case, seconds=SOAK_SECONDS, case_cpu_seconds=30)
    assert not outcomes["refused without a word"]
