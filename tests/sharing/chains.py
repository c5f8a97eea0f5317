"""Queries written as words, and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window
from sharing.counting.benefit import Floats
from sharing.counting.candidates import Candidates, CountSetting, QuerySteps, Step

SECOND = 10**9
SETTING = CountSetting((), Window(SECOND))


def query(name: str, text: str, setting: CountSetting = SETTING) -> QuerySteps:
    """`query("q1", "A B !X C")`: a step for each word; a negation belongs to the one before."""
    steps: list[Step] = []
    for word in text.split():
        if word.startswith("!"):
            negated = steps[-1].negated | {Symbol(word[1:])}
            steps[-1] = Step(steps[-1].symbol, negated)
        else:
            steps.append(Step(Symbol(word)))
    return QuerySteps(name, tuple(steps), setting)


def queries(*texts: str, setting: CountSetting = SETTING) -> list[QuerySteps]:
    """Queries q1, q2, … of these texts."""
    return [query(f"q{i}", text, setting) for i, text in enumerate(texts, 1)]


def words(steps: Iterable[Step]) -> str:
    """Steps as `query` reads them."""
    return " ".join(map(str, steps))


def random_queries(
    number: int, types: int = 50, length: int = 6, seed: int = 0
) -> list[QuerySteps]:
    """Queries of one length whose every step is any type."""
    rng = np.random.default_rng(seed)
    letters = [f"T{i}" for i in range(types)]
    drawn = rng.integers(0, types, (number, length)).tolist()
    return queries(*(" ".join(letters[i] for i in row) for row in drawn))


def workloads(
    most_queries: int = 6, most_steps: int = 7, types: str = "ABC"
) -> st.SearchStrategy[list[QuerySteps]]:
    """A few queries over few types, some of them negating something, in two settings."""
    step = st.builds(
        lambda kind, negated: kind + negated,
        st.sampled_from(types),
        st.sampled_from(["", "", "", "", " !X", " !Y", " !X !Y"]),
    )
    text = st.lists(step, max_size=most_steps).map(" ".join)
    setting = st.sampled_from([SETTING] * 3 + [CountSetting((), Window(2 * SECOND))])
    return st.lists(st.tuples(text, setting), max_size=most_queries).map(
        lambda drawn: [query(f"q{i}", t, s) for i, (t, s) in enumerate(drawn, 1)]
    )


def crowded_workloads(
    most_queries: int = 4, most_steps: int = 5, types: str = "AB"
) -> st.SearchStrategy[list[QuerySteps]]:
    """A few queries of few types that have much in common, often at several places."""
    text = st.lists(st.sampled_from(types), min_size=2, max_size=most_steps).map(" ".join)
    return st.lists(text, min_size=2, max_size=most_queries).map(lambda texts: queries(*texts))


@dataclass(frozen=True)
class Given:
    """A benefit model that is told what a place of each candidate is worth; the others cost."""

    gains: Mapping[str, float]
    unit: str = "points"

    def benefits(self, candidates: Candidates) -> Floats:
        gains = [self.gains.get(words(c.steps), -1.0) * len(c.places) for c in candidates]
        return np.array(gains, np.float64)
