"""Machines of many queries to the tables that the product kernel runs on.

The product of a stretch of stream has an entry for each pair of states of a machine: how many ways
lead from the one to the other. Entries that evolve alike are one counter: for sequences that is
one counter per distinct substring of the workload (DESIGN section 5). It is found by refinement,
without a notion of substrings: two entries are the same if they start the same and every letter
sums the same entries into them.
"""

from __future__ import annotations

import graphlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kernels import product as kernel
from optimizer.automaton import Machine, Position, Symbols, UncountableError
from optimizer.ir.pattern import Symbol

ANY = -1  # whatever else occurs at the same time
_START_VALUES = {kernel.SUM: 0.0, kernel.NUMBER: 0.0, kernel.MIN: np.inf, kernel.MAX: -np.inf}


class Value(NamedTuple):
    """A value to aggregate: the kind of counter, the component, the number of the input column."""

    kind: int
    alias: str
    input: int


@dataclass(frozen=True)
class Term:
    """One query of the group: the machines of its alternatives, and the values it asks for."""

    machines: tuple[Machine, ...]
    values: tuple[Value, ...]
    triggers: frozenset[Symbol]


class Letters(NamedTuple):
    """The letters of a stream.

    `stays` are the sets of symbols that occur at one time; `moves` are an event's own symbols
    together with the number of the set that it occurs in.
    """

    moves: Sequence[tuple[Symbols, int]]
    stays: Sequence[Symbols]


class Tables(NamedTuple):
    """What the kernel is called with."""

    back: kernel.Operators
    front: kernel.Operators
    readings: np.ndarray
    triggered: np.ndarray  # by move letter: how many queries an event triggers


class Edge(NamedTuple):
    """A way from state to state; `alias` is the component that an event is used for."""

    source: int
    target: int
    alias: str | None = None


@dataclass
class Explored:
    """A machine's states, and the edges that each letter of the stream gives."""

    machine: Machine
    states: list[Position]
    moves: dict[tuple[Symbol, int], list[Edge]]  # by symbol and stay letter, or ANY
    stays: dict[int, list[Edge]]  # by stay letter; those that leave every state alone are left out
    finals: list[int]


def compile_tables(terms: Sequence[Term], letters: Letters) -> Tables:
    """The tables of a group of queries for the letters of a stream."""
    machines = {id(machine): machine for term in terms for machine in term.machines}
    explored = {key: explore(machine, letters) for key, machine in machines.items()}
    wanted: dict[int, dict[Value, None]] = defaultdict(dict)
    for term in terms:
        for machine in term.machines:
            wanted[id(machine)].update(dict.fromkeys(term.values))
    back = Counters(explored, wanted, forward=True)
    front = Counters(explored, wanted, forward=False)
    triggered = [
        [q for q, term in enumerate(terms) if symbols & term.triggers]
        for symbols, _ in letters.moves
    ]
    readings = _readings(terms, triggered, explored, back, front)
    return Tables(
        back.operators(letters),
        front.operators(letters),
        readings,
        np.array([len(found) for found in triggered], np.int64),
    )


