"""The order in which the parts of a walk are bound: what each costs, and the cheapest.

A walk binds parts depth first. What it tries for a part rests on the *set* that is bound before it:
so many partial matches, each with so many candidates that stand right in time and window, and are
equal where they are looked up. The cheapest order is found by dynamic programming over sets, for
more than a dozen parts by taking the cheapest next and changing two places as long as that helps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from optimizer.cost import unit_costs as cost
from optimizer.cost.unit_costs import JoinCosts
from optimizer.trees.problem import NegatedItem, Predicate, Shape, TreeProblem

MAX_SETS = 12  # parts of which every set is looked at
MAX_PARTS = (
    24  # of a walk that is looked for: beyond, exchanges of parts take longer than they gain
)


def is_walked(model: JoinCosts, shape: Shape) -> bool:
    """May trees have walks? The paper's costs know of none."""
    return model.arrivals == "poisson" and shape in ("any", "walk")


def least_parts(shape: Shape) -> int:
    """So many parts a walk has at the least: of two a join makes nothing in between either."""
    return 2 if shape == "walk" else 3


class WalkPart(NamedTuple):
    """What is bound at once; `plain` are its rows as if the `decided` negations were not there."""

    rows: float
    plain: float
    events: int
    aliases: frozenset[str]
    decided: tuple[NegatedItem, ...] = ()


class PushedGate(NamedTuple):
    """A negation pushed to `part`, which decides where that meets its neighbour `other`."""

    negation: NegatedItem
    part: int
    other: int


class _Tie(NamedTuple):
    """A predicate between two parts."""

    one: int
    other: int
    predicate: Predicate


