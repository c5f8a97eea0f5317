"""Rows that come in chunks are those that the reference gives, and stop at a limit on rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.execution import EventSource, Execution, RowSink
from engines.input.event_table import from_table
from engines.limits import Limits
from engines.live.run import Generation, LiveGenerations
from engines.local.run import SlicedRun, event_chunks, run_events
from engines.local.slices import Slice, between
from engines.program import Program, RunContext, RunOptions, bound_program
from engines.reference.oracle import run_oracle
from engines.results import kept_texts
from engines.results.first_rows import FirstRows
from engines.results.sorting import FileOutput
from engines.results.tables import Results, empty_results, sorted_results
from engines.run import run
from optimizer.bind.binder import bind, load_bound
from optimizer.ir.query import Aggregation, BoundWorkload, Query
from sharing.planner import make_plan
from tests.differential.test_local import events_of
from tests.differential.test_trees import DENSE, PLAIN_NEGATIONS, Case, cases
from tests.running import How
from workloads.loading import load_workload
from workloads.workload import to_document

MIXED = replace(DENSE, outputs=("return", "trigger", "slide"), keys=True)
WAYS = (
    How(),
    How(detection="left"),
    How(detection="stepwise"),
    How(counting=False),
    How(counting=False, detection="stepwise"),
)
CHUNKS = (1, 2, 3, 1 << 18)


def with_chunks_of(chunk: int, row_limit: int | None = None) -> RunContext:
    return RunContext(RunOptions(row_limit=row_limit, limits=Limits(chunk=chunk)))


def first_of_each(table: pa.Table, shown: int | None) -> list[str]:
    """The first rows of each query of a table that is sorted."""
    taken: Counter[str] = Counter()
    found = []
    for query, row in zip(table["query"].to_pylist(), texts(table), strict=True):
        taken[query] += 1
        if shown is None or taken[query] <= shown:
            found.append(row)
    return found


@given(
    cases(MIXED, queries=3) | cases(PLAIN_NEGATIONS) | cases(DENSE, nested=True),
    st.sampled_from(WAYS),
    st.sampled_from(CHUNKS),
    st.sampled_from([1, 2, 5, None]),
)
@settings(max_examples=60, deadline=None)
def test_the_first_rows_of_chunks_are_those_of_all(
    case: Case, how: How, chunk: int, shown: int | None
) -> None:
    workload, events = case[0], events_of(*case)
    first = FirstRows(shown)
    first.add(empty_results(events.time_type))
    rows: Counter[str] = Counter()
    for found in event_chunks(how.program(workload), events, with_chunks_of(chunk)):
        first.take(found)
        rows[found.query] += len(found)
    expected = sorted_results(run_oracle(workload, events))
    assert first.first is not None
    for kind in ("aggregates", "matches"):
        table = getattr(expected, kind)
        assert texts(getattr(first.first, kind)) == first_of_each(table, shown)
        assert getattr(first, kind) == table.num_rows
    whole = Counter(expected.aggregates["query"].to_pylist())
    assert +rows == whole + Counter(expected.matches["query"].to_pylist())


@given(cases(replace(MIXED, outputs=("return",)), queries=2), st.sampled_from(WAYS))
@settings(max_examples=30, deadline=None)
def test_chunks_in_order_have_the_same_rows_by_key_and_times(case: Case, how: How) -> None:
    workload, events = case[0], events_of(*case)
    for found in event_chunks(how.program(workload), events, with_chunks_of(1 << 18)):
        ordered = found.in_order()
        rows = [row for table in ordered.tables() for row in table.to_pylist()]
        places = [(r["key"] is not None, r["key"], r["time"], r["start"], r["end"]) for r in rows]
        assert places == sorted(places)
        every = [row for table in found.tables() for row in table.to_pylist()]
        assert sorted(map(str, rows)) == sorted(map(str, every))
        whole = [row for table in found.tables(is_ordered=True) for row in table.to_pylist()]
        assert whole == sorted(
            every, key=lambda r: (r["key"] or "", r["time"], r["start"], r["end"], r["match"])
        )


def texts(table: pa.Table) -> list[str]:
    return [str(row) for row in table.to_pylist()]


@given(
    case=cases(MIXED, queries=3) | cases(replace(DENSE, outputs=("return",)), queries=2),
    how=st.sampled_from(WAYS),
    chunk=st.sampled_from(CHUNKS),
    size=st.sampled_from([1, 300, 1 << 20]),
)
@settings(max_examples=60, deadline=None)
def test_files_have_the_rows_of_the_reference_in_order(
    case: Case, how: How, chunk: int, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However many bytes of rows and of texts memory holds."""
    workload, events = case[0], events_of(*case)
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HELD_BYTES", "MOST_BYTES"):
            patch.setattr(kept_texts, name, size)
        with FileOutput(str(folder / "out.parquet"), True, True, run_bytes=size) as output:
            output.add(empty_results(events.time_type))
            for found in event_chunks(how.program(workload), events, with_chunks_of(chunk)):
                output.take(found)
            files = output.write()
    expected = sorted_results(run_oracle(workload, events))
    assert [texts(pq.read_table(path)) for path in files] == [
        texts(expected.aggregates),
        texts(expected.matches),
    ]
    assert sorted(path.name for path in folder.iterdir()) == sorted(Path(f).name for f in files)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_of_chunks_are_those_of_all(ending: str, tmp_path: Path) -> None:
    program, workload = loose_program()
    files = []
    for chunk in (7, 1 << 18):
        path = tmp_path / f"out-{chunk}.{ending}"
        with FileOutput(str(path), False, True, run_bytes=20_000) as output:
            events = from_table(payments(300), workload.stream)
            output.add(empty_results(events.time_type))
            for found in event_chunks(program, events, with_chunks_of(chunk)):
                output.take(found)
            output.write()
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert matches_of(payments(300)) > 1_000
    assert output.matches == matches_of(payments(300)) + matches_of(payments(300), "few")


