"""The benefit of sharing a substring by Chop-Connect, in time on this machine.

The operations are those of `optimizer.cost.counting.chopconnect`: a query that runs whole keeps
counters for each of its own STARTs; one that shares a substring has it counted once for all, for
the substring's STARTs, and pays for snapshots at its own connects and for looking into them.

Unit: nanoseconds of one core for a second of stream. What a place gains depends on what stands
before and behind it there, so the model is not linear in the number of places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optimizer.cost.substrings import Arrivals
from optimizer.cost.unit_costs import UnitCosts
from optimizer.ir.pattern import Symbol
from optimizer.statistics import Statistics
from sharing.counting.benefit import Floats
from sharing.counting.candidates import CANDIDATE_KINDS, Candidates, CountSetting, Ints, QuerySteps


class _Steps(NamedTuple):
    """All queries' steps behind one another, and what their setting makes of them."""

    rate: Floats  # of each step's symbol
    met: Floats  # how many of them a window holds when an event comes
    touched: Floats  # events that extend or clear a step's counters, summed up to it
    evaluated: Floats  # by query
    both: Floats  # by query: of two rates, the mean product of what a window holds


@dataclass(frozen=True)
class MeasuredModel:
    """Benefits from a stream's statistics and the unit costs of a machine.

    A rate that is not known is an error that names it. A bitmark saves nothing by Chop-Connect.
    """

    statistics: Statistics
    unit_costs: UnitCosts
    unit: str = "nanoseconds per second of stream"

    def benefits(self, candidates: Candidates) -> Floats:
        """What each candidate saves against its queries running whole."""
        if not len(candidates):
            return np.zeros(0)
        each = self.unit_costs.each
        steps = self._steps(candidates.of)
        start, ends = candidates.start[:-1], candidates.start[1:]
        query, holder = candidates.query, candidates.holder
        root, behind = start[query], ends[query]
        first = root + candidates.position
        last = first + candidates.length[holder]
        has_before, has_rest = first > root, last < behind
        rest = np.where(has_rest, last, root)  # any step where there is none: it is not counted
        evaluated = steps.evaluated[query]
        counted = self._segment(steps, first, last)
        whole = self._segment(steps, root, behind) + each.chop_totals * evaluated * steps.met[root]
        chopped = np.where(has_before, self._segment(steps, root, first), 0.0)
        chopped += np.where(has_rest, self._segment(steps, rest, behind), 0.0)
        snapshot = each.chop_snapshots + each.chop_rows * steps.met[root]
        chopped += np.where(has_before, steps.rate[first] * snapshot, 0.0)
        # A snapshot over two segments is made of those at the first connect, half of which are
        # still in the window.
        multiplied = steps.both[query] * steps.rate[first] * steps.rate[root] / 2
        again = snapshot + np.where(has_before, each.chop_products * multiplied, 0.0)
        chopped += np.where(has_rest, steps.rate[rest] * again, 0.0)
        last_start = np.where(has_rest, rest, first)
        looked_up = np.where(has_before | has_rest, each.chop_connected, each.chop_totals)
        chopped += looked_up * evaluated * steps.met[last_start]
        gained = np.bincount(holder, whole - chopped, minlength=len(candidates))
        found: Floats = gained - counted[candidates.first[:-1]]
        return np.where(candidates.kind == CANDIDATE_KINDS.index("bitmark"), 0.0, found)

    def _segment(self, steps: _Steps, first: Ints, end: Ints) -> Floats:
        """What the counters of a segment cost, kept for its own STARTs."""
        each = self.unit_costs.each
        started = steps.rate[first]
        # Its first step is not extended, but cleared.
        touched = steps.touched[end] - steps.touched[first] - started
        found: Floats = (
            each.chop_nodes * (touched + started)
            + each.chop_counters * touched * steps.met[first]
            + each.chop_cells * started * (end - first)
        )
        return found

    def _steps(self, queries: tuple[QuerySteps, ...]) -> _Steps:
        windows: dict[CountSetting, Arrivals] = {}
        rates: dict[Symbol, float] = {}
        rate, scale, touched, evaluated, both = [], [], [], [], []

        def rate_of(symbol: Symbol) -> float:
            if symbol not in rates:
                rates[symbol] = self.statistics.rate(symbol)
            return rates[symbol]

        for query in queries:
            setting = query.setting
            if setting not in windows:
                windows[setting] = Arrivals(
                    self.statistics, setting.key, setting.window, setting.slide
                )
            arrivals = windows[setting]
            own = [rate_of(step.symbol) for step in query.steps]
            rate += own
            scale += [arrivals.per_rate] * len(own)
            touched += [
                r + sum(map(rate_of, step.negated))
                for r, step in zip(own, query.steps, strict=True)
            ]
            if setting.slide and own:
                symbols = {s.symbol for s in query.steps}.union(*(s.negated for s in query.steps))
                evaluated.append(arrivals.evaluations(frozenset(symbols)))
            else:
                evaluated.append(own[-1] if own else 0.0)
            both.append(arrivals.per_rates)
        known = np.array(rate, np.float64)
        return _Steps(
            known,
            known * np.array(scale, np.float64),
            np.concatenate([[0.0], np.cumsum(touched)]),
            np.array(evaluated, np.float64),
            np.array(both, np.float64),
        )
