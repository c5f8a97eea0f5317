"""Events are instances of the symbols that the reference says, however many there are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.columns import symbol_sets
from engines.columns.columns import Columns
from engines.input.event_table import from_table
from engines.reference.meaning import Matcher
from engines.reference.values import Row
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events as components

WHOLE = (-(2**63), -(2**53) - 1, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1)
REAL = (-1e300, -1.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.0**53, 9.3e18, 1e300)
TEXTS = ("", "a", "ab", "b", "Größe", "z")
OPERATORS = ("<", "<=", "=", "!=", ">=", ">")
SCHEMA = pa.schema(
    [
        ("ts", pa.int64()), ("kind", pa.string()), ("i", pa.int64()), ("f", pa.float64()),
        ("s", pa.string()), ("b", pa.bool_()),
    ]
)  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["A", "B", "C", None]),
            "i": st.sampled_from([None, *WHOLE]),
            "f": st.sampled_from([None, *REAL]),
            "s": st.sampled_from([None, *TEXTS]),
            "b": st.sampled_from([None, True, False]),
        }
    ),
    max_size=12,
)


def numbers() -> st.SearchStrategy[str]:
    known = st.sampled_from([*WHOLE[1:], *REAL])
    return known.map(lambda value: f"{value!r}".replace("e+", "e"))


@st.composite
def conditions_on_a(draw: st.DrawFn, depth: int) -> str:
    """A condition on single events, as a text."""
    match draw(st.integers(0, 8 if depth else 5)):
        case 0 | 1:
            name, operator = draw(st.sampled_from(["i", "f"])), draw(st.sampled_from(OPERATORS))
            if draw(st.booleans()):
                return f"{draw(numbers())} {operator} a.{name}"
            return f"a.{name} {operator} {draw(numbers())}"
        case 2:
            return f"a.s {draw(st.sampled_from(OPERATORS))} '{draw(st.sampled_from(TEXTS))}'"
        case 3:
            listed = ", ".join(
                f"'{text}'" for text in draw(st.lists(st.sampled_from(TEXTS), min_size=1))
            )
            return f"a.s {draw(st.sampled_from(['IN', 'NOT IN']))} ({listed})"
        case 4:
            name, word = (
                draw(st.sampled_from(["i", "f", "s", "b"])),
                draw(st.sampled_from(["", "NOT "])),
            )
            return f"a.{name} IS {word}NULL"
        case 5:
            return draw(st.sampled_from(["a.b = TRUE", "a.b != TRUE", "a.i < a.f", "a.i % 2 = 1"]))
        case 6:
            return f"NOT ({draw(conditions_on_a(depth - 1))})"
        case _:
            word = draw(st.sampled_from([" AND ", " OR "]))
            return (
                "("
                + word.join(draw(st.lists(conditions_on_a(depth - 1), min_size=2, max_size=3)))
                + ")"
            )


def check(
    conditions: list[str], rows: list[dict[str, object]], types: dict[str, str | None]
) -> None:
    document = {
        "name": "w",
        "stream": {"time": "ts", "unit": "ms", "type": "kind", "types": types},
        "queries": [
            f"QUERY q{i} PATTERN SEQ({kind} a, B b) WHERE {condition} RETURN b WITHIN 5 ms"
            for i, (condition, kind) in enumerate(
                zip(conditions, ["A", "B", "D"] * 9, strict=False)
            )
        ],
    }
    columns = [[row[name] for row in rows] for name in SCHEMA.names[1:]]
    table = pa.table([range(len(rows)), *columns], schema=SCHEMA)
    kinds = {"ts": "int", "kind": "string", "i": "int", "f": "float", "s": "string", "b": "bool"}
    workload = load_bound(document, kinds)
    events = from_table(table, workload.stream)
    found = Columns(workload, events)
    matcher = Matcher(
        workload.stream,
        (),
        [Row((i,), i, row) for i, row in enumerate(table.to_pylist())],
        1,
        iter(range(10**9)),
    )
    symbols = list({e.symbol: 0 for q in workload.queries for e in components(q.pattern)})
    codes, sets = found.symbol_sets(symbols)
    for symbol in symbols:
        expected = {row.values["ts"] for row in matcher.instances(symbol)}
        assert set(np.flatnonzero(found.instances(symbol)).tolist()) == expected, str(symbol)
        assert {i for i, code in enumerate(codes.tolist()) if symbol in sets[code]} == expected
        low = len(rows) // 3
        assert set(np.flatnonzero(found.part(low, len(rows)).instances(symbol)) + low) == {
            row for row in expected if row >= low
        }


TYPES = {"A": None, "B": None, "C": None, "D": "kind = 'C' AND i > 0"}


@given(st.lists(conditions_on_a(2), min_size=1, max_size=9), ROWS, st.booleans())
def test_events_are_instances_of_the_symbols_that_the_reference_says(conditions, rows, also):
    # With `also`, a type that a condition states occurs in the column of types too.
    check(conditions, rows, {**TYPES, "C": "i < 2"} if also else TYPES)


@given(st.lists(conditions_on_a(2), min_size=1, max_size=9), ROWS)
def test_where_there_are_too_many_sets_each_event_has_its_own_bits(conditions, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbol_sets, "_MOST_SETS", 1)
        check(conditions, rows, TYPES)
