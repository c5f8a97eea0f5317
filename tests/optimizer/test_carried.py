"""What constants say of other components."""

import pytest

from optimizer.access.anchors import needed_events
from optimizer.bind.binder import load_bound

STREAM = {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"}


def looked_for(query: str) -> list[str]:
    workload = load_bound({"name": "w", "stream": STREAM, "queries": [f"QUERY q PATTERN {query}"]})
    needed = needed_events(workload.queries[0])
    return [str(symbol) for reading in needed.readings for stage in reading for symbol in stage]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SEQ(A a, B b) WHERE a.x = 5 AND b.y = a.x", ["A[x = 5]", "B[y = 5]"]),
        ("SEQ(A a, B b) WHERE a.x > 5 AND b.x >= a.x", ["A[x > 5]", "B[x > 5]"]),
        ("SEQ(A a, B b) WHERE a.x >= 5 AND b.x > a.x", ["A[x >= 5]", "B[x > 5]"]),
        ("SEQ(A a, B b) WHERE a.x < 5 AND b.x > a.x", ["A[x < 5]", "B"]),
        ("SEQ(A a, B b) WHERE a.x != 5 AND b.x = a.x", ["A[x != 5]", "B"]),
        ("SEQ(A a, B b) WHERE a.x = 5 AND b.x != a.x", ["A[x = 5]", "B"]),
        (
            "SEQ(A a, B b, C c) WHERE c.x < 5 AND a.x <= b.x AND b.x <= c.x",
            ["A[x < 5]", "B[x < 5]", "C[x < 5]"],
        ),
        ("SEQ(A a, B b) WHERE a.x = 'u' PARTITION BY x", ["A[x = 'u']", "B[x = 'u']"]),
        ("SEQ(A a, OR(B b, C c)) WHERE b.x = 5 AND a.x = b.x", ["A[x = 5]", "B[x = 5]", "A", "C"]),
        ("SEQ(A a, !N n, B b) WHERE n.x = 5 AND n.x = a.x AND n.x = b.x", ["A", "B"]),
        ("SEQ(A a, B b) WHERE a.x = 5 AND b.y + 1 = a.x", ["A[x = 5]", "B"]),
    ],
)
def test_constants_are_carried_along_comparisons_and_keys(query: str, found: list[str]) -> None:
    assert looked_for(f"{query} RETURN a WITHIN 3 ms") == found
