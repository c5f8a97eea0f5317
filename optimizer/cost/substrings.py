"""How often events arrive, and what they do to the counters of each substring of a pattern."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import exp, fsum, log2, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.aggregates import aggregate_parts
from optimizer.ir.automaton import Symbols, counted_readings, state_graph
from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Seq,
    Symbol,
)
from optimizer.ir.query import Aggregation, Query, Window
from optimizer.statistics.statistics import KeyStatistics, Statistics
from workloads.syntax import One

# Numbers that are carried: a sum has its count.
_WEIGHTS = {"sum": 2, "min": 1, "max": 1, "distinct": 1}


@dataclass(frozen=True)
class Word:
    """`SEQ(!gaps[0], E1, !gaps[1], E2, …, En, !gaps[n])`, every E and every negated part one event.

    `values` are the components whose attributes are aggregated, with how many numbers each takes.
    """

    symbols: tuple[Symbol, ...]
    gaps: tuple[Symbols, ...]
    values: tuple[tuple[int, str, int], ...] = ()  # place, what, numbers

    @property
    def has_negation(self) -> bool:
        """Can an event take counts away?"""
        return any(self.gaps)


def word_of(choice: Pattern, output: Aggregation | None = None) -> Word | None:
    """An OR-free pattern as a word, or None where it is none."""
    gaps: list[Symbols] = [frozenset()]
    symbols: list[Symbol] = []
    places: dict[str, int] = {}
    for part in choice.parts if isinstance(choice, Seq) else (choice,):
        match part:
            case Event(symbol, alias, One(), False):
                places[alias] = len(symbols)
                symbols.append(symbol)
                gaps.append(frozenset())
            case Neg(Event(symbol, _, One())):
                gaps[-1] |= {symbol}
            case _:
                return None
    wanted = aggregate_parts(output) if output is not None else ()
    values = {
        (places[part.alias], f"{part.kind} {part.column}", _WEIGHTS[part.kind])
        for part in wanted
        if part.alias in places
    }
    return Word(tuple(symbols), tuple(gaps), tuple(sorted(values)))


@lru_cache(maxsize=16_384)  # a planner asks for each query again and again
def words_of(query: Query) -> tuple[Word, ...] | None:
    """A query's alternatives as words, or None where one of them is none."""
    output = query.output if isinstance(query.output, Aggregation) else None
    found = [word_of(choice, output) for choice in counted_readings(query.pattern)]
    words = tuple(word for word in found if word is not None)
    return words if len(words) == len(found) else None


# --- stretches -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Changes:
    """How many counters an event of each symbol changes.

    `arriving`: of pieces that end with it; `leaving`: of those that begin with it; `first`: of
    those among these that begin a query, which is what is read of a front. `joins` are the products
    that join two stretches of stream, for all pieces, and `final_joins` for those that end a query.
    """

    arriving: Mapping[Symbol, float] = field(default_factory=dict)
    leaving: Mapping[Symbol, float] = field(default_factory=dict)
    first: Mapping[Symbol, float] = field(default_factory=dict)
    joins: float = 0.0
    final_joins: float = 0.0

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            _sum(self.arriving, other.arriving),
            _sum(self.leaving, other.leaving),
            _sum(self.first, other.first),
            self.joins + other.joins,
            self.final_joins + other.final_joins,
        )


def _sum(a: Mapping[Symbol, float], b: Mapping[Symbol, float]) -> dict[Symbol, float]:
    found: dict[Symbol, float] = defaultdict(float, a)
    for symbol, number in b.items():
        found[symbol] += number
    return dict(found)


def changes(words: Iterable[Word]) -> Changes:
    """What events do to the counters of these words, where equal pieces are one counter."""
    return _changes_of(tuple(dict.fromkeys((word.symbols, word.gaps) for word in words)))


@lru_cache(maxsize=256)  # a group's are asked for by each engine, and again where it grows
def _changes_of(words: tuple[tuple[tuple[Symbol, ...], tuple[Symbols, ...]], ...]) -> Changes:
    rows = [
        [(gaps[i], symbol, gaps[i + 1], False) for i, symbol in enumerate(symbols)]
        for symbols, gaps in words
    ]
    return _stretches(rows) + _cleared(words)


