"""Machines of many queries to the tables that the product kernels run on."""

from __future__ import annotations

import graphlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engines.counting.tables import (
    ANY,
    NOTHING,
    CounterPairs,
    Direction,
    Edge,
    ExploredMachine,
    Int64s,
    Letters,
    Sums,
    explore,
    pointers,
    refine,
)
from engines.counting.word_counters import WordCounters
from kernels.product import cpu as kernel
from kernels.reversible.cpu import Steps
from kernels.values import MAX, MIN, NUMBER, SUM
from optimizer.ir.automaton import Machine, Symbols, UncountableError
from optimizer.ir.pattern import Symbol

BOTH: tuple[Direction, Direction] = ("append", "prepend")
_START_VALUES = {SUM: 0.0, NUMBER: 0.0, MIN: np.inf, MAX: -np.inf}


class Value(NamedTuple):
    """A value to aggregate: the kind of counter, the component, the number of the input column."""

    kind: int
    alias: str
    input: int


@dataclass(frozen=True)
class Term:
    """One query of the group: the machines of its alternatives, and the values it asks for.

    `triggers` are the symbols whose events it is read at; none where it has a slide.
    """

    machines: tuple[Machine, ...]
    values: tuple[Value, ...]
    triggers: frozenset[Symbol]

    @property
    def reversible(self) -> bool:
        """Can every event's effect on its counts be taken back? See `kernels.reversible.cpu`."""
        return not self.values and not any(
            machine.has_plus or machine.watched_symbols for machine in self.machines
        )


class Tables(NamedTuple):
    """What the product kernel is called with."""

    back: kernel.Operators
    front: kernel.Operators
    readings: np.ndarray


def compile_tables(terms: Sequence[Term], letters: Letters) -> Tables:
    """The tables of a group of queries for the letters of a stream."""
    explored = explore_all(terms, letters)
    wanted: dict[int, dict[Value, None]] = defaultdict(dict)
    for term in terms:
        for machine in term.machines:
            wanted[id(machine)].update(dict.fromkeys(term.values))
    back = Counters(explored, wanted, ("append",))
    front = Counters(explored, wanted, ("prepend",))
    return Tables(
        operators_of(back, letters, set()),
        operators_of(front, letters, {0}),
        _readings(terms, letters, explored, back, front),
    )


def compile_steps(
    terms: Sequence[Term], letters: Letters, window: Sequence[int] | None = None
) -> Steps:
    """The same for queries whose counts can all be taken back.

    `window` is the number of each query's window; each has counters of its own.
    """
    window = window or [0] * len(terms)
    every = [machine for term in terms for machine in term.machines]
    explored = None if all(machine.word for machine in every) else explore_all(terms, letters)
    several: list[Counters | WordCounters] = []
    for w in range(max(window) + 1):
        mine = [m for t, at in zip(terms, window, strict=True) for m in t.machines if at == w]
        if explored is None:
            several.append(WordCounters(mine))
        else:
            some = {id(machine): explored[id(machine)] for machine in mine}
            several.append(Counters(some, {}, BOTH))
    starts = np.cumsum([0, *(len(counters.begun) for counters in several)]).tolist()
    finals = [
        [color + starts[w] for machine in term.machines for color in several[w].ends(machine)]
        for term, w in zip(terms, window, strict=True)
    ]
    begun = np.concatenate([counters.begun for counters in several])
    ranks = begun[:, 1]
    levels = int(ranks.max(initial=0)) + 1
    arriving, leaving = (
        [
            [pairs + first for pairs in _by_letter(letters, c.changes(direction))]
            for c, first in zip(several, starts[:-1], strict=True)
        ]
        for direction in BOTH
    )
    return Steps(
        begun[:, 0].astype(np.uint64),
        np.array(starts, np.int64),
        levels,
        *_by_level(map(np.concatenate, zip(*arriving, strict=True)), levels - 1 - ranks, levels),
        *_by_level((pairs for each in leaving for pairs in each), ranks, levels),
        *(array.astype(np.uint64) for array in pointers(_triggered(terms, letters))),
        *(array.astype(np.uint64) for array in pointers(finals)),
    )


def triggered(triggers: Iterable[Symbols], letters: Letters) -> list[list[int]]:
    """By move letter, the queries that an event triggers: by query, the symbols that do."""
    by_symbol: dict[Symbol, list[int]] = defaultdict(list)
    for q, symbols in enumerate(triggers):
        for symbol in symbols:
            by_symbol[symbol].append(q)
    return [
        sorted({q for s in symbols for q in by_symbol.get(s, ())}) for symbols, _ in letters.moves
    ]


