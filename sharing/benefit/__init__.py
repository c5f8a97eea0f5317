"""What sharing a candidate saves: models that a planner chooses among.

A model gives a number for each candidate, in a unit of its own. Numbers of one model may be added
and compared, those of two may not.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sharing.candidates import Candidates

Floats: TypeAlias = NDArray[np.float64]


class BenefitModel(Protocol):
    """What each candidate saves against computing it in each query; below zero it costs."""

    @property
    def unit(self) -> str:
        """What is saved, such as "operations per window"."""

    def benefits(self, candidates: Candidates) -> Floats:
        """One number for each candidate."""
