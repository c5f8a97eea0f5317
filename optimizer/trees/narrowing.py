"""Pieces that ask for less than the queries that read them: as queries, and what reading costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from optimizer.bind.conditions import canonical
from optimizer.cost import unit_costs as cost
from optimizer.cost.unit_costs import COMPILED, JoinCosts
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    events,
    parts_of,
    positive_events,
)
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees.build_problem import compile_query
from optimizer.trees.cost_walk import CostStep, walk_cost
from optimizer.trees.mark_costs import marking_costs, named_piece
from optimizer.trees.problem import GivenFragment, TreeProblem
from optimizer.trees.tree import (
    KSeq,
    Leaf,
    Marked,
    Narrowed,
    Shared,
    Taken,
    Tree,
    TreeError,
    bound,
    leaf_groups,
    renamed,
    replaced_parts,
    walk,
)
from workloads import expressions as ex

FILTERED = 0.55  # of what a join takes for a row: they are not looked for, only taken


class WalkedTree(NamedTuple):
    """The nodes of a tree with their costs, the root first, and the problem that it solves."""

    problem: TreeProblem
    steps: list[CostStep]


@lru_cache(maxsize=4_096)  # asked again for each graph that a query's operators are in
def walk_query(
    asked: Query, tree: Tree, statistics: Statistics, model: JoinCosts = COMPILED
) -> WalkedTree:
    """What each node of a query's tree costs; raises `TreeError` where the tree does not fit."""
    inner: dict[str, Tree] = {}

    def offered(node: Tree) -> Tree:
        if isinstance(node, Narrowed | Taken):
            name = str(len(inner))
            inner[name] = node
            return Shared(name, bound(node))
        return replaced_parts(node, offered)

    outer = offered(tree)
    given = [
        GivenFragment(name, bound(node), negations=_checks_negations(node))
        for name, node in inner.items()
    ]
    problem = compile_query(asked, statistics, given, model, leaf_groups(outer))
    steps = walk_cost(problem, outer)
    if not inner:
        return WalkedTree(problem, steps)
    found: list[CostStep] = []
    for step in steps:
        node = renamed(step.node, {}, inner)
        if not isinstance(step.node, Shared):
            found.append(step._replace(node=node))
            continue
        if isinstance(node, Taken):
            found += _taken_steps(asked, node, step, statistics, model)
            continue
        assert isinstance(node, Narrowed)
        below = walk_query(narrowed_query(asked, node), node.part, statistics, model)
        scale = problem.seconds / below.problem.seconds
        own = reading_cost(asked, node, below.steps[0].rows * scale, step.rows, model)
        found.append(step._replace(node=node, own=own))
        for each in below.steps:
            scaled = (each.own * scale, 0.0, each.rows * scale)
            found.append(CostStep(each.node, each.depth + step.depth + 1, *scaled))
    return WalkedTree(problem, _added_up(found))


def _checks_negations(tree: Tree) -> bool:
    """Are the negations of a piece checked in it?"""
    return isinstance(tree, Taken) or _all_aliases(tree) > bound(tree)


def _taken_steps(
    asked: Query, tree: Taken, step: CostStep, statistics: Statistics, model: JoinCosts
) -> Iterator[CostStep]:
    """What it costs to take the rows of one reader, to mark those of all, and to find these."""
    marked = tree.part
    if not isinstance(marked, Marked) or not 0 <= tree.reader < len(marked.readers):
        raise TreeError("rows are taken by a mark that nothing has set")
    names = bound(marked.part)
    conditions = tuple(c for c in asked.conditions if ex.aliases(c) and ex.aliases(c) <= names)
    bare = narrowed_query(asked, Narrowed(marked.part, None, (), conditions))
    costs = marking_costs(
        named_piece(bare, marked.aliases), marked.tests, marked.readers, statistics, model
    )
    yield step._replace(node=tree, own=costs.reading(tree.reader, model))
    yield CostStep(marked, step.depth + 1, costs.cost, 0.0, costs.rows)
    for each in costs.absent:
        yield each._replace(depth=each.depth + step.depth + 2)
    for each in walk_query(bare, marked.part, statistics, model).steps:
        yield each._replace(depth=each.depth + step.depth + 2)


