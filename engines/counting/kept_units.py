"""What units of counted queries keep between the batches of a live stream, engine by engine.

Queries that no engine of these has such a form for, with `E+`, are counted over the whole window.
Queries of a unit with different windows or slides are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engines.counting.kept_product import KeptProduct
from engines.counting.letters import ONE_WORD, CountBounds, CountingPlan, with_letters
from engines.counting.pretree import Member, by_start, members_by_tree, tree_of
from engines.counting.product import CompiledTables
from engines.counting.tables import Letters
from engines.program import CountingUnit
from kernels.groups import Spans
from kernels.kept import cpu as kernel
from kernels.kept.cpu import KeptRows, TimedGroups
from kernels.prefixes.cpu import PrefixTree
from kernels.reversible.cpu import Steps
from optimizer.ir.automaton import Symbols
from optimizer.ir.chain import Chain, chain_of

Int64s = npt.NDArray[np.int64]

_TREES = ("pretree", "chopconnect")  # whose queries share the prefixes they begin with


def can_keep(plan: CountingPlan) -> bool:
    """Are there counters that go on from batch to batch for a plan's queries?

    Those of `E+` are soon past what one number holds.
    """
    machines = (machine for term in plan.terms for machine in term.machines)
    return plan.is_lasting and not any(machine.has_plus for machine in machines)


def _by_prefixes(plan: CountingPlan, unit: CountingUnit) -> bool:
    """Are a unit's queries counted by the STARTs of their windows?"""
    if unit.engine in ("product", "panes", "runs"):
        return False
    chains = [chain_of(query) for query in plan.queries]
    plain = all(isinstance(chain, Chain) and not chain.gate for chain in chains)
    return plain and not any(term.values for term in plan.terms)


class KeptPart(Protocol):
    """What queries of one window and slide keep, and how it goes on."""

    width: int
    slide: int
    head: int  # the number of the first group in its window

    @property
    def nbytes(self) -> int:
        """How many bytes its counters take."""

    def fits(self, letters: Letters) -> bool:
        """Do its counters stay what they are with these letters?"""

    def size(self, runs: int) -> int:
        """How many counters it has."""

    def most_rows(self, runs: int) -> int:
        """How many rows it may give at one time."""

    def compile(self, letters: Letters) -> None:
        """Make the tables for these letters."""

    def make_room(self, runs: int, groups: int) -> None:
        """Make room for runs and groups that are new."""

    def advance(
        self, groups: TimedGroups, progress: Int64s, limit: int, quiet: bool, out: KeptRows
    ) -> bool:
        """Take the groups that are new; with `quiet` they give no rows. False: there are more.

        Rows have the numbers of queries in the plan.
        """


class _Reversible:
    """The counters of each key, see `kernels.reversible`."""

    def __init__(
        self, plan: CountingPlan, queries: Int64s, width: int, slide: int, compiled: CompiledTables
    ) -> None:
        self._plan, self._compiled = plan, compiled
        self._queries, self.width, self.slide, self.head = queries, width, slide, 0
        self._letters: int | None = None  # how many the steps are for
        self._steps: Steps
        self._silent: Steps
        self._counts = np.zeros((0, 0), np.uint64)
        self._runs = 0

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes

    def fits(self, letters: Letters) -> bool:
        return self._letters in (None, len(letters.moves))

    def size(self, runs: int) -> int:
        return runs * len(self._steps.start)

    def most_rows(self, runs: int) -> int:
        return len(self._queries) * (runs if self.slide else 1)

    def compile(self, letters: Letters) -> None:
        if self._letters is None:
            self._letters = len(letters.moves)
            queries = tuple(self._queries.tolist())
            self._steps = self._compiled.steps(self._plan, queries, letters, (0,) * len(queries))
            self._counts = np.zeros((0, len(self._steps.start)), np.uint64)
            self._silent = self._steps._replace(trigger=np.zeros_like(self._steps.trigger))

    def make_room(self, runs: int, groups: int) -> None:
        if runs > len(self._counts):
            grown = np.empty((max(2 * len(self._counts), runs), len(self._steps.start)), np.uint64)
            grown[: self._runs] = self._counts[: self._runs]
            self._counts = grown
        self._counts[self._runs : runs] = self._steps.start
        self._runs = runs

    def advance(
        self, groups: TimedGroups, progress: Int64s, limit: int, quiet: bool, out: KeptRows
    ) -> bool:
        steps, slide = (self._silent, 0) if quiet else (self._steps, self.slide)
        counts = self._counts[: self._runs]
        done = kernel.advance_reversible(
            groups, progress, limit, counts, steps, self.width, slide, out
        )
        made = slice(0, int(progress[kernel.ROWS]))
        out.query[made] = self._queries[out.query[made]]
        return done


