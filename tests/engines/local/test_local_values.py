"""Arithmetic on columns is Python's arithmetic, and sums are those of `math.fsum`."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.columns.columns import Columns
from engines.columns.exact_sums import digits_of
from engines.columns.groups import EventGroups, aggregate, ends
from engines.columns.vectors import Vector, broadcast, evaluate
from engines.input.event_table import from_table
from engines.reference.values import Row, over, value
from optimizer.ir.query import BoundWorkload
from workloads import expressions as ex
from workloads.parser import parse_condition
from workloads.workload import Stream

INTS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.just(None))
FLOATS = st.one_of(
    st.sampled_from([0.0, 0.1, -0.5, 2.0, 2.0**53, 1e300]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.just(None),
)

OPERATORS = st.sampled_from(["+", "-", "*", "/", "%"])
COMPARISONS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LITERALS = st.sampled_from([0, 1, -2, 2**53 + 1, 2**64, 0.5, 2.0**53, None]).map(ex.Literal)
LEAVES = st.one_of(st.sampled_from("ijfg").map(lambda name: ex.Attribute("", name)), LITERALS)
NUMBERS: st.SearchStrategy[ex.Expression] = st.one_of(
    LEAVES,
    LEAVES.map(ex.Negative),
    st.builds(ex.Arithmetic, OPERATORS, LEAVES, LEAVES),
    st.builds(
        ex.Arithmetic, OPERATORS, st.builds(ex.Arithmetic, OPERATORS, LEAVES, LEAVES), LEAVES
    ),
)


def columns_of(rows: list[dict[str, Any]]) -> Columns:
    kinds = {"i": pa.int64(), "j": pa.int64(), "f": pa.float64(), "g": pa.float64()}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    table = pa.table({"ts": pa.array(range(len(rows)), pa.int64()), **columns})
    stream = Stream("ts")
    return Columns(BoundWorkload("w", stream, ()), from_table(table, stream))


def listed(vector: Vector, size: int) -> list[Any]:
    column = broadcast(vector, size)
    present = column.present()
    return [v if p else None for v, p in zip(column.values.tolist(), present, strict=True)]


ROWS = st.lists(
    st.fixed_dictionaries({"i": INTS, "j": INTS, "f": FLOATS, "g": FLOATS}), min_size=1, max_size=4
)


@given(ROWS, st.one_of(NUMBERS, st.builds(ex.Comparison, COMPARISONS, NUMBERS, NUMBERS)))
def test_expressions_give_what_python_gives(
    rows: list[dict[str, Any]], expression: ex.Expression
) -> None:
    columns = columns_of(rows)
    try:
        expected = [value(expression, {"": (Row((0,), 0, row),)}) for row in rows]
    except OverflowError:
        return  # an integer too large to become a double
    found = evaluate(expression, lambda node: columns.vector(node.name), columns.texts)
    assert list(map(repr, listed(found, len(rows)))) == list(map(repr, expected))


def test_the_negative_of_a_constant_past_64_bits_can_be_compared() -> None:
    columns = columns_of([{"i": None, "j": 0, "f": None, "g": None}])
    condition = ex.Comparison("<", ex.Negative(ex.Literal(2**64)), ex.Attribute("", "j"))
    found = evaluate(condition, lambda node: columns.vector(node.name), columns.texts)
    assert listed(found, 1) == [True]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i = 1 OR f > 1", [True, False, True]),
        ("NOT (i = 1 OR f > 1)", [False, True, False]),
        ("i IN (1, 2.0)", [True, False, False]),
        ("i NOT IN (1)", [False, False, False]),
        ("i IS NULL AND f IS NOT NULL", [False, False, True]),
        ("TRUE", [True, True, True]),
        ("i = 'text'", [False, False, False]),
        ("i != 'text'", [True, False, False]),
    ],
)
def test_conditions_are_two_valued(condition: str, expected: list[bool]) -> None:
    rows = [
        {"i": 1, "j": 0, "f": 0.5, "g": 0.0},
        {"i": None, "j": 0, "f": None, "g": 0.0},
        {"i": None, "j": 0, "f": 1.5, "g": 0.0},
    ]
    columns = columns_of(rows)
    found = evaluate(
        parse_condition(condition), lambda node: columns.vector(node.name), columns.texts
    )
    assert [bool(v) for v in listed(found, 3)] == expected


def numbers(values: list[Any], whole: bool) -> Vector:
    nulls = np.array([v is None for v in values], bool)
    dtype = np.int64 if whole else np.float64
    known = np.array([0 if v is None else v for v in values], dtype)
    bound = max((abs(int(v)) for v in known.tolist()), default=0) if whole else 0
    return Vector("int" if whole else "float", known, nulls, bound)


@given(st.lists(st.floats(-1e290, 1e290), max_size=8))
def test_sums_of_doubles_are_rounded_once(values: list[float]) -> None:
    digits = digits_of(numbers(values, whole=False))
    sums = [np.array([column.sum()]) for column in digits.columns()]
    assert digits.total(sums).tolist() == [math.fsum(values)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_sums_of_integers_are_exact(values: list[int]) -> None:
    digits = digits_of(numbers(values, whole=True))
    sums = [np.array([column.sum()], np.int64) for column in digits.columns()]
    assert digits.total(sums).tolist() == [sum(values)]


def test_infinities_add_up() -> None:
    digits = digits_of(numbers([math.inf, -math.inf, 1.5, math.inf], whole=False))
    columns = digits.columns()

    def total(*places: int) -> float:
        sums = [np.array([column[list(places)].sum()]) for column in columns]
        return float(digits.total(sums)[0])

    assert (total(0, 2), total(1, 2), total(2)) == (math.inf, -math.inf, 1.5)
    assert math.isnan(total(0, 1))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("function", ex.GROUP_FUNCTIONS)
@given(st.data())
def test_aggregates_of_groups(function: str, whole: bool, data: st.DataObject) -> None:
    values = INTS if whole else FLOATS.filter(lambda v: v is None or abs(v) < 1e290)
    groups = data.draw(st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=4))
    flat = [v for group in groups for v in group]
    offsets = ends(np.array([len(group) for group in groups]))
    vector = numbers(flat, whole)
    found = aggregate(function, vector, EventGroups(offsets, np.arange(len(flat))))
    expected = [over(group, function) for group in groups]
    assert list(map(repr, listed(found, len(groups)))) == list(map(repr, expected))


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
        ([math.inf, 1.0], math.inf),
    ],
)
def test_a_sum_that_no_double_holds_is_infinite(values: list[float], total: float) -> None:
    assert over(values, "sum") == total
