"""Figure 5.14 of TPStream's dissertation: an order of joins that follows a stream as it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.matching.situations.joins import Join
from tests.benchmarks.found import Found
from tests.benchmarks.measuring import Goal, Measured, Row, Said, Size, Variant, measure
from tests.benchmarks.whole_runs import workload_of

NAME = "tpstream"
STREAM = {"time": "ts", "unit": "s", "type": "kind", "attributes": {}}
_APART = 20_000  # seconds between situations of a name that is rare, on average
_PHASES = ((1, 1, 1), (1, 50, 50), (50, 1, 50))  # situations of A, B and C beside each other
_TEXT = (
    "QUERY q DEFINE A AS a = 1, B AS b = 1, C AS c = 1 "
    "PATTERN A before B AND A before C AND B before C RETURN A.start WITHIN 10000 s EMIT COMPLETE"
)


def with_order(order: Callable[[Join], Sequence[int]]) -> AbstractContextManager[Any]:
    """A context in which names are joined in an order that is not looked for."""

    def given(join: Join, begun: tuple[int, ...] = (), rows: int = 0) -> Any:
        return np.array(order(join))

    return mock.patch.object(Join, "order", given)


def by_phases(size: Size) -> Iterator[Row]:
    """Situations that become rarer and more frequent: the order that is chosen with each slice,
    beside one that is fixed for each phase, the best of six.
    """
    each = 2_000_000 if size == "full" else 20_000
    phases = [_phase(each, ratio, number) for number, ratio in enumerate(_PHASES)]
    with TemporaryDirectory() as folder:
        runs = {}
        for number, table in enumerate([*phases, pa.concat_tables(phases)]):
            table = table.set_column(0, "ts", pa.array(np.arange(len(table))))
            path = str(Path(folder) / f"{number}.parquet")
            pq.write_table(table, path)
            runs[number] = _run(path, str(Path(folder) / "rows.parquet"))
        best = [_best(runs[number], size) for number in range(len(_PHASES))]

        def fixed(join: Join) -> tuple[int, ...]:
            sizes = [len(one.number) for one in join.named]
            likest = [_unlike(sizes, ratio) for ratio in _PHASES]
            return best[int(np.argmin(likest))]

        variants = {
            "chosen": _variant(runs[len(_PHASES)]),
            "fixed by phase": _variant(runs[len(_PHASES)], lambda: with_order(fixed)),
        }
        seconds = measure(variants, size, time.process_time)
        matches = runs[len(_PHASES)]()
    events = each * len(_PHASES)
    measured = Measured(NAME, "by phases", f"{events:,} events in 3 phases", events, seconds)
    yield measured
    yield Said(NAME, f"They give {matches:,} matches.", {"matches": matches})
    ratio = 1 / measured.ratios["fixed by phase"]
    yield Goal(NAME, "3 phases", "times of the best order by phase", 1.05, ratio, at_least=False)


def _phase(number: int, ratio: tuple[int, ...], seed: int) -> pa.Table:
    columns: dict[str, Any] = {"ts": np.arange(number), "kind": ["E"] * number}
    for place, (name, times) in enumerate(zip("abc", ratio, strict=True)):
        draw = np.random.default_rng((seed, place))
        apart = _APART // times
        lengths = np.empty(4 * number // apart + 4, np.int64)
        lengths[::2] = draw.integers(apart // 2, 3 * apart // 2, len(lengths[::2]))
        lengths[1::2] = draw.integers(10, 101, len(lengths[1::2]))
        columns[name] = np.repeat(np.arange(len(lengths)) % 2, lengths)[:number]
    return pa.table(columns)


def _run(events: str, rows: str) -> Callable[[], int]:
    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.program import RunOptions
    from engines.run import run

    plan = plan_on_events(workload_of(STREAM, [_TEXT]), events, True)
    execution = Execution(options=RunOptions(threads=1))
    return lambda: run(plan, EventSource(events), RowSink(rows), execution).numbers[1]


def _variant(
    run: Callable[[], int], context: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Variant:
    def within() -> int:
        with context():
            return run()

    return Variant(within, lambda matches: Found(matches, 0, 0))


def _best(run: Callable[[], int], size: Size) -> tuple[int, ...]:
    """The order that takes least of all."""
    orders = list(permutations(range(3)))
    variants = {
        str(order): _variant(run, lambda order=order: with_order(lambda join: order))  # type: ignore[misc]
        for order in orders
    }
    seconds = measure(variants, size, time.process_time)
    return min(orders, key=lambda order: seconds[str(order)])


def _unlike(sizes: Sequence[int], ratio: Sequence[int]) -> float:
    """How far numbers of situations are from a ratio."""
    shares = np.log(np.maximum(sizes, 1)) - np.log(ratio)
    return float(np.ptp(shares))