def _triggered(terms: Sequence[Term], letters: Letters) -> list[list[int]]:
    return triggered((term.triggers for term in terms), letters)


def explore_all(terms: Sequence[Term], letters: Letters) -> dict[int, ExploredMachine]:
    """The machines of the queries, by their identity, with the states that the letters give."""
    machines = {id(machine): machine for term in terms for machine in term.machines}
    return {key: explore(machine, letters) for key, machine in machines.items()}


class Counters:
    """The counters of a group of queries.

    `append` multiplies groups of events from the right, `prepend` from the left. `only_from_start`:
    those of ways from the start of machines.
    """

    def __init__(
        self,
        explored: dict[int, ExploredMachine],
        wanted: dict[int, dict[Value, None]],
        directions: tuple[Direction, ...],
        only_from_start: bool = False,
    ) -> None:
        self._directions, self._only_from_start = directions, only_from_start
        self._finals = {key: machine.finals for key, machine in explored.items()}
        self._labels: dict[tuple[Direction, Symbol | None, int], int] = {}
        self.counts, self.values, self.tags = Sums(), Sums(), Sums()
        self._count_entry: dict[tuple[int, int, int], int] = {}
        self._value_entry: dict[tuple[int, Value, int, int], int] = {}
        for key, machine in explored.items():
            self._add_machine(key, machine, wanted.get(key, ()))
        self.color = refine(self.counts)
        self.value_color = refine(self.values, self.tags, self.color)
        self.shown = np.unique(self.color, return_index=True)[1]
        self.value_shown = np.unique(self.value_color, return_index=True)[1]

    @property
    def begun(self) -> Int64s:
        """By counter, what it begins with, and its level."""
        start = self.counts.start
        return np.array([start[e] for e in self.shown], np.int64).reshape(-1, 2)

    def changes(self, direction: Direction) -> dict[tuple[Symbol | None, int], CounterPairs]:
        """`rows` of counts."""
        return self.rows(direction, self.counts)

    def ends(self, machine: Machine) -> list[int]:
        """The counters whose sum is a machine's count."""
        key = id(machine)
        found = (self.count(key, 0, final) for final in self._finals[key])
        return [color for color in found if color is not None]

    def count(self, key: int, i: int, j: int) -> int | None:
        """The counter of the ways from state i to state j of a machine, if there are any."""
        entry = self._count_entry.get((key, i, j))
        return None if entry is None else int(self.color[entry])

    def value(self, key: int, value: Value, i: int, j: int) -> int | None:
        """The same for a value along the way."""
        entry = self._value_entry.get((key, value, i, j))
        return None if entry is None else int(self.value_color[entry])

    def from_start(self, states: set[int]) -> tuple[set[int], set[int]]:
        """The counters, and value counters, of ways from these states."""
        return (
            {int(self.color[e]) for (_, i, _), e in self._count_entry.items() if i in states},
            {
                int(self.value_color[e])
                for (*_, i, _), e in self._value_entry.items()
                if i in states
            },
        )

    def rows(
        self, direction: Direction, what: Sums
    ) -> dict[tuple[Symbol | None, int], CounterPairs]:
        """By symbol (None: a stay) and stay letter, what is summed into which counter."""
        target_color = self.color if what is self.counts else self.value_color
        source_color = self.value_color if what is self.values else self.color
        shown = self.shown if what is self.counts else self.value_shown
        into, of = np.array(what.into, np.int64), np.array(what.of, np.int64)
        label = np.array(what.label, np.int64)
        is_shown = np.zeros(len(target_color), np.bool_)
        is_shown[shown] = True
        kept = np.flatnonzero(is_shown[into]) if len(into) else into
        kept = kept[np.lexsort((kept, label[kept]))]
        source = (
            np.where(of[kept] == NOTHING, NOTHING, source_color[of[kept]]) if len(kept) else kept
        )
        pairs = np.stack([target_color[into[kept]] if len(kept) else kept, source], axis=1)
        ends = np.searchsorted(label[kept], np.arange(len(self._labels) + 1))
        return {
            (symbol, stay): pairs[ends[number] : ends[number + 1]]
            for (way, symbol, stay), number in self._labels.items()
            if way == direction and ends[number] < ends[number + 1]
        }

    def _label(self, direction: Direction, symbol: Symbol | None, stay: int) -> int:
        return self._labels.setdefault((direction, symbol, stay), len(self._labels))

    def _add_machine(self, key: int, machine: ExploredMachine, values: Iterable[Value]) -> None:
        reversible = len(self._directions) == 2
        longest = _longest(machine) if reversible else {}
        counts = _Table(len(machine.states))
        for i, reached in self._ways(machine):
            for j in reached:
                entry = self.counts.entry((int(i == j), longest.get((i, j), 0)))
                counts.put(i, j, entry)
                self._count_entry[key, i, j] = entry
        self._add_sums(self.counts, machine, counts)
        for value in values:
            table = self._value_table(key, machine, value)
            self._add_sums(self.values, machine, table)
            for (symbol, stay), edges in machine.moves.items():
                used = [edge for edge in edges if edge.alias == value.alias]
                for way in self._directions:
                    label = self._label(way, symbol, stay)
                    for into, of in _shifts(way, used, table, counts):
                        self.tags.add(into, label, of)

    def _ways(self, machine: ExploredMachine) -> Iterable[tuple[int, list[int]]]:
        """The states that ways are counted from, and those that each leads to."""
        every = enumerate(machine.after)
        return [next(every)] if self._only_from_start else every

    def _value_table(self, key: int, machine: ExploredMachine, value: Value) -> _Table:
        """Entries for the pairs of states between which the value's component lies."""
        tagged = {
            (e.source, e.target)
            for edges in machine.moves.values()
            for e in edges
            if e.alias == value.alias
        }
        after = [set(reached) for reached in machine.after]
        table = _Table(len(machine.states))
        for i, reached in self._ways(machine):
            for j in reached:
                if any(source in after[i] and j in after[target] for source, target in tagged):
                    entry = self.values.entry((value.kind, value.input))
                    table.put(i, j, entry)
                    self._value_entry[key, value, i, j] = entry
        return table

    def _add_sums(self, sums: Sums, machine: ExploredMachine, table: _Table) -> None:
        """For each letter and entry, the entries that are summed into it."""
        for way in self._directions:
            for (symbol, stay), edges in machine.moves.items():
                label = self._label(way, symbol, stay)
                for into, of in _shifts(way, edges, table, table):
                    sums.add(into, label, of)
            for stay, edges in machine.stays.items():
                label = self._label(way, None, stay)
                summed: dict[int, list[int]] = {e: [] for e in table.entries()}
                for into, of in _shifts(way, edges, table, table):
                    summed[into].append(of)
                for into, sources in summed.items():
                    if sources != [into]:
                        for of in sources or [NOTHING]:
                            sums.add(into, label, of)


