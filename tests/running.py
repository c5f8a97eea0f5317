"""Running bound workloads over events in memory, as most tests want to: planned, and then run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

import pyarrow as pa

from engines.input.event_table import Events
from engines.limits import Ledger, Limits, PartialLimit
from engines.live.run import Generation
from engines.local.run import run_events
from engines.program import CountingUnit, Program, RunContext, RunOptions, TreeUnit, bound_program
from engines.results.tables import Results
from engines.statistics.measure import measure
from optimizer.cost.unit_costs import DEFAULTS
from optimizer.engines.spec import Device
from optimizer.ir.query import BoundWorkload, Query
from optimizer.plan.groups import CountingGroup
from optimizer.plan.lineage import steps_of
from optimizer.plan.operators import operators
from optimizer.plan.plan import Plan
from optimizer.statistics import Statistics, given, with_defaults
from optimizer.trees import Shape
from sharing.planner import make_plan


@dataclass(frozen=True)
class How:
    """What a test wants of the plan of a workload, and of its run."""

    counting: bool = True
    sharing: bool = True
    device: Device = "cpu"
    insist: bool = False
    detection: Shape | OneOf["stepwise"] = "any"
    propagation: OneOf["auto", "push", "pull", "pass-down"] = "auto"
    adaptive: bool = True
    partial: PartialLimit | None = None

    @property
    def is_left_to_events(self) -> bool:
        """Are trees chosen on the events, where nothing else is known?"""
        return self.detection == "any" and self.propagation == "auto"

    def plan(self, workload: BoundWorkload, statistics: Statistics | None = None) -> Plan:
        return make_plan(
            workload,
            {},
            statistics=statistics,
            sharing=self.sharing,
            device=self.device,
            counting=self.counting,
            shape=self.detection,
            propagation=self.propagation,
        )

    def program(self, workload: BoundWorkload, statistics: Statistics | None = None) -> Program:
        return bound_program(self.plan(workload, statistics), workload)

    def context(self, limits: Limits | None = None) -> RunContext:
        return RunContext(
            RunOptions(
                insist=self.insist,
                adaptive=self.adaptive,
                partial=self.partial,
                limits=limits or Limits(),
            )
        )


def run_local(
    workload: BoundWorkload,
    events: Events,
    limits: Limits | None = None,
    how: How | None = None,
    ledger: Ledger | None = None,
    plan: Plan | None = None,
    context: RunContext | None = None,
) -> Results:
    """All results of a workload, by a plan that is made for it, or by the one that is given."""
    wanted = how or How()
    context = context or wanted.context(limits)
    if ledger is not None:
        context.ledger = ledger
    program = wanted.program(workload) if plan is None else bound_program(plan, workload)
    return run_events(program, events, context)


def run_trees(
    workload: BoundWorkload,
    events: Events,
    limits: Limits | None = None,
    how: How | None = None,
    context: RunContext | None = None,
    plan: Plan | None = None,
) -> pa.Table:
    """The matches of a workload whose queries trees find, and nothing else does.

    Trees of a shape that is asked for are the best by what these events are measured to be.
    """
    wanted = how or How()
    if plan is None:
        known = None if wanted.is_left_to_events else measure(workload, events)
        plan = wanted.plan(workload, known)
    program = bound_program(plan, workload)
    assert all(isinstance(unit, TreeUnit) for unit in program.units)
    context = context or wanted.context(limits)
    found = run_events(program, events, context).matches
    assert not [text for text in context.fallbacks if "binds one component" in text]
    return found


def generation_of(workload: BoundWorkload, since: int | None = None) -> Generation:
    """The queries of a workload as a generation, as they are planned by themselves."""
    return Generation(How().program(workload), since)


def unit_of(
    queries: Sequence[Query],
    engine: str = "product",
    lengths: dict[str, tuple[int, ...]] | None = None,
    device: Device = "cpu",
) -> CountingUnit:
    """A unit that counts some queries."""
    return CountingUnit(tuple(queries), engine, lengths or {}, device, "counter")


def counting_plan(
    workload: BoundWorkload,
    groups: Iterable[tuple[Sequence[str], str]],
    chop: int | None = None,
) -> Plan:
    """A plan that counts these groups of a workload's queries, each by its engine.

    Segments have at most `chop` steps, or are whole queries.
    """
    alone = make_plan(workload, {})
    steps: dict[str, tuple[str, ...]] = {}
    for group in alone.groups:
        assert isinstance(group, CountingGroup)
        steps |= steps_of(group)
    made = []
    for names, engine in groups:
        segments: list[tuple[str, ...]] = []
        uses: dict[str, tuple[int, ...]] = {}
        for name in names:
            size = chop or len(steps[name])
            parts = [steps[name][at : at + size] for at in range(0, len(steps[name]), size)]
            uses[name] = tuple(range(len(segments), len(segments) + len(parts)))
            segments += parts
        made.append(CountingGroup(tuple(names), engine, "by a test", tuple(segments), uses))
    known = with_defaults(given(workload.statistics, workload.queries), workload.queries)
    graph = operators(workload, made, known, DEFAULTS, True)
    return replace(alone, groups=tuple(made), operators=graph)
