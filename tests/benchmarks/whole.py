"""Whole runs: what sharing saves of them, and what they cost beside what cannot be left out."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.detection import priced_events, related, unrelated
from tests.benchmarks.measuring import Goal, Row, Size
from tests.benchmarks.queries import drawn
from tests.benchmarks.streams import STREAM, TYPES, sequence, uniform
from tests.benchmarks.whole_first import by_first_use, by_memory, by_threads
from tests.benchmarks.whole_others import by_random_workloads, by_spark_job, by_windowed_sum
from tests.benchmarks.whole_runs import (
    NAME,
    Asked,
    Cost,
    Way,
    WholeRuns,
    interleaved,
    kernels_share,
    measured,
    stored_in,
    unlisted,
    workload_of,
)
from workloads.errors import SheafError, did_you_mean

_WINDOWS = tuple(range(100, 1_001, 100))  # milliseconds, each with an event
_SLIDES = (0, 50, 100)


def by_whole(size: Size, rows: Sequence[str] = (), is_largest: bool = False) -> Iterator[Row]:
    """Whole runs from a file of events to files of rows, planning included, in a warm process.

    "shared" is one run of all queries, "one by one" a run for each, which reads the events and
    writes a file of its own, "unshared" one run with `--no-sharing`, and "pyarrow" reads the
    columns, sorts them and writes as many rows. Medians of rounds in turn. Targets are of times on
    the wall.
    """
    for name in rows:
        if name not in ROWS:
            hint = did_you_mean(name, list(ROWS)) or f"known are {', '.join(ROWS)}"
            raise SheafError(f"the benchmark 'whole' has no row '{name}'; {hint}")
    with tempfile.TemporaryDirectory(prefix="sheaf-bench-") as folder:
        asked = Asked(size, is_largest, Path(folder))
        for name in rows or ROWS:
            yield from ROWS[name](asked)


def against(row: str, other: str, target: float, costs: Mapping[str, Cost]) -> Goal:
    """How many times as fast as another way the shared run is."""
    shared, slow = costs["shared"], costs[other]
    numbers = {
        "seconds shared": shared.wall,
        f"seconds {other}": slow.wall,
        "CPU seconds shared": shared.cpu,
        f"CPU seconds {other}": slow.cpu,
        "ratio of CPU": slow.cpu / shared.cpu,
        "ratio without planning": (slow.wall - slow.planning) / (shared.wall - shared.planning),
        "seconds to plan shared": shared.planning,
    }
    text = f"shared against {other}"
    return Goal(NAME, row, text, target, slow.wall / shared.wall, True, numbers)


# --- bundled workloads -----------------------------------------------------------------------


def _bundled(
    name: str, key: str | None, sharing: float, pyarrow: float
) -> Callable[[Asked], Iterator[Row]]:
    def rows(asked: Asked) -> Iterator[Row]:
        from api.cli.workload_files import open_workload
        from workloads import bundled
        from workloads.generators import generate_table

        events = asked.events(1_000_000)
        path = stored_in(asked.folder, name, generate_table(bundled.stream(name, events)))
        runs = WholeRuns(open_workload(name)[0], path, asked.folder)
        alone = runs.alone_with_pyarrow(key)
        costs = interleaved(_ways(runs) | {"pyarrow": alone}, asked.size)
        yield from measured(f"{name}, {events:,} events", events, costs)
        yield against(name, "one by one", sharing, costs)
        ratio = costs["shared"].wall / costs["pyarrow"].wall
        numbers = {
            "seconds pyarrow": costs["pyarrow"].wall,
            "ratio of CPU": costs["shared"].cpu / costs["pyarrow"].cpu,
        }
        yield Goal(NAME, name, "times of pyarrow alone", pyarrow, ratio, False, numbers)

    return rows


def _ways(runs: WholeRuns) -> dict[str, Way]:
    return {"shared": runs.shared, "unshared": runs.unshared, "one by one": runs.one_by_one}


# --- counting --------------------------------------------------------------------------------


def _counting_runs(asked: Asked, number: int, events: int, queries: list[str]) -> WholeRuns:
    path = stored_in(asked.folder, f"counting-{number}", uniform(TYPES, events))
    return WholeRuns(workload_of(STREAM, queries), path, asked.folder)


def _counting(asked: Asked) -> Iterator[Row]:
    number, events = (100, 200_000) if asked.size == "full" else (5, 3_000)
    runs = _counting_runs(asked, number, events, drawn(number))
    runs.shared()
    costs = interleaved(_ways(runs), asked.size)
    yield from measured(f"{number} counting queries", events, costs)
    yield against("counting", "one by one", 12, costs)
    plan = runs.planned()
    share = kernels_share(lambda: runs.only_run(plan, "shared", 1))
    yield Goal(NAME, "counting", "kernels' share of a run's CPU", 0.4, share)


def many_windows(number: int) -> list[str]:
    """The counting queries with ten windows and three slides, one of which is every trigger."""
    draw = random.Random(number)
    found = []
    for i in range(number):
        parts = draw.sample(TYPES, draw.randint(4, 8))
        width, slide = _WINDOWS[i % len(_WINDOWS)], _SLIDES[i % len(_SLIDES)]
        found.append(sequence(f"q{i}", parts, width, slide))
    return found


def _windows(asked: Asked) -> Iterator[Row]:
    number, events = (100, 200_000) if asked.size == "full" else (5, 3_000)
    runs = _counting_runs(asked, number, events, many_windows(number))
    one = WholeRuns(workload_of(STREAM, drawn(number)), runs.events, asked.folder)
    runs.shared()
    costs = interleaved(_ways(runs), asked.size)
    both = interleaved(
        {"many": lambda: unlisted(runs.shared()), "one": lambda: unlisted(one.shared())}, asked.size
    )
    yield from measured(f"{number} with 10 windows, 3 slides", events, costs)
    yield against("windows", "one by one", 8, costs)
    ratio = both["many"].wall / both["one"].wall
    numbers = {"seconds many": both["many"].wall, "seconds one": both["one"].wall}
    yield Goal(NAME, "windows", "times of one window and slide", 1.5, ratio, False, numbers)


def _thousand(asked: Asked) -> Iterator[Row]:
    number, events = (1_000, 50_000) if asked.size == "full" else (8, 3_000)
    runs = _counting_runs(asked, number, events, drawn(number))
    runs.shared()
    ways = {"shared": runs.shared, "one by one": runs.one_by_one}
    costs = interleaved(ways, asked.size)
    yield from measured(f"{number:,} counting queries", events, costs)
    yield against("thousand", "one by one", 15, costs)


def _fall(asked: Asked) -> Iterator[Row]:
    events = asked.events(400_000)
    path = stored_in(asked.folder, "fall", uniform(TYPES, events))
    ways = {}
    for number in (1, 50):
        runs = WholeRuns(workload_of(STREAM, drawn(number)), path, asked.folder)
        ways[f"{number}"] = lambda runs=runs: unlisted(runs.shared())
    costs = interleaved(ways, asked.size)
    yield from measured("1 and 50 counting queries", events, costs)
    fall = costs["50"].wall / costs["1"].wall
    yield Goal(NAME, "fall", "times of 1 query for 50", 3, fall, False)


def _wide(asked: Asked) -> Iterator[Row]:
    events = asked.events(2_000_000)
    path = stored_in(asked.folder, "wide", uniform(TYPES, events))
    ways = {}
    for width in (1_000, events // 2):
        runs = WholeRuns(workload_of(STREAM, drawn(10, width)), path, asked.folder)
        ways[f"{width:,}"] = lambda runs=runs: unlisted(runs.shared())
    costs = interleaved(ways, asked.size)
    yield from measured("10 queries, narrow and wide windows", events, costs)
    narrow, wide = costs.values()
    numbers = {"ratio of CPU": wide.cpu / narrow.cpu}
    text = "times of windows of 1,000 events for wide ones"
    yield Goal(NAME, "wide", text, 1.5, wide.wall / narrow.wall, False, numbers)


# --- finding matches -------------------------------------------------------------------------


def _detection(
    row: str, numbers: Mapping[int, int], draw: Callable[[int], list[str]], target: float
) -> Callable[[Asked], Iterator[Row]]:
    def rows(asked: Asked) -> Iterator[Row]:
        for number, full in numbers.items():
            events, queries = asked.events(full, 500), draw(number)
            if asked.size == "small":
                queries = queries[:5]
            path = stored_in(asked.folder, f"{row}-{number}", priced_events(events))
            runs = WholeRuns(workload_of(STREAM, queries), path, asked.folder)
            runs.shared()
            costs = interleaved(_ways(runs), asked.size)
            yield from measured(f"{number} {row} queries", events, costs)
            yield against(f"{row}, {number}", "one by one", target, costs)

    return rows


ROWS: Mapping[str, Callable[[Asked], Iterator[Row]]] = {
    "shop": _bundled("shop", "user", 3, 6),
    "stocks": _bundled("stocks", None, 1.5, 10),
    "counting": _counting,
    "windows": _windows,
    "thousand": _thousand,
    "related": _detection("related", {50: 50_000, 200: 20_000}, related, 1.8),
    "unrelated": _detection("unrelated", {200: 20_000}, unrelated, 0.97),
    "random": by_random_workloads,
    "sum": by_windowed_sum,
    "spark": by_spark_job,
    "fall": _fall,
    "wide": _wide,
    "threads": by_threads,
    "memory": by_memory,
    "start": by_first_use,
}
