"""What sharing a candidate saves: models that a planner chooses among.

A model gives a number for each candidate, in a unit of its own. Numbers of one model may be added
and compared, those of two may not.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sharing.counting.candidates import Candidates

Floats: TypeAlias = NDArray[np.float64]


class BenefitModel(Protocol):
    """What each candidate saves against computing it in each query; below zero it costs."""

    @property
    def unit(self) -> str:
        """What is saved, such as "operations per window"."""

    def benefits(self, candidates: Candidates) -> Floats:
        """One number for each candidate."""


class Worth(NamedTuple):
    """A benefit of `gain` for each place that a candidate serves, less `once` for computing it."""

    gain: Floats
    once: Floats


@runtime_checkable
class LinearModel(BenefitModel, Protocol):
    """A model whose benefit grows evenly with the places that a candidate serves."""

    def worth(self, candidates: Candidates) -> Worth:
        """For each candidate, such that `gain * places - once` is its benefit; `once` >= 0."""
