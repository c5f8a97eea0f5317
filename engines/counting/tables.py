"""Machines as tables by letter: states explored, and counters that evolve alike made one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal as OneOf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optimizer.ir.automaton import Machine, Position, Symbols
from optimizer.ir.pattern import Symbol

Int64s = npt.NDArray[np.int64]
CounterPairs = npt.NDArray[np.int64]  # (rows, 2): the counter that changes, the one summed into it
Direction = OneOf["append", "prepend"]


def ints(numbers: Iterable[int]) -> Int64s:
    """Numbers as an array."""
    return np.fromiter(numbers, np.int64)


def where(marks: Iterable[object]) -> list[int]:
    """The places of what is true."""
    return [i for i, mark in enumerate(marks) if mark]


def pointers(rows: Iterable[list[int]]) -> tuple[Int64s, Int64s]:
    """Rows of numbers as where each begins, and the numbers end to end."""
    lists = list(rows)
    return ints(accumulate(map(len, lists), initial=0)), ints(n for row in lists for n in row)


def by_letter(
    letters: Iterable[Symbols], found: Callable[[Symbols], list[int]]
) -> tuple[Int64s, Int64s]:
    """What each letter does."""
    return pointers(found(symbols) for symbols in letters)


NOTHING = -1  # what a letter sums into an entry that it empties


@dataclass
class Sums:
    """What letters sum into entries: entry `of[i]` into entry `into[i]` by the letter `label[i]`.

    `start` says how each entry begins; entries with different ones are never the same.
    """

    start: list[tuple[int, int]] = field(default_factory=list)
    into: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    of: list[int] = field(default_factory=list)

    def entry(self, start: tuple[int, int]) -> int:
        """A new entry."""
        self.start.append(start)
        return len(self.start) - 1

    def add(self, into: int, label: int, of: int) -> None:
        """A letter sums an entry into another."""
        self.into.append(into)
        self.label.append(label)
        self.of.append(of)


def refine(sums: Sums, tags: Sums | None = None, tag_color: Int64s | None = None) -> Int64s:
    """A color for each entry, the same for two if and only if they always hold the same number.

    `tags` are sums of other entries into these, whose colors `tag_color` are known.
    """
    color = numbered(sums.start)
    into, label = np.array(sums.into, np.int64), np.array(sums.label, np.int64)
    of = np.array(sums.of, np.int64)
    known = np.zeros(0, np.int64)
    if tags is not None and tag_color is not None and tags.of:
        into = np.append(into, np.array(tags.into, np.int64))
        label = np.append(label, -1 - np.array(tags.label, np.int64))  # apart from the others
        known = tag_color[np.array(tags.of, np.int64)]
    if not len(into):
        return color
    colors = 0
    while (found := int(color.max()) + 1) != colors:
        colors = found
        source = np.append(np.where(of == NOTHING, NOTHING, color[of]), known)
        color = _signatures(color, into, label, source)
    return color


def _signatures(color: Int64s, into: Int64s, label: Int64s, source: Int64s) -> Int64s:
    """Colors by an entry's own color and the multiset of (label, source) summed into it."""
    pair = _distinct(label, source)
    ranked = np.lexsort((pair, into))
    into, pair = into[ranked], pair[ranked]
    firsts = np.flatnonzero(np.diff(into, prepend=-1))
    sizes = np.diff(np.append(firsts, len(into)))
    entries = into[firsts]
    found = color.copy()
    for k in range(int(sizes.max(initial=0))):
        has = sizes > k
        signature = _distinct(found[entries[has]], pair[firsts[has] + k])
        # Numbers of longer signatures follow those of all others.
        found[entries[has]] = signature + int(found.max()) + 1
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _distinct(a: Int64s, b: Int64s) -> Int64s:
    """A number for each distinct pair."""
    low_a, low_b = int(a.min(initial=0)), int(b.min(initial=0))
    joined = (a - low_a) * (int(b.max(initial=0)) - low_b + 1) + (b - low_b)
    numbers: Int64s = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return numbers


