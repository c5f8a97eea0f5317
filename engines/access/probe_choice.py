"""Which probes of secondary indexes are made for a whole workload.

Paid are entries of indexes that are read, row groups that are opened, and rows of them that are
decoded and run over. A probe is paid once for all queries that have its symbol, and a row group is
read once for all: probes are chosen for the workload, not for one query, by what they are expected
to find (`optimizer/access/joint_choice.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from engines.access.blocks import Mask
from engines.access.made_spots import MadeSpots
from engines.access.needed import Part
from engines.access.predicted_spots import probe_problem
from engines.access.probes import Probe, Prober, probes_of
from engines.access.reading_cost import ReadingCost
from engines.access.symbol_spots import SpotsOf, SymbolSpots
from optimizer.access.anchors import NeededEvents
from optimizer.access.joint_choice import SOLVERS, ProbeProblem, ProbeSet
from optimizer.ir.pattern import Symbol
from optimizer.plan.plan import Solver

TRIED_PART = 0.02  # of what could be saved at most, that probes may cost of which less is expected


@dataclass(eq=False)
class SpotsByProbes:
    """Spots of symbols: by blocks, or once they are probed by entries."""

    stored: SpotsOf
    prober: Prober
    made: MadeSpots
    probed: dict[Symbol, SymbolSpots] = field(default_factory=dict)

    @cached_property
    def by_blocks(self) -> SpotsOf:
        """As if nothing was probed."""
        return self.made.besides(self.stored)

    @cached_property
    def by_probes(self) -> SpotsOf:
        """By what is known now."""
        return self.made.besides(lambda symbol: self.probed.get(symbol) or self.stored(symbol))

    def __call__(self, symbol: Symbol) -> SymbolSpots:
        return self.by_probes(symbol)

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


@dataclass(frozen=True, eq=False)
class ProbeOffers:
    """All probes that could be made for some queries, and what is expected of them."""

    needs: Sequence[NeededEvents]
    probes: Sequence[Probe]
    prices: Sequence[float]  # nanoseconds
    whole: Sequence[Part]  # what queries need without probes
    problem: ProbeProblem
    solver: Solver

    @staticmethod
    def of(
        needs: Sequence[NeededEvents],
        spots: SpotsByProbes,
        reading: ReadingCost,
        solver: Solver,
        only: Collection[Symbol] | None = None,
        summable: Collection[str] = (),
    ) -> ProbeOffers:
        """Of all symbols that can be looked up, or of those that are given `only`.

        Queries that are `summable` may not read anything in the end.
        """
        symbols = [each for each in _symbols(needs) if only is None or each in only]
        probes = probes_of(spots.prober, symbols)
        prices = _prices(probes, reading)
        whole = [reading.part(needed, spots.by_blocks) for needed in needs]
        asked = {probe.symbol for probe in probes}
        fixed = [
            part
            for needed, part in zip(needs, whole, strict=True)
            if needed.query not in summable and not asked.intersection(needed.symbols)
        ]
        problem = probe_problem(
            needs,
            whole,
            reading.of_parts(whole) - reading.of_parts(fixed),
            probes,
            prices,
            spots.by_blocks,
            spots.prober.possible,
            reading,
            spots.prober.blocks,
        )
        return ProbeOffers(needs, probes, prices, whole, problem, solver)

    def chosen(self, without: Collection[str] = ()) -> ProbeSet:
        """The probes that are best for the queries but for some."""
        places = {i for i, needed in enumerate(self.needs) if needed.query not in without}
        problem = self.problem.only(places)
        if not self.probes:  # nothing to choose from
            cost = problem.cost(frozenset())
            return ProbeSet(frozenset(), cost, cost)
        return SOLVERS[self.solver](problem)

    def cost(self, without: Collection[str]) -> float:
        """What the queries but for some are expected to cost."""
        return self.chosen(without).cost


def best_probes(
    offers: ProbeOffers,
    without: Collection[str],
    spots: SpotsByProbes,
    reading: ReadingCost,
    forced: bool = False,
) -> ProbeChoice:
    """Make the probes that a solver chooses, the most selective first; with `forced` all there are.

    A probe is not made where those before it have left less to be read than it costs. What it finds
    is known only then: others are tried as long as they cost little against what could be saved.
    """
    needs = [needed for needed in offers.needs if needed.query not in without]
    parts = [
        part
        for needed, part in zip(offers.needs, offers.whole, strict=True)
        if needed.query not in without
    ]
    chosen = offers.chosen(without)
    symbols = set(_symbols(needs))
    rest = {n for n, probe in enumerate(offers.probes) if probe.symbol in symbols}
    spent = tried = 0.0
    told = []
    # Those that are chosen first, and then what may be tried besides.
    for number in [*sorted(chosen.made & rest), *sorted(rest - chosen.made)]:
        probe = offers.probes[number]
        price = offers.prices[number]
        helped = {offers.probes[n].symbol for n in rest} - set(spots.probed)
        fixed = [p for n, p in zip(needs, parts, strict=True) if not helped & set(n.symbols)]
        savable = reading.of_parts(parts) - reading.of_parts(fixed)
        is_try = number not in chosen.made
        most = TRIED_PART * savable - tried if is_try else savable
        if not forced and price >= most:
            continue
        tried += price if is_try else 0.0
        entries = spots.take(probe)
        spent += price
        told.append(probe.document(entries))
        for place, needed in enumerate(needs):
            if probe.symbol in needed.symbols:
                parts[place] = reading.part(needed, spots)
    masks = [part.units for part in parts]
    cost = spent + reading.of_parts(parts)
    bound = min(chosen.bound, chosen.cost)
    return ProbeChoice(told, masks, reading.union(masks), cost, chosen.cost, bound)


def _prices(probes: Sequence[Probe], reading: ReadingCost) -> list[float]:
    """What each probe costs: entries in the same ranges are read once for all who ask for them."""
    asked = [tuple(probe.ranges.items()) for probe in probes]
    alike, costs = Counter(asked), reading.costs
    return [
        costs.entry * probe.expected / alike[ranges] + costs.found * probe.matching
        for probe, ranges in zip(probes, asked, strict=True)
    ]


def _symbols(needs: Sequence[NeededEvents]) -> list[Symbol]:
    """All that are looked for among stored events."""
    made = {needed.made for needed in needs}
    symbols = dict.fromkeys(symbol for needed in needs for symbol in needed.symbols)
    return [symbol for symbol in symbols if symbol.type not in made]
