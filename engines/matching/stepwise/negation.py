"""Negation: keep the partial matches in whose gap there is no match of what is negated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engines.columns.layout import Rows
from engines.columns.vectors import Mask
from engines.matching.stepwise.steps import (
    Frame,
    Name,
    QueryScan,
    Slot,
    StepPlan,
    gap_high,
    gap_low,
    run_steps,
)
from optimizer.ir.pattern import PositionGap, Symbol


@dataclass(frozen=True)
class Absent:
    """`!N`: each way to choose the parts of N's ORs must be absent."""

    gap: PositionGap
    plans: tuple[StepPlan, ...]

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        low, high = gap_low(self.gap, scan, frame), gap_high(self.gap, scan, frame)
        found = np.zeros(frame.size, bool)
        for plan in self.plans:
            left = np.flatnonzero(~found & (low < high))
            if plan.chain is not None:
                found[left] = _occurs(plan.chain, scan, low[left], high[left])
            elif plan.reads:
                found[_with_match(plan, scan, frame.extended(left, {}), left, low, high)] = True
            else:
                found[left] = _found_alone(plan, scan, low[left], high[left])
        yield frame.take(np.flatnonzero(~found)) if found.any() else frame


def _occurs(chain: tuple[Symbol, ...], scan: QueryScan, low: Rows, high: Rows) -> Mask:
    """Do events of these symbols follow one another in a range? The earliest of each tells."""
    occurs: Mask = earliest_end(chain, scan, low) < high
    return occurs


def earliest_end(chain: tuple[Symbol, ...], scan: QueryScan, low: Rows) -> Rows:
    """The last row of the sequence that ends first, from a row on; past all rows for none."""
    rows = low
    for number, symbol in enumerate(chain):
        candidates = scan.arranged.candidates(symbol)
        place = candidates.before[scan.layout.after[rows] if number else rows]
        rows = np.append(candidates.rows, len(scan.layout))[place]
    return rows


def latest_start(chain: tuple[Symbol, ...], scan: QueryScan, high: Rows) -> Rows:
    """The first row of the sequence that starts last, before a row; -1 for none."""
    rows = high
    for number, symbol in enumerate(reversed(chain)):
        candidates = scan.arranged.candidates(symbol)
        # The row behind the last stands for -1 too, and has nothing before it but -1.
        limit = np.where(rows < 0, 0, scan.layout.block[rows] if number else rows)
        rows = np.append(candidates.rows, -1)[candidates.before[limit] - 1]
    return rows


def _found_alone(plan: StepPlan, scan: QueryScan, low: Rows, high: Rows) -> Mask:
    """Where is a negation found that reads nothing of the match? Once for each different range."""
    span = len(scan.layout) + 1
    ranges, inverse = np.unique(low * span + high, return_inverse=True)
    low, high = ranges // span, ranges % span
    every = np.arange(len(low))
    occurs = np.zeros(len(low), bool)
    occurs[_with_match(plan, scan, Frame(len(low), {}), every, low, high)] = True
    return occurs[inverse]


def _with_match(
    plan: StepPlan, scan: QueryScan, frame: Frame, seeds: Rows, low: Rows, high: Rows
) -> Rows:
    """The seeds in whose range the plan finds a match."""
    matched = [
        np.unique(found.column(Slot.SEED))
        for found in found_in(plan, scan, frame, seeds, low[seeds], high[seeds])
    ]
    return np.concatenate(matched) if matched else np.zeros(0, np.int64)


def found_in(
    plan: StepPlan, scan: QueryScan, frame: Frame, seeds: Rows, low: Rows, high: Rows
) -> Iterator[Frame]:
    """The matches of a plan in a range of rows for each row of a frame, with its seed."""
    columns: dict[Name, Rows] = {
        Slot.LOW: low,
        Slot.HIGH: high,
        Slot.OPENING: low,
        Slot.CLOSING: high,
        Slot.LAST: high,
        Slot.SEED: seeds,
    }
    return run_steps(plan.steps, scan, frame.extended(None, columns))
