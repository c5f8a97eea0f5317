"""Trees that are chosen on the events at hand, and what trees cost by the statistics of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from optimizer.cost.trees import COMPILED
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Event, parts_of
from optimizer.ir.query import Query
from optimizer.physical import joins as op
from optimizer.physical.compile_tree import plain_tree
from optimizer.physical.joins import Operator
from optimizer.physical.reading_tree import ReadingTree
from optimizer.statistics import Statistics
from optimizer.trees import Tree, best_tree
from optimizer.trees.pieces import Reading
from optimizer.trees.propagation import best_passing, estimate_tree
from optimizer.trees.quick_sharing import common_trees

Trees = dict[str, tuple[ReadingTree, ...]]  # of each query, one for each of its readings


def choose_trees(
    queries: Sequence[Query],
    statistics: Statistics,
    widths: Mapping[str, int],
    sharing: bool,
) -> Trees:
    """A tree for each OR-free reading of each query's pattern.

    With `sharing`, queries of one window get the pieces that they have in common.
    """
    together: dict[Hashable, list[Reading]] = {}
    for query in queries:
        group = widths[query.name] if sharing else query.name
        readings = [Reading.of(query, pattern) for pattern in alternatives(query.pattern)]
        together.setdefault(group, []).extend(readings)
    found: dict[str, list[ReadingTree]] = {query.name: [] for query in queries}
    for readings in together.values():
        if sharing and len(readings) > 1:
            trees = common_trees(readings, statistics)
        else:
            trees = [_choose_tree(reading.asked, statistics) for reading in readings]
        compiled = [ReadingTree.of(r, tree) for r, tree in zip(readings, trees, strict=True)]
        for reading, chosen in zip(readings, _passed(readings, compiled, statistics), strict=True):
            found[reading.query.name].append(chosen)
    return {name: tuple(trees) for name, trees in found.items()}


def _choose_tree(asked: Query, statistics: Statistics) -> Tree:
    """The cheapest tree of a query without ORs; there is but one for two events."""
    pattern = asked.pattern
    parts = parts_of(pattern)
    if isinstance(pattern, Event) or (
        len(parts) == 2 and all(isinstance(part, Event) for part in parts)
    ):
        return plain_tree(pattern)
    return best_tree(asked, statistics, model=COMPILED).tree


def _passed(
    readings: Sequence[Reading], chosen: Sequence[ReadingTree], statistics: Statistics
) -> Iterator[ReadingTree]:
    """The trees, those that save by it with the last component passed down to their events.

    What several queries read stays as it is: each would leave other events.
    """
    readers = Counter(operator for tree in chosen for operator in _joins(tree))
    for reading, tree in zip(readings, chosen, strict=True):
        better = None
        if all(readers[operator] == 1 for operator in _joins(tree)):
            better = best_passing(tree.asked, tree.tree, statistics)
        yield tree if better is None else ReadingTree.of(reading, better)


def _joins(tree: ReadingTree) -> set[Operator]:
    return {o for o in op.walk(tree.compiled.operator) if isinstance(o, op.Join)}


def cost_of_all(trees: Trees, statistics: Statistics, widths: Mapping[str, int]) -> float:
    """What some trees cost together, in events touched per second; what is shared counts once."""
    costs: dict[tuple[int, Operator], float] = {}
    for name, readings in trees.items():
        for reading in readings:
            found = estimate_tree(reading.asked, reading.tree, statistics)
            operators, own = list(_nodes(reading.compiled.operator)), found.costs
            if len(operators) != len(own):  # a negated OR has several operators for one node
                operators, own = [reading.compiled.operator], (sum(own),)
            for operator, cost in zip(operators, own, strict=True):
                costs[widths[name], operator] = cost / found.seconds
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
