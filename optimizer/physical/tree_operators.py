"""The operators of queries that construct matches: a join for each node of their trees.

A node's id rests on what it joins and on the conditions that it decides, with numbers for
components, so that the same subtree of two queries of one key and window is one operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from optimizer.canonical import canonical
from optimizer.cost.trees import COMPILED
from optimizer.ir.alternatives import alternatives
from optimizer.ir.fingerprint import fingerprint
from optimizer.ir.pattern import Symbol, events, positive_events, print_pattern
from optimizer.ir.query import Query
from optimizer.physical.operator import Operator, identity
from optimizer.physical.operators import Graph, setting, spread_of, window_state
from optimizer.physical.plan import Group
from optimizer.statistics import MissingStatisticError
from optimizer.trees import TreeError
from optimizer.trees.compile import compile_query
from optimizer.trees.costing import walk_cost
from optimizer.trees.document import from_document
from optimizer.trees.pieces import Reading
from optimizer.trees.printing import print_tree
from optimizer.trees.tree import KSeq, Leaf, NSeq, OrMerge, Shared, Tree, bound, children
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.printer import print_expression

MATCHED = {"start": "time", "end": "time"}
Found = tuple[str, float | None]  # an operator, and its rows a second


def tree(graph: Graph, query: Query, document: Mapping[str, Any]) -> Found:
    """The joins of a query's tree, from its leaves to its root."""
    root = from_document(document)
    made = _Joins(graph, query, _costs(graph, query, root)).node(root)
    return made.id, graph.operators[made.id].rows


def search(graph: Graph, query: Query, group: Group) -> Found:
    """A query whose matches are found one component after the other."""
    symbols = dict.fromkeys(event.symbol for event in events(query.pattern))
    inputs = tuple(graph.events(symbol, query) for symbol in symbols)
    bindings = {f"c{i}": "event" for i, _ in enumerate(positive_events(query.pattern), 1)}
    root = from_document(group.all_trees[query.name]) if group.all_trees else None
    found = _costs(graph, query, root).get(root) if root is not None else None
    rows = None if found is None else found.rows
    made = graph.add(
        Operator(
            identity("search", [fingerprint(query), setting(query)], inputs),
            "search",
            inputs,
            {"pattern": print_pattern(query.pattern), "queries": [query.name]},
            MATCHED | bindings,
            ("end",),
            spread_of(query.key, query.window.is_count),
            window_state(query, "partial matches"),
            group.cost.shared if group.cost is not None else 0.0,
            rows,
        )
    )
    return made, rows


class _Expected(NamedTuple):
    """What a node is expected to take and to give, both in a second of stream."""

    cost: float
    rows: float


def _costs(graph: Graph, query: Query, root: Tree) -> dict[Tree, _Expected]:
    """By node; nothing where the tree's costs cannot be told.

    A query with an OR has a tree for each of its readings, and their rows are put together.
    """
    patterns = alternatives(query.pattern)
    if len(patterns) > 1 and isinstance(root, OrMerge) and len(root.parts) == len(patterns):
        found: dict[Tree, _Expected] = {}
        for pattern, part in zip(patterns, root.parts, strict=True):
            found |= _costs_of(graph, Reading.of(query, pattern).asked, part)
        rows = [found[part].rows for part in root.parts if part in found]
        return {**found, root: _Expected(0.0, sum(rows))} if rows else {}
    return _costs_of(graph, query, root)


def _costs_of(graph: Graph, query: Query, root: Tree) -> dict[Tree, _Expected]:
    try:
        problem = compile_query(query, graph.statistics, (), COMPILED)
        steps = walk_cost(problem, root)
    except (TreeError, UnsupportedError, MissingStatisticError):
        return {}
    each, touched = problem.seconds, graph.unit_costs.each.joined
    return {s.node: _Expected(touched * s.own / each, s.rows / each) for s in steps}


class _Made(NamedTuple):
    """An operator, and the aliases of its components in their order, negated ones included."""

    id: str
    aliases: tuple[str, ...]


@dataclass
class _Joins:
    graph: Graph
    query: Query
    costs: Mapping[Tree, _Expected]

    def __post_init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        for event in events(self.query.pattern):
            self.symbols.setdefault(event.alias, event.symbol)

    def node(self, tree: Tree) -> _Made:
        """The operator of a node, after those below it."""
        if isinstance(tree, Leaf):
            return self._leaf(tree.alias)
        if isinstance(tree, Shared):
            raise TreeError(f"the tree of {self.query.name} reads {tree.name}, which has no tree")
        below = self._below(tree)
        aliases = tuple(alias for made in below for alias in made.aliases)
        decided = self._decided(aliases, below)
        content = [type(tree).__name__, self._more(tree), self._numbered(decided, aliases)]
        inputs = tuple(made.id for made in below)
        expected = self.costs.get(tree)
        bindings = {f"c{i}": "event" for i, _ in enumerate(sorted(bound(tree)), 1)}
        pattern = print_tree(tree, {alias: str(s) for alias, s in self.symbols.items()})
        conditions = [print_expression(condition) for condition in decided]
        operator = Operator(
            identity("join", [content, setting(self.query)], inputs),
            "join",
            inputs,
            {"pattern": pattern, "operator": type(tree).__name__, "conditions": conditions},
            MATCHED | bindings,
            ("end",),
            spread_of(self.query.key, self.query.window.is_count),
            window_state(self.query, "partial matches"),
            0.0 if expected is None else expected.cost,
            None if expected is None else expected.rows,
        )
        return _Made(self.graph.add(operator), aliases)

    def _leaf(self, alias: str) -> _Made:
        return _Made(self.graph.events(self.symbols[alias], self.query), (alias,))

    def _below(self, tree: Tree) -> list[_Made]:
        if isinstance(tree, KSeq):
            start = [] if tree.start is None else [self.node(tree.start)]
            groups = [self._leaf(closure.alias) for closure in tree.closures]
            return [*start, *groups, *([] if tree.end is None else [self.node(tree.end)])]
        return list(map(self.node, children(tree)))

    def _decided(self, aliases: tuple[str, ...], below: list[_Made]) -> list[ex.Expression]:
        """The conditions that can be decided here, and could not be below."""
        here = set(aliases)
        inner = [set(made.aliases) for made in below]
        return [
            condition
            for condition in self.query.conditions
            if (named := ex.aliases(condition)) <= here
            and not any(named <= known for known in inner)
        ]

    @staticmethod
    def _numbered(conditions: list[ex.Expression], aliases: tuple[str, ...]) -> list[str]:
        numbers: dict[str, str] = {}
        for i, alias in enumerate(aliases, 1):
            numbers.setdefault(alias, f"c{i}")
        renamed = map(partial(ex.rename, names=numbers), conditions)
        return sorted(print_expression(canonical(condition)) for condition in renamed)

    @staticmethod
    def _more(tree: Tree) -> Any:
        """What tells nodes of one kind apart besides their inputs."""
        match tree:
            case NSeq(side=side):
                return side
            case KSeq(start, closures, end):
                groups = [str(closure.quantifier) for closure in closures]
                return [start is not None, groups, end is not None]
            case _:
                return None
