"""What the operations of the engines take on this machine.

The engines run over small generated streams, and the times are fitted by the operations that the
cost models expect (`optimizer.cost.counting`, `trees` and `stages`).
`engines.calibration.machine_costs` keeps the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engines.calibration.least_squares import Floats, nonnegative
from engines.calibration.machine_costs import CalibrationError, machine
from engines.calibration.stage_trials import EVENTS as STAGE_EVENTS
from engines.calibration.stage_trials import Planner, own_process_factor, stage_measurements
from engines.calibration.tree_trials import joined
from engines.calibration.trials import Trial, drawn, nanoseconds_per_event, ready, width_of
from engines.counting.panes import FEWEST
from optimizer.cost.counting import (
    CountedQueries,
    aseq,
    chopconnect,
    events_per_pane,
    panes,
    pretree,
    product,
)
from optimizer.cost.folds import folds
from optimizer.cost.runs import runs
from optimizer.cost.starts import sem
from optimizer.cost.unit_costs import DEFAULTS, NAMES, STAGES, Operations, UnitCosts, nanoseconds
from optimizer.engines import folds as folds_engine
from optimizer.engines import runs as runs_engine
from optimizer.engines import sem as sem_engine
from optimizer.engines import takes

SECONDS = 8.0  # that a calibration takes, about, once all is compiled
_PRIOR = 0.15  # the weight of what was believed before, against that of a measurement
_LEAST = 0.01  # nanoseconds that are believed of any operation
_FITS = 6  # rounds, each weighted by the errors of the last
_SHARE = 0.3  # of what was believed before that an operation of whole runs takes at least
_SEEDS = range(16)


class Measurement(NamedTuple):
    """An engine's time for a trial: nanoseconds for each event of the stream."""

    trial: str
    engine: str
    operations: Operations  # for one event
    nanoseconds: float


@dataclass(frozen=True)
class Calibration:
    """Unit costs, and what they were fitted to."""

    unit_costs: UnitCosts
    measured: tuple[Measurement, ...]

    @property
    def error(self) -> float:
        """The median factor by which predictions are off."""
        ratios = [nanoseconds(m.operations, self.unit_costs) / m.nanoseconds for m in self.measured]
        return float(np.exp(np.median(np.abs(np.log(ratios)))))


def calibrate(
    seconds: float = SECONDS,
    progress: Callable[[str], None] | None = None,
    planner: Planner | None = None,
    stage_events: int = STAGE_EVENTS,
) -> Calibration:
    """Measure what operations take here; `progress` is called with what is being measured.

    With a `planner` also what reading, testing, ordering, making rows and writing take, in whole
    runs of its plans over so many events; `seconds` are those of counting and joining.
    """
    if not seconds > 0:
        raise CalibrationError(f"a calibration takes time, and {seconds:g} seconds is none")
    measured: list[Measurement] = []
    trials = list(_trials())
    for number, trial in enumerate(trials, 1):
        if progress is not None:
            progress(f"{number}/{len(trials)} {trial.name}")
        measured += measurements(trial, seconds / len(trials) / 4)
    if progress is not None:
        progress("trees of joins")
    measured += [
        Measurement(found.trial, "trees", Operations(joined=found.touched), found.nanoseconds)
        for found in joined(seconds / len(trials) / 4)
    ]
    if planner is not None:
        measured += [
            Measurement(found.trial, found.kind, found.operations, found.nanoseconds)
            for found in stage_measurements(planner, progress, stage_events)
        ]
    costs = fitted(measured)
    if planner is not None:
        if progress is not None:
            progress("runs in a process of their own")
        times = own_process_factor(planner, costs, stage_events)
        costs = UnitCosts(costs.each.times(times), costs.source)
        measured = [m._replace(nanoseconds=m.nanoseconds * times) for m in measured]
    return Calibration(costs, tuple(measured))


