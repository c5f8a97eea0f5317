"""A tree for each OR-free reading of each query, as operators: what is chosen and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engines.how import How
from optimizer.physical import joins as op
from optimizer.trees.quick_sharing import common_trees
from optimizer.physical.compile_tree import Compiled, compile_tree
from optimizer.physical.joins import Operator
from optimizer.trees.propagation import Passing, Propagation, best_passing, estimate
from engines.trees.planning import choose_tree
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Pattern
from optimizer.ir.query import Aggregation, Query
from optimizer.physical.errors import PlanError
from optimizer.statistics import Statistics
from optimizer.trees import Tree, print_tree
from optimizer.trees.pieces import Reading


@dataclass(frozen=True)
class Choice:
    """One OR-free reading of a query's pattern, and the operators that find its matches.

    `asked` is the query that the reading makes alone; `width` its window in ticks.
    """

    pattern: Pattern
    asked: Query
    tree: Tree
    propagation: Propagation
    compiled: Compiled
    width: int

    @staticmethod
    def of(
        pattern: Pattern, asked: Query, tree: Tree, propagation: Propagation, width: int
    ) -> Choice:
        reach = Passing(asked, propagation).reach
        windows = isinstance(asked.output, Aggregation)
        compiled = compile_tree(tree, pattern, asked.conditions, reach, windows)
        return Choice(pattern, asked, tree, propagation, compiled, width)

    def __str__(self) -> str:
        way = "" if self.propagation == "push" else f" by {self.propagation}"
        return f"{print_tree(self.tree)}{way}"


def plan_queries(
    queries: Sequence[Query], statistics: Statistics, widths: Mapping[str, int], how: How
) -> dict[str, list[Choice]]:
    """A tree for each OR-free reading of each query's pattern, as operators.

    Queries that a plan has trees for get those. With sharing, others of one window get the pieces
    that they have in common.
    """
    assert how.detection != "joins"
    shape, sharing = how.detection, how.sharing
    given = {found.query: found.trees for found in how.trees} if shape == "bushy" else {}
    together: dict[Hashable, list[_Planned]] = {}
    for query in queries:
        patterns = alternatives(query.pattern)
        known = given.get(query.name, (None,) * len(patterns))
        if len(known) != len(patterns):
            raise PlanError(
                f"the plan has {len(known)} trees for query {query.name}, which can be read in "
                f"{len(patterns)} ways; make it again from its workload"
            )
        group = widths[query.name] if sharing else query.name
        together.setdefault(group, []).extend(
            _Planned(Reading.of(query, pattern), tree)
            for pattern, tree in zip(patterns, known, strict=True)
        )
    plans: dict[str, list[Choice]] = {query.name: [] for query in queries}
    for readings in together.values():
        missing = [planned.reading for planned in readings if planned.tree is None]
        if sharing and shape == "bushy" and len(missing) > 1:
            found = iter(common_trees(missing, statistics))
        else:
            found = iter([choose_tree(reading.asked, statistics, shape) for reading in missing])
        choices = [
            Choice.of(
                pattern, asked, next(found) if tree is None else tree, "push", widths[query.name]
            )
            for (query, pattern, asked), tree in readings
        ]
        for choice in _propagated(choices, statistics, how):
            plans[choice.asked.name].append(choice)
    return plans


class _Planned(NamedTuple):
    """A reading, and the tree that a plan has for it."""

    reading: Reading
    tree: Tree | None


def _propagated(choices: Sequence[Choice], statistics: Statistics, how: How) -> Iterator[Choice]:
    """The choices, those that save by it with events passed down to them.

    What several queries read stays as it is: each would have its own events passed down.
    """
    readers = Counter(operator for choice in choices for operator in _joins(choice))
    for choice in choices:
        alone = all(readers[operator] == 1 for operator in _joins(choice))
        if how.propagation == "auto":
            found = None
            if alone and how.detection == "bushy":
                found = best_passing(choice.asked, choice.tree, statistics)
        else:
            found = (choice.tree, how.propagation)
        if found is None or Passing(choice.asked, found[1]).reach is None:
            yield choice
        else:
            yield Choice.of(choice.pattern, choice.asked, *found, choice.width)


def _joins(choice: Choice) -> set[Operator]:
    return {o for o in op.walk(choice.compiled.operator) if isinstance(o, op.Join)}


def cost_of_all(choices: Sequence[Choice], statistics: Statistics) -> float:
    """What some choices cost together, in events touched per second; what is shared counts once."""
    costs: dict[tuple[int, Operator], float] = {}
    for choice in choices:
        passing = Passing(choice.asked, choice.propagation)
        found = estimate(passing, choice.tree, statistics)
        operators, own = list(_nodes(choice.compiled.operator)), found.costs
        if len(operators) != len(own):  # a negated OR has several operators for one node
            operators, own = [choice.compiled.operator], (sum(own),)
        for operator, cost in zip(operators, own, strict=True):
            costs[choice.width, operator] = cost / found.seconds
    return sum(costs.values())


def _nodes(operator: Operator) -> Iterator[Operator]:
    """The operators that are nodes of a tree, parents first."""
    match operator:
        case op.Keep(part) | op.Reached(part):
            yield from _nodes(part)
        case _:
            yield operator
            for part in op.inputs(operator):
                yield from _nodes(part)
