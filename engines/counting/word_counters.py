"""The counters of queries that are sequences of single events, without their machines' states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from engines.counting.tables import ANY, CounterPairs, Direction, Int64s
from optimizer.ir.automaton import Machine
from optimizer.ir.pattern import Symbol


class WordCounters:
    """A counter for each different stretch of the sequences' symbols, the empty one first.

    An event adds to each stretch that ends with it what comes before it, and takes from each that
    begins with it what comes behind. `Counters` finds the same for any machine that can be taken
    back, and takes many times as long.
    """

    def __init__(self, machines: Iterable[Machine]) -> None:
        levels, known = [0], dict[tuple[int, int], int]()  # a stretch, and a symbol behind it
        numbers: dict[Symbol, int] = {}
        arriving: dict[int, list[tuple[int, int]]] = defaultdict(list)
        leaving: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._ends: dict[int, int] = {}
        for machine in machines:
            assert machine.word is not None
            word = [numbers.setdefault(symbol, len(numbers)) for symbol in machine.word]
            behind = [0]  # the stretches from the next place on, by length
            for i in range(len(word) - 1, -1, -1):
                stretches = [0]
                for without, symbol in zip(behind, word[i:], strict=True):
                    before = stretches[-1]
                    number = known.get((before, symbol))
                    if number is None:
                        number = known[before, symbol] = len(levels)
                        levels.append(levels[before] + 1)
                        arriving[symbol].append((number, before))
                        leaving[word[i]].append((number, without))
                    stretches.append(number)
                behind = stretches
            self._ends[id(machine)] = behind[-1]
        self._symbols = list(numbers)
        self._rows = {"append": arriving, "prepend": leaving}
        # The empty stretch has one way, which nothing changes.
        self.begun: Int64s = np.stack([np.array(levels) == 0, levels], axis=1).astype(np.int64)

    def changes(self, direction: Direction) -> dict[tuple[Symbol | None, int], CounterPairs]:
        """By symbol, what is summed into which counter."""
        rows = self._rows[direction]
        return {(self._symbols[n], ANY): np.array(rows[n], np.int64) for n in rows}

    def ends(self, machine: Machine) -> list[int]:
        """The counters whose sum is a machine's count."""
        return [self._ends[id(machine)]]
