"""The tree engine gives what the reference gives, whatever the tree, shared or not."""

from collections import Counter
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.input.event_table import Events, from_table
from engines.limits import Limits
from engines.matching.trees.buffers import SelectedEvents
from engines.matching.trees.evaluation import TreeEvaluation
from engines.program import Counts, RunContext, RunOptions
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events as components
from optimizer.ir.query import BoundWorkload
from optimizer.plan.compile_tree import compile_tree
from optimizer.trees import Leaf, NegTop, NSeq, SeqJoin, quick_sharing
from optimizer.trees import Shape as TreeShape
from optimizer.trees.search import refusal
from tests.differential.test_local import events_of, multiset
from tests.running import How, run_local, run_trees
from tests.strategies import SHAPE, Row, event_rows, has_sequence, workloads

# What the engine takes, but for what depends on what is around a negation.
TAKEN = replace(SHAPE, outputs=("return",))
SEQUENCES = replace(TAKEN, operators=("SEQ",), negation=False)
DENSE = replace(TAKEN, types=("A", "B"), local=False)
PLAIN_NEGATIONS = replace(TAKEN, types=("A", "B", "C"), nested_negation=False, max_depth=2)
SHAPES: tuple[TreeShape, ...] = get_args(TreeShape)
# So few partial matches at once that the stream is cut into stretches.
SMALL = Limits(chunk=1)
UNLIMITED = Limits(join=10**9, work=10**12)

Case = tuple[BoundWorkload, list[Row]]


def cases(
    shape=TAKEN, queries: int = 1, nested: bool = False, max_size: int = 9
) -> st.SearchStrategy[Case]:
    found = workloads(shape, max_queries=queries, nested=nested)
    return found.flatmap(
        lambda workload: st.tuples(
            st.just(workload),
            event_rows(has_sequence(workload), shape.types, max_size=max_size),
        )
    )


def check(
    workload: BoundWorkload, events: Events, how: How, limits: Limits | None = None
) -> Results:
    expected = run_oracle(workload, events)
    found = run_local(workload, events, limits or Limits(), how)
    assert multiset(found) == multiset(expected)
    return found


@given(cases(SEQUENCES), st.sampled_from(SHAPES))
@settings(max_examples=80)
def test_sequences(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(detection=shape))


@given(cases(), st.sampled_from(SHAPES))
@settings(max_examples=120)
def test_any_query_that_is_taken(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(detection=shape))


@given(cases(DENSE), st.sampled_from(SHAPES))
@settings(max_examples=90)
def test_queries_with_many_matches(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(detection=shape))


@given(cases(PLAIN_NEGATIONS), st.sampled_from(SHAPES))
@settings(max_examples=90)
def test_negated_events(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(detection=shape))


@given(cases(DENSE, nested=True), st.sampled_from(SHAPES))
@settings(max_examples=80)
def test_negated_sequences(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(detection=shape))


@given(cases(DENSE), st.sampled_from(SHAPES))
@settings(max_examples=80)
def test_streams_that_are_cut_into_stretches(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(detection=shape), SMALL)


AGGREGATES = replace(DENSE, outputs=("trigger", "slide"), types=("A", "B", "C"))


@given(cases(AGGREGATES, queries=2), st.sampled_from(SHAPES))
@settings(max_examples=80)
def test_queries_that_aggregate_their_matches(case: Case, shape: TreeShape) -> None:
    check(case[0], events_of(*case), How(counting=False, detection=shape))


@given(cases(DENSE, queries=4), st.booleans())
@settings(max_examples=100)
def test_several_queries_shared_and_separate(case: Case, sharing: bool) -> None:
    check(case[0], events_of(*case), How(sharing=sharing))


@given(cases(DENSE))
@settings(max_examples=100)
def test_doubles_and_integers_that_no_double_holds(case: Case) -> None:
    workload, rows = case
    table = events_of(workload, rows).table
    columns = {name: table.column(name) for name in table.column_names}
    columns["x"] = pc.multiply(columns["x"].cast(pa.float64()), 0.1)
    columns["y"] = pc.add(pc.multiply(columns["y"], 2**60), columns["y"])
    check(workload, from_table(pa.table(columns), workload.stream), How())


