"""MATCH_RECOGNIZE gives what the standard says, worked out by hand, on both engines."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from tests.running import run_local
from tests.sql_workloads import both, bound, column, table
from workloads.errors import UnsupportedError

# A price falls, rises, falls and rises again.
PRICES = column("price", [9, 7, 4, 6, 8, 5, 3, 7])
LETTERS = column("c", list("aabba"))
VEE = "DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"


def lengths(pattern: str, letters: str, skip: str = "SKIP PAST LAST ROW") -> list[list[int]]:
    """First row and number of rows of each match; variables take the letter they are called."""
    names = [f"{letter} AS c = '{letter}'" for letter in "abc" if letter in pattern]
    defined = f" DEFINE {', '.join(names)}" if names else ""
    return both(
        "SELECT s, n FROM t MATCH_RECOGNIZE (ORDER BY ts "
        f"MEASURES COALESCE(FIRST(ts), -1) AS s, COUNT(*) AS n AFTER MATCH {skip} "
        f"PATTERN ({pattern}){defined})",
        column("c", list(letters)),
    )


def test_a_match_is_as_long_as_greedy_variables_make_it_and_the_next_begins_behind_it() -> None:
    found = both(
        "SELECT s, bottom, top FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(ts) AS s, "
        f"LAST(DOWN.price) AS bottom, LAST(UP.price) AS top PATTERN (STRT DOWN+ UP+) {VEE})",
        PRICES,
    )
    # Rows 0 to 4 are one match; row 5 starts the next: 5, 3, 7.
    assert found == [[0, 4, 8], [5, 3, 7]]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", [[0, 1], [1, 1], [4, 1]]),
        ("a a", [[0, 2]]),
        ("a*", [[-1, 0], [-1, 0], [0, 2], [4, 1]]),
        ("a+", [[0, 2], [4, 1]]),
        ("a+?", [[0, 1], [1, 1], [4, 1]]),
        ("a*? b", [[0, 3], [3, 1]]),
        ("a? b", [[1, 2], [3, 1]]),
        ("a?? b", [[1, 2], [3, 1]]),
        ("a{2}", [[0, 2]]),
        ("a{2,} b{,1}", [[0, 3]]),
        ("a{1,2}?", [[0, 1], [1, 1], [4, 1]]),
        ("(a b)+", [[1, 2]]),
        ("a | b", [[0, 1], [1, 1], [2, 1], [3, 1], [4, 1]]),
        ("a a | a a b", [[0, 2]]),
        ("a a b | a a", [[0, 3]]),
        ("^ a", [[0, 1]]),
        ("a $", [[4, 1]]),
        ("^ b", []),
        ("PERMUTE(a, b)", [[1, 2], [3, 2]]),
        ("{- a -} b", [[1, 2]]),
        ("()", [[-1, 0]] * 5),
        ("() | a", [[-1, 0]] * 5),
        ("a (b | ()) a", [[0, 2]]),
        ("(a | b)* $", [[0, 5]]),
        ("(a*)*? b", [[0, 3], [3, 1]]),
        ("(a*?)* b", [[0, 3], [3, 1]]),
        ("(a? b?){2,3}", [[0, 4], [4, 1]]),
    ],
)
def test_patterns_prefer_earlier_alternatives_and_more_or_fewer_repetitions(
    pattern: str, expected: list[list[int]]
) -> None:
    assert lengths(pattern, "aabba") == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("SKIP PAST LAST ROW", [[0, 4]]),
        ("SKIP TO NEXT ROW", [[0, 4], [1, 3]]),
        ("SKIP TO FIRST b", [[0, 4]]),
        ("SKIP TO LAST a", [[0, 4], [1, 3]]),
        ("SKIP TO a", [[0, 4], [1, 3]]),
    ],
)
def test_the_search_goes_on_where_it_is_told_to(skip: str, expected: list[list[int]]) -> None:
    # The last match of "SKIP TO LAST a" begins with the last a itself, so it ends the test data.
    if skip in ("SKIP TO LAST a", "SKIP TO a"):
        with pytest.raises(UnsupportedError, match="first row of the match"):
            lengths("a+ b+", "aabb", skip)
    else:
        assert lengths("a+ b+", "aabb", skip) == expected


def test_to_skip_to_a_variable_that_a_match_lacks_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="a match has no row of it"):
        lengths("a b?", "aa", "SKIP TO LAST b")


def test_all_rows_have_the_columns_of_the_input_and_measures_so_far_or_of_the_whole_match() -> None:
    found = both(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_NUMBER() AS m, "
        "CLASSIFIER() AS c, LAST(DOWN.price) AS low, FINAL LAST(DOWN.price) AS lowest, "
        f"SUM(price) AS total ALL ROWS PER MATCH PATTERN (STRT DOWN UP) {VEE})",
        PRICES,
    )
    # 7, 4, 6 are rows 1 to 3, and 5, 3, 7 are rows 5 to 7; ts, measures, then other columns.
    assert found == sorted(
        [
            [1, 1, "STRT", None, 4, 7, 7],
            [2, 1, "DOWN", 4, 4, 11, 4],
            [3, 1, "UP", 4, 4, 17, 6],
            [5, 2, "STRT", None, 3, 5, 5],
            [6, 2, "DOWN", 3, 3, 8, 3],
            [7, 2, "UP", 3, 3, 15, 7],
        ],
        key=repr,
    )


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("SHOW EMPTY MATCHES", [[0, 1, "A"], [1, 1, "A"], [2, 2, None], [3, 3, None], [4, 4, "A"]]),
        ("OMIT EMPTY MATCHES", [[0, 1, "A"], [1, 1, "A"], [4, 4, "A"]]),
    ],
)
def test_empty_matches_are_rows_or_not_and_are_counted(what: str, expected: object) -> None:
    assert expected == both(
        "SELECT ts, m, v FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_NUMBER() AS m, "
        f"CLASSIFIER() AS v ALL ROWS PER MATCH {what} PATTERN (A*) DEFINE A AS c = 'a')",
        LETTERS,
    )


def test_unmatched_rows_have_no_measures_and_each_comes_once() -> None:
    found = both(
        "SELECT ts, m, c FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_NUMBER() AS m "
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B) "
        "DEFINE A AS c = 'a', B AS c = 'b')",
        LETTERS,
    )
    assert found == [
        *([0, None, "a"], [1, 1, "a"], [2, 1, "b"], [3, None, "b"], [4, None, "a"]),
    ]


def test_rows_that_are_left_out_count_but_are_not_given() -> None:
    found = both(
        "SELECT ts, n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        "ALL ROWS PER MATCH PATTERN (A {- B+ -} C) "
        "DEFINE A AS c = 'a', B AS c = 'b', C AS c = 'a')",
        LETTERS,
    )
    assert found == [[1, 1], [4, 4]]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("FIRST(A.x)", 1),
        ("FIRST(A.x, 1)", 2),
        ("LAST(A.x)", 3),
        ("LAST(A.x, 2)", 1),
        ("LAST(A.x, 3)", None),
        ("PREV(A.x)", 2),
        ("NEXT(B.x)", None),
        ("PREV(FIRST(A.x, 1), 1)", 1),
        ("NEXT(LAST(A.x, 1), 2)", 10),
        ("FIRST(x) + LAST(x)", 11),
        ("COUNT(A.*)", 3),
        ("COUNT(DISTINCT x % 2)", 2),
        ("AVG(A.x)", 2.0),
        ("SUM(U.x)", 16),
        ("MIN(U.x) * MAX(B.x)", 10),
        ("LAST(CLASSIFIER(A))", "A"),
        ("CLASSIFIER()", "B"),
        ("CASE WHEN B.x > 5 THEN 'many' ELSE 'few' END", "many"),
        ("ARRAY_AGG(CLASSIFIER())", ["A", "A", "A", "B"]),
        ("ARRAY_AGG(A.x * 2)", [2, 4, 6]),
        ("7 / 2", 3),
        ("CAST(A.x AS DOUBLE) / 2", 1.5),
        ("A.x IN (2, 3)", True),
        ("A.x BETWEEN 4 AND 5", False),
        ("COALESCE(LAST(A.x, 5), -1)", -1),
        ("COUNT(*) FILTER (WHERE x > 1)", 3),
        ("SUM(A.x) FILTER (WHERE A.x <> 2)", 4),
        ("ARG_MAX(CLASSIFIER(), x)", "B"),
        ("ARRAY_AGG(N.x)", None),
        ("ARRAY[FIRST(x), B.x, NULL]", [1, 10, None]),
        ("CARDINALITY(ARRAY_AGG(x))", 4),
        ("TRY(CAST(CLASSIFIER() AS BIGINT))", None),
        ("'a_b' LIKE 'a!_b' ESCAPE '!'", True),
        ("'axb' LIKE 'a!_b' ESCAPE '!'", False),
        ("'50%' LIKE '5_$%' ESCAPE '$'", True),
        ("(LAST(A.x, 5) > 1) IS UNKNOWN", True),
        ("(B.x > 1) IS NOT UNKNOWN", True),
        ("REPLACE('banana', 'an', 'A')", "bAAa"),
        ("LPAD('7', 3, '0') || RPAD('7', 3, 'xy')", "0077xy"),
        ("SUBSTRING('hello' FROM 2 FOR 3)", "ell"),
        ("SUBSTR('hello', -3, 2)", "ll"),
        ("POSITION('l' IN 'hello') + STRPOS('abc', 'z')", 3),
        ("LEFT('hello', 2) || RIGHT('hello', 2)", "helo"),
        ("LTRIM(' a ') || RTRIM(' b ')", "a  b"),
        ("REVERSE('abc') || SPLIT_PART('x,y', ',', 2)", "cbay"),
        ("STARTS_WITH('abc', 'ab') AND NOT ENDS_WITH('abc', 'b')", True),
        ("EXP(0) + LN(1) + LOG10(100) + LOG2(8)", 6.0),
        ("TRUNCATE(-2.7)", -2.0),
        ("MATCH_ROWTIME()", 3),
    ],
)
def test_measures_read_the_rows_that_they_name(measure: str, expected: object) -> None:
    found = both(
        f"SELECT m FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m "
        "PATTERN (A+ N? B) SUBSET U = (A, B) DEFINE A AS x < 4, N AS false, B AS x >= 4)",
        column("x", [1, 2, 3, 10]),
    )
    assert found == [[expected]]


def test_conditions_may_read_what_is_bound_so_far() -> None:
    # Each row is more than the mean of those before it; the third, 3, is not.
    found = both(
        "SELECT s, n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(ts) AS s, COUNT(*) AS n "
        "PATTERN (S A+) DEFINE A AS A.x * (COUNT(*) - 1) > SUM(x) - A.x)",
        column("x", [2, 5, 3, 4, 9]),
    )
    assert found == [[0, 2], [2, 3]]
    assert both(
        "SELECT n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        "PATTERN (A B+ C) DEFINE B AS x > A.x, C AS x = FIRST(B.x))",
        column("x", [1, 4, 6, 4, 7]),
    ) == [[4]]


def test_partitions_are_apart_and_null_is_a_partition() -> None:
    rows = table([{"k": k, "x": x} for x, k in enumerate(["p", None, "q", "p", None, "p"])])
    found = both(
        "SELECT k, m, n FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES "
        "MATCH_NUMBER() AS m, COUNT(*) AS n PATTERN (A B?))",
        rows,
    )
    assert found == [["p", 1, 2], ["p", 2, 1], ["q", 1, 1], [None, 1, 2]]


def test_the_order_is_that_of_the_columns_named_and_ties_are_refused() -> None:
    rows = table([{"x": 3, "y": 1}, {"x": 1, "y": 2}, {"x": 2, "y": 1}, {"x": 2, "y": 2}])
    statement = (
        "SELECT l FROM t MATCH_RECOGNIZE (ORDER BY x DESC, y MEASURES ARRAY_AGG(ts) AS l "
        "PATTERN (A+))"
    )
    assert both(statement, rows) == [[[0, 2, 3, 1]]]
    tied = pa.Table.from_pylist([{"ts": 1, "x": 1}, {"ts": 1, "x": 1}])
    workload = bound("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES x AS y PATTERN (A))")
    with pytest.raises(UnsupportedError, match="same place in ORDER BY"):
        run_local(workload, from_table(tied, workload.stream))


def test_the_sequence_decides_between_rows_of_one_place() -> None:
    rows = pa.Table.from_pylist([{"ts": 1, "n": 2, "x": "b"}, {"ts": 1, "n": 1, "x": "a"}])
    workload = bound(
        "SELECT l FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES ARRAY_AGG(x) AS l PATTERN (A+))",
        stream={"time": "ts", "unit": "s", "sequence": "n"},
    )
    found = run_local(workload, from_table(rows, workload.stream))
    assert found.matches.column("match").to_pylist() == ['{"l":["a","b"]}']


def test_a_match_takes_less_than_its_window() -> None:
    rows = pa.Table.from_pylist([{"ts": t} for t in (0, 4, 5, 9, 15)])
    found = both(
        "SELECT s, n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(ts) AS s, COUNT(*) AS n "
        "PATTERN (A+) WITHIN INTERVAL '5' SECOND)",
        rows,
    )
    # From 0 the row at 5 is exactly 5 s away: outside.
    assert found == [[0, 2], [15, 1], [5, 2]]


def test_a_window_is_of_the_times_that_rows_are_ordered_by() -> None:
    at = [datetime(2020, 1, 1, 10, minute) for minute in (0, 9, 10, 25)]
    rows = table([{"at": one} for one in at])
    statement = (
        "SELECT l FROM t MATCH_RECOGNIZE (ORDER BY at {} MEASURES ARRAY_AGG(ts) AS l "
        "PATTERN (A+) WITHIN INTERVAL '10' MINUTE)"
    )
    assert both(statement.format(""), rows) == [[[0, 1]], [[2]], [[3]]]
    # Backwards, 10:10 and 10:09 are together, and 10:00 is exactly ten minutes from 10:10.
    assert both(statement.format("DESC"), rows) == [[[0]], [[2, 1]], [[3]]]


def test_a_date_beside_a_time_is_the_days_beginning() -> None:
    rows = table([{"at": datetime(2020, 1, day)} for day in (1, 2, 3)])
    assert both(
        "SELECT s FROM t MATCH_RECOGNIZE (ORDER BY at MEASURES FIRST(ts) AS s "
        "PATTERN (A) DEFINE A AS at > DATE '2020-01-01' AND at < TIMESTAMP '2020-01-03 00:00:00')",
        rows,
    ) == [[1]]


def test_a_null_condition_is_not_true() -> None:
    assert both(
        "SELECT s FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(ts) AS s "
        "PATTERN (A) DEFINE A AS NOT (x > 1))",
        column("x", [None, 1, 2]),
    ) == [[1]]


def test_the_select_around_filters_groups_orders_and_limits() -> None:
    inner = (
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n, FIRST(c) AS c "
        "PATTERN (A+ | B+) DEFINE A AS c = 'a', B AS c = 'b') AS m"
    )
    assert both(f"SELECT m.n * 10 AS tens {inner} WHERE m.c = 'a'", LETTERS) == [[10], [20]]
    having = "GROUP BY c HAVING SUM(n) > 2"
    assert both(f"SELECT c, SUM(n) AS s {inner} {having}", LETTERS) == [["a", 3]]
    assert both(f"SELECT COUNT(*), MAX(n) {inner}", LETTERS) == [[3, 2]]
    assert both(f"SELECT DISTINCT n {inner}", LETTERS) == [[1], [2]]
    assert both(f"SELECT n, c {inner} ORDER BY n, c DESC LIMIT 2", LETTERS) == [[1, "a"], [2, "b"]]


def test_limit_and_offset_keep_rows_in_the_order_that_is_asked_for() -> None:
    inner = "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES price AS p PATTERN (A)) ORDER BY p"
    for words, expected in [
        ("LIMIT 2", [3, 4]),
        ("OFFSET 2 LIMIT 2", [5, 6]),
        ("LIMIT 2 OFFSET 2", [5, 6]),
        ("OFFSET 6 ROWS", [8, 9]),
        ("OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY", [4, 5]),
        ("FETCH FIRST ROW ONLY", [3]),
        ("LIMIT ALL OFFSET 7", [9]),
    ]:
        assert both(f"SELECT p {inner} {words}", PRICES) == [[one] for one in expected]


def test_order_by_may_number_the_columns_of_all() -> None:
    inner = (
        "FROM t MATCH_RECOGNIZE (PARTITION BY c ORDER BY ts MEASURES 0 - ts AS late, "
        "CLASSIFIER() AS v PATTERN (A))"
    )
    for number, expected in [("1 DESC, 2", ["b", -3, "A"]), ("2", ["a", -4, "A"])]:
        assert both(f"SELECT * {inner} ORDER BY {number} LIMIT 1", LETTERS) == [expected]
    assert both(f"SELECT v, * {inner} ORDER BY 3 DESC LIMIT 1", LETTERS) == [["A", "a", 0, "A"]]


def test_an_aggregate_around_the_clause_has_its_second_value() -> None:
    inner = "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES price AS p, ts AS at PATTERN (A))"
    assert both(f"SELECT MAX_BY(at, p), MIN_BY(at, p) {inner}", PRICES) == [[0, 6]]


@pytest.mark.parametrize("measure", ["A.x + 1", "-(A.x * 2)", "SUM(x)", "SUM(DISTINCT x)"])
def test_a_whole_number_beyond_64_bits_is_an_error(measure: str) -> None:
    text = f"SELECT m FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m PATTERN (A+))"
    events = column("x", [2**62, 2**63 - 1])
    for run in (run_local, run_oracle):
        workload = bound(text)
        with pytest.raises(UnsupportedError, match="64 bits"):
            run(workload, from_table(events, workload.stream))


def test_a_select_around_another_reads_what_that_gives() -> None:
    inner = (
        "SELECT n * 2 AS d, c FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n, "
        "FIRST(c) AS c PATTERN (A+ | B+) DEFINE A AS c = 'a', B AS c = 'b')"
    )
    # Runs: aa, bb, a.
    assert both(f"SELECT z.d + 1 AS e FROM ({inner}) AS z WHERE z.c = 'a'", LETTERS) == [[3], [5]]
    assert both(f"SELECT * FROM ({inner} WHERE n > 1)", LETTERS) == [[4, "a"], [4, "b"]]
    assert both(f"WITH m AS ({inner}) SELECT c, SUM(d) FROM m GROUP BY c", LETTERS) == [
        *(["a", 6], ["b", 4]),
    ]
    assert both(
        "WITH some AS (SELECT * FROM t WHERE c = 'a') SELECT n FROM some "
        "MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+))",
        LETTERS,
    ) == [[3]]


@pytest.mark.parametrize(
    ("inner", "measure", "pattern", "expected"),
    [
        # 9, 7, 4, 6, 8, 5, 3, 7, of which those from 5 on are 9, 7, 6, 8, 5, 7.
        ("price * 2 AS d", "A.d", "A DEFINE A AS d > 15", [[16], [18]]),
        ("price * 2 AS d", "SUM(s.d)", "A+ DEFINE A AS A.d > 11", [[14], [60]]),
        (
            "price AS p, ts AS at",
            "LAST(p, 1) + FIRST(A.at)",
            "A B DEFINE B AS p > PREV(A.p)",
            [[9]],
        ),
        ("*, price % 2 = 1 AS odd", "price", "A DEFINE A AS NOT odd", [[6], [8]]),
        ("t.price AS p", "CLASSIFIER(A)", "A DEFINE A AS s.p = 9", [["A"]]),
    ],
)
def test_names_stand_for_what_a_select_of_rows_inside_computes(
    inner: str, measure: str, pattern: str, expected: list[list[object]]
) -> None:
    before, _, define = pattern.partition(" DEFINE ")
    source = f"(SELECT {inner}, ts FROM t WHERE price >= 5) AS s"
    clause = f"ORDER BY ts MEASURES {measure} AS m PATTERN ({before}) DEFINE {define}"
    assert both(f"SELECT m FROM {source} MATCH_RECOGNIZE ({clause})", PRICES) == expected


def test_no_rows_give_no_matches_and_an_aggregate_of_none() -> None:
    empty = PRICES.slice(0, 0)
    inner = "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES price AS p PATTERN (A))"
    assert both(f"SELECT p {inner}", empty) == []