def _added_up(steps: list[CostStep]) -> list[CostStep]:
    """Steps, the root first, with the costs of all that is below each."""
    found: list[CostStep] = []
    below: dict[int, float] = {}  # by depth, of what follows the step
    for step in reversed(steps):
        total = step.own + below.pop(step.depth + 1, 0.0)
        below[step.depth] = below.get(step.depth, 0.0) + total
        found.append(step._replace(cost=total))
    return found[::-1]


def reading_cost(
    asked: Query, tree: Narrowed, rows: float, kept: float, model: JoinCosts = COMPILED
) -> float:
    """What it costs to look at the rows of a piece and keep those that are the query's."""
    tests = len(list(residual(asked, tree)))
    return FILTERED * cost.filtered(model, rows, tests, min(rows, kept))


def residual(asked: Query, tree: Narrowed) -> Iterator[ex.Expression]:
    """The conditions of a query that a piece did not check of what it binds."""
    own = {event.alias: event.symbol for event in events(asked.pattern)}
    return left_to_check(own, asked.conditions, tree, bound(tree.part))


def left_to_check(
    own: Mapping[str, Symbol],
    conditions: tuple[ex.Expression, ...],
    tree: Narrowed,
    names: frozenset[str],
) -> Iterator[ex.Expression]:
    """Conditions on some aliases that were not checked, those of single symbols included."""
    for alias, symbol in tree.symbols:
        for predicate in own[alias].predicates:
            if predicate not in symbol.predicates:
                yield ex.rename(predicate, {"": alias})
    checked = set(tree.conditions)
    for condition in conditions:
        named = ex.aliases(condition)
        if named and named <= names and canonical(condition) not in checked:
            yield condition


def narrowed_query(asked: Query, tree: Narrowed) -> Query:
    """The piece that a node reads, as a query of its own."""
    names, every = bound(tree.part), _all_aliases(tree.part)
    pattern = with_symbols(_stretch(asked.pattern, names, every), dict(tree.symbols))
    window = asked.window if tree.window is None else tree.window
    return replace(asked, pattern=pattern, conditions=tree.conditions, window=window)


def with_symbols(pattern: Pattern, symbols: Mapping[str, Symbol]) -> Pattern:
    """The same pattern with other symbols for some aliases."""
    match pattern:
        case Event(_, alias):
            return replace(pattern, symbol=symbols[alias]) if alias in symbols else pattern
        case Neg(part):
            return replace(pattern, part=with_symbols(part, symbols))
        case Proj(_, part):
            return replace(pattern, part=with_symbols(part, symbols))
        case Seq(parts) | And(parts) | Or(parts):
            return replace(pattern, parts=tuple(with_symbols(part, symbols) for part in parts))


def _stretch(pattern: Pattern, names: frozenset[str], every: frozenset[str]) -> Pattern:
    """The parts of a pattern that bind these aliases, with the negations between them."""
    for part in parts_of(pattern):
        if not isinstance(part, Neg) and names <= _bound(part) and not isinstance(part, Event):
            return _stretch(part, names, every)
    if not isinstance(pattern, Seq | And):
        raise TreeError(f"{', '.join(sorted(names))} are no parts of one SEQ or AND")
    inside = tuple(
        part
        for part in pattern.parts
        if (_bound(part) <= names if _bound(part) else _named(part) <= every)
    )
    if frozenset().union(*map(_bound, inside)) != names:
        raise TreeError(f"{', '.join(sorted(names))} are no parts of one SEQ or AND")
    return replace(pattern, parts=inside)


def _bound(pattern: Pattern) -> frozenset[str]:
    if isinstance(pattern, Neg):
        return frozenset()
    return frozenset(event.alias for event in positive_events(pattern))


def _named(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in events(pattern))


def _all_aliases(tree: Tree) -> frozenset[str]:
    """All aliases that a tree names, also in its negations."""
    found: set[str] = set()
    for node in walk(tree):
        if isinstance(node, Leaf):
            found.add(node.alias)
        elif isinstance(node, KSeq):
            found |= {closure.alias for closure in node.closures}
    return frozenset(found)
