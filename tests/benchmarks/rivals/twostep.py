"""Counting in two steps, query by query: the baseline that the other ways are measured against."""

from __future__ import annotations

from functools import partial

import numpy as np

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Value
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    capacity_for,
    counted,
    filled,
    joined,
    nothing,
    prepare,
)
from engines.counting.pretree import refusal
from engines.counting.tables import Letters, by_letter, ints, where
from kernels.groups import Spans
from optimizer.ir.chain import Chain, chain_of
from tests.benchmarks.rivals.kernels import twostep as kernel

__all__ = ["count", "refusal"]


def count(
    plan: CountingPlan, columns: Columns, layout: Layout, spans: Spans, is_count: bool
) -> CountResult | None:
    """Construct and count the matches of the plan's queries. As `product.count`.

    The rows come query by query, those of each in order.
    """
    prepared = prepare(plan, columns, layout, spans.widest, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    found, groups = [], prepared.groups
    for q, query in enumerate(plan.queries):
        chain = chain_of(query)
        assert isinstance(chain, Chain), chain
        stacks = stacks_of(chain, plan.terms[q].values, prepared.letters)
        last = np.array([chain.components[-1].symbol in s for s, _ in prepared.letters.moves])
        width, slide = int(spans.width[q]), int(spans.slide[q])
        run = partial(kernel.construct, groups, stacks, q, width, slide)
        capacity = capacity_for(groups, last, spans.of(np.array([q])))
        found.append(filled(run, capacity, False, plan.most_values))
    by_rank = (spans.slide > 0) & is_count
    return counted(prepared, layout, joined(found), dual=False, by_rank=by_rank)


def stacks_of(chain: Chain, values: tuple[Value, ...], letters: Letters) -> kernel.Stacks:
    """The tables of one query for the letters of a stream."""
    moves = [symbols for symbols, _ in letters.moves]
    return kernel.Stacks(
        ints([len(chain.components)]),
        *by_letter(moves, lambda s: where(c.symbol in s for c in chain.components)),
        *by_letter(letters.stays, lambda s: where(gap & s for gap in chain.gaps)),
        gated=np.array([bool(chain.gate & s) for s in letters.stays]),
        value_kind=ints(value.kind for value in values),
        value_component=ints(chain.level(value.alias) for value in values),
        value_input=ints(value.input for value in values),
    )
