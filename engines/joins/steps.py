"""Plans: the steps that turn a seed into the matches of an OR-free pattern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engines.joins.conditions import holds
from engines.joins.frame import Frame
from engines.joins.regions import Extent
from engines.joins.scan import Scan
from optimizer.ir.pattern import Symbol
from workloads import expressions as ex


class Step(Protocol):
    """Something done to a frame of partial matches; what is left of it comes in parts."""

    def apply(self, scan: Scan, frame: Frame) -> Iterator[Frame]: ...


@dataclass(frozen=True)
class Plan:
    """The steps in order; `reads` are the aliases of an enclosing pattern that they look at.

    `chain` are the symbols of a plain sequence, where all that matters is whether it occurs.
    """

    steps: tuple[Step, ...]
    kept: tuple[str, ...]
    unkept: tuple[str, ...]
    extent: Extent
    reads: frozenset[str] = frozenset()
    chain: tuple[Symbol, ...] | None = None


@dataclass(frozen=True)
class Filter:
    """Keep the partial matches for which a condition holds."""

    condition: ex.Expression

    def apply(self, scan: Scan, frame: Frame) -> Iterator[Frame]:
        found = holds(self.condition, scan, frame)
        yield frame if found.all() else frame.take(np.flatnonzero(found))


def run_steps(steps: tuple[Step, ...], scan: Scan, seed: Frame) -> Iterator[Frame]:
    """The frames that all steps leave, depth first, so that only one part of each is held."""
    stack: list[Iterator[Frame]] = [iter((seed,))]
    while stack:
        frame = next(stack[-1], None)
        if frame is None:
            stack.pop()
        elif not frame.size:
            continue
        elif len(stack) > len(steps):
            yield frame
        else:
            stack.append(steps[len(stack) - 1].apply(scan, frame))
