"""Trees for queries that run together where no plan has chosen them: a quick rule.

Each query is offered the pieces that it has in common with others (`optimizer.trees.problem`), at
its share of their cost, and takes what makes its own tree cheaper. A piece that only one query
takes is given up. A plan looks further (`sharing.matching`), and needs statistics beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.query import Reading
from optimizer.statistics import Statistics
from optimizer.trees import CostedTree, GivenFragment, Tree, best_tree
from optimizer.trees.problem import Fragment, FragmentKey, fragments_of
from optimizer.trees.tree import renamed

OFFERS = 3  # pieces that a query is offered, the most promising ones
PIECES = 2  # that it may take
# Events that the readers of a piece must touch alone for the search to save more than it costs: it
# takes some milliseconds, and an event some nanoseconds.
WORTH = 500_000


def common_trees(readings: Sequence[Reading], statistics: Statistics) -> list[Tree]:
    """A tree for each reading; all have one window and one key."""
    return _Common(statistics).trees(readings)


class _Common:
    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._best: dict[FragmentKey, tuple[CostedTree, Fragment]] = {}

    def trees(self, readings: Sequence[Reading]) -> list[Tree]:
        plain = [self._tree(reading, []) for reading in readings]
        seconds = self._statistics.span or 1.0
        offers = self._offers(readings, [alone.per_second * seconds for alone in plain])
        readers = _readers(offers)
        taken = [
            self._taken(reading, alone, offer, readers)
            for reading, alone, offer in zip(readings, plain, offers, strict=True)
        ]
        used = _readers(taken)
        found = []
        for reading, alone, chosen in zip(readings, plain, taken, strict=True):
            kept = [piece for piece in chosen if used[piece.key] > 1]
            tree = alone if not kept else self._tree(reading, self._given(kept, used))
            found.append(self._written_out(tree.tree, kept))
        return found

    def _offers(
        self, readings: Sequence[Reading], touched: Sequence[float]
    ) -> list[list[Fragment]]:
        """For each reading the pieces that others have too, if all together make it worth it."""
        if sum(touched) < WORTH:
            return [[] for _ in readings]
        pieces = [
            fragments_of(reading.pattern, reading.asked.conditions, whole=False, bare=False)
            for reading in readings
        ]
        readers = _readers(pieces)
        together: Counter[FragmentKey] = Counter()
        for mine, own in zip(pieces, touched, strict=True):
            for key in {piece.key for piece in mine}:
                together[key] += int(own)
        found = []
        for reading, mine in zip(readings, pieces, strict=True):
            several = [p for p in mine if readers[p.key] > 1 and together[p.key] >= WORTH]
            several.sort(key=lambda p: -(readers[p.key] - 1) * (p.size - 1))
            offer = several[:OFFERS]
            for piece in offer:
                if piece.key not in self._best:
                    asked = piece.asked(reading.query)
                    best = best_tree(asked, self._statistics, model=COMPILED)
                    self._best[piece.key] = (best, piece)
            found.append(offer)
        return found

    def _tree(self, reading: Reading, given: list[GivenFragment]) -> CostedTree:
        return best_tree(reading.asked, self._statistics, given, COMPILED)

    def _given(
        self, pieces: Sequence[Fragment], readers: Counter[FragmentKey]
    ) -> list[GivenFragment]:
        return [
            GivenFragment(
                str(i), piece.positive, self._best[piece.key][0].cost / readers[piece.key]
            )
            for i, piece in enumerate(pieces)
        ]

    def _taken(
        self,
        reading: Reading,
        alone: CostedTree,
        offer: Sequence[Fragment],
        readers: Counter[FragmentKey],
    ) -> list[Fragment]:
        """The pieces that make its tree cheapest, added one by one."""
        chosen: list[Fragment] = []
        cost = alone.cost
        for _ in range(PIECES):
            trials = [
                ([*chosen, one], self._tree(reading, self._given([*chosen, one], readers)).cost)
                for one in offer
                if readers[one.key] > 1
                and not any(one.positive & other.positive for other in chosen)
            ]
            if not trials:
                break
            best, least = min(trials, key=lambda trial: trial[1])
            if least >= cost:
                break
            chosen, cost = best, least
        return chosen

    def _written_out(self, tree: Tree, pieces: Sequence[Fragment]) -> Tree:
        """The tree with the pieces' own trees in their places, under this query's aliases."""
        inner: dict[str, Tree] = {}
        for i, piece in enumerate(pieces):
            best, other = self._best[piece.key]
            inner[str(i)] = renamed(best.tree, dict(zip(other.aliases, piece.aliases, strict=True)))
        return renamed(tree, {}, inner)


def _readers(pieces: Sequence[Sequence[Fragment]]) -> Counter[FragmentKey]:
    """How many readings have each piece."""
    return Counter(key for mine in pieces for key in dict.fromkeys(p.key for p in mine))