def explore(machine: Machine, letters: Letters) -> Explored:
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

    steps: dict[tuple[Symbol, Symbols], list[Edge]] = {variant: [] for variant in variants}
    stays: dict[Symbols, list[Edge]] = {present: [] for present in sets.values()}
    done = 0
    while done < len(states):
        for (symbol, present), edges in steps.items():
            for step in machine.steps(states[done], frozenset({symbol}), present):
                edges.append(Edge(done, number(step.target), step.alias))
        for present, edges in stays.items():
            after = machine.stay(states[done], present)
            if after is not None:
                edges.append(Edge(done, number(after)))
        done += 1
    identity = [Edge(i, i) for i in range(len(states))]
    return Explored(
        machine,
        states,
        _by_letter(steps, sets),
        {i: stays[present] for i, present in sets.items() if stays[present] != identity},
        [i for i, state in enumerate(states) if machine.is_final(state)],
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


@dataclass
class Entries:
    """Entries of all machines: how each starts, and what each letter sums into it.

    `moves` and `tags` are by (symbol, stay letter), `stays` by stay letter; `tags` sum counts into
    values. An entry that a stay letter leaves alone has no list for it.
    """

    start: list[tuple[int, int]] = field(default_factory=list)
    moves: list[dict[tuple[Symbol, int], list[int]]] = field(default_factory=list)
    stays: list[dict[int, list[int]]] = field(default_factory=list)
    tags: list[dict[tuple[Symbol, int], list[int]]] = field(default_factory=list)

    def add(self, start: tuple[int, int]) -> int:
        self.start.append(start)
        self.moves.append({})
        self.stays.append({})
        self.tags.append({})
        return len(self.start) - 1


class Counters:
    """The counters of one direction: `forward` appends groups to a stretch, else prepends."""

    def __init__(
        self,
        explored: dict[int, Explored],
        wanted: dict[int, dict[Value, None]],
        forward: bool,
    ) -> None:
        self._forward = forward
        self._counts, self._values = Entries(), Entries()
        self._count_entry: dict[tuple[int, int, int], int] = {}
        self._value_entry: dict[tuple[int, Value, int, int], int] = {}
        for key, machine in explored.items():
            self._add_counts(key, machine)
            for value in wanted.get(key, ()):
                self._add_values(key, machine, value)
        self._color = refine(self._counts, [])
        self._value_color = refine(self._values, self._color)

    def count(self, key: int, i: int, j: int) -> int | None:
        """The counter of the ways from state i to state j of a machine, if there are any."""
        entry = self._count_entry.get((key, i, j))
        return None if entry is None else self._color[entry]

    def value(self, key: int, value: Value, i: int, j: int) -> int | None:
        """The same for a value along the way."""
        entry = self._value_entry.get((key, value, i, j))
        return None if entry is None else self._value_color[entry]

    def _add_counts(self, key: int, machine: Explored) -> None:
        for i, j in _connected(machine):
            self._count_entry[key, i, j] = self._counts.add((int(i == j), 0))
        self._sum(self._counts, machine, lambda i, j: self._count_entry.get((key, i, j)))

    def _add_values(self, key: int, machine: Explored, value: Value) -> None:
        tagged = {
            (e.source, e.target)
            for edges in machine.moves.values()
            for e in edges
            if e.alias == value.alias
        }
        pairs = set(_connected(machine))
        for i, j in sorted(pairs):
            if any((i, source) in pairs and (target, j) in pairs for source, target in tagged):
                start = (value.kind, value.input)
                self._value_entry[key, value, i, j] = self._values.add(start)
        self._sum(self._values, machine, lambda i, j: self._value_entry.get((key, value, i, j)))
        for letter, edges in machine.moves.items():
            used = [edge for edge in edges if edge.alias == value.alias]
            for into, of in self._shifts(
                machine,
                used,
                lambda i, j: self._value_entry.get((key, value, i, j)),
                lambda i, j: self._count_entry.get((key, i, j)),
            ):
                self._values.tags[into].setdefault(letter, []).append(of)

    def _sum(self, entries: Entries, machine: Explored, entry: Lookup) -> None:
        """For each letter and entry, the entries that are summed into it."""
        for letter, edges in machine.moves.items():
            for into, of in self._shifts(machine, edges, entry, entry):
                entries.moves[into].setdefault(letter, []).append(of)
        size = range(len(machine.states))
        mine = [e for i in size for j in size if (e := entry(i, j)) is not None]
        for stay, edges in machine.stays.items():
            sums: dict[int, list[int]] = {e: [] for e in mine}
            for into, of in self._shifts(machine, edges, entry, entry):
                sums[into].append(of)
            for into, summed in sums.items():
                if summed != [into]:
                    entries.stays[into][stay] = summed

    def _shifts(
        self, machine: Explored, edges: list[Edge], into: Lookup, of: Lookup
    ) -> Iterator[tuple[int, int]]:
        """(entry that changes, entry that is summed into it) for edges, over all other ends."""
        for edge in edges:
            for other in range(len(machine.states)):
                if self._forward:
                    pair = into(other, edge.target), of(other, edge.source)
                else:
                    pair = into(edge.source, other), of(edge.target, other)
                if pair[0] is not None and pair[1] is not None:
                    yield pair[0], pair[1]

    def operators(self, letters: Letters) -> kernel.Operators:
        """The counters' operators for every letter, as the kernel takes them."""
        counts, values = self._counts, self._values
        color, value_color = self._color, self._value_color
        shown, value_shown = _representatives(color), _representatives(value_color)
        moves = _move_rows(letters, counts.moves, shown, color)
        value_moves = _move_rows(letters, values.moves, value_shown, value_color)
        tags = _move_rows(letters, values.tags, value_shown, color)
        inputs = {c: values.start[e][1] for c, e in enumerate(value_shown)}
        ordered = [_ordered(row) for row in moves]
        value_ordered = [_ordered(row) for row in value_moves]
        stays = _stay_rows(letters, counts.stays, shown, color)
        value_stays = _stay_rows(letters, values.stays, value_shown, value_color)
        kinds = [values.start[e][0] for e in value_shown]
        tagged = [[(t, s, inputs[t]) for t, s in row] for row in tags]
        return kernel.Operators(
            tables=packed(
                *_rows([o or row for o, row in zip(ordered, moves, strict=True)]),
                *_rows([o or row for o, row in zip(value_ordered, value_moves, strict=True)]),
                *_rows(tagged),
                *_nested(stays),
                *_nested(value_stays),
            ),
            start_counts=np.array([counts.start[e][0] for e in shown], np.uint64),
            start_values=np.array([_START_VALUES[kind] for kind in kinds], np.float64),
            kinds=np.array(kinds, np.int8),
            logged=_marked(self._first_rows(self._count_entry, color), len(shown)),
            logged_values=_marked(
                self._first_rows(self._value_entry, value_color), len(value_shown)
            ),
            in_place=np.array([row is not None for row in ordered], np.bool_),
        )

    def _first_rows(self, entries: dict[Any, int], color: list[int]) -> set[int]:
        """Counters of ways from a start state: what is read of a front, and so undone."""
        if self._forward:
            return set()
        return {color[entry] for key, entry in entries.items() if key[-2] == 0}


Lookup = Callable[[int, int], int | None]
Pairs = list[tuple[int, int]]


def _connected(machine: Explored) -> list[tuple[int, int]]:
    """Pairs of states of which the first leads to the second."""
    after: dict[int, set[int]] = defaultdict(set)
    for edges in (*machine.moves.values(), *machine.stays.values()):
        for edge in edges:
            after[edge.source].add(edge.target)
    pairs = []
    for i in range(len(machine.states)):
        seen, todo = {i}, [i]
        while todo:
            for j in after[todo.pop()] - seen:
                seen.add(j)
                todo.append(j)
        pairs += [(i, j) for j in sorted(seen)]
    return pairs


def refine(entries: Entries, count_color: list[int]) -> list[int]:
    """A color for each entry, the same for two if and only if they always hold the same number."""
    color = _numbered(entries.start)
    while True:
        signatures: list[Hashable] = [
            (
                color[e],
                _colored(entries.moves[e], color),
                _colored(entries.stays[e], color),
                _colored(entries.tags[e], count_color),
            )
            for e in range(len(color))
        ]
        refined = _numbered(signatures)
        if len(set(refined)) == len(set(color)):
            return refined
        color = refined


def _colored(sums: dict[Any, list[int]], color: list[int]) -> Hashable:
    return frozenset((letter, tuple(sorted(color[e] for e in of))) for letter, of in sums.items())


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _representatives(color: list[int]) -> list[int]:
    """One entry for each color."""
    first: dict[int, int] = {}
    for entry, c in enumerate(color):
        first.setdefault(c, entry)
    return [first[c] for c in range(len(first))]


def _move_rows(
    letters: Letters,
    sums: list[dict[tuple[Symbol, int], list[int]]],
    shown: list[int],
    source_color: list[int],
) -> list[Pairs]:
    """For each move letter, (target, source) of its additions."""
    by_letter: dict[tuple[Symbol, int], Pairs] = defaultdict(list)
    for target, entry in enumerate(shown):
        for letter, summed in sums[entry].items():
            by_letter[letter] += [(target, source_color[e]) for e in summed]
    return [
        [
            pair
            for symbol in sorted(symbols, key=str)
            for which in (ANY, stay)
            for pair in by_letter.get((symbol, which), ())
        ]
        for symbols, stay in letters.moves
    ]


def _stay_rows(
    letters: Letters, sums: list[dict[int, list[int]]], shown: list[int], color: list[int]
) -> list[list[tuple[int, list[int]]]]:
    """For each stay letter, the counters that it replaces and the sums that replace them."""
    rows: list[list[tuple[int, list[int]]]] = [[] for _ in letters.stays]
    for target, entry in enumerate(shown):
        for stay, summed in sums[entry].items():
            rows[stay].append((target, [color[e] for e in summed]))
    return rows


def _ordered(additions: Pairs) -> Pairs | None:
    """The additions so ordered that each counter is read before it changes, if that can be."""
    sources: dict[int, list[int]] = defaultdict(list)
    for target, source in additions:
        sources[target].append(source)
    # A target whose source is another target must change before that one does.
    graph = {t: {r for r in sources if r != t and t in sources[r]} for t in sources}
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError:
        return None
    found: Pairs = []
    for target in order:
        mine = sources[target]
        if mine.count(target) > 1:
            return None
        found += [(target, s) for s in sorted(mine, key=lambda s: s != target)]
    return found


def _marked(numbers: set[int], size: int) -> np.ndarray:
    marks = np.zeros(size, np.bool_)
    marks[list(numbers)] = True
    return marks


def packed(*tables: Sequence[int]) -> np.ndarray:
    """Tables as one array: first where each begins and where the last ends, then they."""
    starts = np.cumsum([len(tables) + 1, *map(len, tables)])
    flat = np.concatenate([starts, *(np.asarray(table, np.int64) for table in tables)])
    if len(flat) >= 2**31:
        raise UncountableError("the queries' common automaton is too large")
    return flat.astype(np.int32)


def _rows(rows: Sequence[Sequence[Sequence[int]]]) -> tuple[list[int], list[int]]:
    """Rows of records as pointers to the first record of each, and the records end to end."""
    pointers = [0, *itertools.accumulate(map(len, rows))]
    return pointers, [number for row in rows for record in row for number in record]


def _nested(
    rows: list[list[tuple[int, list[int]]]],
) -> tuple[list[int], list[int], list[int]]:
    """The same for (target, sources): the records point into a third table."""
    ends = itertools.accumulate(len(of) for row in rows for _, of in row)
    firsts = [0, *ends]
    flat = [target for row in rows for target, _ in row]
    records = [n for i, target in enumerate(flat) for n in (target, firsts[i], firsts[i + 1])]
    pointers = [0, *itertools.accumulate(map(len, rows))]
    return pointers, records, [s for row in rows for _, of in row for s in of]


def _readings(
    terms: Sequence[Term],
    triggered: list[list[int]],
    explored: dict[int, Explored],
    back: Counters,
    front: Counters,
) -> np.ndarray:
    """A query's result: the ways in front to each state times those behind it, of all machines."""
    pairs: list[Pairs] = []
    value_pairs: list[list[tuple[int, int, int, int]]] = []
    for term in terms:
        mine: Pairs = []
        for key, k, f in _splits(term, explored):
            a, b = front.count(key, 0, k), back.count(key, k, f)
            if a is not None and b is not None:
                mine.append((a, b))
        pairs.append(mine)
        for value in term.values:
            found: list[tuple[int, int, int, int]] = []
            for key, k, f in _splits(term, explored):
                a, b = front.count(key, 0, k), back.count(key, k, f)
                av, bv = front.value(key, value, 0, k), back.value(key, value, k, f)
                if av is not None and b is not None:
                    found.append((av, -1, -1, b))
                if bv is not None and a is not None:
                    found.append((-1, a, bv, -1))
            value_pairs.append(found)
    kinds = [[(value.kind,) for value in term.values] for term in terms]
    return packed(
        *_rows(pairs),
        *_rows(kinds),
        *_rows(value_pairs),
        *_rows([[(q,) for q in queries] for queries in triggered]),
    )


def _splits(term: Term, explored: dict[int, Explored]) -> Iterator[tuple[int, int, int]]:
    for machine in term.machines:
        for k in range(len(explored[id(machine)].states)):
            for f in explored[id(machine)].finals:
                yield id(machine), k, f
