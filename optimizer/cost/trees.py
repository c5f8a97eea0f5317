"""What the operators of a tree of joins cost: ZStream section 5.1, equation 1 and table 2.

An operator's cost is `C = Ci + n k Ci + p Co`: the combinations of input rows that are tried, the
`n` predicates that are evaluated on each, and the rows that are made.

Unit: events touched in one window's length of stream. To compare queries with different windows
divide by the window's seconds. Rows are those of one window, as are all cardinalities here.

Where this page differs from the paper:
- The predicates of an operator are those that its whole subtree can evaluate and neither child
  could (Odense thesis 3.5.4 and 5.3.2); the root's position alone, as in algorithm 5, does not say.
- Table 2 gives a closure's groups by their events; here rows are groups, as the next operator
  joins groups, and only the output cost counts their events. `E+` has a row for every choice.
- A partition key is no predicate: events of different keys never meet, so they are not tried.
- `halves` is the paper's estimate: 1/2 of the pairs of rows stand in order, at each operator, and
  a negation leaves 3/4, whatever its rate. `poisson` estimates what a stream of independent events
  holds: of k components `k r1 … rk W^(k-1)` combinations a second span less than a window W, of
  which one in k! is in order; and a gap is free of negated events the more rarely they come
  (`optimizer/cost/absence.py`).
- A join that a negation was pushed below looks, with `poisson`, at what the negation lets through
  only: the kernels begin there. Table 2 charges all pairs, and so does `halves`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf

from workloads.syntax import All, Exactly, One, Plus, Quantifier

MAX_CHOICES = 64  # of E+: more than 2^64 groups are as good as never finished


@dataclass(frozen=True, slots=True)
class Model:
    """The weights of equation 1 and the ways to estimate.

    `equality`: whether `a.x = b.y` is evaluated like any predicate or looked up by hash, which
    tries only what is equal but costs a look-up for each row of the outer loop.
    """

    predicate: float = 0.25  # k
    output: float = 1.0  # p
    vain: float = 0.5  # of a pair that is looked at and does not fit the window
    equality: OneOf["scan", "hash"] = "scan"
    arrivals: OneOf["halves", "poisson"] = "halves"


ZSTREAM = Model()
# What the kernels do: equalities are looked up, and what ends in a window is tried.
COMPILED = Model(equality="hash", arrivals="poisson")


def touched(model: Model, tried: float, predicates: int, made: float) -> float:
    """Equation 1."""
    return tried * (1 + predicates * model.predicate) + model.output * made


def meeting(model: Model, left: int, right: int, ordered: bool) -> float:
    """How many of the pairs of rows of so many events fit together: Pt of table 1, and the window.

    Without events, at an edge, all do.
    """
    if not left or not right:
        return 1.0
    if model.arrivals == "halves":
        return 0.5 if ordered else 1.0
    in_one_window = (left + right) / (left * right)
    return in_one_window / math.comb(left + right, left) if ordered else in_one_window


def looked_at(
    model: Model, left: int, right: int, ordered: bool, free: tuple[float, float] = (1.0, 1.0)
) -> float:
    """How many of the pairs of rows of so many events a join looks at to find those that fit.

    The paper's estimate does not tell them apart. The kernels go over left rows by their end: those
    that begin too early for the window are looked at in vain, which single events never are. Of m
    events that fit a window the span is (m - 1) / m of it on average, so a right row leaves 1 / m.
    A look in vain counts for less than one that leads to predicates and a row. `free` are the
    shares that negations between the two let through, of pairs that fit and of all these: what
    they rule out is not looked at.
    """
    fitting = meeting(model, left, right, ordered) * free[0]
    if not left or not right or model.arrivals == "halves":
        return fitting
    near = (1 / right if ordered else 1 + 1 / right) * free[1]
    return fitting + model.vain * max(near - fitting, 0.0)


def join(
    model: Model,
    pairs: float,
    lookups: float,
    predicates: int,
    equal: float | None,
    made: float,
) -> float:
    """Sequence and conjunction; `pairs` are looked at.

    `equal` is the selectivity of the equalities that are looked up, None where there are none.
    """
    tried = pairs if equal is None else pairs * equal + lookups
    return touched(model, tried, predicates, made)


def merged(model: Model, rows: float) -> float:
    """Disjunction: each row is fetched once and given on."""
    return touched(model, rows, 0, rows)


def latest(model: Model, rows: float, made: float) -> float:
    """LATEST: each event of its parts is looked at once, and those that complete it are made."""
    return touched(model, rows, 0, made)


def pushed(model: Model, rows: float, predicates: int) -> float:
    """NSEQ: each row of the positive side finds the event that negates it, without a search."""
    return touched(model, rows, predicates, rows)


def filtered(model: Model, before: float, predicates: int, after: float) -> float:
    """NEG: each row is looked at, and those that nothing negates are given on."""
    return touched(model, before, predicates, after)


def surviving(sides: int, selectivity: float) -> float:
    """The share of rows that a negation leaves by the paper's estimate, whatever its rate.

    `sides`: between two parts, on one side of one, or anywhere in the window (0).
    """
    share: float = 1 - 0.5 ** max(sides, 1) * min(1.0, selectivity)
    return share


def between(model: Model, sides: int, rows: float) -> float:
    """How many of a closure's candidates lie between a start and an end, or beside the one."""
    if model.arrivals == "halves":
        share: float = 0.5**sides
        return rows * share
    return rows / 2 if sides == 2 else rows


