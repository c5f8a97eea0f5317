"""A live stream in this process: what batches cost that are smaller than the window."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.benchmarks.measuring import BenchmarkError, Measured, Row, Said, Size

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.program import Program

_NAME = "live"
_KEYS = 1_000
_VALUES = 2_000
_PARTS = (1, 10, 100)  # of a window that a batch is
_LARGE = 2_000_000  # events in a window that only queries with counters that are kept are run over
_KEPT = ("count", "count by slide", "count by key", "count, negation and sum")

QUERIES: Mapping[str, str] = {
    "matches, equal values": (
        "PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x AND b.x = c.x RETURN a.ts, c.ts"
    ),
    "matches, by key": "PATTERN SEQ(A a, B b, C c) PARTITION BY user RETURN a.ts, c.ts",
    "count": "PATTERN SEQ(A a, B b, C c) AGG COUNT(*)",
    "count by slide": "PATTERN SEQ(A a, B b, C c) AGG COUNT(*) {slide}",
    "count by key": "PATTERN SEQ(A a, B b, C c) PARTITION BY user AGG COUNT(*)",
    "count, negation and sum": "PATTERN SEQ(A a, !D, B b, C c) AGG COUNT(*), SUM(a.x)",
}


@dataclass(frozen=True)
class _Stream:
    """An event each millisecond; `window` of them are in a window."""

    window: int
    windows: int = 3

    def document(self, query: str) -> dict[str, Any]:
        slide = f"SLIDE {max(self.window // 20, 1)} ms"
        text = f"QUERY q {query} WITHIN {self.window} ms".replace("{slide}", "")
        if "{slide}" in query:
            text = f"{text} {slide}"
        return {
            "name": "batches",
            "stream": {"time": "ts", "unit": "ms", "type": "type"},
            "queries": [text],
        }

    def events(self) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        chance, number = np.random.default_rng(1), self.window * self.windows
        return pa.table(
            {
                "ts": np.arange(number),
                "type": pa.array(np.array(list("ABCDEFGH"))[chance.integers(0, 8, number)]),
                "user": chance.integers(0, _KEYS, number),
                "x": chance.integers(0, _VALUES, number),
            }
        )


def by_batches(size: Size) -> Iterator[Row]:
    """Batches of a window, of a tenth and of a hundredth of it, with a state that is kept.

    The first window is left out: later ones have as many events in their state as they ever will.
    """
    for window in (20_000, 200_000, _LARGE) if size == "full" else (1_000,):
        stream = _Stream(window)
        table = stream.events()
        for name, query in QUERIES.items():
            if window == _LARGE and name not in _KEPT:
                continue
            program = _program(stream.document(query), table)
            yield from _line(name, stream, program, table)


def _line(name: str, stream: _Stream, program: Program, table: pa.Table) -> Iterator[Row]:
    variants = {f"window/{part}" if part > 1 else "window": part for part in _PARTS}
    seconds: dict[str, float] = {}
    rows: dict[str, int] = {}
    for variant, part in variants.items():
        rows[variant], _ = _run(program, table, stream.window, part)  # compiles
    for _ in range(2):
        for variant, part in variants.items():
            _, took = _run(program, table, stream.window, part)
            seconds[variant] = min(took, seconds.get(variant, took))
    if len(set(rows.values())) > 1:
        raise BenchmarkError(f"{name}: batches of different sizes gave {rows} rows")
    events = stream.window * (stream.windows - 1)
    table_name = f"batches of a window of {stream.window:,} events"
    yield Measured(_NAME, table_name, name, events, seconds)
    kept = seconds["window"] / seconds["window/100"]
    yield Said(
        _NAME,
        f"{name}, {stream.window:,} events in a window: batches of a hundredth of it keep "
        f"{kept:.2f} of the speed of batches of a window.",
        {"window": stream.window, "kept": kept},
    )


def _program(document: dict[str, Any], table: pa.Table) -> Program:
    from engines.input.event_table import from_table
    from engines.program import bound_program
    from optimizer.bind.binder import load_bound
    from tests.benchmarks.planned import planned

    workload = load_bound(document)
    events = from_table(table, workload.stream)
    return bound_program(planned(workload, document, events), workload)


def _run(program: Program, table: pa.Table, window: int, part: int) -> tuple[int, float]:
    """The rows of all batches, and seconds of all but those of the first window."""
    from engines.input.event_table import from_table
    from engines.live.run import LiveRun

    live, step = LiveRun(program, 10**6), window // part
    rows, seconds = 0, 0.0
    for start in range(0, table.num_rows, step):
        batch = from_table(table.slice(start, step), program.workload.stream)
        begun = time.process_time()
        found = live.add(batch, start + step - 1)
        if start >= window:
            seconds += time.process_time() - begun
        rows += found.aggregates.num_rows + found.matches.num_rows
    return rows, seconds
