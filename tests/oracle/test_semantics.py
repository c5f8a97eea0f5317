"""docs/semantics.md, sentence by sentence, on streams small enough to work out by hand."""

import pytest

from engines.reference import run
from tests.oracle.notation import counts, matches, rows, workload
from workloads.errors import TooLargeError

SEQUENCED = {"sequence": "s"}


def test_simultaneous_events_never_follow_each_other():
    assert matches("SEQ(A, B)", "a1 b1") == []
    assert matches("AND(A, B)", "a1 b1") == ["a1 b1"]


def test_a_sequence_column_orders_events_of_equal_time():
    assert matches("SEQ(A, B)", "a1(s=1) b1(s=2)", **SEQUENCED) == ["a1 b1"]
    assert matches("SEQ(A, B)", "a1(s=2) b1(s=1)", **SEQUENCED) == []


def test_the_order_of_arrival_changes_nothing():
    stream = "c5 a1 b3 a2"
    assert matches("SEQ(A, B, C)", stream) == ["a1 b3 c5", "a2 b3 c5"]


def test_an_event_can_be_of_several_types():
    types = {"Big": "x > 5", "Even": "x % 2 = 0"}
    found = matches("SEQ(Big b, Even e)", "a1(x=6) a2(x=8) a3(x=7)", types=types)
    assert found == ["a1 a2"]
    both = matches("AND(Big b, Even e)", "a1(x=6) a2(x=3)", types=types)
    assert both == []  # one event is not used twice


def test_a_comparison_with_null_is_false():
    stream = "a1(x=null) a2(x=1)"
    assert matches("A a", stream, where="a.x = 1") == ["a2"]
    assert matches("A a", stream, where="a.x != 1") == []
    assert matches("A a", stream, where="NOT a.x = 1") == ["a1"]
    assert matches("A a", stream, where="a.x IS NULL") == ["a1"]


def test_matches_of_two_parts_of_an_or_are_two_matches():
    assert matches("OR(A a, A b)", "a1") == ["a1", "a1"]


def test_three_candidates_give_seven_groups():
    assert len(matches("A+ a", "a1 a2 a3")) == 7


def test_a_group_of_n_slides_over_the_candidates():
    assert matches("A^2 a", "a1 a2 a3") == ["a1 a2", "a2 a3"]
    stream = "a1(x=1) a2(x=0) a3(x=1) a4(x=1)"
    assert matches("A^2 a", stream, where="a.x = 1") == ["a1 a3", "a3 a4"]


def test_simultaneous_candidates_of_a_group_of_n_are_alternatives():
    assert matches("A^2 a", "a1 a2 a2' a3") == ["a1 a2", "a1 a2'", "a2 a3", "a2' a3"]


def test_the_maximal_group_takes_simultaneous_events_too():
    assert matches("SEQ(B, ALL A a, C)", "b1 a2 a2' c3") == ["b1 a2 a2' c3"]


def test_conditions_choose_the_members_of_a_maximal_group():
    stream = "b1(x=5) a2(x=9) a3(x=1) a4(x=7) c5(x=0)"
    assert matches("SEQ(B b, ALL A a, C)", stream, where="a.x > b.x") == ["b1 a2 a4 c5"]


def test_conditions_hold_for_every_event_of_a_kleene_group():
    stream = "b1(x=5) a2(x=9) a3(x=1) a4(x=7)"
    assert matches("SEQ(B b, A+ a)", stream, where="a.x > b.x") == ["b1 a2", "b1 a2 a4", "b1 a4"]


def test_a_maximal_group_at_the_end_reaches_to_the_closing_of_the_window():
    assert matches("SEQ(B, ALL A a)", "b1 a2 a5 a11", "10 s") == ["b1 a2 a5"]


def test_a_maximal_group_at_the_start_reaches_back_to_the_opening_of_the_window():
    assert matches("SEQ(ALL A a, C)", "a1 a2 a5 c11", "10 s") == ["a2 a5 c11"]


