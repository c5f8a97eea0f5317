"""Queries that read pieces of each other, which ask for less, give what the reference gives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.limits import Limits
from engines.local.run import run_events
from engines.program import Program, TreeUnit
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from optimizer.plan.compile_tree import reading_trees
from optimizer.statistics import given as given_statistics
from optimizer.statistics import with_defaults
from optimizer.trees.tree import Narrowed, Tree, TreeError, from_document, walk
from sharing.matching.build_nodes import problem_of
from sharing.matching.choice import readings_of
from sharing.matching.nodes import Reader, TreeOption, Trees
from tests.differential.test_local import events_of, multiset
from tests.running import How
from tests.strategies import Row, event_rows, stream_document

TYPES = ("A", "B", "C", "D")
LOCAL = ("x > 0", "x > 1", "x >= 1", "x = 2", "x IN (1, 2)", "x IN (0, 1, 2)", "y != 1",
         "NOT x = 0", "x IS NOT NULL", "x = 0 OR y = 1")  # fmt: skip
TYING = ("{0}.x < {1}.x", "{0}.x <= {1}.x", "{0}.x = {1}.x", "{0}.y != {1}.x", "{0}.y = {1}.y")
WINDOWS = ("2 ms", "5 ms", "5 ms INCLUSIVE", "9 ms")


@st.composite
def related(draw: st.DrawFn, negations: bool = True) -> BoundWorkload:
    """Queries that have a sequence of types in common, under more or fewer conditions."""
    common = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=3))
    key = draw(st.sampled_from(["", "PARTITION BY k "]))
    texts = []
    for number in range(draw(st.integers(2, 4))):
        more = draw(st.lists(st.sampled_from(TYPES), max_size=1))
        kinds = [*more, *common] if draw(st.booleans()) else [*common, *more]
        parts, asked = [], []
        for i, kind in enumerate(kinds):
            if negations and i and draw(st.integers(0, 3)) == 0:
                parts.append(f"!{draw(st.sampled_from(TYPES))} n{i}")
            group = negations and 0 < i < len(kinds) - 1 and draw(st.integers(0, 4)) == 0
            parts.append(f"{kind}{'+' if group else ''} a{i}")
            if draw(st.integers(0, 2)) == 0:
                asked.append(f"({_of(f'a{i}', draw(st.sampled_from(LOCAL)))})")
            if i and draw(st.integers(0, 1)) == 0:
                asked.append(draw(st.sampled_from(TYING)).format(f"a{i - 1}", f"a{i}"))
        where = f"WHERE {' AND '.join(asked)} " if asked else ""
        window = draw(st.sampled_from(WINDOWS))
        texts.append(
            f"QUERY q{number} PATTERN SEQ({', '.join(parts)}) {where}{key}"
            f"RETURN {', '.join(f'a{i}.x' for i in range(len(kinds)))} WITHIN {window}"
        )
    return load_bound(
        {
            "name": "related",
            "stream": stream_document(),
            "statistics": {"rates": dict.fromkeys(TYPES, 2_000.0)},
            "queries": texts,
        }
    )


def _of(alias: str, condition: str) -> str:
    for name in ("x", "y"):
        condition = condition.replace(f"{name} ", f"{alias}.{name} ")
    return condition


def forced(workload: BoundWorkload, leave_out: int = 0) -> Program:
    """The program in which all nodes but some are made that the trees can read."""
    statistics = with_defaults(
        given_statistics(workload.statistics, workload.queries), workload.queries
    )
    units = []
    for readings in readings_of(workload.queries).values():
        trees: dict[str, Any] = {}
        problem = problem_of(readings, statistics)
        made = [i for i in range(len(problem.nodes)) if not leave_out >> (i % 16) & 1]
        for number, reading in enumerate(readings):
            with patch.object(Reader, "best", all_that_fit):
                found = Trees(problem, made).document(number, {})
            document = json.loads(json.dumps(found))
            trees[reading.query.name] = reading_trees(reading.query, from_document(document))
        units.append(TreeUnit(tuple(reading.query for reading in readings), trees, "cpu"))
    outputs = {query.name: f"output of {query.name}" for query in workload.queries}
    return Program(workload, tuple(units), outputs, "conditions")


def all_that_fit(reader: Reader, made: frozenset[int]) -> TreeOption:
    """The most that a tree can read, whatever that costs."""
    taken: tuple[int, ...] = ()
    order = sorted(enumerate(reader.occurrences), key=lambda each: each[1].narrowed is None)
    for i, occurrence in order:
        piece = occurrence.piece
        others = [reader.occurrences[j].piece for j in taken]
        apart = all(piece.last < p.first or p.last < piece.first for p in others)
        if apart and occurrence.node in made:
            more = tuple(sorted((*taken, i)))
            try:
                reader.tree(more)
            except TreeError:
                continue
            taken = more
    return TreeOption(0.0, taken)


def narrowed(program: Program) -> Iterator[Tree]:
    for unit in program.units:
        assert isinstance(unit, TreeUnit)
        assert unit.trees is not None
        for trees in unit.trees.values():
            for tree in trees:
                yield from (node for node in walk(tree.tree) if isinstance(node, Narrowed))


def check(workload: BoundWorkload, rows: list[Row], leave_out: int, limits: Limits) -> None:
    events = events_of(workload, rows)
    program = forced(workload, leave_out)
    _, expected = multiset(run_oracle(workload, events))
    # Chains, slices and live streams part queries whose trees were made beside one another.
    for parts in ([program], [program.of_queries([query.name]) for query in workload.queries]):
        found = Counter[Any]()
        for part in parts:
            context = How(adaptive=False).context(limits)
            found += multiset(run_events(part, events, context))[1]
            assert not context.fallbacks.sentences
        assert found == expected


@given(related(), event_rows(types=TYPES, max_size=10), st.integers(0, 2**16 - 1))
@settings(max_examples=60)
def test_pieces_that_ask_for_less(workload: BoundWorkload, rows: list[Row], left: int) -> None:
    check(workload, rows, left, Limits())


@given(related(), event_rows(types=TYPES, max_size=10))
@settings(max_examples=20)
def test_in_stretches(workload: BoundWorkload, rows: list[Row]) -> None:
    check(workload, rows, 0, Limits(chunk=1))


@st.composite
def in_any_order(draw: st.DrawFn) -> BoundWorkload:
    """ANDs of the same types, some with a sequence in them that others have too."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=3))
    texts = []
    for number in range(draw(st.integers(2, 3))):
        parts = [f"{kind} a{i}" for i, kind in enumerate(kinds)]
        asked = [draw(st.sampled_from(TYING)).format("a0", "a1")] if draw(st.booleans()) else []
        if draw(st.booleans()):
            asked.append(_of("a1", draw(st.sampled_from(LOCAL[:6]))))
        if draw(st.booleans()):
            pattern = f"AND(SEQ({', '.join(parts)}), {draw(st.sampled_from(TYPES))} z)"
        else:
            pattern = f"AND({', '.join(draw(st.permutations(parts)))})"
        where = f"WHERE {' AND '.join(asked)} " if asked else ""
        window = draw(st.sampled_from(WINDOWS))
        returned = ", ".join(f"a{i}.x" for i in range(len(kinds)))
        texts.append(f"QUERY q{number} PATTERN {pattern} {where}RETURN {returned} WITHIN {window}")
    return load_bound(
        {
            "name": "in any order",
            "stream": stream_document(),
            "statistics": {"rates": dict.fromkeys(TYPES, 2_000.0)},
            "queries": texts,
        }
    )