def value_changes(words: Iterable[Word]) -> Changes:
    """The same for values that travel with the counts: in pieces that hold their component."""
    total = Changes()
    by_weight: dict[int, list[list[_Letter]]] = defaultdict(list)
    for word in words:
        for place, what, weight in word.values:
            by_weight[weight].append(
                [
                    (word.gaps[i], symbol, word.gaps[i + 1], what if i == place else False)
                    for i, symbol in enumerate(word.symbols)
                ]
            )
    for weight, rows in by_weight.items():
        found = _stretches(list({tuple(row): row for row in rows}.values()), marked=True)
        for _ in range(weight):
            total += found
    return total


_Letter = tuple[Symbols, Symbol, Symbols, Hashable]


def _stretches(rows: Sequence[Sequence[_Letter]], marked: bool = False) -> Changes:
    """Distinct stretches by their first and their last symbol; `marked`: only with a mark."""
    if not rows:
        return Changes()
    if len(rows) == 1 and not marked and len({letter[1] for letter in rows[0]}) == len(rows[0]):
        return _of_one([letter[1] for letter in rows[0]])
    letters: dict[_Letter, int] = {}
    symbols: dict[Symbol, int] = {}
    for row in rows:
        for letter in row:
            letters.setdefault(letter, len(letters))
            symbols.setdefault(letter[1], len(symbols))
    numbers = np.array([letters[letter] for row in rows for letter in row], np.int64)
    symbol = np.array([symbols[letter[1]] for row in rows for letter in row], np.int64)
    mark = np.array([letter[3] is not False for row in rows for letter in row], np.bool_)
    sizes = np.array([len(row) for row in rows], np.int64)
    ends = np.repeat(np.cumsum(sizes), sizes)
    begins = np.zeros(len(numbers), np.bool_)
    begins[np.cumsum(sizes) - sizes] = True
    joins = final_joins = 0.0
    at = np.arange(len(numbers))
    marks = np.concatenate([[0], np.cumsum(mark)])
    last, first, prefix = (np.zeros(len(symbols)) for _ in range(3))
    length = 1
    while len(at):
        if length > 1 and len(np.unique(numbers[at])) == len(at):
            # Longer stretches differ as well, so they need not be compared.
            rest = _distinct_stretches(sizes, mark if marked else None, length)
            last += np.bincount(symbol, rest.ending, len(symbols))
            first += np.bincount(symbol, rest.beginning, len(symbols))
            prefix += np.bincount(symbol[begins], rest.beginning[begins], len(symbols))
            joins += rest.joins
            final_joins += rest.final_joins
            break
        _, shown, numbers_here = np.unique(numbers[at], return_index=True, return_inverse=True)
        place = at[shown]
        starting = np.zeros(len(shown), np.bool_)
        starting[numbers_here[begins[at]]] = True
        finishing = np.zeros(len(shown), np.bool_)
        finishing[numbers_here[at + length == ends[at]]] = True
        # A piece may lie in one of two stretches, or be cut anywhere between its letters.
        joins += len(shown) * (length + 1)
        final_joins += int(finishing.sum()) * (length + 1)
        if marked:
            held = marks[place + length] > marks[place]
            place, starting = place[held], starting[held]
        last += np.bincount(symbol[place + length - 1], minlength=len(symbols))
        first += np.bincount(symbol[place], minlength=len(symbols))
        prefix += np.bincount(symbol[place[starting]], minlength=len(symbols))
        # One longer: a stretch and the one that begins a letter later, which ends a letter later.
        full = np.full(len(numbers) + 1, -1, np.int64)
        full[at] = numbers_here
        length += 1
        at = at[at + length <= ends[at]]
        numbers = full[:-1] * (len(shown) + len(letters) + 1) + full[1:]
    names = list(symbols)
    arriving, leaving, beginning = (
        dict(zip(names, n.tolist(), strict=True)) for n in (last, first, prefix)
    )
    return Changes(arriving, leaving, beginning, joins, final_joins)


