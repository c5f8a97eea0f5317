"""What no choice of nodes can undercut.

Every node is paid once by all that read it. Let each place where it stands pay an equal part of the
least that it can cost; then each reading's cheapest tree at these prices costs, over all readings,
no more than any plan: a plan that makes the node pays for it at least what its readers do here.
"""

from __future__ import annotations

from sharing.detection.problem import Problem


def prices_of(problem: Problem) -> dict[int, float]:
    """What each place of a node pays."""
    places = [0] * len(problem.nodes)
    for reader in problem.readers:
        for occurrence in reader.occurrences:
            places[occurrence.node] += 1
    prices: dict[int, float] = {}
    by_size = sorted(range(len(places)), key=lambda i: problem.nodes[i].piece.size)
    for i in by_size:  # what a node reads is shorter than itself
        prices[i] = problem.nodes[i].reader.least(_offered(problem, prices, i)) / places[i]
    return prices


def least_cost(problem: Problem) -> float:
    """A cost that every plan has at the least."""
    prices = prices_of(problem)
    found = 0.0
    for root in problem.roots:
        found += root.least({node: prices[node] for node in root.nodes})
    return found


def _offered(problem: Problem, prices: dict[int, float], node: int) -> dict[int, float]:
    return {inner: prices[inner] for inner in problem.nodes[node].reader.nodes}
