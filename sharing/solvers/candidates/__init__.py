"""Solvers for the choice of candidates: a maximum-weight independent set of the conflict graph."""

from __future__ import annotations

from collections.abc import Mapping

from sharing.solvers.candidates import cpsat, exhaustive, greedy
from sharing.solvers.candidates.solution import DEFAULT, Options, Solution, Solver

SOLVERS: Mapping[str, Solver] = {
    "greedy": greedy.greedy,
    "thesis": greedy.thesis,
    "gwmin": greedy.gwmin,
    "gwmin2": greedy.gwmin2,
    "cpsat": cpsat.cpsat,
    "exhaustive": exhaustive.exhaustive,
}

__all__ = ["DEFAULT", "SOLVERS", "Options", "Solution", "Solver"]
