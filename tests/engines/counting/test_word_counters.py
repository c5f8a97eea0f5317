"""Sequences of single events have a counter for each stretch of their symbols."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.counting.compile import compile_steps
from engines.counting.letters import CountingPlan
from engines.counting.tables import Letters
from kernels.reversible.cpu import Steps
from optimizer.bind.binder import load_bound

STREAM = {"time": "ts", "unit": "ms", "type": "type"}
TYPES = "ABC"

words = st.lists(st.text(TYPES, min_size=1, max_size=4), min_size=1, max_size=4)


def compiled(queries: list[str]) -> tuple[Steps, list[str]]:
    """The steps of queries, and the type of each letter."""
    texts = [
        f"QUERY q{i} PATTERN SEQ({', '.join(f'{t} x{n}' for n, t in enumerate(word))}) "
        "AGG COUNT(*) WITHIN 1 s"
        for i, word in enumerate(queries)
    ]
    plan = CountingPlan(load_bound({"stream": STREAM, "queries": texts}).queries)
    letters = Letters([(frozenset([symbol]), 0) for symbol in plan.symbols], [frozenset()])
    return compile_steps(plan.terms, letters), [symbol.type for symbol in plan.symbols]


def changed(
    steps: Steps, counts: list[int], letter: int, at: np.ndarray, pairs: np.ndarray, sign: int
) -> None:
    first, last = (int(at[n * steps.levels]) for n in (letter, letter + 1))
    for into, of in pairs[first:last].tolist():
        counts[into] += sign * counts[of]


def read(steps: Steps, counts: list[int]) -> list[int]:
    pointers = steps.final.astype(np.int64)
    return [
        sum(counts[i] for i in steps.finals[pointers[q] : pointers[q + 1]].tolist())
        for q in range(len(pointers) - 1)
    ]


def ways(word: str, events: str) -> int:
    return sum(found == tuple(word) for found in combinations(events, len(word)))


@given(words, st.text(TYPES, max_size=9), st.integers(0, 9))
def test_events_that_arrive_and_leave_are_counted_as_by_hand(
    queries: list[str], events: str, left: int
) -> None:
    steps, types = compiled(queries)
    seen = [types.index(event) for event in events if event in types]
    counts = [int(n) for n in steps.start]
    arriving = np.stack([steps.arrive_into, steps.arrive_of], axis=1)
    leaving = np.stack([steps.leave_into, steps.leave_of], axis=1)
    for letter in seen:
        changed(steps, counts, letter, steps.arrive, arriving, 1)
    for letter in seen[:left]:
        changed(steps, counts, letter, steps.leave, leaving, -1)
    window = "".join(types[letter] for letter in seen[left:])
    assert read(steps, counts) == [ways(word, window) for word in queries]


@given(words)
def test_equal_stretches_are_one_counter(queries: list[str]) -> None:
    steps, _ = compiled(queries)
    stretches = {
        word[i:j] for word in queries for i in range(len(word)) for j in range(i, len(word) + 1)
    }
    assert len(steps.start) == len(stretches | {""})
    assert len(steps.arrive_into) == len(steps.leave_into) == len(stretches - {""})