@given(cases(replace(DENSE, keys=True, count_windows=False)))
@settings(max_examples=60)
def test_keys_that_are_doubles(case: Case) -> None:
    workload, rows = case
    table = events_of(workload, rows).table
    signs = pc.if_else(pc.greater(table.column("ts"), 4), 0.0, -0.0)
    key = pc.multiply(table.column("k").cast(pa.float64()), signs)
    columns = {name: table.column(name) for name in table.column_names} | {"k": key}
    check(workload, from_table(pa.table(columns), workload.stream), How())


def test_a_key_is_written_as_its_first_event_has_it() -> None:
    workload = load_bound(
        {
            "name": "zeros",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": ["QUERY q PATTERN SEQ(A a, B b) PARTITION BY k RETURN a WITHIN 9 ms"],
        }
    )
    keys = [None, -0.0, 0.0, 0.0, 1.5, None, 1.5]
    table = pa.table({"ts": range(7), "kind": list("BCABABB"), "k": keys})
    found = check(workload, from_table(table, workload.stream), How())
    assert sorted(found.matches["key"].to_pylist()) == ['{"k":-0.0}', '{"k":1.5}']


# --- larger streams, against the joins engine ---------------------------------------------------

LARGER = {
    "sequence": "SEQ(A a, B b, C c) WHERE a.x < c.x",
    "equal": "SEQ(A a, B b, C c) WHERE a.x = c.x AND b.y = c.y",
    "arithmetic": "SEQ(A a, B b, C c) WHERE a.x + b.x > c.x AND a.y * 2 < c.y",
    "key": "SEQ(A a, B b, C c, A d) WHERE [k] AND a.y <= d.y",
    "and": "AND(A a, B b, SEQ(C c, D d)) WHERE a.x = d.x",
    "two of a kind": "AND(A a, A b, A c) WHERE a.x = b.x",
    "or": "SEQ(A a, OR(B b, SEQ(C c, D d)), A e) WHERE a.x = e.x AND b.y = a.y",
    "gap": "SEQ(A a, !B b, C c) WHERE b.x = a.x",
    "far": "SEQ(A a, !B b, C c, D d) WHERE b.x = a.x AND b.y > d.y",
    "any": "SEQ(A a, !B b, C c) WHERE b.x + a.x = c.x",
    "first": "SEQ(!B b, A a, C c) WHERE b.x = c.x",
    "last": "SEQ(A a, C c, !B b) WHERE b.x = a.x",
    "two in a gap": "SEQ(A a, !B b, !E e, C c) WHERE b.x = c.x AND e.y > c.y",
    "two on a side": "SEQ(A a, !B b, !E e, C c) WHERE b.x = a.x AND e.y > a.y",
    "carried on": "SEQ(D d, A a, !B b, C c) WHERE b.x = a.x",
    "last of four": "SEQ(A a, C c, D d, !B b) WHERE b.x = a.x AND c.y != d.y",
    "first of four": "SEQ(!B b, A a, C c, D d) WHERE b.x = d.x AND a.y != c.y",
    "nested": "SEQ(A a, !SEQ(B b, C c), D d) WHERE b.x = d.x AND c.y < d.y",
    "one pass": "SEQ(A a, !SEQ(B b, C c), D d)",
    "one pass over three": "SEQ(A a, !SEQ(B b, C c, E e), D d) WHERE c.y > 0",
    "one pass by key": "SEQ(A a, !SEQ(B b, C c, B e), D d) WHERE [k]",
    "one pass over one type": "SEQ(A a, !SEQ(A b, A c, A e), D d)",
    "one pass first": "SEQ(!SEQ(B b, E e), A a, C c)",
    "one pass last": "SEQ(A a, C c, !SEQ(B b, E e))",
    "one pass beside others": "SEQ(A a, !SEQ(B b, C c), !SEQ(C e, B f), !E g, D d)",
    "one pass around a negation": "SEQ(A a, !SEQ(B b, !E e, C c), D d)",
    "one pass around a pass": "SEQ(A a, !SEQ(B b, !SEQ(E e, A f), C c, E g), D d)",
    "one pass around an or": "SEQ(A a, !SEQ(B b, !OR(E e, D f), C c), D d)",
    "one pass in and": "AND(A a, D d, !SEQ(B b, E e))",
    "in and": "AND(A a, B b, !C c) WHERE c.x = a.x AND a.y = b.y",
    "plus": "SEQ(A a, D+ d, C c) WHERE a.x < c.x AND d.x > a.x",
    "plus at an edge": "SEQ(A a, C c, D+ d) WHERE a.x = c.x AND sum(d.x) > 20",
    "plus in and": "AND(A a, D+ d, E e) WHERE a.x = e.x AND d.y > a.y",
    "so many": "SEQ(A a, B^3 b, C c) WHERE b.y != c.y AND a.x = c.x",
    "so many in and": "AND(A a, B^2 b) WHERE b.x = a.x",
    "whole": "SEQ(A a, ALL B b, C c) WHERE avg(b.x) > c.x AND b.y < c.y",
    "whole at an edge": "SEQ(A a, C c, ALL B b) WHERE a.x = c.x AND b.y < a.y",
    "whole of two": "SEQ(ALL D b, A a, ALL D d) WHERE count(b.x) = count(d.x)",
    "beside a negation": "SEQ(A a, !E e, D+ d, !B b, C c) WHERE e.x = a.x AND b.y > c.y",
    "in a negation": "SEQ(A a, !SEQ(B^2 b, D d), C c) WHERE a.x = c.x AND sum(b.x) < c.x",
    "chosen outside": "SEQ(A a, !B^2 b, C c) WHERE a.y = c.y AND b.x < c.x",
    "whole in a negation": "SEQ(A a, !ALL B b, C c) WHERE a.y = c.y AND sum(b.x) > c.x",
    "nested at an edge": "SEQ(A a, !SEQ(B b, !D d), C c) WHERE a.x = c.x AND b.y < a.y",
    "nested and tied": "SEQ(A a, !SEQ(B b, !D d, B e), C c) WHERE a.x = c.x AND d.y = a.y",
    "nested twice": "SEQ(A a, !SEQ(B b, !SEQ(D d, !E e)), C c) WHERE a.x = c.x AND e.y > a.y",
}


