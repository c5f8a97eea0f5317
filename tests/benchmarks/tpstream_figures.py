"""Figures of TPStream's dissertation beside those by window: aggressive drivers, queries of more
names, and when each relation is known.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from tests.benchmarks.measuring import Goal, Measured, Row, Said, Size, Variant, measure
from tests.benchmarks.tpstream_rivals import drivers_by_event_patterns, drivers_by_one_automaton
from tests.running import How
from workloads.situations.relations import NAMES as RELATIONS

NAME = "tpstream"
SECOND = 10**9  # in nanoseconds
# The phases of a trip: seconds from and to before, acceleration, speed; and how often it is there.
# Two seconds at least, as the event patterns find no situation of one event.
_PHASES = (
    (30, 121, 0, 50, 1.0),
    (2, 7, 9, 60, 0.8),
    (2, 7, 9, 75, 0.6),
    (5, 31, 0, 85, 1.0),
    (2, 6, -10, 75, 0.7),
    (2, 8, -10, 60, 0.6),
)
DRIVERS = (
    "QUERY q DEFINE A OF Car AS accel > 8, B OF Car AS speed > 70, C OF Car AS accel < -9 "
    "PATTERN A meets;overlaps;starts;during B AND B contains;finished by;overlaps;meets C "
    "AND A before C PARTITION BY car RETURN A.start WITHIN 5 min EMIT COMPLETE"
)


class MakeVariant(Protocol):
    """Queries over a table as a variant."""

    def __call__(self, queries: list[Any], table: pa.Table, *, stream: Any) -> Variant: ...


def by_drivers(size: Size, variant: MakeVariant) -> Iterator[Row]:
    """Figure 5.8: listing 5.1 without durations, by 1,000 cars."""
    table = driven(2_000 if size == "full" else 60, 1_000 if size == "full" else 20)
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    types, queries = drivers_by_event_patterns()
    variants = {
        "situations": variant([DRIVERS], table, stream=stream),
        "one automaton": variant([drivers_by_one_automaton()], table, stream=stream),
        "event patterns": variant(queries, table, stream={**stream, "types": types}),
    }
    seconds = measure(variants, size, time.process_time)
    case = f"1,000 cars, {table.num_rows:,} events"
    measured = Measured(NAME, "aggressive drivers", case, table.num_rows, seconds)
    yield measured
    speed = measured.events_per_second["situations"] / 1e6
    yield Goal(NAME, "aggressive drivers", "million events a second and core", 30, speed)
    for name, target in (("one automaton", 5), ("event patterns", 20)):
        ratio = measured.ratios[name]
        yield Goal(NAME, "aggressive drivers", f"times of {name}", target, ratio)


def driven(seconds: int, cars: int) -> pa.Table:
    """Cars that report their speed and acceleration each second, on trips of several phases."""
    draw = np.random.default_rng(58)
    phases = np.array(_PHASES)
    trips = seconds // 35 + 2
    accel, speed = np.empty((seconds, cars), np.int64), np.empty((seconds, cars), np.int64)
    for car in range(cars):
        lengths = draw.integers(phases[:, 0], phases[:, 1], (trips, len(phases)))
        lengths *= draw.random((trips, len(phases))) < phases[:, 4]
        for column, place in ((accel, 2), (speed, 3)):
            values = np.tile(phases[:, place].astype(np.int64), trips)
            column[:, car] = np.repeat(values, lengths.reshape(-1))[:seconds]
    return pa.table(
        {
            "ts": np.repeat(np.arange(seconds), cars),
            "kind": ["Car"] * (seconds * cars),
            "car": np.tile(np.arange(cars), seconds),
            "accel": accel.reshape(-1),
            "speed": speed.reshape(-1),
        }
    )


def by_names(
    size: Size, variant: MakeVariant, random_situations: Callable[[int, Sequence[str]], pa.Table]
) -> Iterator[Row]:
    """Figure 5.10: 4 to 10 names in a chain, and in a star around the first."""
    letters = "abcdefghij"
    table = random_situations(500_000 if size == "full" else 3_000, tuple(letters))
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    taken: dict[tuple[str, int], float] = {}
    sizes = (4, 6, 8, 10) if size == "full" else (4, 6)
    for number in sizes:
        names = letters[:number].upper()
        defined = ", ".join(f"{name} AS {name.lower()} = 1" for name in names)
        shapes = {
            "chain": [f"{x} overlaps {y}" for x, y in pairwise(names)],
            "star": [f"{names[0]} contains;overlaps {name}" for name in names[1:]],
        }
        for shape, ties in shapes.items():
            text = (
                f"QUERY q DEFINE {defined} PATTERN {' AND '.join(ties)} RETURN A.start "
                "WITHIN 2000 s EMIT COMPLETE"
            )
            case = f"{shape} of {number} names, {table.num_rows:,} events"
            made = {"situations": variant([text], table, stream=stream)}
            seconds = measure(made, size, time.process_time)
            taken[shape, number] = seconds["situations"]
            yield Measured(NAME, "by names", case, table.num_rows, seconds)
    for shape in ("chain", "star"):
        first, last = sizes[0], sizes[-1]
        ratio = taken[shape, last] / taken[shape, first] / (last / first)
        text = f"time by name at {last} names, times that at {first}"
        yield Goal(NAME, f"a {shape}", text, 1.2, ratio, at_least=False)


def by_relation(
    size: Size,
    run: Callable[[list[str], pa.Table], Results],
    random_situations: Callable[[int, Sequence[str]], pa.Table],
) -> Iterator[Row]:
    """Figure 5.11: when each relation alone is known, beside theory (table 5.2)."""
    table = random_situations(300_000 if size == "full" else 6_000, ("a", "b"))
    gains: dict[str, float | None] = {}
    exact = 0
    for relation in RELATIONS:
        texts = [
            f"QUERY {emit} DEFINE A AS a = 1, B AS b = 1 PATTERN A {relation} B RETURN A, B "
            f"WITHIN 1000 s EMIT {emit.upper()}"
            for emit in ("early", "complete")
        ]
        rows = run(texts, table).matches.to_pylist()
        early = {_starts(row): row["time"] for row in rows if row["query"] == "early"}
        whole = {_starts(row): row for row in rows if row["query"] == "complete"}
        right = [
            early.get(starts) == known_at(relation, json.loads(row["match"]))
            for starts, row in whole.items()
        ]
        exact += all(right)
        waited = [row["time"] - early[starts] for starts, row in whole.items() if starts in early]
        gains[relation] = float(np.mean(waited)) if waited else None
    goal = "relations known at the tick of theory"
    yield Goal(NAME, "each relation", goal, len(RELATIONS), exact)
    said = ", ".join(f"{name} {gain:.1f}" for name, gain in gains.items() if gain is not None)
    yield Said(NAME, f"Seconds by which a match is known before it is complete: {said}.", gains)


def by_latency(
    size: Size, random_situations: Callable[[int, Sequence[str]], pa.Table], names: Sequence[str]
) -> Iterator[Row]:
    """Figure 5.12: how long after it is certain a match is given, where events come one by one."""
    table = random_situations(3_000 if size == "full" else 600, names)
    defined = ", ".join(f"{name.upper()} AS {name} = 1" for name in names)
    text = (
        f"QUERY q DEFINE {defined} PATTERN A overlaps B AND B before C AND C overlaps D "
        "RETURN A.start WITHIN 1000 s"
    )
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    workload = load_bound({"name": "s", "stream": stream, "queries": [text]})
    live, waits = LiveRun(How().program(workload), SECOND), []
    for now in range(table.num_rows):
        rows = live.add(from_table(table.slice(now, 1), workload.stream), now).matches
        waits += [now - time for time in rows.column("time").to_pylist()]
    case = f"{table.num_rows:,} events one by one, {len(waits):,} matches"
    goal = "seconds from certain to given, at most"
    yield Goal(NAME, case, goal, 0, max(waits, default=0), at_least=False)


def known_at(relation: str, match: Mapping[str, Mapping[str, int]]) -> int:
    """The tick at which a relation is certain: the second start for what is apart or touches, and
    else the first end.
    """
    first, second = match["A"], match["B"]
    if relation in ("before", "after", "meets", "met by"):
        return max(first["start"], second["start"])
    return min(first["end"], second["end"])


def _starts(row: Mapping[str, Any]) -> tuple[int, int]:
    match = json.loads(row["match"])
    return match["A"]["start"], match["B"]["start"]
