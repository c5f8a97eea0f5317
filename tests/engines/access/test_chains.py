"""Chains of spots: none is missed, and of blocks that follow each other none is kept in vain."""

from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.access.chains import Spots, chained, within

times = st.integers(0, 14)


def spots_of(pairs: list[tuple[int, int]]) -> Spots:
    low, high = np.array(pairs, np.int64).reshape(-1, 2).T
    return Spots(low.copy(), high.copy())


# Spots that overlap as they like, each with the times of events in it.
events_in_spots = st.lists(st.lists(times, min_size=1, max_size=3), min_size=0, max_size=5).map(
    lambda found: [sorted(each) for each in found]
)
staged = st.lists(st.lists(events_in_spots, min_size=1, max_size=2), min_size=1, max_size=3)


@given(staged, st.integers(1, 12), st.integers(0, 1))
@settings(max_examples=300)
def test_no_chain_of_events_is_missed(
    stages: list[list[list[list[int]]]], window: int, step: int
) -> None:
    spots = [[spots_of([(e[0], e[-1]) for e in one]) for one in stage] for stage in stages]
    masks = chained(spots, window, step)
    flat = [(s, place) for s, stage in enumerate(stages) for place in range(len(stage))]
    choices = [
        [(spot, time) for spot, own in enumerate(stages[s][place]) for time in own]
        for s, place in flat
    ]
    for chosen in product(*choices):
        at = [time for _, time in chosen]
        if max(at) - min(at) >= window:
            continue
        if any(
            one + step > other
            for (s, _), one in zip(flat, at, strict=True)
            for (t, _), other in zip(flat, at, strict=True)
            if s < t
        ):
            continue
        for (s, place), (spot, _) in zip(flat, chosen, strict=True):
            assert masks[s][place][spot]


# Blocks that follow each other, and the symbols that each may have.
maps = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 4), st.sets(st.integers(0, 2))), max_size=8
)


@given(maps, st.integers(1, 3), st.integers(1, 12))
@settings(max_examples=300)
def test_blocks_that_follow_each_other_are_kept_only_where_a_chain_can_go(
    drawn: list[tuple[int, int, set[int]]], symbols: int, window: int
) -> None:
    blocks, time = [], 0
    for gap, length, _ in drawn:
        blocks.append((time + gap, time + gap + length))
        time += gap + length
    places = [[g for g, one in enumerate(drawn) if s in one[2]] for s in range(symbols)]
    masks = chained([[spots_of([blocks[g] for g in own])] for own in places], window, 0)
    wanted: list[set[int]] = [set() for _ in range(symbols)]
    for chosen in product(*places):
        in_order = all(a <= b for a, b in pairwise(chosen))
        if in_order and blocks[chosen[-1]][0] - blocks[chosen[0]][1] < window:
            for s, g in enumerate(chosen):
                wanted[s].add(g)
    found = [
        {g for g, kept in zip(own, mask[0], strict=True) if kept}
        for own, mask in zip(places, masks, strict=True)
    ]
    assert found == wanted


@given(events_in_spots, events_in_spots, st.integers(1, 6))
@settings(max_examples=100)
def test_spots_are_within_a_window_where_their_times_can_be(
    ours: list[list[int]], others: list[list[int]], window: int
) -> None:
    own, other = ([(e[0], e[-1]) for e in spots] for spots in (ours, others))
    wanted = [any(low - b < window and a - high < window for a, b in other) for low, high in own]
    assert within(spots_of(own), spots_of(other), window).tolist() == wanted