def payments(size: int) -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table(
        {
            "ts": np.arange(size) * 10,
            "kind": random.choice(["pay", "fail", "other"], size),
            "card": random.integers(0, 3, size),
            "n": np.arange(size),
        }
    )


LOOSE = {
    "name": "loose",
    "stream": {"time": "ts", "unit": "ms", "type": "kind"},
    "queries": [
        "QUERY q PATTERN SEQ(pay a, fail b) RETURN a.n, b.n WITHIN 365 days",
        "QUERY few PATTERN SEQ(fail a, other b) WHERE a.n = b.n - 1 RETURN a.n WITHIN 1 hour",
    ],
}


def loose_program(how: How | None = None) -> tuple[Program, BoundWorkload]:
    workload = load_bound(LOOSE)
    return (how or How()).program(workload), workload


def matches_of(table: pa.Table, query: str = "q") -> int:
    """How many pairs of rows of a stream without ties are matches."""
    kinds = np.array(table["kind"].to_pylist())
    if query == "few":
        return int(np.count_nonzero((kinds[:-1] == "fail") & (kinds[1:] == "other")))
    return int(np.cumsum(kinds == "pay")[kinds == "fail"].sum())


@pytest.mark.parametrize("how", WAYS[:3])
@pytest.mark.parametrize("chunk", [5, 1 << 18])
@pytest.mark.parametrize("more", [None, -1, 0, 1])
def test_a_query_gives_as_many_rows_as_it_may(how: How, chunk: int, more: int | None) -> None:
    program, workload = loose_program(how)
    table = payments(60)
    total, few = matches_of(table), matches_of(table, "few")
    assert total > few + 20
    limit = 0 if more is None else total + more
    context = with_chunks_of(chunk, limit)
    events = from_table(table, workload.stream)
    found = run_events(program, events, context)
    rows = Counter(found.matches["query"].to_pylist())
    assert rows == +Counter(q=min(limit, total), few=min(limit, few))
    assert not (all_rows(found) - all_rows(run_oracle(workload, events)))
    assert context.ledger.stopped.keys() == (
        ({"q"} if total > limit else set()) | ({"few"} if few > limit else set())
    )
    for name, reason in context.ledger.stopped.items():
        assert reason.startswith(
            f"query {name} is stopped: it has more rows than the {limit:,} that"
        )
        assert "--row-limit" in reason


