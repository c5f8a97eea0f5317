"""Queries that begin alike share a tree of prefix counters (PreTree, section 4.1 of Qi's thesis).

A counter is a prefix of symbols, with what is negated after each: an event that clears it does so
in every query that has it. Queries that begin with the same symbol share its STARTs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Value
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    LetterGroups,
    capacity_for,
    counted,
    filled,
    joined,
    may_overflow,
    nothing,
    prepare,
)
from engines.counting.tables import Letters, by_letter, ints, pointers, where
from kernels.groups import ResultRows, Spans
from kernels.prefixes import cpu as kernel
from optimizer.ir.automaton import Symbols
from optimizer.ir.chain import Chain, NeighbourComparison, chain_of
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query


class Member(NamedTuple):
    """A query of a tree: its number in the plan, its chain, and the values it asks for.

    `triggers` are the symbols whose events it is read at.
    """

    query: int
    chain: Chain
    values: tuple[Value, ...]
    triggers: Symbols


def refusal(query: Query) -> str | None:
    """None if the query can be counted by prefixes, else why not."""
    found = chain_of(query)
    return found if isinstance(found, str) else None


def count(
    plan: CountingPlan, columns: Columns, layout: Layout, spans: Spans, is_count: bool
) -> CountResult | None:
    """Count the plan's queries, those of one START in one tree. As `product.count`.

    The rows of each query come in order, one query's after another's as the trees come.
    """
    return count_trees(plan, columns, layout, spans, is_count, by_start)


def count_trees(
    plan: CountingPlan,
    columns: Columns,
    layout: Layout,
    spans: Spans,
    is_count: bool,
    together: Callable[[Chain], object] | None,
) -> CountResult | None:
    """The same with a tree for each value of `together`, or for each query."""
    prepared = prepare(plan, columns, layout, spans.widest, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    dual = may_overflow(plan, prepared, spans)
    rows = tree_rows(plan, prepared, spans, dual, together)
    return counted(prepared, layout, rows, dual, (spans.slide > 0) & is_count)


def by_start(chain: Chain) -> object:
    """What queries of one tree have in common: the symbol that they begin with."""
    return chain.components[0].symbol


def tree_rows(
    plan: CountingPlan,
    prepared: LetterGroups,
    spans: Spans,
    dual: bool,
    together: Callable[[Chain], object] | None = by_start,
) -> ResultRows:
    """The rows of the plan's queries, with a tree for each value of `together`, or each query."""
    found = [
        _run(
            tree_of(members, prepared.letters),
            prepared,
            plan.most_values,
            spans.of(ints(member.query for member in members)),
            dual,
        )
        for members in members_by_tree(plan, together)
    ]
    return joined(found)


def members_by_tree(
    plan: CountingPlan, together: Callable[[Chain], object] | None
) -> list[list[Member]]:
    """The plan's queries by tree."""
    trees: dict[object, list[Member]] = defaultdict(list)
    for q, query in enumerate(plan.queries):
        chain = chain_of(query)
        assert isinstance(chain, Chain), chain
        key = q if together is None else together(chain)
        trees[key].append(Member(q, chain, plan.terms[q].values, plan.terms[q].triggers))
    return list(trees.values())


def _run(
    tree: kernel.PrefixTree,
    prepared: LetterGroups,
    most_values: int,
    spans: Spans,
    dual: bool,
) -> ResultRows:
    groups = prepared.groups
    return filled(
        partial(kernel.count_prefixes, groups, tree, spans, dual),
        capacity_for(groups, np.diff(tree.triggered), spans),
        dual,
        most_values,
    )


class Prefix(NamedTuple):
    """A node of the tree: a prefix of queries, by its last component."""

    parent: int
    symbol: Symbol
    gap: Symbols  # what clears it
    comparison: NeighbourComparison | None  # with its parent's event


def prefixes_of(members: Sequence[Member]) -> tuple[list[Prefix], list[list[int]]]:
    """The nodes of a tree of queries, parents first, and those that each query goes along."""
    numbers: dict[Prefix, int] = {}
    paths = []
    for member in members:
        path: list[int] = []
        chain = member.chain
        compared = chain.comparisons or [None] * len(chain.components)
        for component, gap, comparison in zip(chain.components, chain.gaps, compared, strict=True):
            node = Prefix(path[-1] if path else -1, component.symbol, gap, comparison)
            path.append(numbers.setdefault(node, len(numbers)))
        paths.append(path)
    return list(numbers), paths


def tree_of(members: Sequence[Member], letters: Letters) -> kernel.PrefixTree:
    """The tables of a tree of queries for the letters of a stream."""
    nodes, paths = prefixes_of(members)
    slots = _Slots(members, paths)
    gates = list(dict.fromkeys(m.chain.gate for m in members if m.chain.gate))
    moves = [symbols for symbols, _ in letters.moves]
    return kernel.PrefixTree(
        ints(node.parent for node in nodes),
        *by_letter(moves, lambda s: where(node.symbol in s for node in nodes)),
        *by_letter(letters.stays, lambda s: where(node.gap & s for node in nodes)),
        *by_letter(letters.stays, lambda s: where(gate & s for gate in gates)),
        ints([len(gates)]),
        slots.pointers(len(nodes)),
        ints(slot.kind for slot in slots.slots),
        ints(slots.source(slot, nodes) for slot in slots.slots),
        ints(slot.input for slot in slots.slots),
        *by_letter(moves, lambda s: where(member.triggers & s for member in members)),
        ints(member.query for member in members),
        ints(path[-1] for path in paths),
        ints(gates.index(m.chain.gate) if m.chain.gate else -1 for m in members),
        *pointers(slots.read(m, path) for m, path in zip(members, paths, strict=True)),
    )


class _Slot(NamedTuple):
    node: int
    level: int  # of the component whose attribute it is
    kind: int
    input: int


class _Slots:
    """The values that travel with counts, from their component to the end of the query."""

    def __init__(self, members: Sequence[Member], paths: Sequence[list[int]]) -> None:
        found = {
            slot
            for member, path in zip(members, paths, strict=True)
            for value in member.values
            for slot in _carried(member.chain, value, path)
        }
        self.slots = sorted(found)
        self._number = {slot: i for i, slot in enumerate(self.slots)}

    def pointers(self, nodes: int) -> np.ndarray:
        """Where the slots of each node begin; they stand together."""
        return np.searchsorted([slot.node for slot in self.slots], np.arange(nodes + 1))

    def source(self, slot: _Slot, nodes: Sequence[Prefix]) -> int:
        """The same value's slot at the node above, or -1 at its own component."""
        return self._number.get(slot._replace(node=nodes[slot.node].parent), -1)

    def read(self, member: Member, path: list[int]) -> list[int]:
        """The slots of a query's values at its end."""
        return [self._number[_carried(member.chain, v, path)[-1]] for v in member.values]


def _carried(chain: Chain, value: Value, path: list[int]) -> list[_Slot]:
    level = chain.level(value.alias)
    return [_Slot(node, level, value.kind, value.input) for node in path[level:]]
