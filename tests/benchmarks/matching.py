"""The ways to find matches, each called alike: on picked events, up to columns of their numbers.

Choosing a tree and writing result rows are not measured: other engines' papers leave the output
out, and a plan is chosen once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.found import NOTHING, Found, found_matches
from tests.benchmarks.measuring import Measured, Said, Size, Variant, measure
from tests.benchmarks.streams import STREAM

if TYPE_CHECKING:
    import pyarrow as pa
    from engines.how import How

    from engines.events import Events
    from engines.joins.scan import Limits
    from engines.trees.buffers import Buffer
    from engines.trees.choices import Choice
    from engines.trees.picked import Picked
    from optimizer.ir.query import BoundWorkload, Query
    from optimizer.statistics import Statistics
    from optimizer.trees import Shape, Tree
    from optimizer.trees.propagation import Propagation
    from tests.benchmarks.rivals import Matches, Way
    from workloads.generators import Attribute, Phase

CLEAR = 1.1  # times that differ by less are equal
CHOSEN = "chosen tree"


class Plan(NamedTuple):
    """A tree, and which events are joined in it."""

    tree: Tree
    propagation: Propagation = "push"


@dataclass(frozen=True, eq=False)
class Sought:
    """A query without ORs over a stream, with the events that it looks at."""

    workload: BoundWorkload
    query: Query
    events: Events
    picked: Picked
    width: int

    @cached_property
    def statistics(self) -> Statistics:
        from engines.trees.planning import statistics_of

        return statistics_of(self.picked)

    @cached_property
    def chosen(self) -> Plan:
        """What the engine would take."""
        from engines.how import How

        from engines.trees.choices import plan_queries

        widths = {self.query.name: self.width}
        plans = plan_queries([self.query], self.statistics, widths, How())
        (choice,) = plans[self.query.name]
        return Plan(choice.tree, choice.propagation)

    def shaped(self, shape: Shape) -> Plan:
        """The best tree of a shape."""
        from engines.trees.planning import choose_tree

        return Plan(choose_tree(self.query, self.statistics, shape))

    def choice(self, plan: Plan) -> Choice:
        """A plan as operators."""
        from engines.trees.choices import Choice
        from optimizer.ir.alternatives import alternatives

        (pattern,) = alternatives(self.query.pattern)
        asked = replace(self.query, pattern=pattern)
        return Choice.of(pattern, asked, plan.tree, plan.propagation, self.width)

    def cost(self, plan: Plan) -> float:
        """What the engine's model says that a plan costs."""
        from engines.trees.choices import cost_of_all

        return cost_of_all([self.choice(plan)], self.statistics)

    def by_tree(self, plan: Plan) -> Variant:
        """The tree engine with a given plan."""
        return self.by_choices([self.choice(plan)])

    def by_choices(self, choices: Sequence[Choice]) -> Variant:
        """The tree engine with a plan for each reading of what the query means."""
        from engines.trees.evaluation import Evaluation

        def run() -> list[tuple[Choice, Buffer]]:
            evaluation = Evaluation(self.picked, self.width, self.query.name, limits())
            return [
                (choice, part)
                for choice in choices
                for part in evaluation.matches(choice.compiled.operator)
            ]

        def found(parts: list[tuple[Choice, Buffer]]) -> Found:
            each = []
            for choice, part in parts:
                order = map(choice.compiled.aliases.index, _bound_aliases(self.query))
                each.append(found_matches([part.columns[i] for i in order]))
            return sum(each, NOTHING)

        return Variant(run, found)

    def by_baseline(self, way: Way) -> Variant:
        """Another engine's way."""
        from tests.benchmarks.rivals import find

        def found(matches: Matches) -> Found:
            return found_matches(matches.columns())

        return Variant(lambda: find(self.query, self.picked, self.width, way), found)


def limits() -> Limits:
    """So much that no benchmark reaches it."""
    from engines.joins.scan import Limits

    return Limits(results=10**9, work=10**12)


def sought(text: str, table: pa.Table, stream: Mapping[str, object] | None = None) -> Sought:
    """A query over a table of events of the benchmarks' own stream, or of another."""
    from engines.columns.instances import Columns
    from engines.events import from_table
    from optimizer.bind import load_bound
    from tests.benchmarks.rivals.rows import picked_for

    workload = load_bound({"stream": dict(stream or STREAM), "queries": [text]})
    events = from_table(table, workload.stream)
    picked, width = picked_for(workload.queries[0], Columns(workload, events))
    return Sought(workload, workload.queries[0], events, picked, width)


@dataclass(frozen=True, eq=False)
class AllSought:
    """Queries of one key and window over a stream, with the events that they look at."""

    workload: BoundWorkload
    events: Events
    picked: Picked
    width: int

    def by_trees(self, how: How) -> Variant:
        """The tree engine, with what queries have in common made once, or without."""
        from engines.trees.planning import statistics_of

        from engines.trees.choices import plan_queries
        from engines.trees.evaluation import Evaluation, Shared

        queries = self.workload.queries
        widths = {query.name: self.width for query in queries}
        plans = plan_queries(queries, statistics_of(self.picked), widths, how)

        def run() -> list[tuple[int, Choice, Buffer]]:
            together = Shared()
            if how.sharing:
                for query in queries:
                    for choice in plans[query.name]:
                        together.announce(choice.compiled.operator)
            found = []
            for number, query in enumerate(queries):
                shared = together if how.sharing else Shared()
                evaluation = Evaluation(self.picked, self.width, query.name, limits(), shared)
                if not how.sharing:
                    for choice in plans[query.name]:
                        shared.announce(choice.compiled.operator)
                found += [
                    (number, choice, part)
                    for choice in plans[query.name]
                    for part in evaluation.matches(choice.compiled.operator)
                ]
            return found

        def found(parts: list[tuple[int, Choice, Buffer]]) -> Found:
            each = []
            for number, choice, part in parts:
                names = _bound_aliases(queries[number])
                order = map(choice.compiled.aliases.index, names)
                each.append(found_matches([part.columns[i] for i in order], number))
            return sum(each, NOTHING)

        return Variant(run, found)

    def by_baseline(self, way: Way) -> Variant:
        """Another engine's way, one query after the other."""
        from tests.benchmarks.rivals import find

        def run() -> list[Matches]:
            return [find(q, self.picked, self.width, way) for q in self.workload.queries]

        def found(results: list[Matches]) -> Found:
            each = [found_matches(m.columns(), i) for i, m in enumerate(results)]
            return sum(each, NOTHING)

        return Variant(run, found)


