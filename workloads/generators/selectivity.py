"""Constants that give a predicate the selectivity that is wanted, exactly."""

from __future__ import annotations

from typing import Literal

from workloads.generators.distributions import Integers, SpecError, Uniform

Operator = Literal["<", "<=", ">", ">="]


def constant_for(
    distribution: Uniform | Integers, operator: Operator, selectivity: float
) -> float | int:
    """The c for which `x operator c` holds with the given probability, x being drawn from here.

    For a predicate between two events, `a.x < b.x`, draw b.x from a distribution and let a.x be
    `Constant(constant_for(distribution, ">", selectivity))`; so the Odense thesis does it in 6.6.
    Integers have a constant only for multiples of one over their number; others are an error.
    """
    if not 0 <= selectivity <= 1:
        raise SpecError(f"a selectivity lies between 0 and 1, not {selectivity}")
    below = selectivity if operator in ("<", "<=") else 1 - selectivity
    if isinstance(distribution, Uniform):
        return distribution.low + below * (distribution.high - distribution.low)
    size = distribution.high - distribution.low
    rank = round(below * size)
    if abs(rank - below * size) > 1e-6:
        attainable = rank / size if operator in ("<", "<=") else 1 - rank / size
        raise SpecError(
            f"a selectivity of {selectivity} is not possible with {size} different integers; "
            f"the nearest is {attainable:g}"
        )
    # `x < low + rank` and `x >= low + rank` split the values after the first `rank`.
    return distribution.low + rank - (1 if operator in ("<=", ">") else 0)
