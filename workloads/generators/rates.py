"""Rates per type, in events per second: uniform, skewed, or with some types held to a share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workloads.generators.distributions import SpecError


def numbered_types(count: int, prefix: str = "E") -> tuple[str, ...]:
    """`E0`, `E1`, … for streams whose types need no name of their own."""
    if count < 1:
        raise SpecError(f"a stream has at least one type, not {count}")
    return tuple(f"{prefix}{i}" for i in range(count))


def uniform_rates(types: Sequence[str], total: float) -> dict[str, float]:
    """Every type equally often, `total` events per second together."""
    return zipf_rates(types, total, 0.0)


def zipf_rates(types: Sequence[str], total: float, skew: float) -> dict[str, float]:
    """Rates that fall with a type's rank r = 1, 2, … as r ** -skew, `total` together."""
    if not types:
        raise SpecError("no types were given")
    if not (math.isfinite(skew) and skew >= 0):
        raise SpecError(f"a skew is 0 or more, not {skew}")
    weights = [rank**-skew for rank in range(1, len(types) + 1)]
    return {name: total * w / sum(weights) for name, w in zip(types, weights, strict=True)}


def with_shares(rates: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """The same total with some types at a given share of it, the rest scaled to fit.

    A-Seq's experiments hold the connect event's frequency so (the thesis, section 5.3).
    """
    for name in shares:
        if name not in rates:
            raise SpecError(f"no rate is given for '{name}'; known are {', '.join(rates)}")
    taken = math.fsum(shares.values())
    total = math.fsum(rates.values())
    rest = math.fsum(rate for name, rate in rates.items() if name not in shares)
    if any(share < 0 for share in shares.values()) or taken > 1 + 1e-12:
        raise SpecError(f"shares are 0 or more and at most 1 together: {dict(shares)}")
    if rest <= 0 and taken < 1 - 1e-12:
        raise SpecError("no type is left to take the rest of the rate")
    scale = total * max(0.0, 1 - taken) / rest if rest > 0 else 0.0
    return {
        name: total * shares[name] if name in shares else rate * scale
        for name, rate in rates.items()
    }
