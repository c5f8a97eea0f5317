"""Which candidates serve which places: the choice where a candidate need not serve all it could."""

from __future__ import annotations

from collections.abc import Mapping

from sharing.solvers.placements import cpsat, exhaustive, greedy
from sharing.solvers.placements.placement import Placement, PlacementSolver, Variants, as_variants

SERVERS: Mapping[str, PlacementSolver] = {
    "greedy": greedy.greedy,
    "cpsat": cpsat.cpsat,
    "exhaustive": exhaustive.exhaustive,
}

__all__ = ["SERVERS", "Placement", "PlacementSolver", "Variants", "as_variants"]