def numbered(keys: Sequence[Hashable]) -> Int64s:
    """A number for each distinct key, in the order of their first occurrence."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


ANY = -1  # whatever else occurs at the same time


class Letters(NamedTuple):
    """The letters of a stream.

    `stays` are the sets of symbols that occur at one time; `moves` are an event's own symbols
    together with the number of the set that it occurs in.
    """

    moves: Sequence[tuple[Symbols, int]]
    stays: Sequence[Symbols]


class Edge(NamedTuple):
    """A way from state to state; `alias` is the component that an event is used for."""

    source: int
    target: int
    alias: str | None = None


@dataclass
class ExploredMachine:
    """A machine's states, and the edges that each letter of the stream gives.

    `after[i]` are the states that state i leads to, itself included.
    """

    machine: Machine
    states: list[Position]
    moves: dict[tuple[Symbol, int], list[Edge]]  # by symbol and stay letter, or ANY
    stays: dict[int, list[Edge]]  # by stay letter; those that leave every state alone are left out
    finals: list[int]
    after: list[list[int]]


def explore(machine: Machine, letters: Letters) -> ExploredMachine:
    """All states that the stream's letters can lead to, and the edges between them."""
    watched = machine.watched_symbols
    sets = {i: present & watched for i, present in enumerate(letters.stays)}
    variants = {
        (symbol, sets[stay]): None
        for symbols, stay in letters.moves
        for symbol in symbols & machine.symbols
    }
    numbers: dict[Position, int] = {machine.start: 0}
    states = [machine.start]

    def number(state: Position) -> int:
        if state not in numbers:
            numbers[state] = len(states)
            states.append(state)
        return numbers[state]

    by_set: dict[Symbols, list[Symbol]] = defaultdict(list)
    for symbol, present in variants:
        by_set[present].append(symbol)
    steps: dict[tuple[Symbol, Symbols], list[Edge]] = {variant: [] for variant in variants}
    stays: dict[Symbols, list[Edge]] = {present: [] for present in sets.values()}
    done = 0
    while done < len(states):
        for present, symbols in by_set.items():
            for step in machine.steps(states[done], frozenset(symbols), present):
                steps[step.symbol, present].append(Edge(done, number(step.target), step.alias))
        for present, edges in stays.items():
            after = machine.stay(states[done], present)
            if after is not None:
                edges.append(Edge(done, number(after)))
        done += 1
    identity = [Edge(i, i) for i in range(len(states))]
    moves = _by_letter(steps, sets)
    changing = {i: stays[present] for i, present in sets.items() if stays[present] != identity}
    return ExploredMachine(
        machine,
        states,
        moves,
        changing,
        [i for i, state in enumerate(states) if machine.is_final(state)],
        _reached(len(states), [*moves.values(), *changing.values()]),
    )


def _by_letter(
    steps: dict[tuple[Symbol, Symbols], list[Edge]], sets: dict[int, Symbols]
) -> dict[tuple[Symbol, int], list[Edge]]:
    """Edges by symbol alone where it does not matter what else occurs, else by stay letter too."""
    by_symbol: dict[Symbol, dict[Symbols, list[Edge]]] = defaultdict(dict)
    for (symbol, present), edges in steps.items():
        by_symbol[symbol][present] = edges
    found: dict[tuple[Symbol, int], list[Edge]] = {}
    for symbol, variants in by_symbol.items():
        distinct = list(variants.values())
        if all(edges == distinct[0] for edges in distinct):
            found[symbol, ANY] = distinct[0]
        else:
            for i, present in sets.items():
                if present in variants:
                    found[symbol, i] = variants[present]
    return found


def _reached(size: int, letters: list[list[Edge]]) -> list[list[int]]:
    following: dict[int, set[int]] = defaultdict(set)
    for edges in letters:
        for edge in edges:
            following[edge.source].add(edge.target)
    found = []
    for i in range(size):
        seen, todo = {i}, [i]
        while todo:
            for j in following[todo.pop()] - seen:
                seen.add(j)
                todo.append(j)
        found.append(sorted(seen))
    return found