class _DistinctStretches(NamedTuple):
    """How many stretches end and begin at each letter, and the products that join them."""

    ending: NDArray[np.int64]
    beginning: NDArray[np.int64]
    joins: float
    final_joins: float


def _distinct_stretches(
    sizes: NDArray[np.int64], mark: NDArray[np.bool_] | None, length: int
) -> _DistinctStretches:
    """All stretches of at least that length of rows of these sizes; with a mark in it, if any."""
    at = np.arange(int(sizes.sum()))
    ends = np.repeat(np.cumsum(sizes), sizes)
    starts = ends - np.repeat(sizes, sizes)
    marked_before = marked_after = at
    if mark is not None:
        marked_before = np.maximum.accumulate(np.where(mark, at, -1))
        marked_after = np.minimum.accumulate(np.where(mark, at, len(at))[::-1])[::-1]
    ending = np.minimum(at - length + 1, marked_before) - starts + 1
    beginning = ends - np.maximum(at + length - 1, marked_after)
    joins = final_joins = 0.0
    for size in sizes.tolist():
        for longer in range(length, size + 1):
            joins += (size - longer + 1) * (longer + 1)
            final_joins += longer + 1
    return _DistinctStretches(np.maximum(ending, 0), np.maximum(beginning, 0), joins, final_joins)


def _of_one(symbols: Sequence[Symbol]) -> Changes:
    """The same for one row whose symbols differ, so that no two of its stretches are equal."""
    n = len(symbols)
    return Changes(
        {symbol: float(i) for i, symbol in enumerate(symbols, 1)},
        {symbol: float(n - i) for i, symbol in enumerate(symbols)},
        {symbol: 0.0 if i else float(n) for i, symbol in enumerate(symbols)},
        float(sum((n - length + 1) * (length + 1) for length in range(1, n + 1))),
        float(sum(length + 1 for length in range(1, n + 1))),
    )


def _cleared(words: Iterable[tuple[tuple[Symbol, ...], tuple[Symbols, ...]]]) -> Changes:
    """Counters that negated events set to zero: of pieces that end, or begin, at their gap."""
    behind: set[tuple[Symbol, Hashable]] = set()
    before: set[tuple[Symbol, Hashable]] = set()
    first: set[tuple[Symbol, Hashable]] = set()
    letters: dict[Hashable, int] = {}
    for symbols, gaps in words:
        piece = PieceNumbers([*_alternating(gaps, symbols)], letters)
        for j, gap in enumerate(gaps):
            for negated in gap:
                for i in range(j + 1):
                    behind.add((negated, piece.of(2 * i, 2 * j + 1)))
                for k in range(j, len(symbols) + 1):
                    before.add((negated, piece.of(2 * j, 2 * k + 1)))
                    if j == 0:
                        first.add((negated, piece.of(0, 2 * k + 1)))
    arriving, leaving, beginning = (
        dict(Counter(symbol for symbol, _ in found)) for found in (behind, before, first)
    )
    return Changes(arriving, leaving, beginning)


def _alternating(gaps: Sequence[Symbols], symbols: Sequence[Symbol]) -> Iterator[Hashable]:
    """A word's gaps and symbols in their order."""
    for gap, symbol in zip(gaps, symbols, strict=False):
        yield from (gap, symbol)
    yield gaps[-1]


_MODULUS, _BASE = 2**89 - 1, 0x5DEECE66D1F2B3A4957


class PieceNumbers:
    """The pieces of one row of letters as numbers, the same for equal pieces of any row."""

    def __init__(self, row: Sequence[Hashable], letters: dict[Hashable, int]) -> None:
        self._sums, self._powers = [0], [1]
        for letter in row:
            number = letters.setdefault(letter, len(letters)) + 1
            self._sums.append((self._sums[-1] * _BASE + number) % _MODULUS)
            self._powers.append(self._powers[-1] * _BASE % _MODULUS)

    def of(self, start: int, end: int) -> tuple[int, int]:
        """The length of a piece and a number for it, by which others of that length differ."""
        number = self._sums[end] - self._sums[start] * self._powers[end - start]
        return end - start, number % _MODULUS