def groups(model: Model, quantifier: Quantifier, candidates: float, sides: int) -> float:
    """How many groups a closure makes of so many candidates on average, between `sides`."""
    if model.arrivals == "poisson":
        return _random_groups(quantifier, 2 * candidates if sides == 2 else candidates, sides == 2)
    match quantifier:
        case One():
            return candidates
        case Plus():
            chosen: float = 2.0 ** min(candidates, MAX_CHOICES) - 1
            return chosen
        case All():
            return min(1.0, candidates)
        case Exactly(count):
            some: float = (candidates / count) ** count
            return candidates - count + 1 if candidates >= count else some


def _random_groups(quantifier: Quantifier, most: float, in_gap: bool) -> float:
    """The mean over a Poisson number of candidates, with `most` of them in a whole window.

    In a gap, which is any part of a window equally likely, their number is spread accordingly.
    """
    if most < 1e-6:
        most = 1e-6
    match quantifier:
        case One():
            return most / 2 if in_gap else most
        case Plus():
            # 2^N has the mean exp(N's mean).
            capped = min(most, MAX_CHOICES * math.log(2))
            return math.expm1(capped) / capped - 1 if in_gap else math.expm1(capped)
        case All():
            return 1 + math.expm1(-most) / most if in_gap else -math.expm1(-most)
        case Exactly(count):
            if most > 500:
                return max((most / 2 if in_gap else most) - count + 1, 0.0)
            return _sliding(count, most, in_gap)


def _sliding(count: int, most: float, in_gap: bool) -> float:
    """The mean of N - count + 1, where that is positive."""
    chance, below, mean = math.exp(-most), 0.0, 0.0  # of exactly j, and of at most j
    for j in range(count + int(most + 10 * math.sqrt(most)) + 20):
        below += chance
        here = max(1 - below, 0.0) / most if in_gap else chance
        mean += max(j - count + 1, 0) * here
        chance *= most / (j + 1)
    return mean


def group_size(quantifier: Quantifier, candidates: float) -> float:
    """How many events a group has."""
    match quantifier:
        case One():
            return 1.0
        case Plus():
            return max(1.0, candidates / 2)
        case All():
            return max(1.0, candidates)
        case Exactly(count):
            return float(count)


def searched(quantifier: Quantifier, candidates: float) -> float:
    """N of table 2: the events of the closure that are touched for each start and end."""
    match quantifier:
        case Exactly(count):
            return max(1.0, candidates * count)
        case _:
            return max(1.0, candidates)
