"""The cost model's counts of pieces are those of the tables that the engines run on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.counting.compile import compile_steps, compile_tables
from engines.counting.letters import CountingPlan
from engines.counting.tables import Letters
from kernels.product import cpu as kernel
from optimizer.bind.binder import load_bound
from optimizer.cost.counting import CountedQueries
from optimizer.cost.substrings import changes, explored, value_changes
from optimizer.ir.pattern import Symbol

STREAM = {"time": "ts", "unit": "ms", "type": "type"}
TYPES = "ABCDEN"


def queries_of(*patterns: str, aggregates: str = "COUNT(*)"):
    texts = [f"QUERY q{i} PATTERN {p} AGG {aggregates} WITHIN 1 s" for i, p in enumerate(patterns)]
    return load_bound({"stream": STREAM, "queries": texts}).queries


def letters_of(plan: CountingPlan) -> Letters:
    """Every symbol alone, at a time of its own."""
    watched = {s for ms in plan.machines for m in ms for s in m.watched_symbols}
    stays = [frozenset(), *(frozenset([s]) for s in sorted(watched, key=str))]
    moves = [
        (frozenset([s]), stays.index(frozenset([s])) if s in watched else 0) for s in plan.symbols
    ]
    return Letters(moves, stays)


sequences = st.lists(
    st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=5, unique=True).map(
        lambda types: f"SEQ({', '.join(types)})"
    ),
    min_size=1,
    max_size=6,
)


def only_positive(numbers):
    return {symbol: int(n) for symbol, n in numbers.items() if n}


@settings(max_examples=30)
@given(sequences)
def test_the_reversible_product_adds_once_for_each_piece(patterns):
    queries = queries_of(*patterns)
    plan = CountingPlan(queries)
    letters = letters_of(plan)
    steps = compile_steps(plan.terms, letters)
    words = [w for words in CountedQueries(queries, None).words for w in words]
    found = changes(words)
    for name, at in (("arriving", steps.arrive), ("leaving", steps.leave)):
        rows = np.diff(at[:: steps.levels].astype(np.int64))
        expected = {
            next(iter(symbols)): int(n)
            for (symbols, _), n in zip(letters.moves, rows, strict=True)
            if n
        }
        assert only_positive(getattr(found, name)) == expected


negated = st.lists(
    st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=4, unique=True).flatmap(
        lambda types: st.integers(0, len(types)).map(
            lambda at: f"SEQ({', '.join([*types[:at], '!N', *types[at:]])})"
        )
    ),
    min_size=1,
    max_size=5,
)


def changed(operators: kernel.Operators, letters: Letters, counts, clears) -> Counter[Symbol]:
    """By symbol, the additions and clearings in its sections."""
    found: Counter[Symbol] = Counter()
    for k, (symbols, _) in enumerate(letters.moves):
        assert operators.in_place[k]
        at = operators.section[kernel.SECTIONS * k : kernel.SECTIONS * (k + 1) + 1]
        size = (at[counts + 1] - at[counts]) // 2 + (at[clears + 1] - at[clears])
        if size:
            found[next(iter(symbols))] = int(size)
    return found


@settings(max_examples=30)
@given(negated)
def test_two_stacks_change_the_counters_of_each_piece(patterns):
    queries = queries_of(*patterns)
    plan = CountingPlan(queries)
    letters = letters_of(plan)
    tables = compile_tables(plan.terms, letters)
    words = [w for words in CountedQueries(queries, None).words for w in words]
    found = changes(words)
    assert only_positive(found.arriving) == changed(
        tables.back, letters, kernel.ADDS, kernel.CLEARS
    )
    assert only_positive(found.leaving) == changed(
        tables.front, letters, kernel.ADDS, kernel.CLEARS
    )


@settings(max_examples=30)
@given(sequences, st.sampled_from(["SUM", "MIN"]))
def test_values_travel_with_the_pieces_that_hold_them(patterns, function):
    aggregates = f"{function}({patterns[0][4]}.x)"
    queries = queries_of(patterns[0], aggregates=aggregates)
    plan = CountingPlan(queries)
    letters = letters_of(plan)
    tables = compile_tables(plan.terms, letters)
    words = [w for words in CountedQueries(queries, None).words for w in words]
    found = value_changes(words)
    for name, operators in (("arriving", tables.back), ("leaving", tables.front)):
        expected: Counter[Symbol] = Counter()
        for k, (symbols, _) in enumerate(letters.moves):
            at = operators.section[kernel.SECTIONS * k :]
            adds = (at[kernel.VALUE_ADDS + 1] - at[kernel.VALUE_ADDS]) // 2
            tags = (at[kernel.ADD_TAGS + 1] - at[kernel.ADD_TAGS]) // 3
            if adds + tags:
                expected[next(iter(symbols))] = int(adds + tags)
        assert only_positive(getattr(found, name)) == expected


@pytest.mark.parametrize("pattern", ["SEQ(A, B+, C)", "AND(A, B, C)", "SEQ(A, !SEQ(B, D), C)"])
def test_machines_have_at_least_the_changes_of_their_tables(pattern):
    queries = queries_of(pattern)
    plan = CountingPlan(queries)
    letters = letters_of(plan)
    tables = compile_tables(plan.terms, letters)
    found = explored(CountedQueries(queries, None).choices[0][0]).changes
    at = tables.back.tables
    moves = at[at[kernel.MOVE] : at[kernel.MOVE] + len(letters.moves) + 1]
    for (symbols, _), rows in zip(letters.moves, np.diff(moves), strict=True):
        # Entries that always hold the same number are one counter in the tables.
        assert found.arriving[next(iter(symbols))] >= rows
    assert moves[-1] > 0