# --- machines ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineChanges:
    """What events do to the entries of a machine's product, and how many states it has."""

    changes: Changes
    states: int


def explored(choice: Pattern) -> MachineChanges:
    """The same for patterns that are no words, by their machine: one counter for each entry.

    Events are taken to come one at a time.
    """
    graph = state_graph(choice)
    arriving: Counter[Symbol] = Counter()
    leaving: Counter[Symbol] = Counter()
    first: Counter[Symbol] = Counter()
    for symbol, i, j in graph.moves:
        arriving[symbol] += graph.before[i]
        leaving[symbol] += graph.after[j]
        first[symbol] += graph.after[j] if i == 0 else 0
    for symbol, i, target in graph.stays:
        arriving[symbol] += graph.before[i]
        leaving[symbol] += graph.after[i]
        first[symbol] += graph.after[i] if i == 0 else 0
        if target is not None:
            arriving[symbol] += graph.before[i]
            leaving[symbol] += graph.after[target]
    # Of the ways from i to j, those through each state between them.
    joins = sum(graph.after) * (graph.size + 1) / 3
    final_joins = sum(graph.before) / 2 if graph.size > 1 else 1.0
    by_symbol = Changes(dict(arriving), dict(leaving), dict(first), joins, final_joins)
    return MachineChanges(by_symbol, graph.size)


_NANOSECONDS = 1e9
_HALVINGS = 12  # of a window's length, before its chances are found by squaring
_MOST_BITS = 62  # of a count that one number is sure to hold
TWO_WORDS = 126  # and two; larger ones are counted in floating point too
_EXTREME = 3.5  # standard deviations that the fullest of many windows lies above the mean


class Share(NamedTuple):
    """So many key values that have this part of the events each."""

    values: float
    part: float


