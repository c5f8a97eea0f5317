"""How much of a Spark job is done, by what its tasks and stages tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.spark.batch.progress import READ_SHARE, ExpectedTasks, Stage, part_done

EVALUATE_SHARE = 1 - READ_SHARE


def test_nothing_is_done_before_it_is_known_what_there_is_to_do() -> None:
    assert part_done(None, [Stage(0, 5, 5)], 0, 0) == 0


def test_tasks_that_read_what_they_evaluate_are_the_whole_work() -> None:
    expected = ExpectedTasks(parts=8)
    assert part_done(expected, [], 0, 0) == 0
    assert part_done(expected, [Stage(3, 2, 8)], 0, 2) == 0.25
    assert part_done(expected, [Stage(3, 8, 8)], 0, 8) == 1


def test_reading_is_a_share_of_the_work_where_events_are_sent() -> None:
    expected = ExpectedTasks(parts=4, splits=10)
    assert part_done(expected, [Stage(1, 4, 8)], 5, 0) == pytest.approx(READ_SHARE / 2)
    # As many tasks read as there are parts: they are not taken for parts.
    assert part_done(expected, [Stage(1, 4, 4)], 10, 0) == pytest.approx(READ_SHARE)
    # A part without events tells nothing; its task has ended all the same.
    stages = [Stage(1, 4, 4), Stage(3, 3, 4)]
    assert part_done(expected, stages, 10, 2) == pytest.approx(READ_SHARE + EVALUATE_SHARE * 3 / 4)


def test_what_spark_reads_by_itself_is_known_by_its_first_stage() -> None:
    expected = ExpectedTasks(parts=2, splits=None)
    assert part_done(expected, [], 0, 0) == 0
    assert part_done(expected, [Stage(1, 1, 4)], 0, 0) == pytest.approx(READ_SHARE / 4)
    stages = [Stage(1, 4, 4), Stage(2, 1, 2)]
    assert part_done(expected, stages, 0, 1) == pytest.approx(READ_SHARE + EVALUATE_SHARE / 2)


@given(
    splits=st.one_of(st.none(), st.integers(0, 5)),
    parts=st.integers(1, 5),
    steps=st.lists(st.sampled_from(["read", "part"]), max_size=20),
)
def test_it_only_grows_as_tasks_end(splits: int | None, parts: int, steps: list[str]) -> None:
    expected = ExpectedTasks(parts, splits)
    tasks = 3 if splits is None else splits
    read = done = 0
    found = [0.0]
    for step in sorted(steps, reverse=True):  # parts come after all is read
        if step == "read":
            read = min(read + 1, tasks)
        else:
            read, done = tasks, min(done + 1, parts)
        stages = [Stage(1, read, tasks)] if tasks else []
        if done:
            stages.append(Stage(2, done, parts))
        found.append(part_done(expected, stages, 0 if splits is None else read, done))
    assert found == sorted(found)
    assert (found[-1] == 1) == (done == parts)
