"""What windows of a stream hold: how many events of a symbol, and with which chance a match.

Events are taken to arrive independently of each other, each symbol at its rate (a Poisson stream).
A partition key splits the stream: its heaviest value has its share, the others are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log2, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimizer.automaton import Symbols
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window
from optimizer.statistics.known import KeyStatistics, Statistics

_NANOSECONDS = 1e9
_HALVINGS = 12  # of a window's length, before its chances are found by squaring
_MOST_BITS = 62  # a window that could hold 2^62 matches is counted in floating point too
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
        if symbol not in self._rates:
            self._rates[symbol] = self.statistics.rate(symbol)
        return self._rates[symbol]

    @cached_property
    def _rates(self) -> dict[Symbol, float]:
        return {}

    def seconds(self, part: float) -> float:
        """How long the window is for a key value that has this part of the events."""
        if not self.window.is_count:
            return self.window.size / _NANOSECONDS
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
        part = max(share.part for share in self.shares)
        mean = self.rate(symbol) * part * self.seconds(part)
        return mean + _EXTREME * sqrt(mean) + 1

    def could_overflow(self, symbols: Sequence[Symbol], alternatives: int = 1) -> bool:
        """Could a window hold so many matches that they are counted in floating point too?"""
        bits = sum(log2(max(1.0, self.most(symbol))) for symbol in symbols)
        return bits + log2(max(1, alternatives)) >= _MOST_BITS

    def evaluations(self, symbols: Symbols) -> float:
        """Per slide: windows a second, of all key values, that hold one of these symbols."""
        assert self.slide, "evaluated per trigger"
        if self.window.is_count:
            return self.statistics.total_rate / self.slide
        rate = sum(map(self.rate, symbols))
        windows = sum(s.values * _any(rate * s.part * self.seconds(s.part)) for s in self.shares)
        return windows * _NANOSECONDS / self.slide

    @property
    def windows(self) -> float:
        """Per slide: windows a second, of all key values, whatever they hold."""
        assert self.slide, "evaluated per trigger"
        return sum(share.values for share in self.shares) * _NANOSECONDS / self.slide

    def chances(self, words: Sequence[Wanted]) -> NDArray[np.float64]:
        """For each sequence the chance that a window holds a match; per trigger, one that ends."""
        found = np.zeros(len(words))
        by_length: dict[int, list[int]] = {}
        for i, word in enumerate(words):
            by_length.setdefault(len(word.symbols), []).append(i)
        weights = [s.values * (1.0 if self.slide else s.part) for s in self.shares]
        for numbers in by_length.values():
            for share, weight in zip(self.shares, weights, strict=True):
                steps = np.stack([self._generator(words[i], share) for i in numbers])
                scale = share.part * self.seconds(share.part)
                free = np.exp([-min(500.0, scale * words[i].nowhere) for i in numbers])
                chance = free * _completed(steps, bool(self.slide))
                found[numbers] += weight / sum(weights) * chance
        return found

    def _generator(self, word: Wanted, share: Share) -> NDArray[np.float64]:
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
            to_lose = scale * sum(map(self.rate, word.gaps[left]))
            to_lose += scale * (word.lost[left] if word.lost else 0.0)
            steps[left, max(left - 1, 0)] += to_find
            steps[left, left + 1] += to_lose
            steps[left, left] -= to_find + to_lose
        return steps


def _any(expected: float) -> float:
    """The chance of at least one where so many are expected."""
    return 1 - exp(-min(500.0, expected))


class Wanted(NamedTuple):
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