@dataclass(frozen=True)
class Arrivals:
    """A stream as queries of one key, window and slide see it."""

    statistics: Statistics
    key: tuple[str, ...]
    window: Window
    slide: int | None = None

    @cached_property
    def _key(self) -> KeyStatistics:
        return self.statistics.key(self.key)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """The key's values, as far as they differ."""
        key = self._key
        others = key.cardinality - 1
        if others < 1e-9 or key.heaviest >= 1:
            return (Share(1.0, 1.0),)
        return Share(1.0, key.heaviest), Share(others, (1 - key.heaviest) / others)

    def rate(self, symbol: Symbol) -> float:
        """Events per second."""
        found = self._rates.get(symbol)
        if found is None:
            found = self._rates[symbol] = self.statistics.rate(symbol)
        return found

    @cached_property
    def _rates(self) -> dict[Symbol, float]:
        return {}

    def seconds(self, part: float) -> float:
        """How long the window is for a key value that has this part of the events."""
        if not self.window.is_count:
            return self.statistics.held_seconds(self.window.size)
        return self.window.size / (self.statistics.total_rate * part)

    @cached_property
    def per_rate(self) -> float:
        """What a window holds when any event arrives, for each event per second.

        An event is of a key value as often as that has events, so full windows are met more often.
        """
        return sum(s.values * s.part * (s.part * self.seconds(s.part)) for s in self.shares)

    @cached_property
    def per_rates(self) -> float:
        """The mean of the product of two such numbers, for each product of two rates."""
        return sum(s.values * s.part * (s.part * self.seconds(s.part)) ** 2 for s in self.shares)

    def met(self, symbol: Symbol) -> float:
        """How many events of a symbol a window holds when any event arrives."""
        return self.rate(symbol) * self.per_rate

    def met_both(self, one: Symbol, other: Symbol) -> float:
        """The mean of the product of two such numbers."""
        return self.rate(one) * self.rate(other) * self.per_rates

    def most(self, symbol: Symbol) -> float:
        """How many the fullest window holds, or nearly so."""
        mean = self.rate(symbol) * self._most_seconds
        return mean + _EXTREME * sqrt(mean) + 1

    @cached_property
    def _most_seconds(self) -> float:
        """How much of the stream the window holds for the key value that has most of the events."""
        part = max(share.part for share in self.shares)
        return part * self.seconds(part)

    def bits(self, symbols: Sequence[Symbol], alternatives: int = 1) -> float:
        """How many bits the number of matches in a window may have."""
        bits = sum(log2(max(1.0, self.most(symbol))) for symbol in symbols)
        return bits + log2(max(1, alternatives))

    def could_overflow(self, symbols: Sequence[Symbol], alternatives: int = 1) -> bool:
        """Could a window hold so many matches that one number does not hold them?"""
        return self.bits(symbols, alternatives) >= _MOST_BITS

    def evaluations(self, symbols: Symbols) -> float:
        """Per slide: windows a second, of all key values, that hold one of these symbols."""
        assert self.slide, "evaluated per trigger"
        if self.window.is_count:
            return self.statistics.total_rate / self.slide
        rate = fsum(map(self.rate, symbols))
        windows = sum(s.values * _any(rate * s.part * self.seconds(s.part)) for s in self.shares)
        return windows * self._slides

    @property
    def windows(self) -> float:
        """Per slide: windows a second, of all key values, whatever they hold."""
        assert self.slide, "evaluated per trigger"
        return sum(share.values for share in self.shares) * self._slides

    @property
    def _slides(self) -> float:
        """Slides in a second of stream, with those behind its end that a long window reaches."""
        assert self.slide, "evaluated per trigger"
        window, span = self.window.size / _NANOSECONDS, self.statistics.known_span
        behind = 0.0 if span is None or window <= span else window / span
        return (1 + behind) * _NANOSECONDS / self.slide

    def chances(self, words: Sequence[SoughtSequence]) -> NDArray[np.float64]:
        """For each sequence the chance that a window holds a match; per trigger, one that ends."""
        known = self._chances
        new = [word for word in dict.fromkeys(words) if word not in known]
        if new:
            known.update(zip(new, self._new_chances(new).tolist(), strict=True))
        return np.array([known[word] for word in words])

    @cached_property
    def _chances(self) -> dict[SoughtSequence, float]:
        return {}

    def _new_chances(self, words: Sequence[SoughtSequence]) -> NDArray[np.float64]:
        found = np.zeros(len(words))
        by_length: dict[int, list[int]] = {}
        for i, word in enumerate(words):
            by_length.setdefault(len(word.symbols), []).append(i)
        weights = [s.values * (1.0 if self.slide else s.part) for s in self.shares]
        for length, numbers in by_length.items():
            for share, weight in zip(self.shares, weights, strict=True):
                if length > LONG_SEQUENCE:
                    some = [self._chance_of_long(words[i], share) for i in numbers]
                    found[numbers] += weight / sum(weights) * np.array(some)
                    continue
                steps = np.stack([self._generator(words[i], share) for i in numbers])
                scale = share.part * self.seconds(share.part)
                free = np.exp([-min(500.0, scale * words[i].nowhere) for i in numbers])
                chance = free * _completed(steps, bool(self.slide))
                found[numbers] += weight / sum(weights) * chance
        return found

    def _chance_of_long(self, word: SoughtSequence, share: Share) -> float:
        """The chance that a window holds a match of a sequence of very many components."""
        scale = share.part * self.seconds(share.part)
        found = (0.0, *(scale * self.rate(symbol) for symbol in word.symbols))
        lost = tuple(scale * fsum(map(self.rate, gap)) for gap in word.gaps)
        if word.lost:
            lost = tuple(one + scale * other for one, other in zip(lost, word.lost, strict=True))
        free = exp(-min(500.0, scale * word.nowhere))
        return free * _completed_in_steps(found, lost, bool(self.slide))

    def _generator(self, word: SoughtSequence, share: Share) -> NDArray[np.float64]:
        """How a search goes back from the end of a window: expected steps in a window's length.

        It looks for the latest event of each component before that of the next. A negated event on
        the way means to look for another event of the component after it; also before the first,
        down to the opening of the window.
        """
        n = len(word.symbols)
        scale = share.part * self.seconds(share.part)
        steps = np.zeros((n + 2, n + 2))  # components still to be found, and n + 1: in vain
        for left in range(n, -1, -1):
            to_find = scale * self.rate(word.symbols[left - 1]) if left else 0.0
            to_lose = scale * fsum(map(self.rate, word.gaps[left]))
            to_lose += scale * (word.lost[left] if word.lost else 0.0)
            steps[left, max(left - 1, 0)] += to_find
            steps[left, left + 1] += to_lose
            steps[left, left] -= to_find + to_lose
        return steps