def larger_stream(seed: int, size: int = 3000) -> pa.Table:
    random = np.random.default_rng(seed)
    steps = random.choice([0, 0, 1, 2, 9], size)
    null = random.random((3, size)) < 0.02
    return pa.table(
        {
            "ts": np.cumsum(steps),
            "seq": random.integers(0, 3, size),
            "kind": random.choice(list("ABCDE"), size, p=[0.3, 0.2, 0.2, 0.1, 0.2]),
            "k": pa.array(random.integers(0, 5, size), mask=null[0]),
            "x": pa.array(random.integers(0, 20, size), mask=null[1]),
            "y": pa.array(np.round(2 * random.normal(size=size)) / 2, mask=null[2]),
        }
    )


def larger(name: str, window: str) -> tuple[BoundWorkload, Events]:
    """One of the queries, and events for it."""
    returned = "c" if LARGER[name].startswith("SEQ(!B") else "a"
    workload = load_bound(
        {
            "name": "larger",
            "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
            "queries": [f"QUERY q PATTERN {LARGER[name]} RETURN {returned} WITHIN {window}"],
        }
    )
    assert refusal(workload.queries[0]) is None
    return workload, from_table(larger_stream(len(name)), workload.stream)


def of_trees(
    workload: BoundWorkload,
    events: Events,
    limits: Limits = UNLIMITED,
    how: How | None = None,
    counts: Counts | None = None,
) -> pa.Table:
    how = how or How()
    context = how.context(limits)
    context.counts = counts or Counts()
    return run_trees(workload, events, how=how, context=context)


