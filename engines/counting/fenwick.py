"""Sequences whose neighbours are compared (`a.x < b.x`), counted by Fenwick trees over ranks.

Queries that begin with the same components and comparisons share the counters of that prefix, each
with its own window, slide and aggregates (`kernels.fenwick.cpu`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.columns.vectors import EXACT_DOUBLE, Vector, compare
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
from engines.counting.pretree import Member, Prefix, prefixes_of, tree_of
from engines.counting.tables import ints, pointers
from kernels.fenwick import cpu as kernel
from kernels.groups import Spans
from kernels.windows.cpu import most_of_letters
from optimizer.ir.chain import Chain, NeighbourComparison, compared_chain_of

Float64s = npt.NDArray[np.float64]

FEWEST_STARTS, MOST_STARTS = 8, 256  # at once
BLOCK_WINDOWS = 4  # windows whose STARTs are a block
MOST_COUNTERS = 1 << 23  # of a block's last window


def count(
    plan: CountingPlan, columns: Columns, layout: Layout, spans: Spans, is_count: bool
) -> CountResult | None:
    """Count the plan's queries, those that begin alike in one tree. As `product.count`."""
    prepared = prepare(plan, columns, layout, spans.widest, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    dual = may_overflow(plan, prepared, spans)
    trees: dict[object, list[Member]] = defaultdict(list)
    for q, query in enumerate(plan.queries):
        chain = compared_chain_of(query)
        assert isinstance(chain, Chain), chain
        begin = chain.components[0].symbol, chain.gaps[0]
        trees[begin].append(Member(q, chain, plan.terms[q].values, plan.terms[q].triggers))
    keys = _Keys(columns, layout.order[prepared.used])
    found = []
    for members in trees.values():
        tree = tree_of(members, prepared.letters)
        nodes, paths = prefixes_of(members)
        comparisons = _comparisons(nodes, {path[-1] for path in paths}, keys)
        own = spans.of(ints(member.query for member in members))
        block = _block(prepared, nodes, own.widest)
        arguments = prepared.groups, tree, comparisons, own, block, dual
        capacity = capacity_for(prepared.groups, np.diff(tree.triggered), own)
        run = partial(kernel.count_compared, *arguments)
        found.append(filled(run, capacity, dual, plan.most_values))
    return counted(prepared, layout, joined(found), dual, (spans.slide > 0) & is_count)


def _block(prepared: LetterGroups, nodes: Sequence[Prefix], width: int) -> int:
    """How many STARTs are taken at once.

    Each block visits the events of its windows again, so it has more of them than a window; and not
    so many that its counters would fill the processor's cache, or the memory.
    """
    groups, letters = prepared.groups, prepared.letters
    most = most_of_letters(
        groups.run, groups.position, groups.event, groups.move_letter, len(letters.moves), width
    )
    starts = stored = 0
    for (symbols, _), number in zip(letters.moves, most.tolist(), strict=True):
        starts += number * (nodes[0].symbol in symbols)
        stored += number * sum(node.symbol in symbols for node in nodes[1:])
    block = min(MOST_STARTS, BLOCK_WINDOWS * starts, MOST_COUNTERS // max(1, stored))
    return max(FEWEST_STARTS, block)


class _Keys:
    """What is compared, as doubles of the same order: values, or their ranks where these round."""

    def __init__(self, columns: Columns, rows: npt.NDArray[np.int64]) -> None:
        self._columns, self._rows = columns, rows
        self._numbers: dict[object, int] = {}
        self.found: list[Float64s] = []

    def sides(self, comparison: NeighbourComparison) -> tuple[int, int]:
        """The numbers of the keys of the earlier and the later event."""
        names = comparison.earlier, comparison.later
        vectors = [self._columns.vector(name) for name in names]
        places = [
            (name, comparison.descending) if _is_exact(*vectors)
            else (*names, i, comparison.descending)
            for i, name in enumerate(names)
        ]  # fmt: skip
        if not all(place in self._numbers for place in places):
            one, other = (vector.take(self._rows) for vector in vectors)
            for place, values in zip(places, as_keys(one, other), strict=True):
                if place not in self._numbers:
                    self._numbers[place] = len(self.found)
                    self.found.append(-values if comparison.descending else values)
        return self._numbers[places[0]], self._numbers[places[1]]


def _is_exact(*vectors: Vector) -> bool:
    """Are all values doubles, or integers that doubles hold, as codes of texts are?"""
    return all(
        vector.kind in ("float", "bool", "string", "null")
        or (vector.kind == "int" and vector.bound <= EXACT_DOUBLE)
        for vector in vectors
    )


def as_keys(one: Vector, other: Vector) -> tuple[Float64s, Float64s]:
    """Two columns as doubles that compare as their values do; NaN compares with nothing."""
    none = np.zeros(0, np.int64)
    compare("<", one.take(none), other.take(none))  # says it where they have no order
    found = tuple(np.full(len(vector.values), np.nan) for vector in (one, other))
    if "null" in (one.kind, other.kind):
        return found[0], found[1]
    present = [vector.present() for vector in (one, other)]
    values = [v.values[there] for v, there in zip((one, other), present, strict=True)]
    if not _is_exact(one, other):
        if one.kind != other.kind:
            values = [part.astype(object) for part in values]  # compared without rounding
            for i, part in enumerate(values):
                real = np.array([value == value for value in part], np.bool_)
                present[i] = present[i].copy()
                present[i][np.flatnonzero(present[i])[~real]] = False
                values[i] = part[real]
        _, ranks = np.unique(np.concatenate(values), return_inverse=True)
        values = np.split(ranks.reshape(-1), [len(values[0])])
    for column, there, part in zip(found, present, values, strict=True):
        column[there] = part
    return found[0], found[1]


def _comparisons(nodes: Sequence[Prefix], finals: set[int], keys: _Keys) -> kernel.Comparisons:
    """The tables of a tree's comparisons."""
    sides = [(-1, -1) if n.comparison is None else keys.sides(n.comparison) for n in nodes]
    tables: dict[tuple[int, int], int] = {}
    for node, (left, _) in zip(nodes, sides, strict=True):
        if node.parent > 0 and left >= 0:
            tables.setdefault((node.parent, left), len(tables))
    plain = {node.parent for node, (left, _) in zip(nodes, sides, strict=True) if left < 0}
    return kernel.Comparisons(
        np.array(keys.found, np.float64).reshape(len(keys.found), -1),
        ints(left for left, _ in sides),
        ints(right for _, right in sides),
        np.array([n.comparison is not None and n.comparison.strict for n in nodes], np.bool_),
        ints(tables.get((n.parent, left), -1) for n, (left, _) in zip(nodes, sides, strict=True)),
        *pointers([t for (owner, _), t in tables.items() if owner == i] for i in range(len(nodes))),
        ints(left for _, left in tables),
        np.array([i in plain or i in finals for i in range(len(nodes))], np.bool_),
    )
