"""Queries over a generated stream, and how long an engine takes to count them.

What is measured is what an event more costs: the time of a whole stream less that of its first part
is free of what a run does once, which is preparing tables and has nothing to do with the stream.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from engines.columns.instances import Columns
from engines.columns.layout import Layout, arrange
from engines.counting import aseq, chopconnect, panes, pretree, product
from engines.counting.plan import Plan
from engines.counting.prepare import Counted, counted_by_query, may_overflow, prepare
from engines.events import from_table
from engines.statistics import measure
from optimizer.bind import load_bound
from optimizer.ir.query import BoundWorkload, whole_ticks
from optimizer.statistics import Statistics

STREAM = {"time": "ts", "unit": "ms", "type": "type"}
MILLISECOND = 1_000_000  # nanoseconds
ROUNDS, MOST_ROUNDS = 3, 40
LONG = 0.02  # seconds
CLEAR = 1.0  # the events that are measured must take so many times what a run does once


@dataclass(frozen=True)
class Trial:
    """Queries of one key, window and slide over a stream with an event each millisecond.

    `shares` are the types' parts of all events; `keys` are the parts of the values of a column `k`.
    `lengths` says how Chop-Connect chops.
    """

    name: str
    queries: tuple[str, ...]
    shares: Mapping[str, float]
    keys: Sequence[float] = (1.0,)
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)
    seed: int = 0

    def table(self, events: int) -> pa.Table:
        """The stream's first events."""
        rng = np.random.default_rng(self.seed)
        parts = np.array(list(self.shares.values()), np.float64)
        types = rng.choice(len(parts), events, p=parts / parts.sum())
        share = np.array(self.keys, np.float64)
        key = np.random.default_rng(self.seed + 1).choice(len(share), events, p=share / share.sum())
        return pa.table(
            {
                "ts": np.arange(events),
                "type": pa.DictionaryArray.from_arrays(types, list(self.shares)).cast(pa.string()),
                "k": key,
                "x": rng.random(events),
            }
        )


@dataclass(frozen=True, eq=False)
class Ready:
    """A trial's stream in memory, so far that counting is all that is left to do."""

    trial: Trial
    workload: BoundWorkload
    plan: Plan
    columns: Columns
    layout: Layout
    statistics: Statistics
    width: int
    slide: int
    compiled: product.Compiled = field(default_factory=product.Compiled)

    @property
    def events(self) -> int:
        """How many the stream has."""
        return len(self.columns.events)

    def count(self, engine: str) -> Counted:
        """What an engine counts."""
        common = (self.plan, self.columns, self.layout)
        span = (self.width, self.slide, False)
        found: Counted | None
        if engine == "panes":
            each = [self.width] * len(self.plan.queries), [self.slide] * len(self.plan.queries)
            found = panes.count_panes(*common, *each)
        elif engine == "chopconnect":
            found = chopconnect.count(*common, *span, lengths=self.trial.lengths)
        elif engine == "product":
            found = self._product()
        else:
            ways: dict[str, Any] = {"aseq": aseq, "pretree": pretree}
            found = ways[engine].count(*common, *span)
        assert found is not None, "a trial has few types"
        return found

    def _product(self) -> Counted | None:
        """The product with its tables made once: for many queries that takes longest."""
        prepared = prepare(self.plan, self.columns, self.layout, self.width, False)
        if prepared is None:
            return None
        dual = may_overflow(self.plan, prepared, self.width)
        begun, since = product.from_the_beginning(prepared.groups)
        start, rows = product.run_product(
            self.plan,
            prepared,
            np.arange(len(self.plan.queries)),
            begun,
            since,
            self.width,
            self.slide,
            dual,
            self.compiled,
        )
        return counted_by_query(prepared, self.layout, start, rows, dual)


def ready(trial: Trial, events: int) -> Ready:
    """A trial over so many events."""
    workload = load_bound({"stream": STREAM, "queries": list(trial.queries)})
    first = workload.queries[0]
    loaded = from_table(trial.table(events), workload.stream)
    return Ready(
        trial,
        workload,
        Plan(workload.queries),
        Columns(workload, loaded),
        arrange(loaded, first.key, False, False),
        measure(workload, loaded),
        first.window.ticks(MILLISECOND),
        whole_ticks(first.slide, MILLISECOND, "slide") if first.slide else 0,
    )


def nanoseconds_per_event(
    streams: Sequence[Ready], engines: Sequence[str], enough: float = 0.3
) -> dict[str, float]:
    """By engine, what an event more costs in processor time.

    `streams` are beginnings of one stream, the shortest first: an engine runs over that one and the
    longest other that it takes at most `LONG` seconds for. The engines take turns for `enough`
    seconds each; on a machine that is busy the least disturbed of many short runs says most. An
    engine is left out where what a run does once hides what its events take.
    """
    part = streams[0]
    for engine in engines:
        part.count(engine)  # compiles, or loads what was compiled
    wholes = {engine: _longest(streams, engine) for engine in engines}
    long = dict.fromkeys(engines, float("inf"))
    short = dict.fromkeys(engines, float("inf"))
    enabled = gc.isenabled()
    gc.disable()
    start = time.perf_counter()
    try:
        for done in range(1, MOST_ROUNDS + 1):
            for engine in engines:
                long[engine] = min(long[engine], _taken(wholes[engine], engine))
                short[engine] = min(short[engine], _taken(part, engine))
            spent = time.perf_counter() - start
            if done >= ROUNDS and spent > enough * len(engines):
                break
    finally:
        if enabled:
            gc.enable()
    found = {}
    for engine in engines:
        more = long[engine] - short[engine]
        each = more / (wholes[engine].events - part.events)
        if more > CLEAR * (short[engine] - each * part.events):
            found[engine] = each * 1e9
    return found


def _longest(streams: Sequence[Ready], engine: str) -> Ready:
    part, chosen, *others = streams
    more = min(_taken(chosen, engine), _taken(chosen, engine)) - _taken(part, engine)
    each = max(0.0, more) / (chosen.events - part.events)
    for other in others:
        if each * (other.events - part.events) < LONG:
            chosen = other
    return chosen


def _taken(ready: Ready, engine: str) -> float:
    start = time.thread_time()
    ready.count(engine)
    return time.thread_time() - start