class WalkOrders:
    """What orders cost of parts as they stand in a pattern; sets of them are numbers of bits."""

    def __init__(
        self,
        problem: TreeProblem,
        parts: Sequence[WalkPart],
        predicates: Sequence[Predicate],
        gates: Sequence[PushedGate] = (),
        ordered: bool = True,
    ) -> None:
        self.problem, self.parts, self.gates, self.ordered = problem, parts, gates, ordered
        self.size = len(parts)
        self.ties: list[_Tie] = []
        self.late: list[tuple[int, Predicate]] = []  # tested when all is bound
        for predicate in predicates:
            inside = [i for i, p in enumerate(parts) if p.aliases & predicate.aliases]
            if len(inside) == 2 and predicate.compares:
                self.ties.append(_Tie(inside[0], inside[1], predicate))
            elif len(inside) > 1:
                self.late.append((sum(1 << i for i in inside), predicate))
        self._rows: dict[int, tuple[float, int]] = {0: (1.0, 0)}
        self._left: dict[tuple[int, int], float] = {}
        self._steps: dict[tuple[int, int], float] = {}

    def cost(self, order: Sequence[int]) -> float:
        """What an order costs."""
        total, known = 0.0, 0
        for part in order:
            total += self.step(known, part)
            known |= 1 << part
        return total + self._given(known)

    def rows(self, known: int) -> float:
        """The rows of a set, before the predicates that are tested late."""
        plain, events = self._plain(known)
        return plain * self._survival(known, self._decided(known), events)

    def _given(self, known: int) -> float:
        """What giving the rows of a set costs, testing what was left, and the indexes."""
        model = self.problem.model
        rows = self.rows(known)
        late = [p for mask, p in self.late if not mask & ~known]
        made = rows * math.prod(p.selectivity for p in late)
        if late:
            rows += made
        parts = [part.rows for i, part in enumerate(self.parts) if known >> i & 1]
        indexes = model.walk_index * len(parts) * sum(parts)
        return indexes + rows * (model.walk_output + len(late) * model.predicate)

    def step(self, known: int, part: int) -> float:
        """What binding a part costs when a set is bound."""
        if (known, part) not in self._steps:
            self._steps[known, part] = self._step(known, part)
        return self._steps[known, part]

    def _step(self, known: int, part: int) -> float:
        model, own = self.problem.model, self.parts[part]
        if not known:
            return own.rows * model.walk_try
        _, events = self._plain(known)
        bound = self.rows(known)
        tried = bound * own.rows * self._pairs(events, own.events)
        gates = self._searched(known, part)
        if gates:
            decided = self._decided(known)
            before = self._survival(known, decided, events)
            both = known | 1 << part
            after = self._survival(both, decided | gates, events + own.events)
            tried *= min(after / before, 1.0) if before else 1.0
        equal: dict[int, float] = {}
        tests = 0
        for one, other, predicate in self.ties:
            partner = other if one == part else one if other == part else -1
            if partner < 0 or not known >> partner & 1:
                continue
            tests += 1
            if predicate.equality and model.equality == "hash":
                equal[partner] = equal.get(partner, 1.0) * predicate.selectivity
        bind = model.walk_bind
        if equal:
            tried *= min(equal.values())
            tests -= 1
            bind += model.walk_look_up
        return bound * bind + tried * (model.walk_try + tests * model.walk_test)

    def _pairs(self, events: int, own: int) -> float:
        """How many of the pairs are tried: those that fit in time, and of longer ones some more."""
        model = self.problem.model
        fit = cost.meeting(model, events, own, self.ordered)
        near = cost.meeting(model, events, 1, self.ordered)
        return self.problem.same_key(events, own) * max(fit, near)

    def _plain(self, known: int) -> tuple[float, int]:
        """The rows of a set without negations, and their events."""
        found = self._rows.get(known)
        if found is None:
            part = known.bit_length() - 1
            rest = known ^ 1 << part
            rows, events = self._plain(rest)
            own = self.parts[part]
            rows *= own.plain * self.problem.same_key(events, own.events)
            rows *= cost.meeting(self.problem.model, events, own.events, self.ordered)
            for one, other, predicate in self.ties:
                if part in (one, other) and rest >> (one + other - part) & 1:
                    rows *= predicate.selectivity
            found = self._rows[known] = rows, events + own.events
        return found

    def _decided(self, known: int) -> int:
        """The gates both of whose sides are in a set, as bits."""
        return sum(
            1 << i
            for i, gate in enumerate(self.gates)
            if known >> gate.part & 1 and known >> gate.other & 1
        )

    def _searched(self, known: int, part: int) -> int:
        """The gates that leave out candidates of a part before they are tried.

        Of gates that are the part's own only those that ascend: no condition chooses what they
        negate.
        """
        return sum(
            1 << i
            for i, gate in enumerate(self.gates)
            if (gate.other == part and known >> gate.part & 1)
            or (gate.part == part and known >> gate.other & 1 and not gate.negation.predicates)
        )

    def _survival(self, known: int, gates: int, events: int) -> float:
        below = [n for i, p in enumerate(self.parts) if known >> i & 1 for n in p.decided]
        if not gates and not below:
            return 1.0
        key = (gates, known if below else -events)
        if key not in self._left:
            here = [gate.negation for i, gate in enumerate(self.gates) if gates >> i & 1]
            names = frozenset().union(
                *(p.aliases for i, p in enumerate(self.parts) if known >> i & 1)
            )
            self._left[key] = self.problem.survival((*below, *here), names)
        return self._left[key]

    # --- the cheapest --------------------------------------------------------------------------

    def best(self) -> tuple[float, tuple[int, ...]]:
        """The cheapest order of all parts, and its cost."""
        every = (1 << self.size) - 1
        if self.size > MAX_SETS:
            order = self._improved(self._greedy())
            return self.cost(order), order
        return self.best_of(every)

    def best_of(self, every: int) -> tuple[float, tuple[int, ...]]:
        """The cheapest order of a set, and its cost; what was found for smaller ones is kept."""
        least, last = self._tables()
        order: list[int] = []
        known = every
        while known:
            order.append(last[known])
            known ^= 1 << last[known]
        return least[every] + self._given(every), tuple(reversed(order))

    def _tables(self) -> tuple[list[float], list[int]]:
        """For each set what binding it costs, and which part is bound last."""
        if not hasattr(self, "_known_tables"):
            many = 1 << self.size
            least, last = [math.inf] * many, [-1] * many
            least[0] = 0.0
            for known in range(many - 1):
                for part in range(self.size):
                    if not known >> part & 1:
                        total = least[known] + self.step(known, part)
                        both = known | 1 << part
                        if last[both] < 0 or total < least[both] * (1 - 1e-12):
                            least[both], last[both] = total, part
            self._known_tables = least, last
        return self._known_tables

    def _greedy(self) -> tuple[int, ...]:
        """Always what leaves the fewest, and of these the cheapest next."""
        best: tuple[float, tuple[int, ...]] | None = None
        for first in range(self.size):
            order, known = [first], 1 << first
            while len(order) < self.size:
                left = [p for p in range(self.size) if not known >> p & 1]
                step = min(left, key=lambda p: (self.step(known, p) + self.rows(known | 1 << p), p))
                order.append(step)
                known |= 1 << step
            total = self.cost(order)
            if best is None or total < best[0]:
                best = total, tuple(order)
        assert best is not None
        return best[1]

    def _improved(self, order: tuple[int, ...]) -> tuple[int, ...]:
        """The order with two places changed as long as that helps."""
        total = self.cost(order)
        while True:
            better = min(((self.cost(other), other) for other in _exchanged(order)), default=None)
            if better is None or better[0] >= total * (1 - 1e-9):
                return order
            total, order = better


def _exchanged(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The orders in which two parts have changed places, or one stands elsewhere."""
    size = len(order)
    for i, j in itertools.combinations(range(size), 2):
        other = list(order)
        other[i], other[j] = other[j], other[i]
        yield tuple(other)
        yield (*order[:i], *order[i + 1 : j + 1], order[i], *order[j + 1 :])
        yield (*order[:i], order[j], *order[i:j], *order[j + 1 :])