class TestNegation:
    def test_in_the_middle(self):
        assert matches("SEQ(A, !B, C)", "a1 b2 a3 c4") == ["a3 c4"]

    def test_nested_to_any_depth(self):
        pattern = "SEQ(A, !SEQ(B, !C, D), E)"
        assert matches(pattern, "a1 b2 d3 e4") == []
        assert matches(pattern, "a1 b2 c3 d4 e5") == ["a1 e5"]

    def test_first_looks_back_to_the_opening_of_the_window(self):
        assert matches("SEQ(!X, A, B)", "x1 a2 b11", "10 s") == ["a2 b11"]
        assert matches("SEQ(!X, A, B)", "x2 a3 b11", "10 s") == []

    def test_last_looks_ahead_to_the_closing_of_the_window(self):
        assert matches("SEQ(A, B, !X)", "a1 b2 x10", "10 s") == []
        assert matches("SEQ(A, B, !X)", "a1 b2 x11", "10 s") == ["a1 b2"]

    def test_a_match_with_a_last_negation_is_reported_when_its_window_closes(self):
        bound = workload("PATTERN SEQ(A a, B, !X) RETURN a.ts WITHIN 10 s")
        (row,) = run(bound, rows("a1 b2"))
        assert (row["start"], row["end"], row["time"]) == (1, 2, 11)

    def test_of_an_or_negates_each_part(self):
        assert matches("SEQ(A, !OR(B, C), D)", "a1 c2 d3") == []

    def test_in_a_conjunction_looks_at_nothing_after_the_last_event(self):
        assert matches("AND(A, B, !X)", "a1 b2 x3") == ["a1 b2"]
        assert matches("AND(A, B, !X)", "a1 b2 x2") == []

    def test_simultaneous_with_a_neighbour_does_not_lie_between(self):
        assert matches("SEQ(A, !B, C)", "a1 b1 b3 c3") == ["a1 c3"]

    def test_with_a_condition_on_a_positive_component(self):
        stream = "a1(x=1) b2(x=2) c3(x=3)"
        assert matches("SEQ(A a, !B b, C)", stream, where="b.x = a.x") == ["a1 c3"]
        assert matches("SEQ(A a, !B b, C)", stream, where="b.x > a.x") == []

    def test_of_an_or_part_is_read_in_its_place(self):
        pattern = "SEQ(A, OR(SEQ(!X, B), C))"
        assert matches(pattern, "x1 a2 b3") == ["a2 b3"]
        assert matches(pattern, "a2 x3 b4") == []


class TestWindows:
    def test_last_minus_first_is_less_than_the_window(self):
        assert matches("SEQ(A, B)", "a1 b10", "10 s") == ["a1 b10"]
        assert matches("SEQ(A, B)", "a1 b11", "10 s") == []

    def test_counted_in_events(self):
        stream = "a1(s=1) x2(s=2) b3(s=3)"
        assert matches("SEQ(A, B)", stream, "2 EVENTS", **SEQUENCED) == []
        assert counts("SEQ(A, B)", stream, "3 EVENTS", **SEQUENCED) == {3: 1}

    def test_counted_in_events_of_the_partition(self):
        stream = "a1(s=1,k=1) x2(s=2,k=2) b3(s=3,k=1)"
        found = counts("SEQ(A a, B b)", stream, "2 EVENTS", "[k]", **SEQUENCED)
        assert found == {(1,): {3: 1}}


class TestPartitions:
    @pytest.mark.parametrize(
        "where", ["[k]", "a.k = b.k AND x.k = a.k", "a.k = x.k AND x.k = b.k", "a.k = x.k = b.k"]
    )
    def test_negated_components_belong_to_the_partition(self, where):
        stream = "a1(k=1) x2(k=2) b3(k=1) a4(k=2) x5(k=2) b6(k=2)"
        found = counts("SEQ(A a, !X x, B b)", stream, where=where)
        assert found == {(1,): {3: 1}}

    def test_an_event_with_a_null_key_is_in_no_partition(self):
        assert counts("SEQ(A a, B b)", "a1(k=null) b2(k=null)", where="[k]") == {}

    def test_partition_by_names_the_key_in_the_result(self):
        bound = workload("PATTERN SEQ(A a, B b) RETURN a.k PARTITION BY k WITHIN 9 s")
        (row,) = run(bound, rows("a1(k=7) b2(k=7)"))
        assert row["key"] == {"k": 7}


