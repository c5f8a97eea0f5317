"""The best places there are, by branch and bound, or none at all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sharing.counting.benefit import Worth
from sharing.counting.candidates import FEWEST_QUERIES, Candidates
from sharing.errors import BudgetError
from sharing.solvers.candidates.solution import DEFAULT, Options
from sharing.solvers.placements.greedy import start_of
from sharing.solvers.placements.placement import Placement, begins, served, weight_of, worthwhile

_CLOSE = 1 + 1e-12  # what is worth more by less than rounding is not worth more
_ROUNDS = 20  # of dealing out what is paid once
_LESS = 0.5  # of its part for a place that would not be served


def exhaustive(candidates: Candidates, worth: Worth, options: Options = DEFAULT) -> Placement:
    """Whether each candidate is computed, and where it serves, decided one after the other.

    A step looks for the best places of one query by what is decided. Queries that have no candidate
    in common are searched each by themselves. Raises BudgetError where `options.steps` do not
    suffice.
    """
    search = _Search(candidates, worth, options.steps)
    start = start_of(candidates, worth, options)
    kept = np.zeros_like(start)
    for part in search.components():
        kept[sorted(search.best(part, set(np.flatnonzero(start).tolist())))] = True
    weight = weight_of(candidates, worth, kept)
    return served("exhaustive", candidates, worth, kept, weight, search.steps)


class _Decided(NamedTuple):
    """What a node of the search has settled: candidates computed or not, places served or not."""

    computed: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    taken: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()


class _Relaxed(NamedTuple):
    """The best places where each pays its part of what is paid once, and what they are worth."""

    bound: float
    kept: dict[int, list[int]]  # places by candidate
    offered: dict[int, list[int]]


class _Search:
    def __init__(self, candidates: Candidates, worth: Worth, budget: int) -> None:
        self._budget = budget
        self.steps = 0
        self._gain: list[float] = worth.gain.tolist()
        self._once: list[float] = worth.once.tolist()
        self._length, self._holder = candidates.length.tolist(), candidates.holder.tolist()
        self._query, self._begin = candidates.query.tolist(), begins(candidates).tolist()
        self._open = worthwhile(candidates, worth).tolist()
        self._places = {
            i: range(int(candidates.first[i]), int(candidates.first[i + 1])) for i in self._open
        }
        self._part = dict.fromkeys(range(len(self._holder)), 1.0)  # of what is paid once, by place

    def components(self) -> Iterator[list[int]]:
        """The candidates of queries that have to do with each other."""
        in_query: dict[int, list[int]] = defaultdict(list)
        for i in self._open:
            for query in {self._query[place] for place in self._places[i]}:
                in_query[query].append(i)
        left = set(self._open)
        while left:
            found, part = [min(left)], set[int]()
            while found:
                i = found.pop()
                if i not in part:
                    part.add(i)
                    for query in {self._query[place] for place in self._places[i]}:
                        found += in_query[query]
            left -= part
            yield sorted(part)

    def best(self, part: list[int], start: set[int]) -> set[int]:
        """The places that are worth the most, of these candidates."""
        known = {i: [place for place in self._places[i] if place in start] for i in part}
        best = {place for places in known.values() for place in places}
        weight = self._value(known)
        open_ = [_Decided()]
        self._deal(part)
        while open_:
            decided = open_.pop()
            relaxed = self._relaxed(part, decided)
            if relaxed is None or relaxed.bound <= weight * _CLOSE:
                continue
            paying = {i: own for i, own in relaxed.kept.items() if self._pays(i, own)}
            if (value := self._value(paying)) > weight:
                best, weight = {place for own in paying.values() for place in own}, value
            open_ += self._branches(decided, relaxed)
        return best

    def _deal(self, part: list[int]) -> None:
        """Let places pay such parts of what is paid once that the bound is low.

        Any parts give a bound. Places that would be served at their price pay more in the next
        round, and others less.
        """
        best, lowest = self._part, math.inf
        for _ in range(_ROUNDS):
            relaxed = self._relaxed(part, _Decided())
            assert relaxed is not None
            if relaxed.bound < lowest:
                best, lowest = dict(self._part), relaxed.bound
            for i in part:
                own = set(relaxed.kept.get(i, ()))
                for place in self._places[i]:
                    self._part[place] *= 1.0 if place in own else _LESS
        self._part = best

    def _branches(self, decided: _Decided, relaxed: _Relaxed) -> list[_Decided]:
        """The two ways to decide what the relaxed choice leaves open, the likelier one last."""
        partly = [
            (self._unpaid(i, own, relaxed.offered[i]), i)
            for i, own in relaxed.kept.items()
            if i not in decided.computed and len(own) < len(relaxed.offered[i])
        ]
        if partly:
            _, i = max(partly)
            return [
                decided._replace(dropped=decided.dropped | {i}),
                decided._replace(computed=decided.computed | {i}),
            ]
        for i in sorted(decided.computed):
            own = relaxed.kept.get(i, [])
            if self._queries(own) < FEWEST_QUERIES:
                served = {self._query[place] for place in own}
                more = (p for p in relaxed.offered[i] if self._query[p] not in served)
                place = next(more)
                return [
                    decided._replace(barred=decided.barred | {place}),
                    decided._replace(taken=decided.taken | {place}),
                ]
        return []

    def _unpaid(self, i: int, own: list[int], offered: list[int]) -> float:
        """What the relaxed choice does not pay of what is paid once."""
        paid = sum(self._part[place] for place in own) / sum(self._part[place] for place in offered)
        return self._once[i] * (1 - paid)

    def _relaxed(self, part: list[int], decided: _Decided) -> _Relaxed | None:
        """No choice that keeps to what is decided is worth more; None where there is none."""
        covered = {cell for place in decided.taken for cell in self._cells(place)}
        by_query: dict[int, list[tuple[int, float]]] = defaultdict(list)
        kept: dict[int, list[int]] = defaultdict(list)
        offered: dict[int, list[int]] = {}
        bound = 0.0
        for i in part:
            if i in decided.dropped:
                continue
            free = [
                place
                for place in self._places[i]
                if place in decided.taken
                or (place not in decided.barred and covered.isdisjoint(self._cells(place)))
            ]
            offered[i] = free
            computed = i in decided.computed
            if self._queries(free) < FEWEST_QUERIES:
                if computed:
                    return None
                continue
            paid = 0.0
            if computed:
                bound -= self._once[i]
            else:
                paid = self._once[i] / sum(self._part[place] for place in free)
            for place in free:
                value = self._gain[i] - paid * self._part[place]
                if place in decided.taken:
                    kept[i].append(place)
                    bound += value
                elif value > 0:
                    by_query[self._query[place]].append((place, value))
        for values in by_query.values():
            worth, places = self._scheduled(values)
            bound += worth
            for place in places:
                kept[self._holder[place]].append(place)
        return _Relaxed(bound, kept, offered)

    def _scheduled(self, values: list[tuple[int, float]]) -> tuple[float, tuple[int, ...]]:
        """The places of one query that do not overlap and are worth the most."""
        self.steps += 1
        if self.steps > self._budget:
            raise BudgetError(
                f"the exhaustive search among {len(self._open):,} candidates is not done after "
                f"{self._budget:,} steps; take the solver cpsat or greedy"
            )
        best: list[tuple[int, float, tuple[int, ...]]] = [(-1, 0.0, ())]  # up to ends, in order
        ends = sorted((self._cells(place).stop, place, value) for place, value in values)
        for end, place, value in ends:
            before = next(b for b in reversed(best) if b[0] <= self._begin[place])
            if before[1] + value > best[-1][1]:
                best.append((end, before[1] + value, (*before[2], place)))
        return best[-1][1:]

    def _cells(self, place: int) -> range:
        begin = self._begin[place]
        return range(begin, begin + self._length[self._holder[place]])

    def _queries(self, places: Iterable[int]) -> int:
        return len({self._query[place] for place in places})

    def _pays(self, i: int, places: list[int]) -> bool:
        enough = self._queries(places) >= FEWEST_QUERIES
        return enough and self._gain[i] * len(places) > self._once[i]

    def _value(self, kept: dict[int, list[int]]) -> float:
        return sum(self._gain[i] * len(own) - self._once[i] for i, own in kept.items() if own)
