"""Deciding what to share, and whether it pays (Qi's thesis, section 5.3, figure 5.6)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isclose
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import Measured, Row, Said, Size, measure, timed

if TYPE_CHECKING:
    from sharing.counting.candidates import QuerySteps
    from sharing.counting.choice import CandidateChoice
    from tests.benchmarks.ways import Case

_NAME = "experiment2"
_RARE = 0.001  # a connect event's share at which every group shares
# Solver, and whether a piece must serve all queries that have it, as in the thesis.
_SOLVERS = {
    "thesis": ("thesis", True),
    "greedy": ("greedy", True),
    "cpsat": ("cpsat", True),
    "exhaustive": ("exhaustive", True),
    "greedy, some": ("greedy", False),
    "cpsat, some": ("cpsat", False),
}


@dataclass(frozen=True, eq=False)
class _Group:
    """A group of the thesis, and what each solver chose for it in how many seconds."""

    number: int
    queries: int
    choices: dict[str, CandidateChoice]
    seconds: dict[str, float]

    def weight(self, solver: str) -> float:
        return self.choices[solver].solution.weight

    @property
    def pays(self) -> bool:
        return bool(self.choices["cpsat, some"].solution.chosen)


def by_group(size: Size) -> Iterator[Row]:
    """The thesis' twelve query groups: how fast solvers choose, how well, and whether it pays.

    The groups are made again from the thesis' recipe: 8 to 20 queries of eight substrings whose
    first types are rare, but not in groups 3, 5 and 6. A piece is shared by all queries that have
    it, as in the thesis, or by some. `thesis` is its figure 4.6; `greedy` goes on from there with
    exchanges. Then the choices run: Chop-Connect with the chosen segments.
    """
    from tests.benchmarks.ways import warm_up
    from workloads.generators.query_groups import GROUPS

    warm_up()
    numbers = range(1, GROUPS + 1) if size == "full" else (1, 3)
    groups = []
    for number in numbers:
        groups.append(_chosen(number, size))
        yield Measured(
            _NAME,
            "choosing what to share, in queries per second",
            f"group {number}, {groups[-1].queries} queries",
            groups[-1].queries,
            groups[-1].seconds,
        )
    every = "serving all queries that have a piece or none"
    yield _quality(groups, "thesis", "exhaustive", f"The thesis' greedy, {every},")
    yield _quality(groups, "greedy", "exhaustive", f"Greedy with exchanges, {every},")
    yield _quality(groups, "greedy, some", "cpsat, some", "The same, serving any of them,")
    yield from _run(groups, size)


def _chosen(number: int, size: Size) -> _Group:
    from optimizer.bind.binder import load_bound
    from sharing.counting.plan import steps_of
    from workloads.generators.query_groups import query_group

    workload = load_bound(query_group(number)[0])
    steps = [found for query in workload.queries if (found := steps_of(query)) is not None]
    group = _Group(number, len(steps), {}, {})
    for name, (solver, whole) in _SOLVERS.items():
        for _ in range(3 if size == "full" else 1):
            choice, seconds = timed(
                partial(_choose, steps, number, solver, whole), time.process_time
            )
            group.choices[name] = choice
            group.seconds[name] = min(seconds, group.seconds.get(name, seconds))
    return group


def _choose(
    steps: Sequence[QuerySteps], number: int, solver: str, whole: bool, share: float | None = None
) -> CandidateChoice:
    from sharing.counting.benefit.aseq import AseqModel
    from sharing.counting.choice import choose
    from workloads.generators.query_groups import query_group

    rates = query_group(number, connect_share=share)[1].rates
    return choose(steps, AseqModel(rates), solver, whole=whole)


def _quality(groups: Sequence[_Group], solver: str, best: str, who: str) -> Said:
    parts = [g.weight(solver) / g.weight(best) if g.weight(best) else 1.0 for g in groups]
    found = sum(isclose(part, 1.0) for part in parts)
    return Said(
        _NAME,
        f"{who} finds the best choice in {found} of {len(groups)} groups; at worst it saves "
        f"{100 * min(parts):.1f} % of what the best does.",
        {"best": found, "groups": len(groups), "worst": min(parts)},
    )


def _run(groups: Sequence[_Group], size: Size) -> Iterator[Row]:
    """Each choice against queries one by one; where none is made, against one made all the same."""
    events = 100_000 if size == "full" else 3_000
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for pays in (True, False):
        for group in groups:
            if group.pays == pays:
                row = _measured(group, events, size)
                ratios[pays].append(row.seconds["A-Seq"] / row.seconds["Chop-Connect"])
                yield row
    for pays, found in ratios.items():
        if not found:
            continue
        faster = sum(ratio > 1 for ratio in found)
        said = "pays" if pays else "does not pay, chopped all the same"
        yield Said(
            _NAME,
            f"Where the plan says that sharing {said}, Chop-Connect is faster than A-Seq in "
            f"{faster} of {len(found)} groups: {min(found):.2f} to {max(found):.2f} times as fast.",
            {"faster": faster, "groups": len(found), "least": min(found), "most": max(found)},
        )


def _measured(group: _Group, events: int, size: Size) -> Measured:
    from engines.counting import chopconnect
    from sharing.counting.grouping import lengths
    from tests.benchmarks.ways import WAYS, counting

    case = _case(group.number, events)
    chosen = {"Chop-Connect": group.choices["cpsat, some"]}
    if group.pays:
        chosen["greedily chosen"] = group.choices["greedy, some"]
    else:
        steps = group.choices["greedy"].candidates.of
        chosen["Chop-Connect"] = _choose(steps, group.number, "cpsat", False, _RARE)
    variants = {
        name: counting(chopconnect, case, lengths=lengths(choice.chopped))
        for name, choice in chosen.items()
    }
    variants |= {way: WAYS[way](case) for way in ("A-Seq", "PreTree", "product")}
    return Measured(
        _NAME,
        f"groups where the plan says that sharing {'pays' if group.pays else 'does not pay'}, "
        f"{events:,} events",
        f"group {group.number}, {group.queries} queries",
        events,
        measure(variants, size, time.process_time),
    )


def _case(number: int, events: int) -> Case:
    from engines.input.event_table import from_table
    from optimizer.bind.binder import load_bound
    from tests.benchmarks.ways import case_of
    from workloads.generators import generate_table
    from workloads.generators.query_groups import query_group

    document, spec = query_group(number)
    workload = load_bound(document)
    table = generate_table(replace(spec, events=events))
    return case_of(workload, workload.queries, from_table(table, workload.stream))
