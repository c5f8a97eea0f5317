"""The symbols that events are instances of, found in one pass for all queries.

A comparison of one attribute with constants holds throughout each interval between these. So the
conditions of all symbols on an attribute are one look-up: of the interval of a value, or of the
number of a text, in a table of bits. What is known of several attributes is joined set by set;
where there are too many sets, 64 symbols at a time for each event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kernels.predicates.cpu import and_words, find_intervals, join_sets
from optimizer.ir.pattern import Symbol
from workloads import expressions as ex

Mask: TypeAlias = npt.NDArray[np.bool_]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_MOST_PAIRS = 1 << 22  # of a set and an interval, that are told apart at once
_MOST_SETS = 1 << 16
_REMEMBERED = 1 << 14  # bits of tables whose distinct rows are remembered: batches have few others
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, eq=False)
class AttributeClasses:
    """Numbers of the values of an attribute, and by number which symbols its conditions allow.

    The last row of `allowed` is for the number -1.
    """

    numbers: Int32s
    allowed: Mask  # (number, symbol)


@dataclass(eq=False)
class SymbolSets:
    """The symbols of each event: as the number of its set, or as bits of its own."""

    symbols: Sequence[Symbol]
    codes: Int32s | None
    sets: Mask  # (set, symbol)
    words: Words  # (64 symbols, event), where there are too many sets
    counts: Int64s  # by set: its events
    places: dict[Symbol, int] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {symbol: i for i, symbol in enumerate(self.symbols)}

    def number(self, symbol: Symbol) -> int:
        """How many events are instances of a symbol, where events have numbers of sets."""
        return int(self.counts[self.sets[:, self.places[symbol]]].sum())

    def instances(self, symbol: Symbol) -> Mask:
        """Which events are instances of a symbol."""
        place = self.places[symbol]
        if self.codes is not None:
            found: Mask = self.sets[:, place][self.codes]
            return found
        bit = np.uint64(1) << np.uint64(place % 64)
        return np.asarray((self.words[place // 64] & bit) != 0)

    def only(
        self, symbols: Sequence[Symbol]
    ) -> tuple[Int32s, list[frozenset[Symbol]]] | None:  # fmt: skip
        """The same for some of the symbols, as numbers of sets; None where there are too many."""
        if self.codes is None:
            return None
        kept = self.sets[:, [self.places[symbol] for symbol in symbols]]
        firsts, numbers = _distinct_rows(kept)
        sets = [
            frozenset([symbols[i] for i, has in enumerate(row) if has])
            for row in kept[firsts].tolist()
        ]
        if len(firsts) == len(kept):
            return self.codes, [sets[number] for number in numbers.tolist()]
        return numbers.astype(np.int32)[self.codes], sets


def joined(symbols: Sequence[Symbol], known: Iterable[AttributeClasses], events: int) -> SymbolSets:
    """The sets of symbols that all attributes allow."""
    attributes = list(known)
    sets = np.ones((1, len(symbols)), bool)
    codes, merged = np.zeros(events, np.int32), np.zeros(1, np.int32)
    numbers_of = np.array([events])
    for attribute in attributes:
        if events and attribute.numbers.strides == (0,):  # all events have the one value
            sets = sets & attribute.allowed[attribute.numbers[0]]
            continue
        firsts, classes = _distinct_rows(attribute.allowed)
        width = len(firsts)
        if len(sets) * width > _MOST_PAIRS:
            return _by_words(symbols, attributes, events)
        counts = np.zeros(len(sets) * width, np.int64)
        classes = classes.astype(np.int32)
        join_sets(codes, merged, attribute.numbers, classes, width, counts)
        pairs = np.flatnonzero(counts)
        sets = sets[pairs // width] & attribute.allowed[firsts][pairs % width]
        firsts, numbers = _distinct_rows(sets)
        if len(firsts) > _MOST_SETS:
            return _by_words(symbols, attributes, events)
        sets = sets[firsts]
        merged = np.zeros(len(counts), np.int32)
        merged[pairs] = numbers
        numbers_of = np.zeros(len(sets), np.int64)
        np.add.at(numbers_of, numbers, counts[pairs])
    if not np.array_equal(merged, np.arange(len(merged))):
        codes = merged[codes]
    return SymbolSets(symbols, codes, sets, np.zeros((0, 0), np.uint64), numbers_of)


def _by_words(
    symbols: Sequence[Symbol], attributes: Iterable[AttributeClasses], events: int
) -> SymbolSets:
    words = np.full((-(-len(symbols) // 64), events), ~np.uint64(0))
    for attribute in attributes:
        and_words(words, attribute.numbers, np.ascontiguousarray(_words(attribute.allowed).T))
    none = np.zeros((0, len(symbols)), bool)
    return SymbolSets(symbols, None, none, words, np.zeros(0, np.int64))


def _words(rows: Mask) -> Words:
    """Rows of bits as words of 64."""
    filled = np.zeros((len(rows), -(-rows.shape[1] // 64) * 64), bool)
    filled[:, : rows.shape[1]] = rows
    return np.packbits(filled, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _distinct_rows(rows: Mask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each distinct row first stands, and the number of each row's."""
    if not rows.shape[1]:
        return np.zeros(min(1, len(rows)), np.int64), np.zeros(len(rows), np.int64)
    if rows.size <= _REMEMBERED:
        return _distinct_of(rows.tobytes(), rows.shape[1])
    return _told_apart(rows)


