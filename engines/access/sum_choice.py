"""Which queries are put together from sums of blocks, and which read events.

Events that one query reads are read for all, so a query that sums up saves only what no other one
reads. Queries are taken in the order of what they have to read all the same, as many as cost least.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from engines.access.block_sums import BlockSums, SummedQuery
from engines.access.reading_cost import ReadingCost

BLOCK_NANOSECONDS = 150.0  # of a block that is summed up, for each query
MOST_TRIED = 8  # numbers of queries that are summed up
LEAST_SAVED = 0.05  # of the cost of reading, below which nothing is summed up


def worth_summing(
    summable: Sequence[SummedQuery],
    sums: BlockSums,
    reading: ReadingCost,
    rest: Callable[[Collection[str]], float],
    forced: bool = False,
) -> list[SummedQuery]:
    """The queries that are summed up; where it is `forced` all that then need not read it all.

    `rest` gives what all queries but some are expected to cost.
    """
    able = [one for one in summable if sums.is_able(one)]
    if not able:
        return []
    read = {one.query.name: sums.read_units(one) for one in able}
    if forced:
        return [one for one in able if not read[one.query.name].all()]
    order = sorted(able, key=lambda one: (reading.of(read[one.query.name]), one.query.name))
    number, blocks = len(order), len(sums.blocks)

    def cost(taken: int) -> float:
        """Of summing up so many of the queries."""
        names = [one.query.name for one in order[:taken]]
        none = np.zeros_like(reading.always)
        edges = np.logical_or.reduce([none, *(read[name] for name in names)])
        return reading.of(edges) + rest(names) + BLOCK_NANOSECONDS * blocks * taken

    steps = sorted({round(part) for part in np.linspace(0, number, min(number, MOST_TRIED) + 1)})
    best = min(steps, key=cost)
    return order[:best] if cost(best) < (1 - LEAST_SAVED) * cost(0) else []