def all_sought(texts: Sequence[str], table: pa.Table) -> AllSought:
    """Queries of one key and window over a table of events of the benchmarks' own stream."""
    from engines.columns.instances import Columns
    from engines.events import from_table
    from engines.trees.picked import Picked
    from optimizer.bind import load_bound
    from optimizer.ir.pattern import events as components

    workload = load_bound({"stream": dict(STREAM), "queries": list(texts)})
    events = from_table(table, workload.stream)
    first = workload.queries[0]
    width = first.window.ticks(events.tick)
    symbols = dict.fromkeys(e.symbol for q in workload.queries for e in components(q.pattern))
    columns = Columns(workload, events)
    picked = Picked(columns, first.key, first.window.is_count, symbols, width)
    return AllSought(workload, events, picked, width)


def _bound_aliases(query: Query) -> list[str]:
    from optimizer.ir.pattern import positive_events

    return [event.alias for event in positive_events(query.pattern)]


def stocks(
    rates: Mapping[str, float],
    events: int,
    attributes: Mapping[str, Attribute] | None = None,
    phases: Sequence[Phase] = (),
    seed: int = 0,
) -> pa.Table:
    """An event each millisecond, its type drawn by the given weights."""
    from workloads.generators import StreamSpec, generate_table

    return generate_table(
        StreamSpec(
            rates=weighed(rates),
            attributes=dict(attributes or {}),
            events=events,
            phases=tuple(phases),
            seed=seed,
            unit="ms",
            time="ts",
            type="type",
        )
    )


def weighed(weights: Mapping[str, float]) -> dict[str, float]:
    """Rates of a thousand events a second in all, by weight."""
    total = sum(weights.values())
    return {name: 1000.0 * weight / total for name, weight in weights.items()}


class Ranked(NamedTuple):
    """What a case says of the model: each plan's cost and seconds, and which one was chosen."""

    costs: Mapping[str, float]
    seconds: Mapping[str, float]
    chosen: str


def compare(
    what: tuple[str, str, str],
    asked: Sought,
    plans: Mapping[str, Plan],
    ways: Mapping[str, Way],
    size: Size,
) -> tuple[Measured, Ranked]:
    """The chosen plan beside given ones and other engines' ways, over the same events.

    `what` are the benchmark, the table and the case. Equal plans are measured once.
    """
    same = [name for name, plan in plans.items() if plan == asked.chosen]
    own = same[0] if same else CHOSEN
    measured = dict(plans) if same else {CHOSEN: asked.chosen, **plans}
    variants = {name: asked.by_tree(plan) for name, plan in measured.items()}
    variants |= {name: asked.by_baseline(way) for name, way in ways.items()}
    seconds = measure(variants, size, time.thread_time)
    costs = {name: asked.cost(plan) for name, plan in measured.items()}
    shown = {CHOSEN: seconds[own]} | {name: seconds[name] for name in (*plans, *ways)}
    ranked = Ranked(costs, {name: seconds[name] for name in costs}, own)
    return Measured(*what, len(asked.events), shown), ranked


def judged(benchmark: str, where: str, cases: Sequence[Ranked]) -> Said:
    """How well the model's costs order the plans of each case, and what its choice is worth."""
    right = pairs = near = 0
    worst = 1.0
    for case in cases:
        for one, other in combinations(case.costs, 2):
            slower = case.seconds[one] / case.seconds[other]
            if max(slower, 1 / slower) > CLEAR:
                pairs += 1
                right += (slower > 1) == (case.costs[one] > case.costs[other])
        loss = case.seconds[case.chosen] / min(case.seconds.values())
        near += loss <= CLEAR
        worst = max(worst, loss)
    return Said(
        benchmark,
        f"{where}: of {pairs} pairs of trees whose times differ by more than {CLEAR - 1:.0%} the "
        f"cost model has {right} the right way round; the chosen tree is the fastest of those "
        f"measured, or within {CLEAR - 1:.0%} of it, in {near} of {len(cases)} cases, at worst "
        f"{worst:.2f} times as slow.",
        {"pairs": pairs, "right": right, "cases": len(cases), "near": near, "worst": worst},
    )


@cache
def warm_up_matching() -> None:
    """Compile the kernels that find matches, or load what was compiled before."""
    from workloads.generators import Attribute, Uniform

    price = {"price": Attribute(Uniform(0, 1))}
    table = stocks({"A": 1, "B": 1, "C": 1, "D": 1}, 500, price)
    text = "SEQ(A a, !D d, B b, C c) WHERE a.price < c.price AND d.price < b.price"
    asked = sought(f"QUERY q PATTERN {text} RETURN a.ts WITHIN 9 ms", table)
    for way in ("stacks", "configurations", "nested", "nested first"):
        asked.by_baseline(way).run()
    for shape in ("left", "right", "bushy"):
        asked.by_tree(asked.shaped(shape)).run()
