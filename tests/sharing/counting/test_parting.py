"""Parting queries into groups: the table finds what trying every partition finds."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from sharing.counting.grouping import Members, best_parts


def partitions(numbers: tuple[int, ...]) -> Iterator[list[Members]]:
    if not numbers:
        yield []
        return
    first, rest = numbers[0], numbers[1:]
    for smaller in partitions(rest):
        yield [(first,), *smaller]
        for i, group in enumerate(smaller):
            yield [(first, *group), *smaller[:i], *smaller[i + 1 :]]


@given(st.data(), st.integers(0, 5))
def test_no_partition_is_cheaper(data: st.DataObject, size: int) -> None:
    costs: dict[Members, float] = {}

    def cost(members: Members) -> float:
        if members not in costs:
            costs[members] = float(data.draw(st.integers(0, 20)))
        return costs[members]

    parts, total = best_parts(size, cost)
    assert sorted(i for part in parts for i in part) == list(range(size))
    assert total == sum(costs[part] for part in parts)
    every = [sum(costs[tuple(sorted(g))] for g in groups) for groups in partitions((*range(size),))]
    assert total == min(every)


def test_groups_that_cost_the_same_stay_together() -> None:
    assert best_parts(3, lambda members: float(len(members))) == ([(0, 1, 2)], 3.0)
