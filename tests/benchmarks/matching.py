"""The ways to find matches, each called alike: on picked events, up to columns of their numbers.

Choosing a tree and writing result rows are not measured: other engines' papers leave the output
out, and a plan is chosen once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.benchmarks.found import NOTHING, Found, found_matches
from tests.benchmarks.measuring import Measured, Said, Size, Variant, measure
from tests.benchmarks.streams import STREAM

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.input.event_table import Events
    from engines.matching.trees.adaptive import Trees
    from engines.matching.trees.buffers import Buffer, SelectedEvents
    from engines.program import RunContext
    from optimizer.ir.query import BoundWorkload, Query, Reading
    from optimizer.plan.compile_tree import ReadingTree
    from optimizer.plan.plan import Plan
    from optimizer.statistics import Statistics
    from optimizer.trees import Shape, Tree
    from tests.benchmarks.rivals import Matches, Way
    from workloads.generators import Attribute, Phase

CLEAR = 1.1  # times that differ by less are equal
CHOSEN = "chosen tree"


@dataclass(frozen=True, eq=False)
class Sought:
    """A query without ORs over a stream, with the events that it looks at."""

    workload: BoundWorkload
    query: Query
    events: Events
    picked: SelectedEvents
    width: int

    @cached_property
    def statistics(self) -> Statistics:
        """What the events say of themselves."""
        return _statistics(self.picked)

    @cached_property
    def reading(self) -> Reading:
        """The one reading of the query."""
        from optimizer.ir.pattern import alternatives
        from optimizer.ir.query import Reading

        (pattern,) = alternatives(self.query.pattern)
        return Reading.of(self.query, pattern)

    @cached_property
    def chosen(self) -> Tree:
        """What the engine takes where it chooses on the events."""
        from engines.matching.trees.adaptive import choose_trees

        name = self.query.name
        trees = choose_trees([self.query], self.statistics, {name: self.width}, sharing=True)
        (found,) = trees[name]
        return found.tree

    def shaped(self, shape: Shape) -> Tree:
        """The best tree of a shape."""
        from optimizer.cost.unit_costs import COMPILED
        from optimizer.trees import best_tree

        return best_tree(self.reading.asked, self.statistics, model=COMPILED, shape=shape).tree

    def compiled(self, tree: Tree) -> ReadingTree:
        """A tree as operators."""
        from optimizer.plan.compile_tree import ReadingTree

        return ReadingTree.of(self.reading, tree)

    def cost(self, tree: Tree) -> float:
        """What the engine's model says that a tree costs."""
        from engines.matching.trees.adaptive import cost_of_all

        name = self.query.name
        return cost_of_all({name: (self.compiled(tree),)}, self.statistics, {name: self.width})

    def by_tree(self, tree: Tree) -> Variant:
        """The tree engine with a given tree."""
        from engines.matching.trees.evaluation import TreeEvaluation

        operator, aliases, _ = self.compiled(tree).compiled
        order = [aliases.index(alias) for alias in _bound_aliases(self.query)]
        context = unlimited()

        def run() -> list[Buffer]:
            evaluation = TreeEvaluation(self.picked, self.width, self.query.name, context)
            return list(evaluation.matches(operator))

        def found(parts: list[Buffer]) -> Found:
            each = [found_matches([part.columns[i] for i in order]) for part in parts]
            return sum(each, NOTHING)

        return Variant(run, found)

    def by_baseline(self, way: Way) -> Variant:
        """Another engine's way."""
        from tests.benchmarks.rivals import find

        def found(matches: Matches) -> Found:
            return found_matches(matches.columns())

        return Variant(lambda: find(self.query, self.picked, self.width, way), found)


def unlimited() -> RunContext:
    """A run that may do so much that no benchmark reaches it."""
    from engines.limits import Limits
    from engines.program import RunContext, RunOptions

    return RunContext(RunOptions(limits=Limits(work=10**12)))


def _statistics(picked: SelectedEvents) -> Statistics:
    from engines.statistics.running import SnapshotStatistics, look

    return SnapshotStatistics.of(look(picked, ()), picked)


def sought(text: str, table: pa.Table, stream: Mapping[str, object] | None = None) -> Sought:
    """A query over a table of events of the benchmarks' own stream, or of another."""
    from engines.columns.columns import Columns
    from engines.input.event_table import from_table
    from optimizer.bind.binder import load_bound
    from tests.benchmarks.rivals.rows import picked_for

    workload = load_bound({"stream": dict(stream or STREAM), "queries": [text]})
    events = from_table(table, workload.stream)
    picked, width = picked_for(workload.queries[0], Columns(workload, events))
    return Sought(workload, workload.queries[0], events, picked, width)