class _Prefixes:
    """The STARTs of each key with the counts of a tree's prefixes, see `kernels.prefixes`."""

    def __init__(self, members: Sequence[Member], width: int, slide: int) -> None:
        self._members, self.width, self.slide, self.head = members, width, slide, 0
        self._tree: PrefixTree | None = None
        self._known = (0, 0)  # letters that the tree is of
        self._starts: kernel.KeptStarts

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._starts)

    def fits(self, letters: Letters) -> bool:
        return True

    def size(self, runs: int) -> int:
        return runs  # and no more than there are STARTs, which are events

    def most_rows(self, runs: int) -> int:
        return len(self._members) * (runs if self.slide else 1)

    def compile(self, letters: Letters) -> None:
        known = (len(letters.moves), len(letters.stays))
        if self._tree is None or known != self._known:
            self._tree, self._known = tree_of(self._members, letters), known
        if not hasattr(self, "_starts"):
            none = np.zeros(0, np.int64)
            counts = np.zeros((0, len(self._tree.parent)), np.uint64)
            size = np.zeros(1, np.int64)
            self._starts = kernel.KeptStarts(counts, none, none, none, none, size)

    def make_room(self, runs: int, groups: int) -> None:
        self._gather(groups)
        grown = np.full(runs - len(self._starts.first), -1, np.int64)
        if len(grown):
            first = np.append(self._starts.first, grown)
            last = np.append(self._starts.last, grown)
            self._starts = self._starts._replace(first=first, last=last)

    def _gather(self, groups: int) -> None:
        """Move the active STARTs to the front, where there are not enough places behind them."""
        starts = self._starts
        size, capacity = int(starts.size[0]), len(starts.started)
        if size + groups <= capacity:
            return
        active = starts.first[starts.first >= 0]
        low = int(active.min()) if len(active) else size
        kept = size - low
        if 2 * (kept + groups) > capacity:
            capacity = 4 * (kept + groups)
        counts = np.empty((capacity, starts.counts.shape[1]), np.uint64)
        started, following = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        counts[:kept], started[:kept] = starts.counts[low:size], starts.started[low:size]
        following[:kept] = _moved(starts.following[low:size], low)
        self._starts = kernel.KeptStarts(
            counts,
            started,
            following,
            _moved(starts.first, low),
            starts.last - low,
            np.array([kept], np.int64),
        )

    def advance(
        self, groups: TimedGroups, progress: Int64s, limit: int, quiet: bool, out: KeptRows
    ) -> bool:
        tree, slide = self._tree, 0 if quiet else self.slide
        assert tree is not None
        if quiet:
            tree = tree._replace(triggered=np.zeros_like(tree.triggered))
        return kernel.advance_prefixes(
            groups, progress, limit, self._starts, tree, self.width, slide, out
        )


def _moved(places: Int64s, by: int) -> Int64s:
    """Places after a move to the front; -1 is none."""
    return np.where(places >= 0, places - by, -1)


class LetteredUnit:
    """A unit of queries, with its letters for events of all batches."""

    def __init__(
        self, plan: CountingPlan, unit: CountingUnit, spans: Spans, compiled: CompiledTables
    ) -> None:
        self.plan, self.unit = plan, unit
        self._symbols = frozenset(plan.symbols)
        self._watched = any(m.watched_symbols for ms in plan.machines for m in ms)
        self._all_moves: list[tuple[Symbols, int]] = []
        self._all_stays: list[Symbols] = [frozenset()]
        self.letters = Letters(self._all_moves, self._all_stays)
        self._moves: dict[tuple[Symbols, int], int] = {}
        self._stays: dict[Symbols, int] = {frozenset(): 0}
        self._by_code = np.zeros(0, np.int64)  # the letter of each set, where no stay matters
        self._incidence = np.zeros((len(plan.symbols), 0), np.int64)
        self._bounds = CountBounds(plan)
        self.parts = list(_parts(plan, unit, spans, compiled))

    def lettered(
        self, codes: Int64s, sets: Sequence[Symbols], event: Int64s
    ) -> tuple[Int64s, Int64s] | None:
        """The stay letters of groups and the move letters of events; None where they are too many.

        Letters of earlier batches keep their numbers.
        """
        if not self._watched:
            for number in range(len(self._by_code), len(sets)):
                letter = self._move(sets[number] & self._symbols, 0)
                self._by_code = np.append(self._by_code, letter)
            return np.zeros(len(event) - 1, np.int64), self._by_code[codes]
        own = [symbols & self._symbols for symbols in sets]
        found = with_letters(self.plan, codes, own, event)
        if found is None:
            return None
        letters, stay, move = found
        stays = np.array([self._stay(symbols) for symbols in letters.stays], np.int64)
        moves = [self._move(symbols, int(stays[s])) for symbols, s in letters.moves]
        return stays[stay], np.array(moves, np.int64)[move]

    def _stay(self, symbols: Symbols) -> int:
        if symbols not in self._stays:
            self._stays[symbols] = len(self._stays)
            self._all_stays.append(symbols)
        return self._stays[symbols]

    def _move(self, symbols: Symbols, stay: int) -> int:
        if (symbols, stay) not in self._moves:
            self._moves[symbols, stay] = len(self._moves)
            self._all_moves.append((symbols, stay))
        return self._moves[symbols, stay]

    def may_overflow(self, number: Int64s, sets: Sequence[Symbols], most: int) -> bool:
        """Could a count pass 2^62, with so many events of each set, and `most` of one key?"""
        if self._incidence.shape[1] != len(sets):
            self._incidence = np.array(
                [[symbol in symbols for symbols in sets] for symbol in self.plan.symbols], np.int64
            ).reshape(len(self.plan.symbols), len(sets))
        return bool((self._bounds.bits(self._incidence @ number, most) >= ONE_WORD).any())


def _parts(
    plan: CountingPlan, unit: CountingUnit, spans: Spans, compiled: CompiledTables
) -> Iterator[KeptPart]:
    pairs = [(int(w), int(s)) for w, s in zip(spans.width, spans.slide, strict=True)]
    if _by_prefixes(plan, unit):
        for members in members_by_tree(plan, by_start if unit.engine in _TREES else None):
            for pair in dict.fromkeys(pairs[member.query] for member in members):
                yield _Prefixes([m for m in members if pairs[m.query] == pair], *pair)
        return
    back = [term.reversible for term in plan.terms]
    for pair, reversible in dict.fromkeys(zip(pairs, back, strict=True)):
        own = zip(pairs, back, strict=True)
        queries = np.array([q for q, o in enumerate(own) if o == (pair, reversible)], np.int64)
        kind = _Reversible if reversible else KeptProduct
        yield kind(plan, queries, *pair, compiled)
