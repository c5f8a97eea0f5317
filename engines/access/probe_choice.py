"""Which probes of secondary indexes are worth it for a whole workload.

Paid are entries of indexes that are read, row groups that are opened, and rows of them that are
decoded and run over. A probe is paid once for all queries that have its symbol, and a row group is
read once for all: the choice is for the workload, not for one query. A query that no probe helps
needs its row groups anyway; what only such queries need is the bound below which no choice gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engines.access.blocks import Int64s, Mask
from engines.access.needed import SpotsOf, SymbolSpots, needed_units
from engines.access.probes import Probe, Prober, probes_of
from optimizer.access.anchors import NeededEvents
from optimizer.ir.pattern import Symbol


@dataclass(frozen=True)
class AccessCosts:
    """Nanoseconds: of a row that is read and run over, of a row group, of an index's entry."""

    row: float
    group: float = 60_000.0
    entry: float = 60.0

    @staticmethod
    def of(columns: int) -> AccessCosts:
        """For events of which so many columns decide about queries."""
        return AccessCosts(row=30.0 + 12.0 * max(columns, 1))


@dataclass(frozen=True, eq=False)
class ReadingCost:
    """What reading row groups costs; times are in ticks of so many nanoseconds.

    Some row groups are `always` read. An event is before another where it is `step` ticks earlier.
    """

    always: Mask
    rows: Int64s
    costs: AccessCosts
    tick: int
    step: int

    def of(self, kept: Mask) -> float:
        """Nanoseconds that reading these row groups takes, and running over them."""
        return float(self.costs.row * self.rows[kept].sum() + self.costs.group * kept.sum())

    def units(self, needed: NeededEvents, spots_of: SpotsOf) -> Mask:
        """The row groups that a query needs."""
        return needed_units(needed, spots_of, len(self.rows), self.tick, self.step)

    def union(self, masks: Sequence[Mask]) -> Mask:
        """The row groups that any query needs; none where there are no queries."""
        if not masks:
            return np.zeros_like(self.always)
        found: Mask = np.logical_or.reduce([self.always, *masks])
        return found


@dataclass(eq=False)
class SpotsByProbes:
    """Spots of symbols: by blocks, or once they are probed by entries."""

    by_blocks: SpotsOf
    prober: Prober
    probed: dict[Symbol, SymbolSpots] = field(default_factory=dict)

    def __call__(self, symbol: Symbol) -> SymbolSpots:
        return self.probed.get(symbol) or self.by_blocks(symbol)

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
    bound: float


def best_probes(
    needs: Sequence[NeededEvents],
    spots: SpotsByProbes,
    reading: ReadingCost,
    forced: bool = False,
) -> ProbeChoice:
    """Probe as long as it can pay, the most selective first; with `forced` all that there is.

    What a probe finds is known only then, so that each is judged by what those before it have left
    to be saved: it is made where even its whole cost is less than that.
    """
    masks = [reading.units(needed, spots) for needed in needs]
    kept = reading.union(masks)
    offered = probes_of(spots.prober, _symbols(needs))
    helped = {probe.symbol for probe in offered}
    fixed = [
        mask for needed, mask in zip(needs, masks, strict=True) if not helped & set(needed.symbols)
    ]
    bound = reading.of(reading.always | reading.union(fixed)) if needs else 0.0
    spent = 0.0
    made = []
    for probe in offered:
        price = reading.costs.entry * probe.expected
        if not forced and price >= reading.of(kept) - bound:
            continue
        entries = spots.take(probe)
        spent += price
        made.append(probe.document(entries))
        for place, needed in enumerate(needs):
            if probe.symbol in needed.symbols:
                masks[place] = reading.units(needed, spots)
        kept = reading.union(masks)
    return ProbeChoice(made, masks, kept, spent + reading.of(kept), bound)


def _symbols(needs: Sequence[NeededEvents]) -> list[Symbol]:
    return list(dict.fromkeys(symbol for needed in needs for symbol in needed.symbols))