class _Table:
    """Entries by the states that they lead from and to."""

    def __init__(self, states: int) -> None:
        self.starting: list[dict[int, int]] = [{} for _ in range(states)]
        self.ending: list[dict[int, int]] = [{} for _ in range(states)]

    def put(self, i: int, j: int, entry: int) -> None:
        self.starting[i][j] = entry
        self.ending[j][i] = entry

    def entries(self) -> Iterator[int]:
        return (entry for row in self.starting for entry in row.values())


def _shifts(
    direction: Direction, edges: list[Edge], into: _Table, of: _Table
) -> Iterator[tuple[int, int]]:
    """(entry that changes, entry that is summed into it) for edges, over all other ends."""
    for edge in edges:
        if direction == "append":
            targets, sources = into.ending[edge.target], of.ending[edge.source]
        else:
            targets, sources = into.starting[edge.source], of.starting[edge.target]
        for other, source in sources.items():
            target = targets.get(other)
            if target is not None:
                yield target, source


def _longest(machine: ExploredMachine) -> dict[tuple[int, int], int]:
    """The longest way between each pair of states that is connected; there are no cycles."""
    following: dict[int, set[int]] = defaultdict(set)
    for edges in machine.moves.values():
        for edge in edges:
            following[edge.source].add(edge.target)
    found: dict[tuple[int, int], int] = {}
    for i in graphlib.TopologicalSorter(
        {i: following[i] for i in range(len(machine.states))}
    ).static_order():
        found[i, i] = 0
        for k in following[i]:
            for j in machine.after[k]:
                found[i, j] = max(found.get((i, j), 0), 1 + found[k, j])
    return found