@lru_cache(maxsize=256)
def _distinct_of(content: bytes, width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same of rows as bytes; nobody is to write into the arrays."""
    found = _told_apart(np.frombuffer(content, np.bool_).reshape(-1, width))
    for array in found:
        array.flags.writeable = False
    return found


def _told_apart(rows: Mask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    packed = _words(rows)
    if packed.shape[1] > 1:
        packed = packed.view(f"V{8 * packed.shape[1]}")
    _, firsts, numbers = np.unique(packed.reshape(-1), return_index=True, return_inverse=True)
    return firsts, numbers


# --- conditions of one attribute ------------------------------------------------------------------


def constants_of(condition: ex.Expression) -> Iterable[Any]:
    """The values that a condition compares with."""
    for node in ex.walk(condition):
        match node:
            case ex.Negative(ex.Literal(int() | float() as value)):
                yield -value
            case ex.Literal(value):
                yield value  # that of a negative one too, which does no harm
            case ex.Membership(_, values):
                yield from (literal.value for literal in values)
            case _:
                pass


def whole_breaks(values: Iterable[Any]) -> npt.NDArray[np.int64]:
    """The integers from which on, and behind which, comparisons with the values change."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, int | float) and math.isfinite(value):
            first = math.ceil(value)
            found.update((first, first + 1) if first == value else (first,))
    return np.array(sorted(b for b in found if _SMALLEST < b <= _LARGEST), np.int64)


def real_breaks(values: Iterable[Any]) -> npt.NDArray[np.float64]:
    """The doubles from which on, and behind which, comparisons with the values change."""
    found: set[float] = set()
    for value in values:
        if not isinstance(value, int | float) or math.isnan(value):
            continue
        try:
            first = float(value)
        except OverflowError:
            first = math.inf if value > 0 else -math.inf
        if first < value:
            first = math.nextafter(first, math.inf)
        found.update((first, math.nextafter(first, math.inf)) if first == value else (first,))
    return np.array(sorted(found), np.float64)


def intervals(values: Any, breaks: Any, nulls: Mask | None) -> Int32s:
    """The interval of each value, and -1 for null."""
    found: Int32s = find_intervals(values, breaks, nulls)
    return found


def samples_of_whole(breaks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A value of each interval; the first has one more as there is no NaN."""
    first = breaks[0] - 1 if len(breaks) else 0
    return np.array([first, *breaks.tolist(), first], np.int64)


def samples_of_real(breaks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A value of each interval, the last of which is NaN."""
    return np.array([-math.inf, *breaks.tolist(), math.nan], np.float64)


Allowed: TypeAlias = Callable[[ex.Expression], Mask]


def allowed_by(
    tests: Sequence[tuple[int, ex.Expression]], symbols: int, numbers: int, holds: Allowed
) -> Mask:
    """By number the symbols that their conditions allow; a symbol without one is always."""
    allowed = np.ones((symbols, numbers), bool)
    known: dict[ex.Expression, Mask] = {}
    for place, condition in tests:
        if condition not in known:
            known[condition] = holds(condition)
        allowed[place] &= known[condition]
    return np.ascontiguousarray(allowed.T)