@lru_cache(maxsize=64)  # groups of queries ask for the same again and again
def arrivals_of(
    statistics: Statistics, key: tuple[str, ...], window: Window, slide: int | None
) -> Arrivals:
    """A stream as queries see it, with what was worked out of it before."""
    return Arrivals(statistics, key, window, slide)


def _any(expected: float) -> float:
    """The chance of at least one where so many are expected."""
    return 1 - exp(-min(500.0, expected))


class SoughtSequence(NamedTuple):
    """A sequence that is looked for: its symbols, and what is negated before, between and after.

    `lost` are how often a second what else is negated there is complete, and `nowhere` what must
    be nowhere in the window.
    """

    symbols: tuple[Symbol, ...]
    gaps: tuple[Symbols, ...]
    lost: tuple[float, ...] = ()
    nowhere: float = 0.0


def _completed(steps: NDArray[np.float64], per_slide: bool) -> NDArray[np.float64]:
    """The chance to have found all components within the window, by the exponential of `steps`.

    Per trigger the last component is there already.
    """
    size = steps.shape[-1]
    # An unlimited number of events is as good as very many, and keeps the squaring exact.
    scaled = np.clip(steps, -1e6, 1e6)
    halvings = _HALVINGS + int(max(0.0, np.ceil(log2(max(1.0, float(np.abs(scaled).max()))))))
    part = scaled / 2.0**halvings
    eye = np.eye(size)
    chance = eye + part @ (eye + part / 2 @ (eye + part / 3))
    for _ in range(halvings):
        chance = chance @ chance
    found: NDArray[np.float64] = np.clip(chance[:, size - 2 if per_slide else size - 3, 0], 0, 1)
    return found


LONG_SEQUENCE = 40  # components from which on no matrices are multiplied: 40^3 operations for each
TIME_STEPS = 64  # of a window's length


@lru_cache(maxsize=4096)  # asked for a query alone, and for each group that it is tried in
def _completed_in_steps(
    found: tuple[float, ...], lost: tuple[float, ...], per_slide: bool
) -> float:
    """The same chance as `_completed` gives, by implicit steps through the window's length.

    `found[left]` and `lost[left]` are the expected steps to one component fewer, and one more, to
    be found. Each time step solves a system of equations with three diagonals. It is as if the
    length of the window were not fixed but had a standard deviation of an eighth.
    """
    size = len(found)
    down = [min(1e6, rate) / TIME_STEPS for rate in found]
    up = [min(1e6, rate) / TIME_STEPS for rate in lost]
    carried, divisor = [0.0] * size, [1.0] * size
    for i in range(size):
        divisor[i] = 1 + down[i] + up[i] - (down[i] * carried[i - 1] if i else 0.0)
        carried[i] = up[i] / divisor[i]
    chance = [1.0, *(0.0 for _ in range(size - 1))]
    for _ in range(TIME_STEPS):
        before = 0.0
        for i in range(size):
            before = (chance[i] + down[i] * before) / divisor[i]
            chance[i] = before
        after = 0.0
        for i in range(size - 1, -1, -1):
            after = chance[i] + carried[i] * after
            chance[i] = after
    return min(1.0, max(0.0, chance[-1 if per_slide else -2]))
