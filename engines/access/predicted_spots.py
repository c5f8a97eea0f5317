"""What probes would find, before they are made: as many spots as entries are expected.

Where events of a symbol are is known up to blocks. Of the blocks that may have them as many rows
are drawn as an index has entries in the ranges; bursts that show in the statistics of blocks are
bursts in the prediction too. What queries then need is asked of chains, as after the probe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from engines.access.blocks import Blocks, Mask
from engines.access.chains import Spots
from engines.access.needed import SpotsOf, SymbolSpots
from engines.access.probes import Probe
from engines.access.reading_cost import ReadingCost
from optimizer.access.anchors import NeededEvents
from optimizer.access.joint_choice import ProbeOption, ProbeProblem
from optimizer.ir.pattern import Symbol

MOST_DRAWN = 50_000  # spots of a symbol; where more are expected, none is left out
PAIRED = 4  # probes of a query of which all pairs are predicted
ROUNDS = 6  # sets of a query's most selective probes, each of one more
MOST_OPTIONS = 400  # sets of probes that are predicted for all queries together


def predicted_spots(probe: Probe, may: Mask, blocks: Blocks) -> SymbolSpots | None:
    """Spots such as a probe is expected to give; None where it says no more than blocks do."""
    places = np.flatnonzero(may)
    ends = np.cumsum(blocks.rows[places])
    number = round(probe.matching)
    if not len(ends) or number >= min(MOST_DRAWN, int(ends[-1])):
        return None
    seed = hashlib.blake2b(str(probe.symbol).encode(), digest_size=8).digest()
    draw = np.random.default_rng(int.from_bytes(seed, "little"))
    rows = np.sort(draw.integers(0, ends[-1], number))
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
    offered: Sequence[Probe],
    prices: Sequence[float],
    by_blocks: SpotsOf,
    predicted: Mapping[Symbol, SymbolSpots],
    reading: ReadingCost,
) -> ProbeProblem:
    """What each probe costs, and what queries would then need."""
    numbers = {probe.symbol: number for number, probe in enumerate(offered)}
    queries = []
    for needed in needs:
        own = sorted(numbers[symbol] for symbol in needed.symbols if symbol in numbers)
        options = []
        for some in _sets(own, max(2, MOST_OPTIONS // len(needs))):
            symbols = {offered[number].symbol for number in some}

            def spots_of(symbol: Symbol, symbols: set[Symbol] = symbols) -> SymbolSpots:
                if symbol in symbols and symbol in predicted:
                    return predicted[symbol]
                return by_blocks(symbol)

            options.append(ProbeOption(some, reading.units(needed, spots_of)))
        queries.append(options)
    weights = reading.costs.row * reading.rows.astype(np.float64) + reading.costs.group
    return ProbeProblem(prices, weights, reading.always, queries)


def _sets(own: Sequence[int], most: int) -> list[frozenset[int]]:
    """None, all, each, the most selective ones, and of a few all pairs: at most so many."""
    found = [frozenset[int](), frozenset(own), *(frozenset({p}) for p in own[:ROUNDS])]
    found += [frozenset(own[:size]) for size in range(2, min(ROUNDS, len(own)) + 1)]
    if len(own) <= PAIRED:
        found += [frozenset(pair) for pair in combinations(own, 2)]
    return list(dict.fromkeys(found))[:most]