def _trials() -> Iterator[Trial]:
    """Random ones, and some of what these rarely have."""
    yield from map(drawn, _SEEDS)
    types = tuple("ABCDEFGH")
    even = dict.fromkeys(types, 1.0)
    long = ", ".join(types)
    yield Trial(
        "counts beyond 2^62",
        tuple(f"QUERY q{i} PATTERN SEQ({long[i * 3 :]}) AGG COUNT(*) WITHIN 3 s" for i in range(2)),
        even,
        seed=1,
    )
    yield Trial(
        "three segments",
        tuple(
            f"QUERY q{i} PATTERN SEQ({types[i]}, D, E, F, G, H) AGG COUNT(*) WITHIN 500 ms"
            for i in range(3)
        ),
        even | {"D": 0.1, "F": 0.2},
        lengths={f"q{i}": (1, 2, 3) for i in range(3)},
        seed=2,
    )
    yield Trial(
        "one query, many STARTs",
        ("QUERY q PATTERN SEQ(A, B, C) AGG COUNT(*) WITHIN 20 s",),
        {"A": 4.0, "B": 1.0, "C": 1.0},
        seed=3,
    )
    for every in ("", " SLIDE 50 ms"):
        yield Trial(
            f"single events{' by panes' if every else ''}",
            tuple(
                f"QUERY q{i} PATTERN A a AGG COUNT(*), SUM(a.x), MAX(a.x) WITHIN 1000 ms{every}"
                for i in range(3)
            ),
            {"A": 3.0, "B": 1.0},
            seed=4,
        )
    for long_ones in (2, 40):
        yield Trial(
            f"{long_ones} runs",
            tuple(
                f"QUERY q{i} PATTERN SEQ({types[i % 8]} a, : {types[i * 3 % 7]} b, "
                f": {types[i * 5 % 6]} c) AGG COUNT(*) WITHIN 100 ms"
                for i in range(long_ones)
            ),
            even,
            seed=long_ones,
        )
    for width, slide, many in ((1_000, 100, 5), (4_000, 40, 3), (60, 20, 8)):
        yield Trial(
            f"panes of {slide} events in {width}",
            tuple(
                f"QUERY q{i} PATTERN SEQ({', '.join(types[i % 5 : i % 5 + 2 + i % 3])}) "
                f"AGG COUNT(*) WITHIN {width} ms SLIDE {slide} ms"
                for i in range(many)
            ),
            even,
            seed=width,
        )


def measurements(trial: Trial, enough: float) -> list[Measurement]:
    """The time of each engine that can take a trial's queries, `enough` seconds for each."""
    shortest = max(4_000, 2 * min(10_000, width_of(trial)) * min(3, len(trial.keys)))
    streams = [ready(trial, shortest + more) for more in (0, 8_000, 40_000)]
    longest = streams[-1]
    if longest.slide:
        # Panes take little for an event, and make their tables for each run.
        streams.append(ready(trial, shortest + 160_000))
    group = CountedQueries(longest.workload.queries, longest.statistics)
    rate = longest.statistics.total_rate
    expected = {
        "product": product(group),
        "aseq": aseq(group),
        "pretree": pretree(group),
        "chopconnect": chopconnect(group, trial.lengths),
    }
    for engine, work in ((sem_engine, sem), (folds_engine, _folds), (runs_engine, runs)):
        if takes(engine, group.queries):
            expected[engine.NAME] = work(group)
    if group.arrivals.slide and events_per_pane(group.queries, longest.statistics) >= FEWEST:
        expected["panes"] = panes(group.queries, longest.statistics)
    taken = nanoseconds_per_event(streams, list(expected), enough)
    return [
        Measurement(trial.name, engine, operations.times(1 / rate), taken[engine])
        for engine, operations in expected.items()
        if engine in taken
    ]


def _folds(group: CountedQueries) -> Operations:
    return folds(group.queries, group.statistics)


# --- fitting -------------------------------------------------------------------------------------


def fitted(measured: Sequence[Measurement], prior: UnitCosts = DEFAULTS) -> UnitCosts:
    """Unit costs under which the operations take what was measured, as nearly as they can.

    Errors count by their ratio, so that a fast engine is as well described as a slow one. What few
    measurements say little about stays near `prior`, scaled to the speed of this machine.
    """
    operations = np.array([_row(m.operations) for m in measured])
    taken = np.array([m.nanoseconds for m in measured])
    before = _row(prior.each)
    scale = 1.0
    if before.any():
        scale = float(np.exp(np.median(np.log(taken / (operations @ before)))))
    believed = np.maximum(before * scale, _LEAST) if before.any() else np.ones(len(NAMES))
    predicted = taken
    costs = believed
    for _ in range(_FITS):
        weight = 1 / np.sqrt(taken * predicted)
        rows = np.vstack([operations * weight[:, None], np.diag(_PRIOR / believed)])
        wanted = np.concatenate([taken * weight, np.full(len(NAMES), _PRIOR)])
        costs = nonnegative(rows, wanted)
        predicted = np.maximum(operations @ costs, 0.2 * taken)
    # What whole runs do comes together: the fit may put all of it to some of the operations.
    least = np.array(
        [
            _SHARE * cost if name in STAGES else 0.0
            for name, cost in zip(NAMES, believed, strict=True)
        ]
    )
    return UnitCosts(Operations(*np.maximum(costs, least).tolist()), machine())


def _row(operations: Operations) -> Floats:
    return np.array(operations)