@given(in_any_order(), event_rows(types=TYPES, max_size=8))
@settings(max_examples=50)
def test_ands_in_any_order(workload: BoundWorkload, rows: list[Row]) -> None:
    check(workload, rows, 0, Limits())


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("AND(A a, B b, C c)", "AND(B b, C c, A a)", ("& A", "& B", "& C")),
        ("AND(SEQ(A a, B b), D d)", "SEQ(A a, B b, C c)", ("A", "B")),
        ("SEQ(A a, B+ b, C c, D d)", "SEQ(A a, B+ b, C c, E e)", ("A", "B+", "C")),
    ],
)
def test_pieces_in_ands_and_with_groups(one: str, other: str, steps: tuple[str, ...]) -> None:
    workload = written(one, other, ("9 ms", "9 ms"))
    known = with_defaults(given_statistics(workload.statistics, workload.queries), workload.queries)
    (readings,) = readings_of(workload.queries).values()
    assert steps in {node.steps for node in problem_of(readings, known).nodes}


def written(one: str, other: str, windows: tuple[str, str]) -> BoundWorkload:
    texts = (one, other)
    return load_bound(
        {
            "name": "written",
            "stream": stream_document(),
            "statistics": {"rates": dict.fromkeys((*TYPES, "E"), 2_000.0)},
            "queries": [
                f"QUERY q{i} PATTERN {text} RETURN a.x WITHIN {window}"
                for i, (text, window) in enumerate(zip(texts, windows, strict=True))
            ],
        }
    )


@pytest.mark.parametrize(
    ("one", "other", "windows"),
    [
        ("SEQ(A a, B b, C c)", "SEQ(A a, B b, D d)", ("9 ms", "5 ms")),
        ("SEQ(A a, B b, C c)", "SEQ(A a, B b, D d) WHERE b.x > 5", ("9 ms", "9 ms")),
        ("SEQ(A a, B b, C c) WHERE b.x > 5", "SEQ(A a, B b, D d) WHERE b.x = 8", ("9 ms", "9 ms")),
        (
            "SEQ(A a, B b, C c) WHERE a.x < b.x",
            "SEQ(A a, B b, D d) WHERE a.x < b.x AND a.y < b.y",
            ("9 ms", "5 ms"),
        ),
    ],
)
def test_what_is_read_of_less(one: str, other: str, windows: tuple[str, str]) -> None:
    assert len(list(narrowed(forced(written(one, other, windows))))) == 1


def test_what_is_read_of_less_is_there_without_who_asks_for_less() -> None:
    workload = written("SEQ(A a, B b, C c)", "SEQ(A a, B b, D d) WHERE b.x > 5", ("9 ms", "9 ms"))
    times = zip("ABBDC", (0, 8, 3, 0, 0), strict=True)
    rows = [{"ts": t, "kind": kind, "k": 1, "x": x, "y": 0} for t, (kind, x) in enumerate(times)]
    check(workload, rows, 0, Limits())
