"""Statistics: what is given, asked for, missing and assumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as examples

from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import Symbol, events
from optimizer.ir.query import BoundWorkload, Query
from optimizer.rewrite.normalize import normalize_query
from optimizer.statistics import (
    Defaults,
    KeyStatistics,
    MissingStatisticError,
    Sample,
    Statistics,
    given,
    missing,
    with_defaults,
)
from optimizer.statistics.statistics import (
    StatisticsDocumentError,
    from_document,
    joint_text,
    symbols_of,
    to_document,
)
from tests.strategies import workloads
from workloads import expressions as ex

STREAM: dict[str, Any] = {"time": "ts", "type": "kind", "sequence": "seq"}


def bound(*queries: str, **statistics: dict[str, float]) -> BoundWorkload:
    return load_bound({"stream": STREAM, "queries": list(queries), "statistics": statistics})


def known(workload: BoundWorkload) -> Statistics:
    return given(workload.statistics, workload.queries)


def only(workload: BoundWorkload) -> tuple[Query, dict[str, Symbol]]:
    (query,) = workload.queries
    return query, symbols_of(query.pattern)


def test_a_joint_predicate_is_called_by_its_symbols() -> None:
    query, symbols = only(
        bound("PATTERN SEQ(A a, B b) WHERE b.x > a.x AND a.y = 1 RETURN a WITHIN 1 s")
    )
    assert joint_text(query.conditions[0], symbols) == '"A[y = 1]".x < B.x'


def test_components_of_one_symbol_are_numbered_in_the_order_of_the_pattern() -> None:
    query, symbols = only(bound("PATTERN SEQ(A b, A a) WHERE a.x > b.x RETURN a WITHIN 1 s"))
    assert joint_text(query.conditions[0], symbols) == '"A#2".x > A.x'


@pytest.mark.parametrize("written", ["a.x < b.x", "b.x > a.x", "A.x < B.x", "B.x > A.x"])
def test_a_given_selectivity_is_found_however_it_is_written(written: str) -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a WITHIN 1 s",
        rates={"A": 1.0, "B": 1.0},
        selectivities={written: 0.25},
    )
    query, symbols = only(workload)
    assert known(workload).selectivity(query.conditions[0], symbols) == 0.25


@pytest.mark.parametrize("form", [lambda query: query, normalize_query])
def test_a_given_selectivity_is_found_whether_constants_are_computed_or_not(
    form: Callable[[Query], Query],
) -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.x > 1 + 1 AND b.x > a.x * (3 - 1) RETURN a WITHIN 1 s",
        rates={"A": 1.0, "B": 1.0},
        selectivities={"A.x > 1 + 1": 0.25, "B.x > A.x * (3 - 1)": 0.5},
    )
    query = form(workload.queries[0])
    assert missing(given(workload.statistics, [query]), [query]) == ()


def test_a_component_that_never_occurs_has_a_rate_of_zero_and_needs_no_selectivity() -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.x < NULL RETURN b WITHIN 1 s", rates={"A": 3.0, "B": 1.0}
    )
    query = normalize_query(workload.queries[0])
    statistics = given(workload.statistics, [query])
    assert missing(statistics, [query]) == ()
    assert statistics.rate(symbols_of(query.pattern)["a"]) == 0.0


def test_a_types_selectivity_serves_a_symbol_with_predicates() -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y > 3 RETURN a WITHIN 1 s",
        selectivities={"A.x < B.x": 0.25},
    )
    query, symbols = only(workload)
    assert known(workload).selectivity(query.conditions[0], symbols) == 0.25


@pytest.mark.parametrize(
    "selectivities",
    [
        {"a.y > 3": 0.5, "a.z = 1": 0.2},
        {"A.y > 3": 0.5, "A.z = 1": 0.2},
        {"A[y > 3 AND z = 1]": 0.1},
    ],
)
def test_a_symbols_rate_is_its_types_rate_less_its_predicates(
    selectivities: dict[str, float],
) -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.y > 3 AND a.z = 1 RETURN a WITHIN 1 s",
        rates={"A": 40.0, "B": 1.0},
        selectivities=selectivities,
    )
    _, symbols = only(workload)
    assert known(workload).rate(symbols["a"]) == pytest.approx(4.0)


def test_a_symbols_own_rate_wins() -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.y > 3 RETURN a WITHIN 1 s",
        rates={"A": 40.0, "B": 1.0, "A[y > 3]": 7.0},
    )
    assert known(workload).rate(only(workload)[1]["a"]) == 7.0


def test_what_is_missing_is_an_error_that_names_it_and_the_remedy() -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y > 3 AND [k] RETURN a WITHIN 9 EVENTS"
    )
    query, symbols = only(workload)
    nothing = Statistics()
    with pytest.raises(MissingStatisticError, match=r"rate of 'B'.*statistics\.rates.*measure"):
        nothing.rate(symbols["b"])
    with pytest.raises(MissingStatisticError, match=r"'A\.y > 3'.*statistics\.selectivities"):
        Statistics({"A": 1.0}).rate(symbols["a"])
    with pytest.raises(MissingStatisticError, match=r'\'"A\[y > 3\]"\.x < B\.x\''):
        nothing.selectivity(query.conditions[0], symbols)
    with pytest.raises(MissingStatisticError, match=r"key 'k'.*measure"):
        nothing.key(query.key)
    with pytest.raises(MissingStatisticError, match=r"how many events.*measure"):
        _ = nothing.total_rate


def test_defaults_are_stated_and_leave_what_is_known() -> None:
    workload = bound(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y = 3 AND [k] RETURN a WITHIN 9 EVENTS",
        rates={"A": 4.0},
    )
    query, symbols = only(workload)
    found = with_defaults(known(workload), workload.queries)
    assert found.rates == {"A": 4.0, "B": 4.0}
    assert set(found.assumed) == {
        "rates: B",
        "selectivities: A.y = 3",
        'selectivities: "A[y = 3]".x < B.x',
        "keys: k",
        "events: span",
    }
    assert found.rate(symbols["a"]) == pytest.approx(0.4)
    assert found.selectivity(query.conditions[0], symbols) == pytest.approx(1 / 3)
    assert found.total_rate == pytest.approx(8.0)
    assert set(missing(known(workload), workload.queries)) == set(found.assumed)
    assert missing(found, workload.queries) == ()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ex.Comparison("=", ex.Attribute("", "x"), ex.Literal(1)), 0.1),
        (ex.Comparison("!=", ex.Attribute("", "x"), ex.Literal(1)), 0.9),
        (ex.Comparison("<", ex.Attribute("", "x"), ex.Literal(1)), 1 / 3),
        (ex.Membership(ex.Attribute("", "x"), (ex.Literal(1), ex.Literal(2))), 0.2),
    ],
)
def test_default_selectivities_follow_a_predicates_form(
    condition: ex.Expression, expected: float
) -> None:
    defaults = Defaults()
    assert defaults.selectivity(condition) == pytest.approx(expected)
    assert defaults.selectivity(ex.Not(condition)) == pytest.approx(1 - expected)
    both = ex.Logical("AND", (condition, condition))
    assert defaults.selectivity(both) == pytest.approx(expected**2)


def test_events_share_a_key_as_its_values_are_spread() -> None:
    # Four values with the shares 0.4, 0.2, 0.2, 0.2.
    skewed = KeyStatistics(4.0, 0.4)
    assert skewed.together(1) == pytest.approx(1.0)
    assert skewed.together(2) == pytest.approx(0.4**2 + 3 * 0.2**2)
    assert skewed.together(3) == pytest.approx(0.4**3 + 3 * 0.2**3)
    assert KeyStatistics(5.0, 0.2).together(2) == pytest.approx(0.2)
    assert KeyStatistics(1.0, 1.0).together(7) == 1.0


def test_statistics_survive_json() -> None:
    before = Statistics(
        {"A": 1.5},
        {"A.x < B.x": 0.25},
        {"user, item": KeyStatistics(7.0, 0.5)},
        0.125,
        100,
        3.5,
        "sampled",
        Sample(50, 7, {"A.x < B.x": 20}),
        ("rates: B",),
    )
    assert from_document(json.loads(json.dumps(to_document(before)))) == before
    assert from_document(to_document(Statistics())) == Statistics()


@pytest.mark.parametrize(
    "document", [{}, {"version": 2}, {"version": 1, "rates": 3}, {"version": 1, "ties": "many"}]
)
def test_a_document_that_is_no_statistics_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(StatisticsDocumentError, match="these are not statistics"):
        from_document(document)


@examples(workloads())
def test_with_defaults_every_query_has_all_that_it_needs(workload: BoundWorkload) -> None:
    found = with_defaults(Statistics(), workload.queries)
    for query in workload.queries:
        symbols = symbols_of(query.pattern)
        assert all(found.rate(event.symbol) > 0 for event in events(query.pattern))
        for condition in query.conditions:
            if ex.aliases(condition):
                assert 0 <= found.selectivity(condition, symbols) <= 1
        assert found.key(query.key).together(2) <= 1
        if query.window.is_count:
            assert found.total_rate > 0
