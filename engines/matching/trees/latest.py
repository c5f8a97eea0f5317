"""Of a tree, what need not be looked at again where the matches of earlier batches are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engines.columns.vectors import Mask
from engines.matching.trees.buffers import Buffer
from optimizer.plan import join_operators as op
from optimizer.plan.join_operators import Operator


def ending_last(roots: Iterable[tuple[Operator, bool]]) -> frozenset[Operator]:
    """The operators of which nobody reads a row that ends before the latest events.

    Of each root is said whether it is one. The right row of a pair in order ends with the pair, so
    that rows that are new need all that stands left of them, and what is new on their right.
    """
    whole: set[Operator] = set()
    latest: set[Operator] = set()

    def read(operator: Operator, is_latest: bool) -> None:
        known = latest if is_latest else whole
        if operator in known or operator in whole:
            return
        known.add(operator)
        match operator:
            case op.Join(left, right, ordered=True):
                read(left, False)
                read(right, is_latest)
            case op.Walk(parts, ordered=True):
                for part in parts[:-1]:
                    read(part, False)
                read(parts[-1], is_latest)
            case op.Keep(part) | op.Within(part) | op.Taken(part):
                read(part, is_latest)
            case op.Marked(part):
                read(part, is_latest)
                for negation in op.inputs(operator)[1:]:
                    read(negation, False)
            case op.Push(part, negation) | op.Absent(part, negation):
                read(part, is_latest)
                read(negation, False)
            case _:
                for part in op.inputs(operator):
                    read(part, False)

    for root, is_latest in roots:
        read(root, is_latest)
    return frozenset(latest - whole)


@dataclass(frozen=True)
class Latest:
    """The events that are new, by place, and the operators that matter only where they end so."""

    places: Mask
    operators: frozenset[Operator]

    def rows(self, join: Operator, right: Buffer) -> Buffer:
        """Of the right rows of a join, those that its readers can have any use for."""
        if join not in self.operators:
            return right
        new = self.places[right.last]
        return right if new.all() else right.take(np.flatnonzero(new))
