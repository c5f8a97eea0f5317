"""Random row patterns: engines, slices and the kernel give what the definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.matching.rowpattern.compile_conditions import condition_code
from engines.matching.rowpattern.compile_pattern import compiled
from engines.matching.rowpattern.conditions import bitmaps, split_conditions
from engines.matching.rowpattern.ordered_table import ordered_table
from engines.reference.oracle import run_oracle
from kernels.rowconditions import cpu as rowconditions
from kernels.rowconditions import reference as rowconditions_reference
from kernels.rowpattern import cpu, reference
from optimizer.ir.query import RowPattern
from tests.differential.test_live import rows_of
from tests.differential.test_slices import MILLISECOND, batches
from tests.running import How, run_local
from tests.sql_workloads import bound
from workloads.errors import UnsupportedError
from workloads.sql import rowpattern as rp
from workloads.sql.parser import parse_statement

STREAM = {"time": "ts", "unit": "ms", "sequence": "seq"}
COLUMNS = {
    "ts": pa.int64(),
    "seq": pa.int64(),
    "k": pa.string(),
    "x": pa.int64(),
    "y": pa.float64(),
}
NAMES = ("A", "B", "C")
MORE = ("", "", " AND x IS NOT NULL", " OR x = 1", " AND CLASSIFIER() <> 'C'")


def patterns(depth: int = 3) -> st.SearchStrategy[str]:
    """Patterns of a few variables, quantified, in turn, in any order, left out and empty."""
    leaf = st.sampled_from(["A", "A", "B", "B", "C", "()", "^ A", "B $"])
    if depth == 0:
        return leaf
    inner = patterns(depth - 1)
    marks = ["?", "*", "+", "{2}", "{1,2}", "{,2}", "{2,}", "??", "*?", "+?", "{,2}?"]
    return st.one_of(
        leaf,
        st.builds("({}) ({})".format, inner, inner),
        st.builds("({} | {})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(marks)),
        st.builds("{{- {} -}}".format, inner),
        st.builds("PERMUTE({}, {})".format, inner, inner),
    )


VALUES = (
    *("x", "y", "A.x", "B.x", "U.x", "PREV(x)", "NEXT(x, 2)", "FIRST(x)", "LAST(A.x, 1)"),
    *("PREV(LAST(B.x))", "FIRST(U.x, 1)", "COUNT(*)", "COUNT(A.*)", "SUM(x)", "MIN(B.x)"),
    *("AVG(U.x)", "MAX(y)", "COUNT(DISTINCT x)", "1", "2", "MATCH_NUMBER()"),
)
OWN = ("x", "y", "PREV(x)", "NEXT(x)", "PREV(y, 2)", "1", "2")


@st.composite
def conditions(draw: st.DrawFn, free: bool) -> str:
    """A condition of the row and rows around it, or with `free` also of the match so far."""
    values = st.sampled_from(VALUES if free else OWN)
    first = f"{draw(values)} {draw(st.sampled_from(['<', '<=', '=', '<>', '>']))} {draw(values)}"
    more = draw(st.sampled_from(MORE))
    return ("NOT " if draw(st.integers(0, 5)) == 0 else "") + f"({first}{more})"


@st.composite
def clauses(draw: st.DrawFn) -> str:
    pattern = draw(patterns())
    used = [name for name in NAMES if name in pattern.replace("PERMUTE", "")]
    names = used or ["A"]
    if not used:
        pattern = f"{pattern} | A"
    free = draw(st.booleans())
    defined = [f"{n} AS {draw(conditions(free))}" for n in names if draw(st.integers(0, 3))]

    def known(text: str) -> str:
        # Only variables of the pattern may be named.
        for name in NAMES:
            if name not in names:
                text = text.replace(f"{name}.", f"{names[0]}.")
        return text

    measures = [f"{known(draw(st.sampled_from(VALUES)))} AS m{i}" for i in range(3)]
    measures += ["CLASSIFIER() AS label", "FINAL COUNT(*) AS n", "LAST(ts) AS last"]
    rows = ["ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES"]
    if "{-" not in pattern:
        rows.append("ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    skips = ["SKIP PAST LAST ROW", "SKIP TO NEXT ROW"]
    skips += [*skips, f"SKIP TO FIRST {names[0]}", "SKIP TO LAST U"]
    lines = [
        draw(st.sampled_from(["", "PARTITION BY k "])) + "ORDER BY ts",
        "MEASURES " + ", ".join(measures),
        draw(st.sampled_from(rows)),
        "AFTER MATCH " + draw(st.sampled_from(skips)),
        f"PATTERN ({pattern})",
        draw(st.sampled_from(["", "", "WITHIN INTERVAL '4' MILLISECOND"])),
        f"SUBSET U = ({', '.join(names[:2])})",
        f"DEFINE {known(', '.join(defined))}" if defined else "",
    ]
    return f"SELECT * FROM t MATCH_RECOGNIZE ({' '.join(lines)})"


@st.composite
def streams(draw: st.DrawFn, least: int = 0) -> pa.Table:
    """Rows with nulls, several at one time, in some order."""
    small = st.sampled_from([1, 2, 3, None])
    rows: list[dict[str, Any]] = []
    time = 0
    for number in range(draw(st.integers(least, 10))):
        time += draw(st.sampled_from([0, 1, 1, 2, 4]))
        row = {"ts": time, "seq": number, "k": draw(st.sampled_from(["p", "q", None]))}
        rows.append(row | {"x": draw(small), "y": draw(st.sampled_from([0.5, 2.0, None]))})
    rows = draw(st.permutations(rows))
    return pa.table({name: pa.array([r[name] for r in rows], t) for name, t in COLUMNS.items()})


def outcome(run: Any) -> Any:
    """Rows, or that it was refused: where the search goes on may lead to no row."""
    try:
        return rows_of([run()])
    except UnsupportedError as error:
        if "AFTER MATCH SKIP TO" not in str(error):
            raise
        return "refused"


@settings(max_examples=150, deadline=None)
@given(st.lists(clauses(), min_size=1, max_size=2, unique=True), streams())
def test_one_pass_gives_what_the_definition_says(texts: list[str], table: pa.Table) -> None:
    workload = bound(*texts, stream=STREAM)
    events = from_table(table, workload.stream)
    expected = outcome(lambda: run_oracle(workload, events))
    assert outcome(lambda: run_local(workload, events)) == expected
    assert outcome(lambda: run_local(workload, events, how=How(sharing=False))) == expected


@settings(max_examples=30, deadline=None)
@given(clauses(), streams(1), st.integers(1, 7), st.integers(1, 5))
def test_slices_give_what_the_whole_stream_does(
    text: str, table: pa.Table, slice_events: int, batch: int
) -> None:
    workload = bound(text, stream=STREAM)
    expected = outcome(lambda: run_local(workload, from_table(table, workload.stream)))
    run = SlicedRun(How().program(workload), MILLISECOND)
    ordered = table.sort_by([("ts", "ascending"), ("seq", "ascending")])
    pieces = cut(
        batches(ordered, batch),
        table.schema,
        workload.stream,
        Lateness(0, True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_events, grow=False),
        run.carried,
    )
    try:
        found: Any = rows_of([run.run(piece) for piece in pieces])
    except UnsupportedError:
        found = "refused"
    assert found == expected


def open_end(bounds: np.ndarray, times: np.ndarray, ahead: int, after: int) -> cpu.KnownRows:
    """That rows may follow the last one, a moment later."""
    until = int(times.max(initial=0)) + 1
    return cpu.KnownRows.all_of(bounds)._replace(until=until, ahead=ahead, after=after)


def check_alike(fast: cpu.FoundRows, plain: cpu.FoundRows) -> None:
    for name in ("first", "length", "taken", "unmatched", "undecided", "matched"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))


@settings(max_examples=60, deadline=None)
@given(clauses(), streams(1))
def test_conditions_that_read_the_match_are_asked_alike_by_kernel_and_reference(
    text: str, table: pa.Table
) -> None:
    workload = bound(text, stream=STREAM)
    output = workload.queries[0].output
    assert isinstance(output, RowPattern)
    clause = output.recognition
    ordered = ordered_table(from_table(table, workload.stream), clause)
    names = rp.variables(clause.pattern)
    conditions = split_conditions(clause, names)
    asked = condition_code(ordered, clause, names, conditions)
    if asked is None:
        assert "DISTINCT" in text  # for which the kernel has no instruction
        return
    code = compiled(clause.pattern, names).code(frozenset(names[:1]))
    given = (code, asked, bitmaps(ordered, conditions), ordered.bounds, ordered.times)
    for known in (None, open_end(ordered.bounds, ordered.times, clause.ahead, clause.after)):
        fast = rowconditions.search_asking(*given, -1, cpu.PAST, known)
        plain = rowconditions_reference.search_asking(*given, -1, cpu.PAST, known)
        check_alike(fast, plain)


@settings(max_examples=60, deadline=None)
@given(patterns(), st.data())
def test_the_kernel_gives_what_its_reference_does(pattern: str, data: st.DataObject) -> None:
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN ({pattern} | A B C))"
    found = parse_statement(text).pattern
    names = rp.variables(found)
    made = compiled(found, names)
    size = data.draw(st.integers(0, 9))
    bits = data.draw(st.lists(st.booleans(), min_size=3 * size, max_size=3 * size))
    holds = np.array(bits, np.bool_).reshape(3, size)
    cuts = data.draw(st.lists(st.integers(1, max(1, size - 1)), max_size=2)) if size > 1 else []
    bounds = np.array(sorted({0, size, *cuts}), np.int64)
    times = np.cumsum(np.arange(size) % 3).astype(np.int64)
    within = data.draw(st.sampled_from([-1, 2, 5]))
    skip = data.draw(st.sampled_from([cpu.PAST, cpu.NEXT, cpu.FIRST, cpu.LAST]))
    code = made.code(frozenset("B"))
    ahead, after = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    for known in (None, open_end(bounds, times, ahead, after)):
        given = (code, holds, bounds, times, within, skip, made.memory, known)
        fast, plain = cpu.search_rows(*given), reference.search_rows(*given)
        assert (fast.status, fast.where) == (plain.status, plain.where)
        if not fast.status:
            check_alike(fast, plain)
