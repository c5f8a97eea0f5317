"""Machines of many queries to what the kernel of panes runs on: products, and how they connect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engines.counting.compile import Counters, Term, Value, explore_all, operators_of
from engines.counting.tables import ExploredMachine, Letters, pointers
from kernels.panes.cpu import Classes, Connections, Cuts
from kernels.product.cpu import MOVES, STAYS, Operators


class WindowSpan(NamedTuple):
    """The window and the slide of a query, in ticks."""

    width: int
    slide: int


class PaneTables(NamedTuple):
    """What the kernel of panes is called with."""

    operators: Operators
    connections: Connections
    classes: Classes


def compile_panes(
    terms: Sequence[Term], spans: Sequence[WindowSpan], letters: Letters
) -> PaneTables:
    """The tables of queries with these windows and slides for the letters of a stream."""
    explored = explore_all(terms, letters)
    wanted: dict[int, dict[Value, None]] = defaultdict(dict)
    for term in terms:
        for machine in term.machines:
            wanted[id(machine)].update(dict.fromkeys(term.values))
    counters = Counters(explored, wanted, ("append",))
    operators = operators_of(counters, letters, set())
    splits = _Splits(explored, wanted, counters, _always_one(operators))
    finals, results = ends_of(terms, explored, counters)
    connections = Connections(
        np.array(splits.left_alone, np.uint32),
        np.array(splits.right_alone, np.uint32),
        *_pairs(splits.terms),
        *_pairs(splits.ahead),
        *_pairs(splits.behind),
        *_lists(finals),
        np.cumsum([0, *map(len, results)]).astype(np.uint64),
        np.array([value.kind for term in terms for value in term.values], np.int64),
        *_lists([part for mine in results for part in mine]),
    )
    return PaneTables(operators, connections, _classes(terms, spans, splits, finals, results))


def ends_of(
    terms: Sequence[Term], explored: dict[int, ExploredMachine], counters: Counters
) -> tuple[list[list[int]], list[list[list[int]]]]:
    """The counters that are a query's count, and by value those that it is put together from."""
    finals: list[list[int]] = []
    results: list[list[list[int]]] = []  # by query and value
    for term in terms:
        ends = [(id(m), f) for m in term.machines for f in explored[id(m)].finals]
        finals.append([c for key, f in ends if (c := counters.count(key, 0, f)) is not None])
        results.append(
            [
                [c for key, f in ends if (c := counters.value(key, value, 0, f)) is not None]
                for value in term.values
            ]
        )
    return finals, results


def cuts_of(spans: Iterable[WindowSpan]) -> Cuts:
    """Where windows close, and where they open."""
    found = {(s.slide, phase): None for s in spans for phase in (0, -s.width % s.slide)}
    # A cut is left out where a finer one makes it anyway.
    kept = [
        (period, phase)
        for period, phase in found
        if not any(
            period % finer == 0 and (phase - other) % finer == 0
            for finer, other in found
            if (finer, other) != (period, phase)
        )
    ]
    return Cuts(*np.array(kept, np.int64).T.copy())


def _always_one(operators: Operators) -> npt.NDArray[np.bool_]:
    """The counters that are one and that no letter changes."""
    tables = operators.tables
    found: npt.NDArray[np.bool_] = operators.start_counts == 1
    found[tables[tables[MOVES] : tables[MOVES + 1] : 2]] = False
    found[tables[tables[STAYS] : tables[STAYS + 1] : 3]] = False
    return found


