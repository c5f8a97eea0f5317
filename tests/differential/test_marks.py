"""Queries with the same positives and different negations, whose rows are marked in one pass, give
what the reference gives."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import Limits
from engines.live.run import LiveRun
from engines.local.run import run_events
from engines.program import Program, TreeUnit
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from optimizer.plan.compile_tree import reading_trees
from optimizer.statistics import given as given_statistics
from optimizer.statistics import with_defaults
from optimizer.trees.tree import Marked, Taken, TreeError, from_document, walk
from sharing.matching.build_nodes import problem_of
from sharing.matching.choice import readings_of
from sharing.matching.nodes import Reader, TreeOption, Trees
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of
from tests.differential.test_local import COLUMNS, events_of, multiset
from tests.differential.test_slices import MILLISECOND
from tests.running import How
from tests.strategies import SEQUENCE, Row, event_rows, stream_document
from workloads.errors import UnsupportedError

TYPES = ("A", "B", "C", "D")
NEGATED = ("!{0} n{1}", "!{0}+ n{1}", "!OR({0} n{1}, D m{1})", "!SEQ({0} n{1}, D m{1})",
           "!SEQ({0} n{1}, !D l{1}, B m{1})", "!AND({0} n{1}, D m{1})")  # fmt: skip
TYING = ("n{0}.x > 0", "n{0}.x = a{1}.x", "n{0}.x < a{2}.x", "n{0}.y = a{2}.y AND n{0}.x = a{1}.x",
         "n{0}.x + a{1}.x > a{2}.x", "n{0}.x != a{1}.y")  # fmt: skip


@st.composite
def with_negations(draw: st.DrawFn) -> BoundWorkload:
    """Queries that bind the same, in one window, and each negate something else."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=3))
    common = ["a0.x <= a1.x"] if draw(st.integers(0, 3)) == 0 else []
    group = len(kinds) > 2 and draw(st.integers(0, 4)) == 0
    key = draw(st.sampled_from(["", "PARTITION BY k "]))
    window = draw(st.sampled_from(["3 ms", "8 ms", "5 EVENTS"]))
    texts = []
    for number in range(draw(st.integers(2, 4))):
        parts, asked = [], list(common)
        for i, kind in enumerate(kinds):
            for many in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
                if not i and draw(st.integers(0, 3)):
                    continue  # seldom at the edge, where it has no mark
                name = f"{i}{many}"
                shape = draw(st.sampled_from(NEGATED))
                parts.append(shape.format(draw(st.sampled_from(TYPES)), name))
                single = "+" not in shape and "OR" not in shape
                if i and single and draw(st.booleans()) and not group:
                    asked.append(draw(st.sampled_from(TYING)).format(name, i - 1, i))
            parts.append(f"{kind}{'+' if group and i == 1 else ''} a{i}")
        tail = ", C tail" if draw(st.integers(0, 3)) == 0 else ""
        where = f"WHERE {' AND '.join(asked)} " if asked else ""
        texts.append(
            f"QUERY q{number} PATTERN SEQ({', '.join(parts)}{tail}) {where}{key}"
            f"RETURN {', '.join(f'a{i}.x' for i in range(len(kinds)))} WITHIN {window}"
        )
    return load_bound(
        {
            "name": "negations",
            "stream": stream_document(sequence=True),
            "statistics": {"rates": dict.fromkeys(TYPES, 2_000.0)},
            "queries": texts,
        }
    )


def forced(workload: BoundWorkload) -> Program:
    """The program in which everything is marked that can be."""
    known = with_defaults(given_statistics(workload.statistics, workload.queries), workload.queries)
    units = []
    for readings in readings_of(workload.queries).values():
        trees: dict[str, Any] = {}
        problem = problem_of(readings, known)
        marked = [i for i, node in enumerate(problem.nodes) if node.marked]
        with patch.object(Reader, "best", longest_marked):
            found = Trees(problem, marked)
            for number, reading in enumerate(readings):
                document = json.loads(json.dumps(found.document(number, {})))
                trees[reading.query.name] = reading_trees(reading.query, from_document(document))
        units.append(TreeUnit(tuple(reading.query for reading in readings), trees, "cpu"))
    outputs = {query.name: f"output of {query.name}" for query in workload.queries}
    return Program(workload, tuple(units), outputs, "conditions")


def longest_marked(reader: Reader, made: frozenset[int]) -> TreeOption:
    """The longest pieces that are marked, whatever that costs."""
    taken: tuple[int, ...] = ()
    for i, occurrence in sorted(
        enumerate(reader.occurrences), key=lambda each: -each[1].piece.size
    ):
        piece = occurrence.piece
        others = [reader.occurrences[j].piece for j in taken]
        apart = all(piece.last < p.first or p.last < piece.first for p in others)
        if apart and occurrence.node in made:
            try:
                reader.tree(tuple(sorted((*taken, i))))
            except TreeError:
                continue
            taken = tuple(sorted((*taken, i)))
    return TreeOption(0.0, taken)


