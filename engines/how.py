"""How a workload is to be run: what a user may choose, apart from the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf


@dataclass(frozen=True)
class How:
    """Without `counting` all queries construct their matches; without `sharing` each runs alone.

    `device` is where counting runs. `insist`: an OpenCL device that is missing or fails is an
    error, and not a warning after which the CPU takes over. `detection` is the shape of the trees
    that find matches, or `joins` for one component after the other.
    """

    counting: bool = True
    sharing: bool = True
    device: OneOf["cpu", "opencl"] = "cpu"
    insist: bool = False
    detection: OneOf["bushy", "left", "right", "worst", "joins"] = "bushy"


USUAL = How()