class _Splits:
    """How counters of two stretches together are summed up from those of the two.

    The ways from state i to state j are summed up over the states k in which the left stretch can
    end: its ways from i to k, times the right one's from k to j. A value lies in one of the two.
    """

    def __init__(
        self,
        explored: dict[int, ExploredMachine],
        wanted: dict[int, dict[Value, None]],
        counters: Counters,
        always_one: npt.NDArray[np.bool_],
    ) -> None:
        size, values = len(counters.shown), len(counters.value_shown)
        self.left_alone, self.right_alone = [size] * size, [size] * size
        self.terms: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        self.ahead: list[list[tuple[int, int]]] = [[] for _ in range(values)]
        self.behind: list[list[tuple[int, int]]] = [[] for _ in range(values)]
        self._counters, self._always_one = counters, always_one.tolist()
        done: set[int] = set()
        done_values: set[int] = set()
        for key, machine in explored.items():
            leads = [frozenset(reached) for reached in machine.after]
            for i, reached in enumerate(machine.after):
                for j in reached:
                    between = [k for k in reached if j in leads[k]]
                    c = self._count(key, i, j)
                    if c not in done:
                        done.add(c)
                        self._split(c, key, i, j, between)
                    for value in wanted.get(key, ()):
                        v = counters.value(key, value, i, j)
                        if v is not None and v not in done_values:
                            done_values.add(v)
                            self._split_value(v, key, value, i, j, between)

    def _count(self, key: int, i: int, j: int) -> int:
        counter = self._counters.count(key, i, j)
        assert counter is not None, "no way leads there"
        return counter

    def _split(self, c: int, key: int, i: int, j: int, between: list[int]) -> None:
        nothing = len(self.terms)
        for k in between:
            left, right = self._count(key, i, k), self._count(key, k, j)
            if self._always_one[left] and self.right_alone[c] == nothing:
                self.right_alone[c] = right
            elif self._always_one[right] and self.left_alone[c] == nothing:
                self.left_alone[c] = left
            else:
                self.terms[c].append((left, right))

    def _split_value(
        self, v: int, key: int, value: Value, i: int, j: int, between: list[int]
    ) -> None:
        for k in between:
            left = self._counters.value(key, value, i, k)
            right = self._counters.value(key, value, k, j)
            if left is not None:
                self.ahead[v].append((left, self._count(key, k, j)))
            if right is not None:
                self.behind[v].append((self._count(key, i, k), right))

    def counters_behind(self, c: int) -> Iterator[int]:
        """The counters of the right stretch that a counter is summed up from."""
        if self.right_alone[c] < len(self.terms):
            yield self.right_alone[c]
        for _, right in self.terms[c]:
            yield right


def _classes(
    terms: Sequence[Term],
    spans: Sequence[WindowSpan],
    splits: _Splits,
    finals: list[list[int]],
    results: list[list[list[int]]],
) -> Classes:
    """The queries of each window and slide, and all columns that theirs are summed up from.

    Those that would be counted apart by another kernel are a class of their own.
    """
    members: dict[tuple[WindowSpan, bool], list[int]] = {}
    for q, (term, span) in enumerate(zip(terms, spans, strict=True)):
        members.setdefault((span, term.reversible), []).append(q)
    ranked = sorted(members)
    used: list[list[int]] = []
    used_values: list[list[int]] = []
    for place in ranked:
        values = _closed(
            (v for q in members[place] for part in results[q] for v in part),
            lambda v: (right for _, right in splits.behind[v]),
        )
        first = [c for q in members[place] for c in finals[q]]
        first += [right for v in values for _, right in splits.ahead[v]]
        used.append(_closed(first, splits.counters_behind))
        used_values.append(values)
    member, queries = pointers(members[place] for place in ranked)
    return Classes(
        np.array([span.width for span, _ in ranked], np.int64),
        np.array([span.slide for span, _ in ranked], np.int64),
        member.astype(np.uint64),
        queries,
        *_lists(used),
        *_lists(used_values),
    )


def _closed(first: Iterable[int], following: Callable[[int], Iterable[int]]) -> list[int]:
    """What is reached from the first ones, in order of number."""
    seen = set(first)
    todo = list(seen)
    while todo:
        for e in following(todo.pop()):
            if e not in seen:
                seen.add(e)
                todo.append(e)
    return sorted(seen)


def _lists(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    at, numbers = pointers(rows)
    return at.astype(np.uint64), numbers.astype(np.uint32)


def _pairs(rows: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    at, flat = _lists([[n for pair in row for n in pair] for row in rows])
    return at // np.uint64(2), flat[::2].copy(), flat[1::2].copy()
