"""Situations: the figures of the dissertation on TPStream, and many queries about them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.input.event_table import from_table
from engines.local.run import run_events
from engines.program import RunContext
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from tests.benchmarks.found import Found
from tests.benchmarks.measuring import Goal, Measured, Row, Size, Variant, measure
from tests.benchmarks.tpstream_figures import (
    by_drivers,
    by_latency,
    by_names,
    by_relation,
)
from tests.benchmarks.tpstream_phases import by_phases, with_order
from tests.benchmarks.tpstream_rivals import by_event_patterns, iseq_ends
from tests.benchmarks.whole_runs import workload_of
from tests.running import How

NAME = "tpstream"
STREAM = {"time": "ts", "unit": "s", "type": "kind"}
RELATIONS = ("overlaps", "before", "meets;overlaps", "during", "contains;overlaps", "starts;equals")
NAMES = tuple("abcdefghijklmnopqrst")
# Of figure 5.13: three names, in six orders.
ORDERED = (
    "A overlaps B AND A overlaps C AND B starts C",
    "A overlaps B AND A before C AND B overlaps C",
    "A before B AND A before C AND B before C",
)


def by_situations(size: Size) -> Iterator[Row]:
    """`A starts B before C overlaps D` by window, beside ends in order and nested scans (ISEQ), and
    beside event patterns; the order that is chosen beside all six, also where the stream changes;
    two threads beside one; aggressive drivers beside one automaton and event patterns; chains and
    stars of names; when relations are known, and matches given; and 1 to 1,000 queries, together,
    together with nothing shared, and by a run for each, in memory and from files to files.

    Situations are on for 10 to 100 seconds and off for 10 to 50, with an event a second. Times are
    from events in memory to tables of results; reading and planning are left out. They are seconds
    of CPU, but for threads, which read files and write them.
    """
    is_full = size == "full"
    table = random_situations(2_000_000 if is_full else 20_000, NAMES[:4])
    for window in (500, 5_000, 50_000, 100_000) if is_full else (500,):
        measured = _window(size, table, window)
        yield measured
        speed = measured.events_per_second["situations"] / 1e6
        yield Goal(NAME, f"window {window:,} s", "million events a second and core", 40, speed)
    yield Goal(NAME, f"window {window:,} s", "times of ISEQ", 10, measured.ratios["iseq"])
    measured = _event_patterns(size, table if is_full else table.slice(0, 2_000), 5_000)
    yield measured
    ratio = measured.ratios["event patterns"]
    yield Goal(NAME, "window 5,000 s", "times of event patterns", 20, ratio)
    for number, pattern in enumerate(ORDERED, 1):
        yield from _orders(size, table if is_full else table.slice(0, 2_000), pattern, number)
    yield from by_phases(size)
    for key in (None, "car"):
        yield from _threads(size, 4_000_000 if is_full else 20_000, key)
    yield from by_drivers(size, _variant)
    yield from by_names(size, _variant, random_situations)
    yield from by_relation(size, _run, random_situations)
    yield from by_latency(size, random_situations, NAMES[:4])
    number = 300_000 if is_full else 5_000
    for queries, names, target in _MANY if is_full else _MANY[:2]:
        table = random_situations(number, NAMES[:names])
        for measured in (
            _queries(size, table, queries, names),
            _whole_queries(size, table, queries, names),
        ):
            yield measured
            if target:
                ratio = measured.ratios["one by one"]
                case = f"{queries:,} queries {measured.table}"
                yield Goal(NAME, case, "shared against one by one", target, ratio)


# Queries, definitions, and how much faster they are to be together.
_MANY = ((1, 10, 0), (10, 10, 0), (100, 10, 5), (1_000, 20, 20))


def random_situations(number: int, names: Sequence[str]) -> pa.Table:
    """Columns that are 1 and 0 in turn."""
    columns: dict[str, Any] = {"ts": np.arange(number), "kind": ["E"] * number}
    for seed, name in enumerate(names):
        draw = np.random.default_rng(seed)
        lengths = np.empty(number // 30 + 2, np.int64)
        lengths[::2] = draw.integers(10, 101, len(lengths[::2]))
        lengths[1::2] = draw.integers(10, 51, len(lengths[1::2]))
        columns[name] = np.repeat(1 - np.arange(len(lengths)) % 2, lengths)[:number]
    return pa.table(columns)


def _run(queries: list[str], table: pa.Table) -> Results:
    results: Results = _variant(queries, table).run()
    return results


def _variant(
    queries: list[Any], table: pa.Table, sharing: bool = True, stream: Any = None
) -> Variant:
    workload = load_bound({"name": "s", "stream": stream or STREAM, "queries": queries})
    program = How(sharing=sharing).program(workload)

    def run() -> Results:
        return run_events(program, from_table(table, workload.stream), RunContext())

    return Variant(run, _found)


def _found(results: Results) -> Found:
    matches = results.matches
    if "run_a" in pc.unique(matches.column("query")).to_pylist():  # rows that others are made of
        matches = matches.filter(pc.equal(matches.column("query"), "q"))
    times = matches.column("end").to_numpy()
    return Found(len(times), 0, int(times.sum()))


def _found_by_each(results: list[Results]) -> Found:
    return sum(map(_found, results), Found(0, 0, 0))


def _text(window: int) -> str:
    defined = ", ".join(f"{name.upper()} AS {name} = 1" for name in NAMES[:4])
    return (
        f"QUERY q DEFINE {defined} PATTERN A starts B AND B before C AND C overlaps D "
        f"RETURN A.start WITHIN {window} s EMIT COMPLETE"
    )


def _window(size: Size, table: pa.Table, window: int) -> Measured:
    events = from_table(table, load_bound({"stream": STREAM, "queries": [_text(window)]}).stream)
    variants = {
        "situations": _variant([_text(window)], table),
        "iseq": Variant(
            lambda: iseq_ends(events, NAMES[:4], window),
            lambda ends: Found(len(ends), 0, int(ends.sum())),
        ),
    }
    seconds = measure(variants, size, time.process_time)
    case = f"window {window:,} s, {len(events):,} events"
    return Measured(NAME, "by window", case, len(events), seconds)


def _event_patterns(size: Size, table: pa.Table, window: int) -> Measured:
    types, queries = by_event_patterns(NAMES[:4], window)
    stream = {"time": "ts", "unit": "s", "types": types}
    variants = {
        "situations": _variant([_text(window)], table),
        "event patterns": _variant(queries, table, stream=stream),
    }
    seconds = measure(variants, size, time.process_time)
    case = f"window {window:,} s, {table.num_rows:,} events"
    return Measured(NAME, "by event patterns", case, table.num_rows, seconds)


def _orders(size: Size, table: pa.Table, pattern: str, number: int) -> Iterator[Row]:
    """What the order that is chosen takes, and each of the six."""
    defined = ", ".join(f"{name.upper()} AS {name} = 1" for name in NAMES[:3])
    text = f"QUERY q DEFINE {defined} PATTERN {pattern} RETURN A.start WITHIN 1000 s EMIT COMPLETE"
    chosen = _variant([text], table)
    variants = {"chosen": chosen}
    for order in permutations(range(3)):

        def run(order: tuple[int, ...] = order) -> Results:
            with with_order(lambda join: order):
                found: Results = chosen.run()
                return found

        variants["".join(NAMES[name].upper() for name in order)] = Variant(run, _found)
    seconds = measure(variants, size, time.process_time)
    case = f"Q{number}, {table.num_rows:,} events"
    measured = Measured(NAME, "by order", case, table.num_rows, seconds)
    yield measured
    best = min(taken for name, taken in seconds.items() if name != "chosen")
    ratio = seconds["chosen"] / max(best, 1e-9)
    yield Goal(NAME, f"Q{number}", "times of the best of six orders", 1.1, ratio, at_least=False)


def _threads(size: Size, number: int, key: str | None) -> Iterator[Row]:
    """A run over a file by one thread and by two."""
    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.program import RunOptions
    from engines.run import run

    table = random_situations(number, NAMES[:4])
    cars = np.arange(number) // 16 % 1_000 if key is not None else np.zeros(number, np.int64)
    table = table.append_column("car", pa.array(cars))
    text = _text(5_000)
    if key is not None:
        text = text.replace(" RETURN", f" PARTITION BY {key} RETURN")
    with TemporaryDirectory() as folder:
        events = str(Path(folder) / "events.parquet")
        pq.write_table(table, events)
        plan = plan_on_events(workload_of({**STREAM, "attributes": {}}, [text]), events, True)

        def variant(threads: int) -> Variant:
            sink = RowSink(str(Path(folder) / f"rows{threads}.parquet"))
            execution = Execution(options=RunOptions(threads=threads))
            return Variant(
                lambda: run(plan, EventSource(events), sink, execution),
                lambda report: Found(report.numbers[1], 0, 0),
            )

        seconds = measure({"two threads": variant(2), "one thread": variant(1)}, size)
    case = f"{'no key' if key is None else f'by {key}'}, {number:,} events"
    measured = Measured(NAME, "by threads", case, number, seconds)
    yield measured
    ratio = measured.ratios["one thread"]
    yield Goal(NAME, case, "one thread's time by that of two", 1.8, ratio)


def _texts(number: int, names: int) -> list[str]:
    """Queries of two names each, with a relation and a window."""
    draw = random.Random(number)
    texts = []
    for place in range(number):
        first, second = draw.sample(NAMES[:names], 2)
        texts.append(
            f"QUERY q{place} DEFINE A AS {first} = 1, B AS {second} = 1 "
            f"PATTERN A {draw.choice(RELATIONS)} B RETURN A.start "
            f"WITHIN {draw.choice((100, 200, 400))} s"
        )
    return texts


def _queries(size: Size, table: pa.Table, number: int, names: int) -> Measured:
    texts = _texts(number, names)
    each = [_variant([text], table) for text in texts]
    variants = {
        "shared": _variant(texts, table),
        "unshared": _variant(texts, table, False),
        "one by one": Variant(lambda: [one.run() for one in each], _found_by_each),
    }
    case = f"{number:,} queries over {names} definitions, {table.num_rows:,} events"
    seconds = measure(variants, size, time.process_time)
    return Measured(NAME, "in memory", case, table.num_rows, seconds)


def _whole_queries(size: Size, table: pa.Table, number: int, names: int) -> Measured:
    """The same from a file of events to a file of rows, on one thread."""
    texts = _texts(number, names)
    with TemporaryDirectory() as folder:
        events = str(Path(folder) / "events.parquet")
        pq.write_table(table, events)
        rows = str(Path(folder) / "rows.parquet")
        each = [_whole_run([text], events, rows) for text in texts]
        together = _whole_run(texts, events, rows)
        variants = {
            "shared": Variant(together, lambda found: Found(found, 0, 0)),
            "one by one": Variant(
                lambda: [one() for one in each], lambda found: Found(sum(found), 0, 0)
            ),
        }
        case = f"{number:,} queries over {names} definitions, {table.num_rows:,} events"
        seconds = measure(variants, size, time.process_time)
    return Measured(NAME, "from files to files", case, table.num_rows, seconds)


def _whole_run(texts: list[str], events: str, rows: str) -> Callable[[], int]:
    """A run of queries that are planned already; it gives the number of rows."""
    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.program import RunOptions
    from engines.run import run

    plan = plan_on_events(workload_of({**STREAM, "attributes": {}}, texts), events, True)
    execution = Execution(options=RunOptions(threads=1))
    return lambda: run(plan, EventSource(events), RowSink(rows), execution).numbers[1]
