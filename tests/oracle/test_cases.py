"""Matches that other engines' test suites ship: the reference and the tree engine agree.

The cases are not part of the project; the tests skip where they are not at hand.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.input.batches import read_events
from engines.input.event_table import Events, column_kinds
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import bind
from optimizer.ir.query import BoundWorkload
from optimizer.trees.search import refusal
from tests.running import run_local
from workloads.loading import load_workload

SHARED = Path(__file__).resolve().parents[3] / "shared"
# The others are of what Sheaf has no words for yet.
CASES = [
    path
    for path in sorted((SHARED / "cases").glob("*.json"))
    if "workload" in json.loads(path.read_text())
]

# The case writes a date as 200802010900 where its stream has seconds since 1970.
CORRECTIONS = {"opencep_basicNested": ("200802010900", "1201856400")}

pytestmark = pytest.mark.skipif(not CASES, reason="../shared/cases is not there")


def load(path: Path) -> tuple[BoundWorkload, Events, Counter[tuple[Any, ...]]]:
    case = json.loads(path.read_text())
    document = case["workload"]
    if path.stem in CORRECTIONS:
        document["queries"] = [q.replace(*CORRECTIONS[path.stem]) for q in document["queries"]]
    stream_file = SHARED / "data" / case["stream"]
    if not stream_file.exists():
        pytest.skip(f"../shared/data/{case['stream']} is not there")
    workload = load_workload(document)
    events = read_events(str(stream_file), workload.stream)
    bound = bind(workload, column_kinds(events.table.schema))
    return bound, events, Counter(map(tuple, case["expected"]))


def rows_of(results: Results, column: str) -> Counter[tuple[Any, ...]]:
    """Each match as its query and the numbers of its rows, in order."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in results.matches.to_pylist():
        bound = json.loads(row["match"]).values()
        events = [e for item in bound for e in (item if isinstance(item, list) else [item])]
        found[row["query"], *sorted(event[column] for event in events)] += 1
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("run", [run_local, run_oracle], ids=["local", "reference"])
def test_case(path: Path, run: Callable[[BoundWorkload, Events], Results]) -> None:
    workload, events, expected = load(path)
    assert workload.stream.sequence is not None
    assert all(refusal(query) is None for query in workload.queries)
    assert rows_of(run(workload, events), workload.stream.sequence) == expected
