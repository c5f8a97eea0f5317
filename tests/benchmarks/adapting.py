"""A stream that changes, in batches: a plan that follows it against plans that stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.benchmarks.found import NOTHING, Found, found_matches
from tests.benchmarks.matching import Sought, sought, unlimited
from tests.benchmarks.measuring import BenchmarkError, Measured, Row, Said, Size

if TYPE_CHECKING:
    import pyarrow as pa

    from optimizer.plan.compile_tree import ReadingTree
    from optimizer.trees import Tree

ADAPTIVE = "adaptive"
_ROUNDS = 4
_Seconds = dict[tuple[str, bool], float]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Events with the window before them; matches that end before place `own` are not its own."""

    asked: Sought
    own: int
    first_row: int
    phase: str
    settled: bool  # is it in the second half of its phase?


def adapting(
    names: tuple[str, str],
    text: str,
    table: pa.Table,
    phases: Sequence[tuple[str, int]],
    batch: int,
    trees: Mapping[str, Tree],
    size: Size,
) -> Iterator[Row]:
    """The tree that changes and those that do not, in each phase of a stream.

    `names` are the benchmark and the table; phases follow each other, each with so many events. The
    time to look at statistics and to choose trees counts.
    """
    benchmark, title = names
    batches = list(_batches(text, table, phases, batch))
    ways: dict[str, Callable[[], _Choose]] = {ADAPTIVE: _adaptive}
    ways |= {name: _fixed(tree) for name, tree in trees.items()}
    best: dict[str, _Seconds] = {}
    found: dict[str, Found] = {}
    for _ in range(_ROUNDS if size == "full" else 1):
        for name, way in ways.items():
            seconds, found[name] = _run(batches, way())
            known = best.setdefault(name, seconds)
            best[name] = {part: min(known[part], seconds[part]) for part in seconds}
    for name, result in found.items():
        if not result.agrees_with(found[ADAPTIVE]):
            raise BenchmarkError(f"{name} found {result}, but {ADAPTIVE} {found[ADAPTIVE]}")
    losses, settled = [], []
    for phase, events in dict(phases).items():
        halves = [{name: best[name][phase, half] for name in ways} for half in (False, True)]
        both = {name: halves[0][name] + halves[1][name] for name in ways}
        losses.append(_loss(both))
        settled.append(_loss(halves[1]))
        yield Measured(benchmark, title, phase, events, both)
    total = {name: sum(best[name].values()) for name in ways}
    steady = min(total[name] for name in trees)
    yield Said(
        benchmark,
        f"Against the best fixed plan of each phase the adaptive one takes {_listed(losses)} of "
        f"its time, in the second half of each phase {_listed(settled)}; in all phases together it "
        f"is {steady / total[ADAPTIVE]:.2g} times as fast as the best fixed plan, and "
        f"{max(total[name] for name in trees) / total[ADAPTIVE]:.2g} times as the worst.",
        {
            "most over the best": max(losses),
            "settled": max(settled),
            "best fixed plan": steady / total[ADAPTIVE],
        },
    )


def _loss(seconds: Mapping[str, float]) -> float:
    """How much longer than the best fixed plan the adaptive one takes."""
    return seconds[ADAPTIVE] / min(each for name, each in seconds.items() if name != ADAPTIVE) - 1


def _listed(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:+.0%}" for loss in losses)


def _batches(
    text: str, table: pa.Table, phases: Sequence[tuple[str, int]], batch: int
) -> Iterator[_Batch]:
    start = 0
    for phase, events in phases:
        for first in range(start, start + events, batch):
            stop = min(first + batch, start + events)
            reach = _reach(text, table, first)
            asked = sought(text, table.slice(reach, stop - reach))
            own = int(np.searchsorted(asked.picked.row, first - reach))
            yield _Batch(asked, own, reach, phase, 2 * (first - start) >= events)
        start += events


def _reach(text: str, table: pa.Table, first: int) -> int:
    """The first event that a match with one behind `first` may have."""
    width = int(text.rsplit("WITHIN ", 1)[1].split()[0])
    times = np.asarray(table.column("ts"))
    return int(np.searchsorted(times, times[first] - width, "right"))


_Choose = Callable[[_Batch], "Sequence[ReadingTree]"]


def _adaptive() -> _Choose:
    from engines.matching.trees.adaptive import AdaptivePlans

    adaptive = AdaptivePlans()

    def choose(batch: _Batch) -> Sequence[ReadingTree]:
        asked = batch.asked
        name = asked.query.name
        return adaptive.trees([asked.query], {}, asked.picked, {name: asked.width})[name]

    return choose


def _fixed(tree: Tree) -> Callable[[], _Choose]:
    known: dict[str, ReadingTree] = {}

    def choose(batch: _Batch) -> Sequence[ReadingTree]:
        if not known:
            known[""] = batch.asked.compiled(tree)
        return [known[""]]

    return lambda: choose


def _run(batches: Sequence[_Batch], choose: _Choose) -> tuple[_Seconds, Found]:
    """Seconds by half of a phase, and all that was found."""
    from engines.matching.trees.evaluation import TreeEvaluation

    seconds: _Seconds = {}
    found, context = NOTHING, unlimited()
    for batch in batches:
        asked = batch.asked
        start = time.thread_time()
        parts = []
        for tree in choose(batch):
            evaluation = TreeEvaluation(asked.picked, asked.width, asked.query.name, context)
            for each in evaluation.matches(tree.compiled.operator):
                own = each.last >= batch.own
                parts.append(each if own.all() else each.take(np.flatnonzero(own)))
        taken = time.thread_time() - start
        part = (batch.phase, batch.settled)
        seconds[part] = seconds.get(part, 0.0) + taken
        rows = asked.picked.row + batch.first_row
        for rest in parts:
            found += found_matches([rows[column] for column in rest.columns])  # type: ignore[index]
    return seconds, found