class TestAggregates:
    def rows_of(self, query, stream, **kw):
        return [
            {k: row[k] for k in ("time", "aggregate", "value", "count")}
            for row in run(workload(query, **kw), rows(stream))
        ]

    def test_per_trigger_over_all_matches_in_the_window(self):
        query = (
            "PATTERN SEQ(A a, B b) AGG COUNT(*), SUM(a.x), AVG(a.x), MIN(b.x), MAX(b.x) WITHIN 9 s"
        )
        found = self.rows_of(query, "a1(x=1) b2(x=5) a3(x=2) b4(x=3)")
        values = [(r["time"], r["aggregate"], r["value"]) for r in found]
        assert values == [
            (2, "COUNT(*)", 1.0),
            (2, "SUM(a.x)", 1.0),
            (2, "AVG(a.x)", 1.0),
            (2, "MIN(b.x)", 5.0),
            (2, "MAX(b.x)", 5.0),
            (4, "COUNT(*)", 3.0),
            (4, "SUM(a.x)", 4.0),
            (4, "AVG(a.x)", 4 / 3),
            (4, "MIN(b.x)", 3.0),
            (4, "MAX(b.x)", 5.0),
        ]

    def test_nulls_are_skipped_and_nothing_is_null(self):
        query = "PATTERN A a AGG SUM(a.x), COUNT(*) WITHIN 9 s"
        found = self.rows_of(query, "a1(x=null)")
        assert [r["value"] for r in found] == [None, 1.0]

    def test_simultaneous_triggers_give_one_row(self):
        assert counts("SEQ(A, B)", "a1 b2 b2'") == {2: 2}

    def test_per_slide_at_every_multiple(self):
        query = "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 4 s SLIDE 2 s"
        found = self.rows_of(query, "a1 b2 a3 b5")
        # (-2,2]: a1 b2; (0,4]: a1 b2; (2,6]: a3 b5; (4,8]: none
        assert [(r["time"], r["count"]) for r in found] == [(2, 1), (4, 1), (6, 1)]

    def test_a_slide_may_be_larger_than_the_window(self):
        query = "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 3 s SLIDE 5 s"
        found = self.rows_of(query, "a1 b2 a3 b4 a8 b10")
        # (2,5]: a3 b4; (7,10]: a8 b10; a1 b2 is in neither
        assert [(r["time"], r["count"]) for r in found] == [(5, 1), (10, 1)]

    def test_matches_without_the_aggregated_part_of_an_or_are_skipped(self):
        query = "PATTERN OR(A a, B b) AGG COUNT(*), SUM(b.x), MIN(a.x) WITHIN 9 s"
        found = self.rows_of(query, "b1(x=5) a2(x=7)")
        values = sorted(((r["time"], r["value"]) for r in found), key=lambda row: row[0])
        assert values == [(1, 1.0), (1, 5.0), (1, None), (2, 2.0), (2, 5.0), (2, 7.0)]

    def test_having_filters_rows(self):
        query = "PATTERN SEQ(A a, B b) AGG COUNT(*) HAVING COUNT(*) > 1 WITHIN 9 s"
        assert [r["time"] for r in self.rows_of(query, "a1 b2 b3")] == [3]

    def test_a_last_negation_holds_up_to_the_trigger(self):
        assert counts("SEQ(A, B, !X)", "a1 b2 x3 b4") == {2: 1, 4: 1}

    def test_nothing_after_the_trigger_counts(self):
        stream = "a1(s=1) b2(s=2) x2(s=3)"
        assert counts("SEQ(A, B, !X)", stream, **SEQUENCED) == {2: 1}
        assert counts("SEQ(A, B, !X)", "a1 b2 x2") == {2: 1}  # x2 is not after b2

    def test_a_group_contributes_every_event_of_each_match(self):
        query = "PATTERN A+ a AGG SUM(a.x) WITHIN 9 s"
        found = self.rows_of(query, "a1(x=1) a2(x=10)")
        assert [r["value"] for r in found] == [1.0, 1.0 + 10.0 + 11.0]


class TestReturn:
    def match_of(self, query, stream):
        return [row["match"] for row in run(workload(query), rows(stream))]

    def test_fields_groups_and_computed_values(self):
        query = (
            "PATTERN SEQ(A a, B+ b) RETURN a.x, b.x, sum(b.x) AS total, a.x * 2 AS twice WITHIN 9 s"
        )
        assert self.match_of(query, "a1(x=1) b2(x=5)") == [
            {"a": {"x": 1}, "b": [{"x": 5}], "total": 5, "twice": 2}
        ]

    def test_the_alias_of_an_or_part_that_did_not_match_is_absent(self):
        query = "PATTERN OR(A a, B b) RETURN a.x, b.x WITHIN 9 s"
        assert self.match_of(query, "b2(x=5)") == [{"b": {"x": 5}}]

    def test_a_whole_event_has_all_its_columns(self):
        query = "PATTERN A a RETURN a WITHIN 9 s"
        assert self.match_of(query, "a1(x=3)") == [
            {"a": {"ts": 1, "type": "A", "name": "a1", "x": 3}}
        ]

    def test_single_fields_of_a_whole_event_are_in_it(self):
        stream = "a1(x=3)"
        whole = self.match_of("PATTERN A a RETURN a WITHIN 9 s", stream)
        assert self.match_of("PATTERN A a RETURN a.x, a, a.x WITHIN 9 s", stream) == whole
        (with_time,) = self.match_of("PATTERN A a RETURN a.time, a WITHIN 9 s", stream)
        assert with_time["a"] == {**whole[0]["a"], "time": 1}

    def test_time_is_the_event_s_time(self):
        assert self.match_of("PATTERN A a RETURN a.time WITHIN 9 s", "a4") == [{"a": {"time": 4}}]


def test_streams_beyond_reach_are_refused(monkeypatch):
    monkeypatch.setattr("engines.reference.meaning.MAX_STEPS", 10_000)
    stream = " ".join(f"a{i}" for i in range(1, 40))
    with pytest.raises(TooLargeError, match="gives up"):
        matches("A+ a", stream)
