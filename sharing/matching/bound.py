"""What no choice of nodes can undercut.

Every node is paid once by all that read it. Let each place where it stands pay a part of the least
that it can cost; then each reading's cheapest tree at these prices costs, over all readings, no
more than any plan: a plan that makes a node pays for it at least what its readers do here. This
holds however the parts are dealt out, so they are dealt again and again: places that would read
the node pay more of it, and others less.
"""

from __future__ import annotations

from typing import NamedTuple

from sharing.matching.nodes import NodeProblem

ROUNDS = 12
MORE, LESS = (
    1.0,
    0.3,
)  # weight of a place that reads its node at its price, and of one that does not

Prices = list[dict[int, float]]  # by reader, of each occurrence


class Dual(NamedTuple):
    """Prices, and what the readings cost by them."""

    prices: Prices
    cost: float


def least_cost(problem: NodeProblem) -> float:
    """A cost that every plan has at the least."""
    return best_prices(problem).cost


def best_prices(problem: NodeProblem) -> Dual:
    """The prices by which the readings cost the most."""
    weights = [[1.0] * len(reader.occurrences) for reader in problem.readers]
    best: Dual | None = None
    for _ in range(ROUNDS if problem.nodes else 1):
        found, taken = _priced(problem, weights)
        if best is None or found.cost > best.cost:
            best = found
        for own, read in zip(weights, taken, strict=True):
            for i in range(len(own)):
                own[i] *= MORE if i in read else LESS
    assert best is not None
    return best


def _priced(problem: NodeProblem, weights: list[list[float]]) -> tuple[Dual, list[set[int]]]:
    """What all cost where the places of a node pay by their weights, and what they take."""
    places: list[list[tuple[int, int]]] = [[] for _ in problem.nodes]
    for number, reader in enumerate(problem.readers):
        for i, occurrence in enumerate(reader.occurrences):
            places[occurrence.node].append((number, i))
    prices: Prices = [{} for _ in problem.readers]
    taken: list[set[int]] = [set() for _ in problem.readers]
    own = len(problem.roots)
    for node in sorted(range(len(places)), key=lambda i: problem.nodes[i].piece.size):
        # What a node reads is shorter than itself, and has its prices already.
        reader = problem.readers[own + node]
        way = reader.at_least(prices[own + node])
        taken[own + node] = set(way.taken)
        total = sum(weights[number][i] for number, i in places[node])
        for number, i in places[node]:
            prices[number][i] = way.cost * weights[number][i] / total
    cost = 0.0
    for number, root in enumerate(problem.roots):
        way = root.at_least(prices[number])
        taken[number] = set(way.taken)
        cost += way.cost
    return Dual(prices, cost), taken
