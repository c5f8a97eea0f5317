"""The benefit model of A-Seq's Chop-Connect: equations 4.2 to 4.5 of Qi's thesis.

For a substring of `l` symbols that `k` queries share, where a window holds `N0` events of each type
and `f * N0` of the substring's first symbol, whose events are what connects (CNET).

On a stream that is not uniform N0 is the mean number of events per type in one window, and f the
first symbol's number in one window over N0 (docs/design.md#choosing-what-to-share). A query that
has the substring at several places computes it, and connects it, at each: `k` counts places. Unit:
operations on counters, for the events of one window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window
from sharing.counting.benefit import Floats, Worth
from sharing.counting.candidates import CANDIDATE_KINDS, Candidates, CountSetting
from sharing.errors import MissingStatisticError

_NANOSECONDS = 1e9
Number = TypeVar("Number", float, Floats)


def unshared(N0: Number, k: Number, l: Number, f: Number) -> Number:  # noqa: E741
    """Computing the substring in each of k queries (equation 4.2)."""
    return N0**2 * k * (l + f)


def chop_connect(N0: Number, k: Number, l: Number, f: Number) -> Number:  # noqa: E741
    """Computing it once and connecting it in k queries (equation 4.3)."""
    return N0**3 * f * k + N0**2 * f * l


def benefit(N0: Number, k: Number, l: Number, f: Number) -> Number:  # noqa: E741
    """What sharing saves, the BValue (equation 4.4)."""
    return unshared(N0, k, l, f) - chop_connect(N0, k, l, f)


@dataclass(frozen=True)
class Line(Generic[Number]):
    """The benefit as a function of one quantity, the others fixed."""

    slope: Number
    intercept: Number

    def at(self, value: Number) -> Number:
        """The benefit where the quantity has this value."""
        return self.slope * value + self.intercept

    @property
    def root(self) -> Number:
        """Where sharing turns from paying to not paying, or the other way round."""
        return -self.intercept / self.slope


def by_frequency(N0: Number, k: Number, l: Number) -> Line[Number]:  # noqa: E741
    """The benefit as f varies (equation 4.5 a)."""
    return Line(N0**2 * k - N0**3 * k - N0**2 * l, N0**2 * k * l)


def by_length(N0: Number, k: Number, f: Number) -> Line[Number]:
    """The benefit as l varies (equation 4.5 b)."""
    return Line(N0**2 * k - N0**2 * f, (N0**2 - N0**3) * k * f)


def by_queries(N0: Number, l: Number, f: Number) -> Line[Number]:  # noqa: E741
    """The benefit as k varies (equation 4.5 c)."""
    return Line(N0**2 * l + N0**2 * f - N0**3 * f, -(N0**2) * f * l)


@dataclass(frozen=True)
class AseqModel:
    """The thesis' model for the rates of a stream.

    `rates` are events per second by type, all types of the stream: N0 is their mean. Of a symbol
    with predicates only a part of its type's events are instances: `selectivities` says which, all
    of them where it says nothing. `partitions` is the number of keys by partition key, one where it
    says nothing: each key is a stream of its own with its part of the events. A bitmark saves
    nothing by this model.
    """

    rates: Mapping[str, float]
    selectivities: Mapping[Symbol, float] = field(default_factory=dict)
    partitions: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    unit: str = "operations per window"

    def benefits(self, candidates: Candidates) -> Floats:
        """Equation 4.4 for each candidate; an unknown rate is an error that names the type."""
        N0, l, f, keys = self._quantities(candidates)  # noqa: E741
        return keys * benefit(N0, candidates.places.astype(np.float64), l, f)

    def worth(self, candidates: Candidates) -> Worth:
        """Equation 4.5 c for each candidate."""
        N0, l, f, keys = self._quantities(candidates)  # noqa: E741
        line = by_queries(N0, l, f)
        return Worth(keys * line.slope, -keys * line.intercept)

    def _quantities(self, candidates: Candidates) -> tuple[Floats, Floats, Floats, Floats]:
        """N0, l, f and the number of keys for each candidate."""
        known: dict[tuple[CountSetting, Symbol], tuple[float, float, float]] = {}
        rows = []
        for place in candidates.first[:-1].tolist():
            query = candidates.of[int(candidates.query[place])]
            start = query.setting, query.steps[int(candidates.position[place])].symbol
            if start not in known:
                known[start] = self.in_window(*start)
            rows.append(known[start])
        N0, f, keys = np.array(rows, np.float64).reshape(-1, 3).T
        # Chop-Connect shares equal steps only: what differs in negations it cannot.
        keys = np.where(candidates.kind == CANDIDATE_KINDS.index("bitmark"), 0.0, keys)
        return N0, candidates.length.astype(np.float64), f, keys

    def in_window(self, setting: CountSetting, symbol: Symbol) -> tuple[float, float, float]:
        """N0, f, and for how many keys they hold."""
        keys = self.partitions.get(setting.key, 1.0)
        scale = self._per_rate(setting.window) / keys
        N0 = scale * sum(self.rates.values()) / len(self.rates) if self.rates else 0.0
        connecting = scale * self._rate(symbol)
        return N0, connecting / N0 if N0 else 0.0, keys

    def _rate(self, symbol: Symbol) -> float:
        if symbol.type not in self.rates:
            raise MissingStatisticError(
                f"the benefit model aseq needs the rate of {symbol.type}, which is not known; give "
                "it under statistics, or events to measure it from"
            )
        return self.rates[symbol.type] * self.selectivities.get(symbol, 1.0)

    def _per_rate(self, window: Window) -> float:
        """Events in one window for each event per second."""
        if not window.is_count:
            return window.size / _NANOSECONDS
        total = sum(self.rates.values())
        return window.size / total if total else 0.0
