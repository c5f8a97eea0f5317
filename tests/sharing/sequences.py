"""Random detection queries that have much in common: sequences over few types, of one window."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload

TYPES = ("A", "B", "C", "D")
CONDITIONS = ("{0}.x < {1}.x", "{0}.x = {1}.y", "{1}.x + {0}.y > 2")
NEGATED = ("!{}", "!{}", "!SEQ(A, {})", "!OR(B, {})")


@st.composite
def patterns(
    draw: st.DrawFn,
    most: int = 5,
    negations: bool = True,
    ties: bool = True,
    types: tuple[str, ...] = TYPES,
) -> str:
    """A SEQ with negations in some gaps, and conditions on neighbours, negated ones too."""
    size = draw(st.integers(2, most))
    parts, where = [], []
    for i in range(size):
        if negations and draw(st.integers(0, 3)) == 0 and (i or draw(st.booleans())):
            negated = draw(st.sampled_from(types))
            text = draw(st.sampled_from(NEGATED)).format(f"{negated} n{i}")
            parts.append(_named(text, i))
            if ties and i and draw(st.integers(0, 2)) == 0:
                where.append(f"n{i}.x = c{i - 1}.x")
        parts.append(f"{draw(st.sampled_from(types))} c{i}")
        if ties and i and draw(st.integers(0, 2)) == 0:
            where.append(draw(st.sampled_from(CONDITIONS)).format(f"c{i - 1}", f"c{i}"))
    if negations and draw(st.integers(0, 5)) == 0:
        parts.append(f"!{draw(st.sampled_from(types))} n{size}")
    return f"SEQ({', '.join(parts)})" + (f" WHERE {' AND '.join(where)}" if where else "")


def _named(text: str, number: int) -> str:
    """Every other component of a negation gets a name of its own."""
    return text.replace("(A,", f"(A m{number},").replace("(B,", f"(B m{number},")


@st.composite
def detection(
    draw: st.DrawFn,
    most: int = 5,
    queries: int = 5,
    negations: bool = True,
    ties: bool = True,
    types: tuple[str, ...] = TYPES,
) -> BoundWorkload:
    """A workload with rates."""
    found = draw(st.lists(patterns(most, negations, ties, types), min_size=2, max_size=queries))
    key = draw(st.sampled_from(("", " PARTITION BY k")))
    window = draw(st.integers(3, 8))
    rates = {kind: float(draw(st.sampled_from((1, 10, 300, 2000)))) for kind in TYPES}
    document: dict[str, Any] = {
        "name": "drawn",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "statistics": {"rates": rates},
        "queries": [
            f"QUERY q{i} PATTERN {pattern}{key} RETURN c0 WITHIN {window} ms"
            for i, pattern in enumerate(found)
        ],
    }
    return load_bound(document)
