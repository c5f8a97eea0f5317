"""Trials that calibrate costs: random workloads over random streams, the same for the same seed."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from engines.columns.columns import Columns
from engines.columns.layout import Layout, arrange
from engines.counting import aseq, chopconnect, panes, pretree, product, runs, sem
from engines.counting.folds import count_folds
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    bits_of_counts,
    counted_by_query,
    prepare,
    spans_of,
)
from engines.input.event_table import from_table
from engines.statistics.measure import measure
from kernels.groups import Spans
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload, whole_ticks
from optimizer.statistics import Statistics

STREAM = {"time": "ts", "unit": "ms", "type": "type"}
MILLISECOND = 1_000_000  # nanoseconds
ROUNDS, MOST_ROUNDS = 3, 40
MIN_TRIAL_SECONDS = 0.02  # seconds
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
    plan: CountingPlan
    columns: Columns
    layout: Layout
    statistics: Statistics
    width: int
    slide: int
    compiled: product.CompiledTables = field(default_factory=product.CompiledTables)

    @property
    def spans(self) -> Spans:
        """The window and slide of each query."""
        return spans_of(self.plan.queries, MILLISECOND)

    @property
    def events(self) -> int:
        """How many the stream has."""
        return len(self.columns.events)

    def count(self, engine: str) -> CountResult:
        """What an engine counts."""
        common = (self.plan, self.columns, self.layout)
        span = (self.spans, False)
        found: CountResult | None
        if engine == "panes":
            each = [self.width] * len(self.plan.queries), [self.slide] * len(self.plan.queries)
            found = panes.count_panes(*common, *each)
        elif engine == "sem":
            found = sem.count(*common, *span)
        elif engine == "folds":
            windows = sem.window_spans(self.spans)
            found = count_folds(self.plan.queries, *common[1:], windows, False)
        elif engine == "runs":
            found = runs.count(*common, *span)
        elif engine == "chopconnect":
            found = chopconnect.count(*common, *span, lengths=self.trial.lengths)
        elif engine == "product":
            found = self._product()
        else:
            ways: dict[str, Any] = {"aseq": aseq, "pretree": pretree}
            found = ways[engine].count(*common, *span)
        assert found is not None, "a trial has few types"
        return found

    def _product(self) -> CountResult | None:
        """The product with its tables made once: for many queries that takes longest."""
        prepared = prepare(self.plan, self.columns, self.layout, self.width, False)
        if prepared is None:
            return None
        bits = bits_of_counts(self.plan, prepared, self.spans)
        begun, since = product.from_the_beginning(prepared.groups)
        room = product.room_for(self.plan, prepared, since, self.spans, self.compiled)
        start, rows = product.run_product(
            self.plan,
            prepared,
            np.arange(len(self.plan.queries)),
            begun,
            since,
            self.spans,
            bits,
            room,
            self.compiled,
        )
        return counted_by_query(prepared, self.layout, start, rows, product.needs_floats(bits))


def ready(trial: Trial, events: int) -> Ready:
    """A trial over so many events."""
    workload = load_bound({"stream": STREAM, "queries": list(trial.queries)})
    first = workload.queries[0]
    loaded = from_table(trial.table(events), workload.stream)
    return Ready(
        trial,
        workload,
        CountingPlan(workload.queries),
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
    longest other that it takes at most `MIN_TRIAL_SECONDS` seconds for. The engines take turns for
    `enough` seconds each; on a machine that is busy the least disturbed of many short runs says
    most. An engine is left out where what a run does once hides what its events take.
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
        if each * (other.events - part.events) < MIN_TRIAL_SECONDS:
            chosen = other
    return chosen


def _taken(ready: Ready, engine: str) -> float:
    start = time.thread_time()
    ready.count(engine)
    return time.thread_time() - start


WINDOWS = (50, 5_000)  # events
MAX_TRIAL_QUERIES = 50
NEVER_USED = "OTHER"  # a type that no query speaks of, unless it negates it


@dataclass(frozen=True)
class _Drawn:
    """What a trial's queries are drawn from."""

    types: Sequence[str]
    starts: Sequence[str]  # types that queries begin with
    common: Sequence[str]  # a piece that many queries end with; may be empty
    has_negations: bool


