"""Situations (figure 5.9 of the dissertation on TPStream), and many queries about them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.input.event_table import Events, from_table
from engines.local.run import run_events
from engines.program import RunContext
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from tests.benchmarks.found import Found
from tests.benchmarks.measuring import Measured, Row, Size, Variant, measure
from tests.running import How

STREAM = {"time": "ts", "unit": "s", "type": "kind"}
RELATIONS = ("overlaps", "before", "meets;overlaps", "during", "contains;overlaps", "starts;equals")
NAMES = tuple("abcdefghij")
Ends = npt.NDArray[np.int64]


def by_situations(size: Size) -> Iterator[Row]:
    """`A starts B before C overlaps D` by window, beside ends in order and nested scans (ISEQ);
    and 1 to 100 queries over ten definitions, together and one by one.

    Situations are on for 10 to 100 seconds and off for 10 to 50, with an event a second. Times are
    from events in memory to tables of results; reading and planning are left out.
    """
    number = 1_000_000 if size == "full" else 20_000
    windows = (500, 5_000, 50_000) if size == "full" else (500,)
    table = random_situations(number, NAMES[:4])
    for window in windows:
        yield _window(size, table, window)
    number = 300_000 if size == "full" else 5_000
    table = random_situations(number, NAMES)
    for queries in (1, 10, 100) if size == "full" else (1, 10):
        yield _queries(size, table, queries)


def random_situations(number: int, names: tuple[str, ...]) -> pa.Table:
    """Columns that are 1 and 0 in turn."""
    columns: dict[str, Any] = {"ts": np.arange(number), "kind": ["E"] * number}
    for seed, name in enumerate(names):
        draw = np.random.default_rng(seed)
        lengths = np.empty(number // 30 + 2, np.int64)
        lengths[::2] = draw.integers(10, 101, len(lengths[::2]))
        lengths[1::2] = draw.integers(10, 51, len(lengths[1::2]))
        columns[name] = np.repeat(1 - np.arange(len(lengths)) % 2, lengths)[:number]
    return pa.table(columns)


def _variant(queries: list[str], table: pa.Table, sharing: bool = True) -> Variant:
    workload = load_bound({"name": "situations", "stream": STREAM, "queries": queries})
    program = How(sharing=sharing).program(workload)

    def run() -> Results:
        return run_events(program, from_table(table, workload.stream), RunContext())

    return Variant(run, _found)


def _found(results: Results) -> Found:
    times = results.matches.column("end").to_numpy()
    return Found(len(times), 0, int(times.sum()))


def _window(size: Size, table: pa.Table, window: int) -> Measured:
    defined = ", ".join(f"{name.upper()} AS {name} = 1" for name in NAMES[:4])
    text = (
        f"QUERY q DEFINE {defined} PATTERN A starts B AND B before C AND C overlaps D "
        f"RETURN A.start WITHIN {window} s EMIT COMPLETE"
    )
    events = from_table(table, load_bound({"stream": STREAM, "queries": [text]}).stream)
    variants = {
        "situations": _variant([text], table),
        "iseq": Variant(lambda: _iseq_ends(events, window), _found_ends),
    }
    case = f"window {window:,} s, {len(events):,} events"
    return Measured("tpstream", "by window", case, len(events), measure(variants, size))


def _queries(size: Size, table: pa.Table, number: int) -> Measured:
    draw = random.Random(number)
    texts = []
    for place in range(number):
        first, second = draw.sample(NAMES, 2)
        texts.append(
            f"QUERY q{place} DEFINE A AS {first} = 1, B AS {second} = 1 "
            f"PATTERN A {draw.choice(RELATIONS)} B RETURN A.start "
            f"WITHIN {draw.choice((100, 200, 400))} s"
        )
    variants = {"shared": _variant(texts, table), "one by one": _variant(texts, table, False)}
    case = f"{number:,} queries, {table.num_rows:,} events"
    return Measured("tpstream", "by queries", case, table.num_rows, measure(variants, size))


# --- the rival -----------------------------------------------------------------------------------


def _iseq_ends(events: Events, window: int) -> Ends:
    runs = [_runs(events.table.column(name).to_numpy(), events.ticks) for name in NAMES[:4]]
    (a, a_end), (b, b_end), (c, c_end), (d, d_end) = runs
    none = np.zeros(0, np.int64)
    number = _iseq(a, a_end, b, b_end, c, c_end, d, d_end, window, none)
    ends = np.empty(number, np.int64)
    _iseq(a, a_end, b, b_end, c, c_end, d, d_end, window, ends)
    return ends


def _found_ends(ends: Ends) -> Found:
    return Found(len(ends), 0, int(ends.sum()))


def _runs(values: Ends, ticks: Ends) -> tuple[Ends, Ends]:
    """Starts and ends of the stretches that have ended."""
    on = np.concatenate([[0], values])
    starts, ends = np.flatnonzero(np.diff(on) == 1), np.flatnonzero(np.diff(on) == -1)
    return ticks[starts[: len(ends)]], ticks[ends]


@numba.njit(cache=True)
def _iseq(
    a: Ends, a_end: Ends, b: Ends, b_end: Ends, c: Ends, c_end: Ends, d: Ends, d_end: Ends,
    window: int, found: Ends,
) -> int:  # fmt: skip
    """Buffers in the order of ends; each new D scans them from the latest back to the window."""
    number = 0
    last_a, last_b, last_c = 0, 0, 0
    for k in range(len(d)):
        now = d_end[k]
        while last_a < len(a) and a_end[last_a] <= now:
            last_a += 1
        while last_b < len(b) and b_end[last_b] <= now:
            last_b += 1
        while last_c < len(c) and c_end[last_c] <= now:
            last_c += 1
        for i in range(last_c - 1, -1, -1):
            if c_end[i] <= now - window:
                break
            if not (c[i] < d[k] and d[k] < c_end[i] and c_end[i] < now):
                continue
            for j in range(last_b - 1, -1, -1):
                if b_end[j] <= now - window:
                    break
                if not b_end[j] < c[i]:
                    continue
                for m in range(last_a - 1, -1, -1):
                    if a_end[m] <= now - window:
                        break
                    if a[m] == b[j] and a_end[m] < b_end[j] and now - a[m] < window:
                        if len(found):
                            found[number] = now
                        number += 1
    return number
