"""Many queries at once: what sharing saves, and where the time goes."""

from __future__ import annotations

import cProfile
import pstats
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import (
    LONG,
    ROUNDS,
    BenchmarkError,
    Measured,
    Row,
    Said,
    Size,
    measure,
)
from tests.benchmarks.streams import TYPES, sequence, uniform

if TYPE_CHECKING:
    from optimizer.plan.plan import Plan
    from tests.benchmarks.ways import Case

WIDTH = 1_000
# Fewer events for more queries: each row should take seconds.
_EVENTS = {1: 1_000_000, 10: 400_000, 50: 200_000, 100: 100_000, 1_000: 50_000}


def drawn(number: int, width: int = WIDTH) -> list[str]:
    """Sequences of 4 to 8 types out of 20, the same for the same number."""
    draw = random.Random(number)
    return [sequence(f"q{i}", draw.sample(TYPES, draw.randint(4, 8)), width) for i in range(number)]


def called(number: int) -> str:
    """So many queries, in words."""
    return f"{number:,} {'query' if number == 1 else 'queries'}"


def by_queries(size: Size) -> Iterator[Row]:
    """1 to 1,000 sequences of 4 to 8 out of 20 types, a window of 1,000 events, every trigger.

    A whole run of a plan goes from events in memory to tables of results, with all queries together
    or one by one; planning, reading events and writing rows are left out. Counting alone ends with
    arrays of counts: by the product all together, by A-Seq one by one, by PreTree those together
    that begin alike. The kernel is that part of counting which visits events.
    """
    numbers = tuple(_EVENTS) if size == "full" else (1, 10)
    yield from (_whole(size, number) for number in numbers)
    yield from (_counting(size, number) for number in numbers)
    yield from (_parts(size, number) for number in numbers)
    yield _fall(size)


def _case(size: Size, number: int, events: int) -> Case:
    from tests.benchmarks.ways import make_case, warm_up

    warm_up()
    return make_case(drawn(number), uniform(TYPES, events if size == "full" else 5_000))


def _line(table: str, number: int, case: Case, seconds: dict[str, float]) -> Measured:
    events = len(case.events)
    return Measured("queries", table, f"{called(number)}, {events:,} events", events, seconds)


def _whole(size: Size, number: int) -> Measured:
    from tests.benchmarks.planned import stored

    case = _case(size, number, _EVENTS[number])
    with stored(case.events.table) as events:
        variants = {
            "shared": events.running(_planned(case)),
            "one by one": events.running(_planned(case, sharing=False)),
        }
        return _line("whole runs", number, case, measure(variants, size))


def _planned(case: Case, sharing: bool = True) -> Plan:
    from tests.benchmarks.planned import planned

    return planned(case.workload, case.document, case.events, sharing)


def _counting(size: Size, number: int) -> Measured:
    from tests.benchmarks.ways import WAYS

    case = _case(size, number, _EVENTS[number])
    variants = {way: WAYS[way](case) for way in ("product", "A-Seq", "PreTree")}
    return _line("counting alone", number, case, measure(variants, size))


def _parts(size: Size, number: int) -> Measured:
    from tests.benchmarks.planned import stored, with_product
    from tests.benchmarks.ways import WAYS

    case = _case(size, number, _EVENTS[number])
    counting = WAYS["product"](case)
    with stored(case.events.table) as events:
        whole = events.running(with_product(_planned(case)))
        seconds = measure({"counting alone": counting, "whole run": whole}, size)
    kernel = {"kernel": _kernel_seconds(counting.run)}
    return _line("parts of a shared run", number, case, kernel | seconds)


def _fall(size: Size) -> Said:
    """How much slower fifty queries are than one, over the same events, in turn."""
    from tests.benchmarks.planned import stored, with_product
    from tests.benchmarks.ways import WAYS

    few, many = (1, 50) if size == "full" else (1, 10)
    cases = {number: _case(size, number, _EVENTS[50]) for number in (few, many)}
    variants = {}
    with stored(cases[few].events.table) as events:
        for number, case in cases.items():
            question = str(number)
            plan = with_product(_planned(case))
            variants[f"whole {number}"] = events.running(plan, question)
            variants[f"counting {number}"] = WAYS["product"](case).about(question)
        seconds = measure(variants, size)
    for number, case in cases.items():
        seconds[f"kernel {number}"] = _kernel_seconds(WAYS["product"](case).run)
    falls = {
        part: seconds[f"{part} {many}"] / seconds[f"{part} {few}"]
        for part in ("whole", "counting", "kernel")
    }
    return Said(
        "queries",
        f"From {few} to {many} queries throughput falls by a factor of {falls['whole']:.1f} for "
        f"whole runs, {falls['counting']:.1f} for counting alone and {falls['kernel']:.1f} for the "
        "kernel.",
        falls,
    )


def _kernel_seconds(run: Callable[[], object]) -> float:
    """The time that a run spends in the product's kernels, by Python's profiler; the best of some.

    These are the functions of `kernels` called `slide_…`. The profiler sees them and nothing of
    what is compiled, so it does not slow down the kernels themselves.
    """
    start = time.perf_counter()
    best = _profiled(run)
    for _ in range(ROUNDS):
        if time.perf_counter() - start < LONG:
            best = min(best, _profiled(run))
    return best


def _profiled(run: Callable[[], object]) -> float:
    import kernels

    folder = str(Path(str(kernels.__file__)).parent)
    profile = cProfile.Profile()
    profile.runcall(run)
    taken = 0.0
    for (file, _, name), (_, _, _, cumulative, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if file.startswith(folder) and name.startswith("slide_"):
            taken += cumulative
    if not taken:
        raise BenchmarkError("no kernel was seen at work")
    return taken
