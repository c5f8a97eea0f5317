"""How long trees of joins take for the events that they touch, over generated streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from engines.calibration.trials import MILLISECOND, STREAM, Trial
from engines.columns.columns import Columns
from engines.input.event_table import from_table
from engines.matching.trees.buffers import SelectedEvents
from engines.matching.trees.evaluation import TreeEvaluation
from engines.program import RunContext
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import events as components
from optimizer.plan.compile_tree import compile_tree
from optimizer.trees import best_tree

TRIAL_EVENTS = 20_000
PATTERNS = (  # and windows in which the joins outweigh what a run does once
    ("SEQ(A a, B b)", 800),
    ("SEQ(A a, B b, C c)", 150),
    ("SEQ(A a, !D d, B b, C c)", 250),
    ("SEQ(A a, B b, C c) WHERE a.x < b.x", 200),
    ("SEQ(A a, B b, C c, D d)", 100),
)
ROUNDS, MOST_ROUNDS = 3, 20


class JoinTrial(NamedTuple):
    """A trial: events that its tree touches by the cost model, and nanoseconds, both per event."""

    trial: str
    touched: float
    nanoseconds: float


def joined(enough: float) -> Iterator[JoinTrial]:
    """The times of trees, `enough` seconds for each; the least disturbed of several runs counts."""
    for seed, (pattern, window) in enumerate(PATTERNS):
        query = f"QUERY q PATTERN {pattern} RETURN a WITHIN {window} ms"
        trial = Trial(pattern, (query,), dict.fromkeys("ABCDEFGH", 1.0), seed=seed)
        workload = load_bound({"stream": STREAM, "queries": list(trial.queries)})
        (asked,) = workload.queries
        events = from_table(trial.table(TRIAL_EVENTS), workload.stream)
        columns, width = Columns(workload, events), asked.window.ticks(MILLISECOND)
        best = best_tree(asked, measure(workload, events), model=COMPILED)
        symbols = dict.fromkeys(event.symbol for event in components(asked.pattern))
        picked = SelectedEvents(columns, asked.key, False, symbols, width)
        operator = compile_tree(best.tree, asked.pattern, asked.conditions).operator
        least, start = float("inf"), time.perf_counter()
        for done in range(MOST_ROUNDS + 1):
            evaluation = TreeEvaluation(picked, width, asked.name, RunContext())
            before = time.thread_time()
            for _ in evaluation.matches(operator):
                pass
            if done:  # the first one compiles
                least = min(least, time.thread_time() - before)
            if done >= ROUNDS and time.perf_counter() - start > enough:
                break
        seconds = TRIAL_EVENTS * MILLISECOND / 1e9
        yield JoinTrial(
            trial.name, best.per_second * seconds / TRIAL_EVENTS, least * 1e9 / TRIAL_EVENTS
        )