def _by_level(
    changes: Iterable[CounterPairs], rank: Int64s, levels: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Pointers by letter and rank of the counter that changes, and the rows."""
    sizes, parts = [], [np.zeros((0, 2), np.int64)]
    for pairs in changes:
        order = np.argsort(rank[pairs[:, 0]], kind="stable")
        sizes.append(np.bincount(rank[pairs[:, 0]], minlength=levels))
        parts.append(pairs[order])
    at = np.concatenate([[0], np.cumsum(np.concatenate([[], *sizes]))]).astype(np.uint64)
    rows_in_order = np.concatenate(parts).astype(np.uint32)
    return at, rows_in_order[:, 0].copy(), rows_in_order[:, 1].copy()


def _by_letter(
    letters: Letters, rows: dict[tuple[Symbol | None, int], CounterPairs]
) -> Iterator[CounterPairs]:
    """For each move letter, what its symbols sum into counters."""
    none = np.zeros((0, 2), np.int64)
    for symbols, stay in letters.moves:
        found = [
            rows[symbol, which]
            for symbol in sorted(symbols, key=str)
            for which in (ANY, stay)
            if (symbol, which) in rows
        ]
        yield np.concatenate([none, *found])


def operators_of(counters: Counters, letters: Letters, logged_from: set[int]) -> kernel.Operators:
    """The counters' operators for every letter, as the product kernel takes them.

    The changes of counters of ways from `logged_from` are logged: what is read of a front.
    """
    (direction,) = counters._directions
    counts, values = counters.counts, counters.values
    moves = list(_by_letter(letters, counters.rows(direction, counts)))
    value_moves = list(_by_letter(letters, counters.rows(direction, values)))
    inputs = np.array([values.start[e][1] for e in counters.value_shown], np.int64)
    kinds = [values.start[e][0] for e in counters.value_shown]
    tags = [
        np.column_stack([pairs, inputs[pairs[:, 0]]])
        for pairs in _by_letter(letters, counters.rows(direction, counters.tags))
    ]
    stays = _stay_rows(letters, counters.rows(direction, counts))
    value_stays = _stay_rows(letters, counters.rows(direction, values))
    logged, logged_values = counters.from_start(logged_from)
    parts: list[list[Int64s] | None] = [
        _in_place(moves[k], stays[stay], value_moves[k], value_stays[stay], tags[k])
        for k, (_, stay) in enumerate(letters.moves)
    ]
    sections = [s for part in parts for s in (part or [np.zeros(0, np.int64)] * kernel.SECTIONS)]
    return kernel.Operators(
        tables=packed(
            *_rows(moves),
            *_rows(value_moves),
            *_rows(tags),
            *_nested(stays),
            *_nested(value_stays),
        ),
        start_counts=np.array([counts.start[e][0] for e in counters.shown], np.uint64),
        start_values=np.array([_START_VALUES[kind] for kind in kinds], np.float64),
        kinds=np.array(kinds, np.int8),
        logged=_marked(logged, len(counters.shown)),
        logged_values=_marked(logged_values, len(counters.value_shown)),
        in_place=np.array([part is not None for part in parts], np.bool_),
        section=np.cumsum([0, *map(len, sections)]).astype(np.uint64),
        sections=np.concatenate([np.zeros(0, np.int64), *sections]).astype(np.uint32),
    )


Stay = tuple[int, list[int]]  # a counter, and what is summed into it in place of what it was


def _stay_rows(
    letters: Letters, rows: dict[tuple[Symbol | None, int], CounterPairs]
) -> list[list[Stay]]:
    """For each stay letter, the counters that it replaces and the sums that replace them."""
    found: list[list[Stay]] = []
    for stay in range(len(letters.stays)):
        sums: dict[int, list[int]] = {}
        for target, source in rows.get((None, stay), np.zeros((0, 2), np.int64)).tolist():
            sums.setdefault(target, [])
            if source != NOTHING:
                sums[target].append(source)
        found.append(list(sums.items()))
    return found


def _in_place(
    moves: CounterPairs,
    stays: list[Stay],
    value_moves: CounterPairs,
    value_stays: list[Stay],
    tags: Int64s,
) -> list[Int64s] | None:
    """A letter's effect on single events as the kernel's sections; None where it cannot be."""
    counts = _changes(moves, stays, set())
    values = _changes(value_moves, value_stays, set(tags[:, 0].tolist()))
    if counts is None or values is None:
        return None
    adds, clears = counts
    value_adds, value_clears = values
    return [value_adds, tags.reshape(-1), adds, clears, value_clears]


def _changes(
    moves: CounterPairs, stays: list[Stay], tagged: set[int]
) -> tuple[Int64s, Int64s] | None:
    """Additions so ordered that each counter is read before it changes, then what is cleared."""
    sources: dict[int, list[int]] = defaultdict(list)
    for target, source in moves.tolist():
        sources[target].append(source)
    clears = []
    for target, summed in stays:
        if not summed and target not in sources and target not in tagged:
            clears.append(target)
        elif target in summed:
            kept = list(summed)
            kept.remove(target)
            sources[target] += kept
        else:
            return None
    if any(mine.count(target) > 1 for target, mine in sources.items()):
        return None
    # A counter that another one reads changes after that one did.
    readers: dict[int, set[int]] = {target: set() for target in sources}
    for target, mine in sources.items():
        for source in mine:
            if source != target and source in readers:
                readers[source].add(target)
    try:
        order = list(graphlib.TopologicalSorter(readers).static_order())
    except graphlib.CycleError:
        return None
    adds = [
        n
        for target in order
        for source in sorted(sources[target], key=lambda s: s != target)
        for n in (target, source)
    ]
    return np.array(adds, np.int64), np.array(clears, np.int64)


def _marked(numbers: set[int], size: int) -> np.ndarray:
    marks = np.zeros(size, np.bool_)
    marks[list(numbers)] = True
    return marks


def packed(*tables: Sequence[int] | Int64s) -> np.ndarray:
    """Tables as one array: first where each begins and where the last ends, then they."""
    starts = np.cumsum([len(tables) + 1, *map(len, tables)])
    flat = np.concatenate([starts, *(np.asarray(table, np.int64) for table in tables)])
    if len(flat) >= 2**31:
        raise UncountableError("the queries' common automaton is too large")
    return flat.astype(np.int32)


def _rows(rows: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Rows of records as pointers to the first record of each, and the records end to end."""
    at = np.cumsum([0, *map(len, rows)])
    return at, np.concatenate([np.zeros(0, np.int64), *(row.reshape(-1) for row in rows)])


def _nested(rows: list[list[Stay]]) -> tuple[Int64s, Int64s, Int64s]:
    """The same for (target, sources): the records point into a third table."""
    flat = [stay for row in rows for stay in row]
    firsts, sources = pointers(of for _, of in flat)
    targets = np.array([target for target, _ in flat], np.int64)
    records = np.column_stack([targets, firsts[:-1], firsts[1:]]).reshape(-1)
    return np.cumsum([0, *map(len, rows)]), records, sources


def _readings(
    terms: Sequence[Term],
    letters: Letters,
    explored: dict[int, ExploredMachine],
    back: Counters,
    front: Counters,
) -> np.ndarray:
    """A query's result: the ways in front to each state times those behind it, of all machines."""
    pairs: list[list[int]] = []
    value_pairs: list[list[int]] = []
    for term in terms:
        mine: list[int] = []
        for key, k, f in _splits(term, explored):
            a, b = front.count(key, 0, k), back.count(key, k, f)
            if a is not None and b is not None:
                mine += (a, b)
        pairs.append(mine)
        for value in term.values:
            found: list[int] = []
            for key, k, f in _splits(term, explored):
                a, b = front.count(key, 0, k), back.count(key, k, f)
                av, bv = front.value(key, value, 0, k), back.value(key, value, k, f)
                if av is not None and b is not None:
                    found += (av, -1, -1, b)
                if bv is not None and a is not None:
                    found += (-1, a, bv, -1)
            value_pairs.append(found)
    kinds = [[value.kind for value in term.values] for term in terms]
    return packed(
        *_records(pairs, 2),
        *_records(kinds, 1),
        *_records(value_pairs, 4),
        *_records(_triggered(terms, letters), 1),
    )


def _records(rows: list[list[int]], size: int) -> tuple[Int64s, Int64s]:
    return _rows([np.array(row, np.int64).reshape(-1, size) for row in rows])


def _splits(term: Term, explored: dict[int, ExploredMachine]) -> Iterator[tuple[int, int, int]]:
    for machine in term.machines:
        for k in range(len(explored[id(machine)].states)):
            for f in explored[id(machine)].finals:
                yield id(machine), k, f
