"""What probes would find, before they are made: as many spots as entries are expected.

Where events of a symbol are is known up to blocks. Of the blocks that may have them as many rows
are drawn as an index has entries in the ranges; bursts that show in the statistics of blocks are
bursts in the prediction too. What queries then need is asked of chains, as after the probe: of some
stretches of the events, where looking at all of them would take long.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from engines.access.blocks import Blocks, Mask
from engines.access.chains import Spots
from engines.access.needed import Part
from engines.access.possible import PossibleEvents
from engines.access.probes import Probe
from engines.access.reading_cost import ReadingCost
from engines.access.symbol_spots import SpotsOf, SymbolSpots
from optimizer.access.anchors import NeededEvents
from optimizer.access.joint_choice import ProbeOption, ProbeProblem
from optimizer.ir.pattern import Symbol

PAIRED = 4  # probes of a query of which all pairs are predicted
SINGLE = 6  # of a query's most selective probes, each is predicted alone
ROUNDS = 12  # sets of a query's most selective probes, each of one more
MOST_OPTIONS = 400  # sets of probes that are predicted for all queries together
STAGE_NANOSECONDS = 1e5  # of predicting a set, for each symbol
SPOT_NANOSECONDS = 400.0  # of each spot that is looked at for that
PREDICTED_PART = 0.02  # of what probes could save at most, that predictions may cost
FEWEST_SPOTS = 10_000
STAGES = 8  # of a set that are looked at: those that may be anywhere count as one
WINDOWS = 8  # in a stretch of row groups that are looked at, so that few chains leave it
EVERYWHERE = 0.9  # of the blocks: a symbol that may be in so many is taken to be in any


def predicted_spots(probe: Probe, may: Mask, blocks: Blocks, inside: Mask) -> SymbolSpots | None:
    """Spots such as a probe is expected to give inside of some of the blocks.

    None where it says no more than blocks do.
    """
    rows_of = int(blocks.rows[may].sum())
    if probe.matching >= rows_of:
        return None
    places = np.flatnonzero(may & inside)
    ends = np.cumsum(blocks.rows[places])
    if not len(ends):
        return None
    seed = hashlib.blake2b(str(probe.symbol).encode(), digest_size=8).digest()
    draw = np.random.default_rng(int.from_bytes(seed, "little"))
    rows = np.sort(draw.integers(0, ends[-1], round(probe.matching * int(ends[-1]) / rows_of)))
    at = np.searchsorted(ends, rows, "right")
    block = places[at]
    begin = ends[at] - blocks.rows[block]
    part = (rows - begin + 0.5) / np.maximum(blocks.rows[block], 1)
    low, high = blocks.low[block], blocks.high[block]
    time = low + ((high - low) * part).astype(np.int64)
    row = blocks.first[block] + rows - begin
    return SymbolSpots(Spots(time, time), blocks.unit[block], row, row + 1)


def probe_problem(
    needs: Sequence[NeededEvents],
    whole: Sequence[Part],
    savable: float,
    offered: Sequence[Probe],
    prices: Sequence[float],
    by_blocks: SpotsOf,
    possible: PossibleEvents,
    reading: ReadingCost,
    blocks: Blocks,
) -> ProbeProblem:
    """What each probe costs, and what queries would then need; without any it is the `whole`.

    So many nanoseconds are `savable` at most, which says how much predictions may cost.
    """
    numbers = {probe.symbol: number for number, probe in enumerate(offered)}
    most = reading.of_parts(whole)
    affordable = PREDICTED_PART * savable
    stages = sum(min(len(needed.symbols), STAGES) for needed in needs)
    few = max(round(affordable / (STAGE_NANOSECONDS * max(stages, 1))), 2)
    few = min(few, max(2, MOST_OPTIONS // max(len(needs), 1))) if affordable > 0 else 0
    sets = []
    for needed in needs:
        own = sorted(
            (numbers[symbol] for symbol in needed.symbols if symbol in numbers),
            key=lambda number: (offered[number].matching, number),
        )
        each = [s for s in _sets(own) if sum(prices[number] for number in s) < most]
        sets.append(each[:few])
    expected = [probe.matching for probe in offered]
    number_of_spots = sum(
        sum(expected[number] for number in probes) + 2 * len(probes) * len(blocks)
        for some in sets
        for probes in some
    )
    window = max((reading.clock.window(needed) for needed in needs), default=1)
    most_spots = max(affordable / SPOT_NANOSECONDS, FEWEST_SPOTS)
    looked_at = _some_units(reading, blocks, window, math.ceil(number_of_spots / most_spots))
    inside = looked_at.units[blocks.unit]

    @cache
    def predicted(number: int) -> SymbolSpots | None:
        probe = offered[number]
        return predicted_spots(probe, possible.symbol(probe.symbol), blocks, inside)

    queries = []
    for needed, part, some in zip(needs, whole, sets, strict=True):
        cut = _Inside(part.units & looked_at.units, blocks, by_blocks)
        options = [ProbeOption(frozenset(), part.units, part.rows)]
        known: list[frozenset[int]] = []  # that leave nothing to be read
        for probes in some:
            if any(each <= probes for each in known):
                continue
            found = {offered[n].symbol: spots for n in probes if (spots := predicted(n))}
            left = reading.part(needed, cut.spots_of(found))
            options.append(ProbeOption(probes, left.units, left.rows * looked_at.of))
            if not left.units.any():
                known.append(probes)
        queries.append(options)
    weight = looked_at.weight
    weights = weight * (reading.costs.decode * reading.rows + reading.costs.group)
    row = reading.costs.run
    if not reading.leaves_rows:
        weights, row = weights + weight * row * reading.rows, 0.0
    return ProbeProblem(prices, weights, reading.always, queries, weight * reading.rows, row)


@dataclass(frozen=True, eq=False)
class _LookedAt:
    """Row groups that stand for all, `of` times as many."""

    units: Mask
    of: float

    @property
    def weight(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """How many row groups each stands for; none of those that are not looked at."""
        return np.where(self.units, self.of, 0.0)


def _some_units(reading: ReadingCost, blocks: Blocks, window: int, times: int) -> _LookedAt:
    """Stretches of row groups, one of so many: all of them where windows are too long for that."""
    number = len(reading.rows)
    first = np.full(number, np.iinfo(np.int64).max)
    np.minimum.at(first, blocks.unit, blocks.low)
    span = int(blocks.high.max(initial=0)) - int(blocks.low.min(initial=0)) + 1
    run = max(-(-WINDOWS * window * number // span), 1)
    times = min(times, number // (run * WINDOWS))
    if times < 2:
        return _LookedAt(np.ones(number, bool), 1.0)
    place = np.empty(number, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(number)
    units = (place // run) % times == times // 2
    return _LookedAt(units, number / max(int(units.sum()), 1))


class _Inside:
    """Spots within some row groups, of symbols that are probed and of others."""

    def __init__(self, units: Mask, blocks: Blocks, by_blocks: SpotsOf) -> None:
        self._units, self._by_blocks = units, by_blocks
        mask = units[blocks.unit]
        first = blocks.first[mask]
        spots = Spots(blocks.low[mask], blocks.high[mask])
        self._any = SymbolSpots(spots, blocks.unit[mask], first, first + blocks.rows[mask])
        self._cut: dict[int, SymbolSpots] = {}

    def spots_of(self, probed: Mapping[Symbol, SymbolSpots]) -> SpotsOf:
        """Spots where symbols are probed that have these."""

        def spots_of(symbol: Symbol) -> SymbolSpots:
            if symbol in probed:
                return self._cut_to_units(probed[symbol])
            found = self._cut_to_units(self._by_blocks(symbol))
            is_any = len(found.spots) >= EVERYWHERE * len(self._any.spots)
            return self._any if is_any else found

        return spots_of

    def _cut_to_units(self, found: SymbolSpots) -> SymbolSpots:
        if id(found) not in self._cut:
            self._cut[id(found)] = found.only(self._units[found.unit])
        return self._cut[id(found)]


def _sets(own: Sequence[int]) -> Iterator[frozenset[int]]:
    """The most selective one, two, three and so on, each, of a few all pairs, and all."""
    found = [frozenset(own[:size]) for size in range(1, min(ROUNDS, len(own)) + 1)]
    found += [frozenset({p}) for p in own[:SINGLE]]
    if len(own) <= PAIRED:
        found += [frozenset(pair) for pair in combinations(own, 2)]
    yield from dict.fromkeys([*found, frozenset(own)] if own else [])