@dataclass(frozen=True, eq=False)
class AllSought:
    """Queries of one key and window over a stream, with the events that they look at."""

    workload: BoundWorkload
    document: Mapping[str, Any]
    events: Events
    picked: SelectedEvents
    width: int

    def plan(self, sharing: bool = True) -> Plan:
        """The plan of the queries, made on the statistics of the events."""
        from tests.benchmarks.planned import planned

        return planned(self.workload, self.document, self.events, sharing)

    def by_plan(self, plan: Plan) -> Variant:
        """The tree engine with the trees of a plan."""
        from engines.program import TreeUnit, bound_program

        trees: Trees = {}
        for unit in bound_program(plan, self.workload).units:
            assert isinstance(unit, TreeUnit)
            assert unit.trees is not None
            trees |= unit.trees
        return self.by_trees(trees, plan.sharing)

    def by_choice(self) -> Variant:
        """The tree engine with trees that are chosen on the events, to be shared."""
        from engines.matching.trees.adaptive import choose_trees

        queries = self.workload.queries
        widths = {query.name: self.width for query in queries}
        return self.by_trees(
            choose_trees(queries, _statistics(self.picked), widths, sharing=True), sharing=True
        )

    def by_trees(self, trees: Trees, sharing: bool) -> Variant:
        """The tree engine, with what trees have in common made once, or without."""
        from engines.matching.trees.evaluation import SharedBuffers, TreeEvaluation

        queries, context = self.workload.queries, unlimited()

        def run() -> list[tuple[int, ReadingTree, Buffer]]:
            together = SharedBuffers()
            if sharing:
                for query in queries:
                    for tree in trees[query.name]:
                        together.announce(tree.compiled.operator, self.width)
            found = []
            for number, query in enumerate(queries):
                shared = together if sharing else SharedBuffers()
                evaluation = TreeEvaluation(self.picked, self.width, query.name, context, shared)
                if not sharing:
                    for tree in trees[query.name]:
                        shared.announce(tree.compiled.operator, self.width)
                found += [
                    (number, tree, part)
                    for tree in trees[query.name]
                    for part in evaluation.matches(tree.compiled.operator)
                ]
            return found

        def found(parts: list[tuple[int, ReadingTree, Buffer]]) -> Found:
            each = []
            for number, tree, part in parts:
                names = _bound_aliases(queries[number])
                order = map(tree.compiled.aliases.index, names)
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
    from engines.columns.columns import Columns
    from engines.input.event_table import from_table
    from engines.matching.trees.buffers import SelectedEvents
    from optimizer.bind.binder import load_bound
    from optimizer.ir.pattern import events as components

    document = {"stream": dict(STREAM), "queries": list(texts)}
    workload = load_bound(document)
    events = from_table(table, workload.stream)
    first = workload.queries[0]
    width = first.window.ticks(events.tick)
    symbols = dict.fromkeys(e.symbol for q in workload.queries for e in components(q.pattern))
    columns = Columns(workload, events)
    picked = SelectedEvents(columns, first.key, first.window.is_count, symbols, width)
    return AllSought(workload, document, events, picked, width)


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
    """What a case says of the model: each tree's cost and seconds, and which one was chosen."""

    costs: Mapping[str, float]
    seconds: Mapping[str, float]
    chosen: str


def compare(
    what: tuple[str, str, str],
    asked: Sought,
    trees: Mapping[str, Tree],
    ways: Mapping[str, Way],
    size: Size,
) -> tuple[Measured, Ranked]:
    """The chosen tree beside given ones and other engines' ways, over the same events.

    `what` are the benchmark, the table and the case. Equal trees are measured once.
    """
    same = [name for name, tree in trees.items() if tree == asked.chosen]
    own = same[0] if same else CHOSEN
    measured = dict(trees) if same else {CHOSEN: asked.chosen, **trees}
    variants = {name: asked.by_tree(tree) for name, tree in measured.items()}
    variants |= {name: asked.by_baseline(way) for name, way in ways.items()}
    seconds = measure(variants, size, time.thread_time)
    costs = {name: asked.cost(tree) for name, tree in measured.items()}
    shown = {CHOSEN: seconds[own]} | {name: seconds[name] for name in (*trees, *ways)}
    ranked = Ranked(costs, {name: seconds[name] for name in costs}, own)
    return Measured(*what, len(asked.events), shown), ranked


def judged(benchmark: str, where: str, cases: Sequence[Ranked]) -> Said:
    """How well the model's costs order the trees of each case, and what its choice is worth."""
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