def matches(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("window", ["20 ms", "15 EVENTS"])
def test_larger_streams_match_as_the_joins_engine_says(name: str, window: str) -> None:
    workload, events = larger(name, window)
    expected = matches(run_local(workload, events, UNLIMITED, How(detection="stepwise")).matches)
    assert expected
    for shape in SHAPES:
        assert matches(of_trees(workload, events, how=How(detection=shape))) == expected


@pytest.mark.parametrize("name", ["sequence", "key", "last of four", "first of four"])
@pytest.mark.parametrize("window", ["30 ms", "20 EVENTS"])
def test_a_stream_in_stretches_has_the_same_matches(name: str, window: str) -> None:
    workload, events = larger(name, window)
    whole, cut, joins = Counts(), Counts(), How(detection="bushy")
    expected = matches(of_trees(workload, events, counts=whole, how=joins))
    found = of_trees(workload, events, replace(UNLIMITED, chunk=24), counts=cut, how=joins)
    assert cut.ran > 2 * whole.ran
    assert matches(found) == expected


FAMILIES = [
    ["SEQ(A a, B b, C c)", "SEQ(A a, B x, D d)", "SEQ(B y, A a, B b, E e)"],
    ["SEQ(A a, !C n, B b, D d)", "SEQ(A a, B b, !C m, D d)", "SEQ(A a, !C o, B b, E e)"],
    [
        "SEQ(A a, B b, C c) WHERE a.x < b.x",
        "SEQ(A a, B b, D d) WHERE b.x > a.x",
        "SEQ(A a, B b, E e) WHERE a.x < b.y",
    ],
    ["SEQ(A a, B b, A c, B d, E e)", "SEQ(A a, B b, D d)"],
    ["SEQ(A a, OR(B b, C c), D d)", "SEQ(A a, B b, D d, !E e)", "AND(A a, SEQ(B b, D d))"],
    [
        "SEQ(A a, !SEQ(C n, D m), B b, D d) WHERE n.x = a.x",
        "SEQ(A a, !SEQ(C n, D m), B b, E d) WHERE a.x = n.x",
        "SEQ(A a, !SEQ(C n, D m), B b, D d) WHERE n.x = d.x",
    ],
]


@pytest.mark.parametrize("patterns", FAMILIES)
@pytest.mark.parametrize("key", ["", "PARTITION BY k "])
def test_queries_with_common_pieces_match_as_the_joins_engine_says(
    patterns: list[str], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_sharing, "WORTH", 0)
    workload = load_bound(
        {
            "name": "family",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [
                f"QUERY q{i} PATTERN {pattern} {key} RETURN a WITHIN 25 ms"
                for i, pattern in enumerate(patterns)
            ],
        }
    )
    events = from_table(larger_stream(3).drop_columns(["seq"]), workload.stream)
    expected = run_local(workload, events, UNLIMITED, How(detection="stepwise"))
    for sharing in (True, False):
        found = run_local(workload, events, UNLIMITED, How(sharing=sharing))
        assert multiset(found) == multiset(expected)


# --- how much is done ----------------------------------------------------------------------------


def counted(queries: list[str], how: How | None = None) -> Counts:
    workload = load_bound(
        {
            "name": "counted",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": queries,
        }
    )
    events = from_table(larger_stream(1, 2000).drop_columns(["seq"]), workload.stream)
    how = how or How()
    context = how.context()
    run_trees(workload, events, how=how, context=context)
    return context.counts


def test_a_sequence_tries_no_pair_that_does_not_fit() -> None:
    counts = counted(["QUERY q PATTERN SEQ(A a, B b) RETURN a WITHIN 60 ms"])
    assert counts.tried == counts.made > 1000


def test_an_equality_is_looked_up() -> None:
    plain = counted(["QUERY q PATTERN SEQ(A a, B b) RETURN a WITHIN 60 ms"])
    equal = counted(["QUERY q PATTERN SEQ(A a, B b) WHERE a.x = b.k RETURN a WITHIN 60 ms"])
    assert equal.tried == equal.made < plain.tried / 10


def test_a_comparison_makes_no_pair_that_fails() -> None:
    plain = counted(["QUERY q PATTERN SEQ(A a, B b) RETURN a WITHIN 60 ms"])
    less = counted(["QUERY q PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 60 ms"])
    assert less.tried == plain.tried
    assert less.made < plain.made * 0.6


def test_a_negation_next_to_a_component_is_found_in_one_try() -> None:
    plain = counted(["QUERY q PATTERN SEQ(A a, C c) RETURN a WITHIN 60 ms"])
    negated = counted(["QUERY q PATTERN SEQ(A a, !B b, C c) RETURN a WITHIN 60 ms"])
    # At most one for each A or C, and what it rules out is not tried.
    assert negated.tried < plain.tried / 2


@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_sequence_is_made_that_one_pass_decides(size: int) -> None:
    negated = ", ".join(f"{kind} {kind.lower()}" for kind in "BCAE"[:size])
    plain = counted(["QUERY q PATTERN SEQ(A x, D y) RETURN x WITHIN 60 ms"])
    nested = f"QUERY q PATTERN SEQ(A x, !SEQ({negated}), D y) RETURN x WITHIN 60 ms"
    found = counted([nested])
    # Only pairs of A and D are made, and each event is looked at once for each part, or row.
    assert 0 < found.made < plain.made
    assert found.tried - found.made < 2000 * size


def test_the_best_tree_makes_less_than_the_worst() -> None:
    query = ["QUERY q PATTERN SEQ(A a, A b, D d) WHERE b.x = d.x RETURN a WITHIN 90 ms"]
    best, worst = counted(query), counted(query, How(detection="worst"))
    assert best.made < worst.made / 2


def test_of_groups_only_what_lies_in_the_gap_is_tried() -> None:
    query = "QUERY q PATTERN SEQ(A a, {} b, D d) WHERE a.x = d.x RETURN a WITHIN 30 ms"
    pairs = counted([query.format("B").replace("B b, ", "")])
    single, plus, whole = (counted([query.format(kind)]) for kind in ("B", "B+", "ALL B"))
    # The pairs of A and D are found first, by their equal values, and for each of them the Bs
    # between are looked at once, whatever is made of them.
    assert plus.tried == whole.tried < single.tried
    between = plus.tried - pairs.tried
    assert whole.made - pairs.made <= between
    assert plus.made - pairs.made >= between


def test_a_condition_on_the_members_of_a_group_makes_no_group_that_fails() -> None:
    query = "QUERY q PATTERN SEQ(A a, B+ b, D d) {} RETURN a WITHIN 50 ms"
    free, tied = (counted([query.format(more)]) for more in ("", "WHERE b.x < a.x"))
    assert tied.tried == free.tried
    assert tied.made < free.made / 2


@pytest.mark.parametrize("where", ["n.x != a.x", "n.x != c.x"])
def test_a_negation_pushed_down_makes_less_than_one_on_top(where: str) -> None:
    workload = load_bound(
        {
            "name": "pushed",
            "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
            "queries": [
                f"QUERY q PATTERN SEQ(A a, !B n, C c, E e) WHERE {where} RETURN a WITHIN 90 ms"
            ],
        }
    )
    query = workload.queries[0]
    columns = Columns(workload, from_table(larger_stream(1, 2000), workload.stream))
    symbols = [event.symbol for event in components(query.pattern)]
    picked = SelectedEvents(columns, (), False, symbols, 90)
    a, c, e, negated = Leaf("a"), Leaf("c"), Leaf("e"), Leaf("n")
    if "a.x" in where:
        pushed = SeqJoin(SeqJoin(NSeq(a, negated, "right"), c), e)
    else:
        pushed = SeqJoin(SeqJoin(a, NSeq(c, negated, "left")), e)
    on_top = NegTop(SeqJoin(SeqJoin(a, c), e), negated)
    found, made = [], []
    for tree in (pushed, on_top):
        context = RunContext(RunOptions(limits=UNLIMITED))
        compiled = compile_tree(tree, query.pattern, query.conditions)
        evaluation = TreeEvaluation(picked, 90, "q", context)
        rows = [
            row
            for part in evaluation.matches(compiled.operator)
            for row in zip(*(column.tolist() for column in part.columns), strict=True)
        ]
        found.append(Counter(rows))
        made.append(context.counts.made)
    assert found[0] == found[1]
    assert found[0]
    assert made[0] < made[1] / 3


def test_what_queries_have_in_common_runs_once() -> None:
    queries = [
        "QUERY one PATTERN SEQ(A a, B b) WHERE a.x = b.k RETURN a WITHIN 60 ms",
        "QUERY two PATTERN SEQ(A first, B second) WHERE second.k = first.x RETURN second"
        " WITHIN 60 ms",
        "QUERY three PATTERN SEQ(A a, B b, !C c) WHERE a.x = b.k RETURN a WITHIN 60 ms",
    ]
    shared, separate = counted(queries), counted(queries, How(sharing=False))
    alone = counted(queries[:1])
    assert shared.made == alone.made
    assert separate.made == 3 * alone.made
    assert shared.reused > 0 == separate.reused


@pytest.mark.parametrize(
    "patterns",
    [
        [f"SEQ(A a, B b, {last} c) WHERE a.x = b.k" for last in "CDE"],  # prefix
        ["SEQ(A a, C c, D d)", "SEQ(B b, C c, D d)", "SEQ(E e, C c, D d)"],  # suffix
        [  # middle
            "SEQ(A a, C c, D d, B b) WHERE c.x = d.k",
            "SEQ(B b, C c, D d, A a) WHERE c.x = d.k",
        ],
        [
            "SEQ(A a, B b, !C c, D d, E e) WHERE b.x < d.x",
            "SEQ(E e, B o, !C n, D p, A a) WHERE p.x > o.x",
        ],
    ],
)
def test_a_piece_that_queries_have_in_common_runs_once(
    patterns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_sharing, "WORTH", 0)
    returned = ["a" if " a" in pattern else "c" for pattern in patterns]
    queries = [
        f"QUERY q{i} PATTERN {pattern} RETURN {name} WITHIN 90 ms"
        for i, (pattern, name) in enumerate(zip(patterns, returned, strict=True))
    ]
    shared, separate = counted(queries), counted(queries, How(sharing=False))
    # Walks make nothing but matches, and try the more.
    assert shared.made + shared.tried < separate.made + separate.tried
    assert shared.reused > 0


def test_other_windows_and_other_conditions_are_not_the_same() -> None:
    queries = [
        "QUERY one PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 60 ms",
        "QUERY two PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 61 ms",
        "QUERY three PATTERN SEQ(A a, B b) WHERE b.x < a.x RETURN a WITHIN 60 ms",
    ]
    each = [counted([query]).made for query in queries]
    assert counted(queries).made == sum(each)


# --- what is not taken ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SEQ(A a, B^2 b, C c, D^2 d, E e) WHERE b.x < e.x AND d.x < a.x RETURN a",
            "tied across each other",
        ),
        ("AND(A a, !SEQ(B b, C c)) AGG COUNT(*)", "looks at each window"),
        ("SEQ(A a, ALL B b) AGG COUNT(*)", "b is all that each window has"),
    ],
)
def test_a_query_that_is_not_taken_says_why(query: str, reason: str) -> None:
    workload = load_bound(
        {
            "name": "refused",
            "stream": {"time": "ts", "unit": "ms", "type": "kind"},
            "queries": [f"QUERY q PATTERN {query} WITHIN 20 ms"],
        }
    )
    said = refusal(workload.queries[0])
    assert said is not None
    assert reason in said
