"""Random workloads over random streams, cut into batches anywhere: the rows are those of one go.

That these are right is what `test_counting_engines.py` tests, against the reference.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.columns.instances import Columns
from engines.columns.layout import arrange
from engines.counting import chopconnect, pretree
from engines.counting.plan import Plan
from engines.counting.prepare import prepare
from engines.events import from_table
from kernels import aseq as aseq_kernel
from kernels import chopconnect as chop_kernel
from kernels import state
from optimizer.chains import chain_of
from optimizer.ir.query import whole_ticks
from tests import strategies
from tests.benchmarks.rivals import twostep
from tests.benchmarks.rivals.kernels import twostep as twostep_kernel
from tests.differential.test_counting import table_of
from tests.differential.test_counting_engines import CHAINS, by_window
from tests.kernels.batches import cuts, in_batches
from tests.kernels.tables import assert_same_rows, empty_rows


def kernels_of(plan, letters, width, slide):
    """The kernels that count a plan's queries, as `kernel(groups, state, out)`."""
    chains = [chain_of(query) for query in plan.queries]
    members = [pretree.Member(q, chain, plan.terms[q].values) for q, chain in enumerate(chains)]
    trees = {}
    for member in members:
        trees.setdefault(member.chain.components[0].symbol, []).append(member)
    for of_tree in trees.values():
        tree = pretree.tree_of(of_tree, letters)
        yield partial(_aseq, tree, width, slide)
    ones = {q.name: [1] * len(c.components) for q, c in zip(plan.queries, chains, strict=True)}
    for lengths in ({}, ones):
        chopped = [chopconnect.chop(query, lengths) for query in plan.queries]
        wanted = chopconnect._wanted(plan)
        gates = [chain.gate for chain in chains]
        segments = chopconnect.segments_of(chopped, gates, wanted, letters)
        yield partial(_chopconnect, segments, width, slide)
    for q, chain in enumerate(chains):
        stacks = twostep.stacks_of(chain, plan.terms[q].values, letters)
        yield partial(_twostep, stacks, q, width, slide)


def _aseq(tree, width, slide, groups, kept, out):
    return aseq_kernel.count_prefixes(groups, tree, width, slide, False, kept, out)


def _chopconnect(segments, width, slide, groups, kept, out):
    return chop_kernel.connect(groups, segments, width, slide, False, kept, out)


def _twostep(stacks, q, width, slide, groups, kept, out):
    return twostep_kernel.construct(groups, stacks, q, width, slide, kept, out)


@pytest.mark.parametrize("size", [8, 25])
@settings(max_examples=60, deadline=None)
@given(
    strategies.workloads(CHAINS, max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found),
            st.integers(0, 2**32),
        )
    ),
    st.data(),
)
def test_batches_of_a_workload_give_the_rows_of_one_go(size, case, data):
    workload, seed = case
    sequence = strategies.has_sequence(workload)
    given_rows = data.draw(
        strategies.event_rows(sequence=sequence, types=CHAINS.types, max_size=size)
    )
    events = from_table(table_of(given_rows, sequence), workload.stream)
    if not len(events):
        return
    columns = Columns(workload, events)
    random = np.random.default_rng(seed)
    for (key, window, slide), queries in by_window(workload, pretree.refusal).items():
        layout = arrange(events, key, window.is_count, False)
        plan, width = Plan(queries), window.ticks(events.tick)
        prepared = prepare(plan, columns, layout, width, window.is_count)
        every = slide or 0
        if every and not window.is_count:
            every = whole_ticks(every, events.tick, "slide")
        groups = prepared.groups
        for kernel in kernels_of(plan, prepared.letters, width, every):
            expected = empty_rows(5000, False, plan.most_values)
            made, _ = kernel(groups, state.empty(len(groups.limit)), expected)
            times = cuts(random, groups)
            found, _ = in_batches(kernel, groups, times, False, plan.most_values)
            assert len(found.group) == made
            assert_same_rows(found, expected, made)