@given(
    cases(MIXED, queries=3),
    st.sampled_from(WAYS),
    st.sampled_from(CHUNKS),
    st.integers(0, 6),
    st.lists(st.integers(1, 9), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_limits_hold_over_all_slices(
    case: Case, how: How, chunk: int, limit: int, cuts: list[int]
) -> None:
    workload, events = case[0], events_of(*case)
    expected = run_oracle(workload, events)
    context = with_chunks_of(chunk, limit)
    sliced = SlicedRun(how.program(workload), events.tick, context)
    found = [sliced.run(piece) for piece in pieces(events, sorted(set(cuts)), sliced)]
    given_rows = sum((all_rows(part) for part in found), Counter())
    assert not (given_rows - all_rows(expected))
    whole = by_query(expected)
    given_by_query = sum((by_query(part) for part in found), Counter())
    together = {q.name: rows_at_once(q) for q in workload.queries}
    assert given_by_query == +Counter(
        {
            name: rows if rows <= limit else limit - limit % together[name]
            for name, rows in whole.items()
        }
    )
    assert context.ledger.stopped.keys() == {name for name, rows in whole.items() if rows > limit}


def rows_at_once(query: Query) -> int:
    """How many rows a window or a match has."""
    return len(query.output.items) if isinstance(query.output, Aggregation) else 1


def all_rows(results: Results) -> Counter[str]:
    return Counter(texts(results.aggregates) + texts(results.matches))


def by_query(results: Results) -> Counter[str]:
    names = results.aggregates["query"].to_pylist() + results.matches["query"].to_pylist()
    return Counter(names)


def pieces(events, cuts: list[int], sliced: SlicedRun) -> Iterator[Slice]:
    """The stream cut at these times."""
    reach = sliced.reach
    for start, stop in zip([None, *cuts], [*cuts, None], strict=True):
        low = None if start is None else start - reach.back + 1
        high = None if stop is None else stop + reach.ahead
        yield Slice(between(events, low, high), start, stop)


@pytest.mark.parametrize("slice_rows", [None, 50])
def test_a_run_writes_as_many_rows_as_it_may(slice_rows: int | None, tmp_path: Path) -> None:
    table = payments(200)
    pq.write_table(table, tmp_path / "in.parquet")
    parsed = load_workload(LOOSE)
    plan = make_plan(bind(parsed), to_document(parsed))
    source = EventSource(str(tmp_path / "in.parquet"))
    execution = Execution(options=RunOptions(row_limit=1_000), slice_rows=slice_rows)
    out = str(tmp_path / "out.parquet")
    for sink in (RowSink(out), RowSink(None, 20)):
        report = run(plan, source, sink, execution)
        assert report.rows == {"q": 1_000, "few": matches_of(table, "few")}
        assert report.ledger.stopped.keys() == {"q"}
        assert report.numbers == (0, 1_000 + matches_of(table, "few"))
    assert report.first is not None
    few = min(20, matches_of(table, "few"))
    assert report.first.matches.num_rows == 20 + few
    assert pq.read_table(out).num_rows == 1_000 + matches_of(table, "few")


def test_a_live_stream_is_limited_by_batch() -> None:
    document = {
        **LOOSE,
        "queries": [
            "QUERY q PATTERN SEQ(pay a, fail b) RETURN a.n WITHIN 100 ms",
            "QUERY c PATTERN SEQ(pay a, fail b) AGG COUNT(*) WITHIN 100 ms",
        ],
    }
    workload = load_bound(document)
    generation = Generation(bound_program(make_plan(workload, {}), workload))
    events = from_table(payments(400), workload.stream)
    halves = [(between(events, None, 2_000), 1_999), (between(events, 2_000, None), None)]
    whole = LiveGenerations({"g": generation}, events.tick)
    expected = [by_query(whole.add(*half)) for half in halves]
    assert all(rows["q"] > 10 < rows["c"] for rows in expected)
    live = LiveGenerations({"g": generation}, events.tick, RunOptions(row_limit=10))
    for half in halves:
        assert by_query(live.add(*half)) == {"q": 10, "c": 10}
        told = list(live.context.fallbacks)
        assert [text.partition(":")[0] for text in sorted(told)] == ["c", "q"]
        assert all("beyond the first 10" in text for text in told)
        assert not live.context.ledger.stopped
        live.context.fallbacks.clear()


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_a_window_that_is_given_at_a_limit_has_all_of_its_aggregates(limit: int) -> None:
    items = ("COUNT(*)", "SUM(a.n)", "MAX(a.n)")
    query = f"QUERY c PATTERN SEQ(pay a, fail b) AGG {', '.join(items)} WITHIN 100 ms"
    workload = load_bound({**LOOSE, "queries": [query]})
    events = from_table(payments(400), workload.stream)
    whole = run_oracle(workload, events).aggregates
    for how in (How(), How(counting=False)):
        context = with_chunks_of(50, row_limit=limit)
        found = run_events(how.program(workload), events, context).aggregates
        windows = Counter(found["time"].to_pylist())
        assert set(windows.values()) <= {len(items)}
        assert found.num_rows == limit - limit % len(items) < whole.num_rows
        assert set(texts(found)) <= set(texts(whole))
        assert set(context.ledger.stopped) == {"c"}
