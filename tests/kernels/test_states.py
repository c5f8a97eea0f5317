"""A kernel that is stopped after any batch goes on as if it had not been."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import aseq, aseq_reference, chopconnect, history, state
from tests.benchmarks import test_twostep
from tests.benchmarks.rivals.kernels import twostep
from tests.kernels import test_aseq, test_chopconnect
from tests.kernels.batches import batches, cuts, in_batches, of_first_runs, until
from tests.kernels.tables import assert_same_rows, empty_rows, random_groups

MOVES, STAYS = 6, 3


def run_aseq(tree, width, slide, dual):
    return lambda groups, kept, out: aseq.count_prefixes(
        groups, tree, width, slide, dual, kept, out
    )


def run_chopconnect(segments, width, slide, dual):
    return lambda groups, kept, out: chopconnect.connect(
        groups, segments, width, slide, dual, kept, out
    )


def run_twostep(stacks, width, slide, dual):
    return lambda groups, kept, out: twostep.construct(groups, stacks, 5, width, slide, kept, out)


KERNELS = {
    "aseq": (test_aseq.random_tree, run_aseq),
    "chopconnect": (test_chopconnect.random_segments, run_chopconnect),
    "twostep": (test_twostep.random_stacks, run_twostep),
}


def whole(kernel, groups, dual):
    out = empty_rows(5000, dual, 3)
    made, kept = kernel(groups, state.empty(len(groups.limit)), out)
    return out, made, kept


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("slide", [0, 1, 3, 25])
@pytest.mark.parametrize("name", KERNELS)
def test_batches_give_the_rows_of_the_whole(name, slide, dual):
    tables, kernel_of = KERNELS[name]
    rows = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        groups = random_groups(random, MOVES, STAYS, most=40)
        kernel = kernel_of(tables(random), int(random.integers(1, 30)), slide, dual)
        expected, made, _ = whole(kernel, groups, dual)
        found, _ = in_batches(kernel, groups, cuts(random, groups), dual, 3)
        assert len(found.group) == made
        assert_same_rows(found, expected, made)
        np.testing.assert_array_equal(*(np.sort(r.counts[:made]) for r in (found, expected)))
        rows += made
    assert rows > 40


@pytest.mark.parametrize("slide", [0, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_a_batch_may_be_one_group(name, slide):
    tables, kernel_of = KERNELS[name]
    rows = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        groups = random_groups(random, MOVES, STAYS, most=30)
        kernel = kernel_of(tables(random), 12, slide, False)
        expected, made, _ = whole(kernel, groups, False)
        times = until(groups, np.unique(groups.position)[:, None])
        found, _ = in_batches(kernel, groups, times, False, 3)
        assert_same_rows(found, expected, made)
        rows += made
    assert rows > 30


@pytest.mark.parametrize("slide", [0, 3])
def test_the_reference_gives_the_same_rows_in_batches(slide):
    for seed in range(15):
        random = np.random.default_rng(seed)
        groups, tree = random_groups(random, MOVES, STAYS), test_aseq.random_tree(random)
        rest = (tree, 9, slide, False)
        expected, made, _ = whole(run_aseq(*rest), groups, False)
        found, _ = in_batches(
            lambda batch, kept, out, rest=rest: aseq_reference.count_prefixes(
                batch, *rest, kept, out
            ),
            groups,
            cuts(random, groups),
            False,
            3,
            history.empty(0),
            history.grown,
        )
        assert_same_rows(found, expected, made)


@pytest.mark.parametrize("name", ["aseq", "chopconnect"])
def test_counts_may_become_dual_between_two_batches(name):
    tables, kernel_of = KERNELS[name]
    for seed in range(20):
        random = np.random.default_rng(seed)
        groups = random_groups(random, MOVES, STAYS, most=40)
        given = tables(random)
        expected, made, _ = whole(kernel_of(given, 20, 0, True), groups, True)
        middle = np.full(len(groups.limit), int(np.median(groups.position)) if made else 0)
        (_, first), (numbers, second) = batches(groups, [middle, groups.limit])
        kept = state.empty(len(groups.limit))
        _, kept = kernel_of(given, 20, 0, False)(first, kept, empty_rows(5000, False, 3))
        out = empty_rows(5000, True, 3)
        rest, _ = kernel_of(given, 20, 0, True)(second, kept, out)
        late = np.isin(expected.group[:made], numbers)
        assert rest == late.sum()
        np.testing.assert_array_equal(
            np.sort(out.approximate[:rest]), np.sort(expected.approximate[:made][late])
        )


@pytest.mark.parametrize("slide", [0, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_a_state_holds_no_more_than_the_window_does(name, slide):
    tables, kernel_of = KERNELS[name]
    random = np.random.default_rng(4)
    groups = random_groups(random, MOVES, STAYS, most=2)
    n = 400
    long = groups._replace(
        run=np.array([0, n]),
        limit=np.array([n + 40]),
        position=np.arange(n),
        stay_letter=np.zeros(n, np.int64),
        event=np.arange(n + 1),
        move_letter=random.integers(0, MOVES, n),
        inputs=np.ones((2, n)),
    )
    for _ in range(10):
        kernel = kernel_of(tables(random), 20, slide, False)
        kept = state.empty(1)
        sizes = []
        for _, batch in batches(long, [*(np.array([t]) for t in range(9, n, 10)), long.limit]):
            _, kept = kernel(batch, kept, empty_rows(5000, False, 3))
            sizes.append(sum(map(len, kept)))
        assert max(sizes[20:-1]) <= 2 * max(sizes[2:20])
        if slide:
            assert len(kept.numbers) == 0  # its windows have all been looked at


def test_runs_can_be_moved_to_another_state():
    for seed in range(20):
        random = np.random.default_rng(seed)
        groups, tree = random_groups(random, MOVES, STAYS, most=40), test_aseq.random_tree(random)
        kernel = run_aseq(tree, 15, 0, False)
        runs = len(groups.limit)
        expected, made, _ = whole(kernel, groups, False)
        (numbers, first), (_, second) = batches(groups, [np.full(runs, 12), groups.limit])
        _, kept = kernel(first, state.empty(runs), empty_rows(5000, False, 3))
        counts = []
        for r in range(runs):
            one = second._replace(
                run=second.run[r : r + 2].copy(), limit=second.limit[r : r + 1].copy()
            )
            out = empty_rows(5000, False, 3)
            rows, _ = kernel(one, state.taken(kept, [r]), out)
            counts += out.counts[:rows].tolist()
        late = ~np.isin(expected.group[:made], numbers)
        assert counts == expected.counts[:made][late].tolist()


def test_a_state_of_other_runs_is_refused():
    random = np.random.default_rng(1)
    groups, tree = random_groups(random, MOVES, STAYS), test_aseq.random_tree(random)
    runs = len(groups.limit)
    with pytest.raises(ValueError, match=f"of {runs} runs and the state of {runs + 1}"):
        run_aseq(tree, 5, 0, False)(groups, state.empty(runs + 1), empty_rows(10, False, 2))
    with pytest.raises(ValueError, match="a state of 2 runs does not grow to 1"):
        state.grown(state.empty(2), 1)


def test_a_state_can_be_read_only():
    random = np.random.default_rng(3)
    groups, tree = random_groups(random, MOVES, STAYS, most=40), test_aseq.random_tree(random)
    kernel = run_aseq(tree, 15, 0, False)
    *_, kept = whole(kernel, groups, False)
    for column in kept:
        column.flags.writeable = False
    empty = of_first_runs(groups, len(groups.limit))._replace(run=np.zeros_like(groups.run))
    made, again = kernel(empty, kept, empty_rows(10, False, 3))
    assert made == 0
    for a, b in zip(kept, again, strict=True):
        np.testing.assert_array_equal(a, b)
