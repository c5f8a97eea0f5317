"""What keeps queries from sharing is told."""

from __future__ import annotations

from hypothesis import given

from optimizer.ir.query import Window
from sharing.obstacles import obstacles
from sharing.steps import QuerySteps, Setting
from tests.sharing.chains import SECOND, SETTING, queries, query, workloads


def test_queries_that_share_all_they_can_have_no_obstacle() -> None:
    assert obstacles(queries("A B C", "A B D", "E F")) == ()
    assert obstacles([]) == ()


def test_a_different_window_is_an_obstacle() -> None:
    other = Setting((), Window(2 * SECOND))
    (found,) = obstacles([query("q1", "A B C"), query("q2", "X A B C", other)])
    assert found.queries == ("q1", "q2")
    assert found.differs == ("window",)
    assert str(found) == "A, B, C: q1 and q2 do not share it: they differ in window"


def test_all_that_differs_is_named() -> None:
    other = Setting(("user",), Window(2 * SECOND), 1, ("ts",))
    (found,) = obstacles([query("q1", "A !X B"), query("q2", "A B", other)])
    assert found.differs == ("partition key", "window", "slide", "order", "negations")


def test_different_negations_are_an_obstacle() -> None:
    (found,) = obstacles(queries("A !X B", "A B"))
    assert found.differs == ("negations",)


def test_a_query_does_not_stand_in_its_own_way() -> None:
    assert obstacles(queries("A !X B C A B", "A !X B")) == ()


def test_obstacles_are_no_more_than_asked_for() -> None:
    of = [query(f"q{i}", "A B", Setting((), Window(i))) for i in range(1, 40)]
    of += [query(f"p{i}", "C D", Setting((), Window(i))) for i in range(1, 40)]
    assert len(obstacles(of)) == 2
    assert len(obstacles(of, limit=1)) == 1


@given(workloads())
def test_an_obstacle_is_the_same_symbols_and_not_the_same_steps(of: list[QuerySteps]) -> None:
    by_name = {q.name: q for q in of}
    for found in obstacles(of):
        one, other = (by_name[name] for name in found.queries)
        assert one is not other
        length = len(found.symbols)
        stretches = [
            {
                q.steps[i : i + length]
                for i in range(len(q.steps))
                if tuple(step.symbol for step in q.steps[i : i + length]) == found.symbols
            }
            for q in (one, other)
        ]
        assert stretches[0]
        assert stretches[1]
        assert ("window" in found.differs) == (one.setting != other.setting)
        if found.differs == ("negations",):
            assert stretches[0] != stretches[1] or len(stretches[0]) > 1
        assert found.differs


@given(workloads(most_queries=2))
def test_two_queries_of_two_settings_have_an_obstacle_where_they_have_two_symbols(
    of: list[QuerySteps],
) -> None:
    pairs = [{(a.symbol, b.symbol) for a, b in zip(q.steps, q.steps[1:], strict=False)} for q in of]
    if len(of) == 2 and {q.setting for q in of} == {SETTING, Setting((), Window(2 * SECOND))}:
        assert bool(obstacles(of)) == bool(pairs[0] & pairs[1])
