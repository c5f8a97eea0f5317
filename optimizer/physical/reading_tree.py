"""A reading of a query with the tree that finds its matches, compiled to operators."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Pattern
from optimizer.ir.query import Aggregation, Query
from optimizer.physical.compile_tree import CompiledTree, compile_tree
from optimizer.physical.errors import PlanError
from optimizer.trees.pieces import Reading
from optimizer.trees.printing import print_tree
from optimizer.trees.propagation import Passing
from optimizer.trees.tree import Tree, readings_of, without_passing


@dataclass(frozen=True)
class ReadingTree:
    """One OR-free reading of a query's pattern, and the operators that find its matches.

    `asked` is the query that the reading makes alone.
    """

    pattern: Pattern
    asked: Query
    tree: Tree
    compiled: CompiledTree

    @staticmethod
    def of(reading: Reading, tree: Tree) -> ReadingTree:
        _, pattern, asked = reading
        joins, way = without_passing(tree)
        reach = Passing(asked, way).reach
        windows = isinstance(asked.output, Aggregation)
        compiled = compile_tree(joins, pattern, asked.conditions, reach, windows)
        return ReadingTree(pattern, asked, joins if reach is None else tree, compiled)

    def __str__(self) -> str:
        return print_tree(self.tree)


def reading_trees(query: Query, tree: Tree) -> tuple[ReadingTree, ...]:
    """The trees of a query's readings, from the tree that a plan has for all of them."""
    patterns = alternatives(query.pattern)
    trees = readings_of(tree)
    if len(trees) != len(patterns):
        raise PlanError(
            f"the plan has {len(trees)} trees for query {query.name}, which can be read in "
            f"{len(patterns)} ways; make it again from its workload"
        )
    return tuple(
        ReadingTree.of(Reading.of(query, pattern), part)
        for pattern, part in zip(patterns, trees, strict=True)
    )
