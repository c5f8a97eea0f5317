"""What it costs to check the negations of all readers of a piece, and to take the rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optimizer.cost.unit_costs import JoinCosts
from optimizer.ir.pattern import (
    Event,
    Neg,
    Seq,
    parts_of,
    rename,
)
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees.build_problem import compile_query
from optimizer.trees.cost_walk import CostStep, walk_cost
from optimizer.trees.errors import TreeError
from optimizer.trees.marks import MarkTest, component
from optimizer.trees.negation import links, negated_choices
from optimizer.trees.plain import latest_tree, plain_tree
from optimizer.trees.problem import NegatedItem, negations_of
from workloads import expressions as ex

# Of what a join takes for a row: the bounds of a gap, and what follows there; one more that may be
# what follows; a search for a negation of its own, which is no single event or has conditions; the
# marks of a row; and a row that is taken, or passed over, by its mark.
GAP, LOOK, SEARCH, KEPT, TAKEN, PASSED = 2.6, 0.2, 1.3, 0.6, 0.8, 0.05
ALL = 1 - 1e-9  # of the rows: they are given on as they are


@dataclass(frozen=True, slots=True)
class MarkingCosts:
    """What checking takes, and how many rows are left: for some reader, and for each of them.

    All are by the window of the piece, which is `seconds` long. `absent` is what it takes to find
    what is negated.
    """

    cost: float
    rows: float
    taken: tuple[float, ...]
    seconds: float
    absent: tuple[CostStep, ...] = ()

    def reading(self, reader: int, model: JoinCosts) -> float:
        """What it takes to find the rows of a reader."""
        own = self.taken[reader]
        return PASSED * self.rows + (TAKEN * model.output * own if own < ALL * self.rows else 0.0)


def marking_costs(
    piece: Query,
    tests: Sequence[MarkTest],
    readers: Sequence[Sequence[int]],
    statistics: Statistics,
    model: JoinCosts,
) -> MarkingCosts:
    """The costs over a piece without negations, whose components are called c1, c2 …"""
    before = compile_query(piece, statistics, (), model).rows
    every = compile_query(with_tests(piece, tests), statistics, (), model)
    found: dict[int, list[NegatedItem]] = {}
    for item in (*negations_of(every.root), *every.top):
        number = int(min(item.aliases).rsplit("_", 1)[1])
        found.setdefault(number, []).append(item)
    taken = tuple(
        before * every.survival([n for i in asked for n in found[i]], every.root.aliases)
        for asked in readers
    )
    gone = 1.0
    for rows in taken:
        gone *= 1 - min(1.0, rows / before) if before else 0.0
    left = before * (1 - gone)
    gaps = len({test.after for test in tests})
    looks = sum(map(_look, tests))
    cost = before * (GAP * gaps + looks) + KEPT * left
    absent = [
        step
        for number, items in found.items()
        for item in items
        for step in _absent(item, tests[number].numbered(number))
    ]
    return MarkingCosts(cost, left, taken, every.seconds, tuple(absent))


def _look(test: MarkTest) -> float:
    single = isinstance(test.negation, Event) and not test.conditions
    return LOOK if single else SEARCH + LOOK * len(test.conditions)


def named_piece(piece: Query, aliases: Sequence[str]) -> Query:
    """A piece of components one after the other, which are called c1, c2 … in the order given."""
    names = {alias: component(i) for i, alias in enumerate(aliases, 1)}
    parts = {part.alias: part for part in parts_of(piece.pattern) if isinstance(part, Event)}
    if not isinstance(piece.pattern, Seq) or parts.keys() != names.keys():
        raise TreeError("only the components of a SEQ have marks")
    return replace(
        piece,
        pattern=Seq(tuple(rename(parts[alias], names) for alias in aliases)),
        conditions=tuple(ex.rename(condition, names) for condition in piece.conditions),
    )


def with_tests(piece: Query, tests: Sequence[MarkTest]) -> Query:
    """The piece with some negations."""
    assert isinstance(piece.pattern, Seq)
    parts: list[Event | Neg] = []
    conditions = list(piece.conditions)
    for number, part in enumerate(piece.pattern.parts, 1):
        assert isinstance(part, Event)
        parts.append(part)
        for other, test in enumerate(tests):
            if test.after != number:
                continue
            own = test.numbered(other)
            parts.append(Neg(own.negation))
            conditions += own.conditions
    return replace(piece, pattern=Seq(tuple(parts)), conditions=tuple(conditions))


def _absent(item: NegatedItem, test: MarkTest) -> list[CostStep]:
    """What it takes to find what is negated.

    Nothing where that is one of several things, or where it is found as something simpler.
    """
    choices = negated_choices(Neg(test.negation), test.conditions)
    if len(choices) > 1:
        return []
    chain = links(choices[0], test.conditions)
    tree = plain_tree(choices[0]) if chain is None else latest_tree(chain)
    try:
        return walk_cost(item.problem, tree)
    except TreeError:
        return []
