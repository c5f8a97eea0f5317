"""`web.View` in a pattern: events of a type that come from one of several sources."""

import json
from pathlib import Path
from typing import Any

import pytest

import sheaf
from engines.input.batches import read_events
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from workloads.errors import WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query

WEB = "ts,kind,k,n\n1,View,1,1\n4,View,1,2\n6,Buy,1,3\n"
APP = "ts,kind,k,n\n2,View,1,4\n5,Buy,1,5\n7,View,2,6\n"


def document(*queries: str, **web: Any) -> dict[str, Any]:
    own = {"time": "ts", "unit": "s", "type": "kind"}
    texts = [f"QUERY q{place} {text}" for place, text in enumerate(queries)]
    return {"name": "shop", "streams": {"web": {**own, **web}, "app": own}, "queries": texts}


@pytest.fixture
def events(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "web.csv").write_text(WEB)
    (tmp_path / "app.csv").write_text(APP)
    return {name: tmp_path / f"{name}.csv" for name in ("web", "app")}


# What each gives was worked out by hand: the numbers of events in the order of the aliases.
CASES: dict[str, list[list[int]]] = {
    "PATTERN SEQ(web.View v, Buy b) PARTITION BY k RETURN v.n, b.n WITHIN 9 s": [
        [1, 5], [1, 3], [2, 5], [2, 3],
    ],
    "PATTERN SEQ(web.View v, !app.View a, web.Buy b) PARTITION BY k RETURN v.n, b.n WITHIN 9 s": [
        [2, 3],
    ],
    "PATTERN SEQ(web.View v, > app.ANY a) WHERE a.k = 1 RETURN v.n, a.n WITHIN 9 s": [
        [1, 4], [2, 5],
    ],
    "PATTERN SEQ(web.View+ v, app.Buy b) RETURN v.n, b.n WITHIN 9 s": [[1, 5], [2, 5], [1, 2, 5]],
    "PATTERN JOIN(web.View v WITHIN 2 s, app.View a WITHIN 3 s) RETURN v.n, a.n": [[1, 4], [2, 4]],
    "PATTERN (SEQ(web.View v, app.Buy b))+ g RETURN v.n, b.n WITHIN 9 s": [[1, 5], [2, 5]],
    "PATTERN app.View RETURN View.n WITHIN 1 s": [[4], [6]],
}  # fmt: skip


def numbers(match: Any) -> list[int]:
    found = match if isinstance(match, list) else match.values()
    return [n for e in found for n in ([e] if isinstance(e, int) else numbers(e))]


@pytest.mark.parametrize("engine", ["local", "spark", "oracle"])
def test_events_are_of_the_source_that_is_named(events: dict[str, Path], engine: str) -> None:
    given = document(*CASES)
    if engine == "oracle":
        bound = load_bound(given)
        paths = {name: str(path) for name, path in events.items()}
        matches = run_oracle(bound, read_events(paths, bound.stream)).matches
    else:
        matches = sheaf.run(sheaf.load(given), events, engine=engine).matches
    found: dict[str, list[list[int]]] = {}
    for row in matches.to_pylist():
        found.setdefault(row["query"], []).append(numbers(json.loads(row["match"])))
    for place, expected in enumerate(CASES.values()):
        assert sorted(found[f"q{place}"]) == sorted(expected)


def test_aggregates_and_funnels_take_them(events: dict[str, Path]) -> None:
    queries = (
        "PATTERN SEQ(web.View v, app.Buy b) AGG COUNT(*) WITHIN 9 s",
        "FUNNEL SEQ(web.View v, Buy b) EXCLUDE app.View e BETWEEN v AND b RETURN LEVELS WITHIN 9 s",
    )
    rows = sheaf.run(sheaf.load(document(*queries)), events).aggregates.to_pylist()
    # The View at 4 s has no other of the app behind it before a Buy.
    assert [(row["query"], row["value"]) for row in rows] == [("q0", 2.0), ("q1", 2.0)]


def test_it_is_printed_as_it_is_written() -> None:
    text = 'QUERY q PATTERN SEQ(web.View+ v, !app."a b" n, ALL web.Buy b) RETURN b.n WITHIN 9 s'
    parsed = parse_query(text)
    assert parse_query(print_query(parsed)) == parsed
    assert 'SEQ(web.View+ v, !app."a b" n, ALL web.Buy b)' in print_query(parsed)


@pytest.mark.parametrize(
    ("pattern", "web", "said", "hint"),
    [
        (
            "wep.View v",
            {},
            "'wep.View' is a type of a source 'wep'",
            "did you mean 'web'?",
        ),
        (
            "web.Veiw v",
            {"types": ["View", "Buy"]},
            "'web' has no type 'Veiw'",
            "did you mean 'View'?",
        ),
    ],
)
def test_what_is_not_there_is_said(pattern: str, web: Any, said: str, hint: str) -> None:
    given = document(f"PATTERN SEQ({pattern}, Buy b) RETURN b.n WITHIN 9 s", **web)
    with pytest.raises(WorkloadError) as caught:
        load_bound(given)
    (finding,) = caught.value.diagnostics
    assert said in finding.message
    assert finding.hint == hint
    assert finding.render().count("^") == len(pattern)


def test_a_stream_by_itself_has_no_sources() -> None:
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    query = "QUERY q PATTERN SEQ(web.View v, Buy b) RETURN b.n WITHIN 9 s"
    with pytest.raises(WorkloadError, match=r'takes double quotes: "web\.View"'):
        load_bound({"name": "w", "stream": stream, "queries": [query]})