def drawn(seed: int) -> Trial:
    """A random trial.

    1 to 50 sequences of 2 to 8 types, a window of 50 to 5,000 events; rates that are uniform,
    skewed, or have rare STARTs; with a partition key or none, skewed or not; some with negations,
    a few with sums; most per trigger. Often many queries end with the same piece.
    """
    draw = random.Random(seed)
    types = [f"T{i:02}" for i in range(draw.choice((6, 10, 20, 30)))]
    starts = types[: max(1, len(types) // 5)]
    width = round(math.exp(draw.uniform(*map(math.log, WINDOWS))))
    kind = draw.choice(("uniform", "skewed", "rare starts"))
    slide = draw.choice((0, 0, 0, max(1, width // 10), max(1, width // 3)))
    keys = _keys(draw)
    common = draw.sample(types, draw.randint(2, 4)) if draw.random() < 0.5 else []
    many = draw.choice((1, 2, 3, 5, 8, 12, 20, 30, MAX_TRIAL_QUERIES))
    source = _Drawn(types, starts if kind == "rare starts" else types, common, draw.random() < 0.35)
    sums = draw.random() < 0.1
    queries, lengths = [], {}
    for i in range(many):
        parts, chopped = _sequence(draw, source)
        if len(chopped) > 1:
            lengths[f"q{i}"] = chopped
        where = "WHERE [k] " if len(keys) > 1 else ""
        aggregates = f"COUNT(*), SUM({parts[-1]}.x)" if sums else "COUNT(*)"
        every = f" SLIDE {slide} ms" if slide else ""
        queries.append(
            f"QUERY q{i} PATTERN SEQ({', '.join(parts)}) {where}AGG {aggregates} "
            f"WITHIN {width} ms{every}"
        )
    name = (
        f"{many} of {len(types)} types, {kind}, window {width}"
        f"{f', slide {slide}' if slide else ''}{f', {len(keys)} keys' if len(keys) > 1 else ''}"
        f"{', negations' if source.has_negations else ''}{', sums' if sums else ''}"
    )
    return Trial(name, tuple(queries), _shares(draw, kind, source), keys, lengths, seed)


def width_of(trial: Trial) -> int:
    """A trial's window, in events."""
    return int(trial.queries[0].partition("WITHIN ")[2].split()[0])


def _keys(draw: random.Random) -> tuple[float, ...]:
    if draw.random() < 0.6:
        return (1.0,)
    number = draw.choice((3, 10, 50))
    skewed = draw.random() < 0.5
    return tuple(1 / (i + 1) if skewed else 1.0 for i in range(number))


def _shares(draw: random.Random, kind: str, source: _Drawn) -> Mapping[str, float]:
    shares = dict.fromkeys(source.types, 1.0)
    if kind == "skewed":
        shares = {t: 1 / (i + 1) for i, t in enumerate(draw.sample(source.types, len(shares)))}
    elif kind == "rare starts":
        shares |= {t: 10 ** draw.uniform(-2.5, -1) for t in source.starts}
    return shares | {NEVER_USED: draw.choice((0.1, 0.5, 3.0))}


def _sequence(draw: random.Random, source: _Drawn) -> tuple[list[str], tuple[int, ...]]:
    """A query's parts, and the lengths of its segments."""
    first = draw.choice(source.starts)
    others = [t for t in source.types if t != first]
    if source.common and draw.random() < 0.6 and first not in source.common:
        rest = [t for t in others if t not in source.common]
        before = [first, *draw.sample(rest, min(len(rest), draw.randint(0, 3)))]
        return [*before, *source.common], (len(before), len(source.common))
    parts = [first, *draw.sample(others, draw.randint(1, min(7, len(others))))]
    length = len(parts)
    if source.has_negations and draw.random() < 0.5:
        unused = [t for t in source.types if t not in parts]
        parts.insert(draw.randint(1, length - 1), f"!{draw.choice(unused or [NEVER_USED])}")
    return parts, (length,)