def marks_of(program: Program) -> list[Marked]:
    found = []
    for unit in program.units:
        assert isinstance(unit, TreeUnit)
        assert unit.trees is not None
        for trees in unit.trees.values():
            for tree in trees:
                found += [node for node in walk(tree.tree) if isinstance(node, Marked)]
    return found


def check(workload: BoundWorkload, rows: list[Row], limits: Limits) -> None:
    events = events_of(workload, rows)
    context = How(adaptive=False).context(limits)
    found = run_events(forced(workload), events, context)
    too_wide = "one window holds too many partial matches"
    assert all(limits.chunk == 1 and too_wide in text for text in context.fallbacks.sentences)
    assert multiset(found) == multiset(run_oracle(workload, events))


@given(with_negations(), event_rows(sequence=True, types=TYPES, max_size=12))
@settings(max_examples=100)
def test_different_negations(workload: BoundWorkload, rows: list[Row]) -> None:
    check(workload, rows, Limits())


@given(with_negations(), event_rows(sequence=True, types=TYPES, max_size=12))
@settings(max_examples=30)
def test_in_stretches(workload: BoundWorkload, rows: list[Row]) -> None:
    check(workload, rows, Limits(chunk=1))


@given(
    with_negations(),
    event_rows(sequence=True, types=TYPES, max_size=12),
    st.lists(st.integers(-2, 14), max_size=6),
)
@settings(max_examples=60)
def test_live_streams(workload: BoundWorkload, rows: list[Row], cuts: list[int]) -> None:
    events = events_of(workload, rows)
    live = LiveRun(forced(workload), MILLISECOND)
    columns = COLUMNS | {SEQUENCE: pa.int64()}
    table = pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})
    found = []
    try:
        for part, until in batches_of(table, cuts):
            found.append(live.add(from_table(part, workload.stream), until))
    except UnsupportedError:
        return  # a window of events that waits for more
    expected = run_oracle(workload, events)
    assert rows_of(found) == rows_of([expected])


def written(*patterns: str) -> BoundWorkload:
    return load_bound(
        {
            "name": "written",
            "stream": stream_document(),
            "statistics": {"rates": dict.fromkeys((*TYPES, "E"), 2_000.0)},
            "queries": [
                f"QUERY q{i} PATTERN {text} RETURN a.x WITHIN 9 ms"
                for i, text in enumerate(patterns)
            ],
        }
    )


@pytest.mark.parametrize(
    ("patterns", "tests", "readers"),
    [
        (["SEQ(A a, !C n, B b)", "SEQ(A a, !D n, B b)", "SEQ(A a, B b)"], 2, 3),
        # One alias is a negation for one query, and a component for the other.
        (["SEQ(A a, !C b, B n)", "SEQ(A a, !D n, B b)"], 2, 2),
        (["SEQ(A a, !C n, B b)", "SEQ(A a, !C m, B b)", "SEQ(A a, B b)"], 1, 2),
        (["SEQ(A a, !C n, !D m, B b)", "SEQ(A a, !D n, !C m, B b)", "SEQ(A a, !D n, B b)"], 2, 2),
        (["SEQ(A a, !C n, B b)", "SEQ(A a, !C n, B b) WHERE n.x = b.x"], 2, 2),
        # A negation that reads what is outside of a piece is checked behind the marks.
        (["SEQ(A a, !C n, B b, D d) WHERE n.x = d.x", "SEQ(A a, !D n, B b, E d)"], 1, 2),
    ],
)
def test_each_negation_is_tested_once(patterns: list[str], tests: int, readers: int) -> None:
    found = {(len(node.tests), len(node.readers)) for node in marks_of(forced(written(*patterns)))}
    assert found == {(tests, readers)}


def test_a_reader_that_asks_for_something_else_is_refused() -> None:
    program = forced(written("SEQ(A a, !C n, B b)", "SEQ(A a, !D n, B b)"))
    (unit,) = program.units
    assert isinstance(unit, TreeUnit)
    assert unit.trees is not None
    query = unit.queries[0]
    (tree,) = unit.trees[query.name]
    (node,) = [node for node in walk(tree.tree) if isinstance(node, Taken)]
    with pytest.raises(TreeError, match="are not those of the query"):
        reading_trees(query, Taken(node.part, 1 - node.reader))
    with pytest.raises(TreeError, match="nothing has set"):
        reading_trees(query, Taken(node.part, 2))
