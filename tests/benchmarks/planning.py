"""How long planning takes: from a thousand queries to ten thousand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.benchmarks.measuring import Measured, Row, Said, Size, timed
from tests.benchmarks.memory import can_measure, forget_peak, peak
from tests.benchmarks.streams import STREAM, sequence

if TYPE_CHECKING:
    from optimizer.ir.query import BoundWorkload
    from workloads.workload import Workload

_NAME = "planning"
_TYPES, _LENGTH = 50, 6
_WINDOW_MS = 1_000
_BUDGET = 10.0  # seconds of CP-SAT


def random_workload(queries: int, types: int = _TYPES, length: int = _LENGTH) -> dict[str, Any]:
    """Sequences of different types, drawn alike; an event of each type, more or less, a window."""
    import numpy as np

    rng = np.random.default_rng(queries)
    names = np.array([f"T{i:02}" for i in range(types)])
    drawn = [names[rng.permutation(types)[:length]].tolist() for _ in range(queries)]
    rates = 10 ** rng.uniform(-0.5, 0.5, types) * 1000 / _WINDOW_MS
    return {
        "name": f"{queries}_sequences",
        "stream": STREAM,
        "statistics": {"rates": dict(zip(names.tolist(), rates.round(3).tolist(), strict=True))},
        "queries": [sequence(f"q{i}", parts, _WINDOW_MS) for i, parts in enumerate(drawn)],
    }


def by_workload(size: Size) -> Iterator[Row]:
    """Planning random sequences of six types of 50: each stage, and all of it.

    Reading is from text to bound queries. Candidates are what any two queries have in common, and
    greedy chooses among them with a bound on what is best. The plan is all of this again, with the
    reasons for every candidate, and its identity, by the measured model; reading is not in it.
    """
    for queries in (1_000, 10_000) if size == "full" else (50,):
        yield from _planned(queries)
    yield _exact(1_000 if size == "full" else 50, _BUDGET if size == "full" else 0.2)


def _planned(queries: int) -> Iterator[Row]:
    from optimizer.bind.binder import bind
    from sharing.planner import make_plan
    from workloads.loading import load_workload
    from workloads.workload import to_document

    measures = can_measure()
    if measures:
        forget_peak()

    def read() -> tuple[Workload, BoundWorkload]:
        loaded = load_workload(random_workload(queries))
        return loaded, bind(loaded)

    seconds: dict[str, float] = {}
    clock = time.process_time
    (loaded, bound), seconds["read"] = timed(read, clock)
    candidates, seconds["candidates"] = timed(partial(_mined, bound), clock)
    chosen, seconds["greedy"] = timed(partial(_choice, bound, "greedy"), clock)
    plan, seconds["plan"] = timed(partial(make_plan, bound, to_document(loaded)), clock)
    name, more = timed(lambda: plan.id, clock)
    seconds["plan"] += more
    held = {"bytes": peak()} if measures else {}
    title = f"sequences of {_LENGTH} of {_TYPES} types, in queries per second"
    yield Measured(_NAME, title, f"{queries:,} queries", queries, seconds)
    gap = chosen.solution.gap
    memory = f"; at its peak the process holds {held['bytes'] / 1e6:,.0f} MB" if held else ""
    yield Said(
        _NAME,
        f"{queries:,} queries are read in {seconds['read']:.2f} s; their {candidates:,} candidates "
        f"are found in {seconds['candidates']:.2f} s, and by the thesis' model greedy chooses "
        f"{len(chosen.solution.chosen):,} of them in "
        f"{seconds['greedy']:.2f} s, at most {100 * gap:.1f} % below the best; {name} is made in "
        f"{seconds['plan']:.2f} s{memory}.",
        {"queries": queries, "gap": gap, **seconds, **held},
    )


def _exact(queries: int, budget: float) -> Said:
    """CP-SAT for as long as it may."""
    from optimizer.bind.binder import load_bound

    bound = load_bound(random_workload(queries))
    greedy = _choice(bound, "greedy").solution
    choice, seconds = timed(partial(_choice, bound, "cpsat", budget))
    solution = choice.solution
    more = solution.weight / greedy.weight - 1 if greedy.weight else 0.0
    proven = "proven to be the best" if solution.proven else f"gap {100 * solution.gap:.2f} %"
    return Said(
        _NAME,
        f"CP-SAT for {queries:,} queries and at most {budget:g} s: {seconds:.2f} s, {proven}; it "
        f"saves {100 * more:.2f} % more than greedy.",
        {"queries": queries, "seconds": seconds, "gap": solution.gap, "more": more},
    )


def _steps(bound: BoundWorkload) -> list[Any]:
    from sharing.counting.plan import steps_of

    return [found for query in bound.queries if (found := steps_of(query)) is not None]


def _mined(bound: BoundWorkload) -> int:
    from sharing.counting.candidates import mine

    return len(mine(_steps(bound)))


def _choice(bound: BoundWorkload, solver: str, seconds: float | None = None) -> Any:
    from sharing.counting.benefit.aseq import AseqModel
    from sharing.counting.choice import choose
    from sharing.solvers.candidates import DEFAULT, Options

    options = DEFAULT if seconds is None else Options(effort=1e9, seconds=seconds)
    return choose(_steps(bound), AseqModel(bound.statistics.rates), solver, options)
