"""Which probes of secondary indexes are made for a whole workload.

Paid are entries of indexes that are read, row groups that are opened, and rows of them that are
decoded and run over. A probe is paid once for all queries that have its symbol, and a row group is
read once for all: probes are chosen for the workload, not for one query, by what they are expected
to find (`optimizer/access/joint_choice.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.access.blocks import Mask
from engines.access.needed import SpotsOf, SymbolSpots
from engines.access.predicted_spots import predicted_spots, probe_problem
from engines.access.probes import Probe, Prober, probes_of
from engines.access.reading_cost import ReadingCost
from optimizer.access.anchors import NeededEvents
from optimizer.access.joint_choice import SOLVERS
from optimizer.ir.pattern import Symbol
from optimizer.plan.plan import Solver


@dataclass(eq=False)
class SpotsByProbes:
    """Spots of symbols: by blocks, or once they are probed by entries."""

    by_blocks: SpotsOf
    prober: Prober
    probed: dict[Symbol, SymbolSpots] = field(default_factory=dict)

    def __call__(self, symbol: Symbol) -> SymbolSpots:
        return self.probed.get(symbol) or self.by_blocks(symbol)

    def predicted(self, offered: Sequence[Probe]) -> dict[Symbol, SymbolSpots]:
        """What probes are expected to find, as far as that is less than blocks say."""
        possible, blocks = self.prober.possible, self.prober.blocks
        found = {
            probe.symbol: predicted_spots(probe, possible.symbol(probe.symbol), blocks)
            for probe in offered
        }
        return {symbol: spots for symbol, spots in found.items() if spots is not None}

    def take(self, probe: Probe) -> int:
        """Probe, and from now on go by what is found; gives how many entries that are."""
        self.probed[probe.symbol], entries = self.prober.spots(probe)
        return entries


@dataclass(frozen=True, eq=False)
class ProbeChoice:
    """The probes that were made, the row groups of each query and of all, cost and bound."""

    probes: Sequence[dict[str, Any]]
    masks: Sequence[Mask]
    kept: Mask
    cost: float
    expected: float  # the cost that the choice was made by
    bound: float  # what no choice was expected to cost less than


def best_probes(
    needs: Sequence[NeededEvents],
    spots: SpotsByProbes,
    reading: ReadingCost,
    solver: Solver = "greedy",
    forced: bool = False,
) -> ProbeChoice:
    """Make the probes that a solver chooses, the most selective first; with `forced` all there are.

    A probe is not made where those before it have left less to be read than it costs.
    """
    masks = [reading.units(needed, spots) for needed in needs]
    kept = reading.union(masks)
    offered = probes_of(spots.prober, _symbols(needs))
    whole = reading.of(kept)
    if not offered:
        return ProbeChoice([], masks, kept, whole, whole, whole)
    predicted = spots.predicted(offered)
    problem = probe_problem(needs, offered, spots.by_blocks, predicted, reading)
    every = frozenset(range(len(offered)))
    chosen = SOLVERS[solver](problem)
    made = every if forced else chosen.made
    spent = 0.0
    told = []
    for number in sorted(made):
        probe = offered[number]
        price = reading.costs.entry * probe.expected
        if not forced and price >= reading.of(kept):
            continue
        entries = spots.take(probe)
        spent += price
        told.append(probe.document(entries))
        for place, needed in enumerate(needs):
            if probe.symbol in needed.symbols:
                masks[place] = reading.units(needed, spots)
        kept = reading.union(masks)
    expected = problem.small.cost(made)
    return ProbeChoice(told, masks, kept, spent + reading.of(kept), expected, chosen.bound)


def _symbols(needs: Sequence[NeededEvents]) -> list[Symbol]:
    return list(dict.fromkeys(symbol for needed in needs for symbol in needed.symbols))
