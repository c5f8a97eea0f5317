"""Aggregates from sums of blocks are those of all events, whatever is indexed and read."""

import math
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sheaf
from engines.access import build_index, light_index
from engines.access.choice import AccessChoice, choose_access
from engines.access.exact_parts import stretch_sums
from engines.input.batches import FileSource
from engines.input.event_table import Faults, from_table
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound

STREAM = {"time": "ts", "type": "kind", "unit": "ms", "types": {"High": "x > 3"}}
AGGREGATES = (
    "COUNT(*)", "SUM(a.x)", "MIN(a.x)", "MAX(a.x)", "AVG(a.y)", "SUM(a.y)", "MIN(a.y)",
    "COUNT(a.y)", "MAX(a.y)", "COUNT(a.x)",
)  # fmt: skip
CONDITIONS = (
    "",
    "",
    "WHERE a.x > 2",
    "WHERE a.k = 1 AND a.x <= 4",
    "WHERE NOT a.x = 5",
    "WHERE a.y < 0.5",
)

ODD = (math.nan, None, 0.1, -0.0, 1e300, -1e300, 5e-324, 1e16)


def table_of(seed: int, size: int, is_odd: bool, is_shuffled: bool) -> pa.Table:
    """Events whose values hold for a while, so that blocks are wholly of one kind, or not."""
    draw = np.random.default_rng(seed)
    y = [float(value) for value in draw.normal(size=size)]
    for place in np.flatnonzero(draw.random(size) < 0.2) if is_odd else ():
        y[place] = ODD[draw.integers(len(ODD))]
    kinds = np.repeat(draw.choice(["A", "A", "A", "B", ""], size), draw.integers(1, 9, size))
    x = np.repeat(draw.integers(-1, 7, size), draw.integers(1, 6, size))
    table = pa.table(
        {
            "ts": pa.array(np.cumsum(draw.choice([0, 1, 1, 4], size)), pa.int64()),
            "kind": pa.array([kind or None for kind in kinds[:size]], pa.string()),
            "k": pa.array(np.sort(draw.integers(1, 3, size)), pa.int64()),
            "x": pa.array([int(v) if v >= 0 else None for v in x[:size]], pa.int64()),
            "y": pa.array(y, pa.float64()),
        }
    )
    return table.take(pa.array(draw.permutation(size))) if is_shuffled else table


queries = st.builds(
    lambda kind, where, items, width, slide, having: (
        f"PATTERN {kind} a {where} AGG {', '.join(items)} {having} "
        f"WITHIN {width} ms SLIDE {slide} ms"
    ),
    st.sampled_from(["A", "ANY", "ANY", "High"]),
    st.sampled_from(CONDITIONS),
    st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True),
    st.integers(1, 40),
    st.integers(3, 30),
    st.sampled_from(["", "", "HAVING COUNT(*) > 2"]),
)


def written(folder: str, table: pa.Table, group_rows: int, files: int, indexed: int) -> None:
    """In so many files, of which some are indexed, by blocks of two rows."""
    size = -(-max(table.num_rows, 1) // files)
    for number in range(files):
        path = Path(folder) / f"{number}.parquet"
        pq.write_table(table.slice(number * size, size), path, row_group_size=group_rows)
    with mock.patch.object(light_index, "BLOCK_ROWS", 2):
        for number in range(min(files, indexed)):
            build_index.build_indexes(str(Path(folder) / f"{number}.parquet"))


def multiset(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@given(
    st.builds(table_of, st.integers(0, 999), st.integers(0, 60), st.booleans(), st.booleans()),
    st.lists(queries, min_size=1, max_size=2),
    st.sampled_from([1, 2, 3, 5]),
    st.integers(1, 2),
    st.integers(0, 2),
)
@settings(max_examples=60)
def test_any_aggregates(
    table: pa.Table, texts: list[str], group_rows: int, files: int, indexed: int
) -> None:
    named = [f"QUERY q{number} {text}" for number, text in enumerate(texts)]
    document = {"name": "w", "stream": STREAM, "queries": named}
    workload = load_bound(document)
    with tempfile.TemporaryDirectory() as folder:
        written(folder, table, group_rows, files, indexed)
        plan = sheaf.plan(document)
        given_rows = sheaf.run(plan, folder, access="index").aggregates
    wanted = run_oracle(workload, from_table(table, workload.stream)).aggregates
    assert multiset(given_rows) == multiset(wanted)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
    st.integers(1, 4),
)
@settings(max_examples=100)
@example([1e308, 1e308], 2)
@example([5e-324, 1e300, -1e300], 3)
def test_parts_add_up_to_the_exact_sum(values: list[float], size: int) -> None:
    row = np.append(np.arange(0, len(values), size), len(values))
    found = stretch_sums(np.array(values), np.zeros(len(values), bool), row)
    for place, start in enumerate(row[:-1]):
        if not found.known[place]:
            continue
        exact = sum(map(Fraction, values[start : row[place + 1]]))
        assert sum(map(Fraction, found.parts[:, place].tolist())) == exact


def test_sums_of_values_of_like_size_are_known() -> None:
    values = np.random.default_rng(1).normal(100.0, 10.0, 5000)
    row = np.append(np.arange(0, 5000, 1024), 5000)
    assert stretch_sums(values, np.zeros(5000, bool), row).known.all()


HOURLY = "QUERY hourly PATTERN ANY a AGG COUNT(*), SUM(a.x), MAX(a.y) WITHIN 1001 ms SLIDE 1001 ms"
ROUND = HOURLY.replace("hourly", "round").replace("1001 ms", "1 s")
FINE = "QUERY fine PATTERN ANY a AGG SUM(a.x) WITHIN 2 ms SLIDE 2 ms"
PAIRS = "QUERY pairs PATTERN SEQ(A a, B b) WHERE a.x = 6 AND b.y > 9 RETURN a.x WITHIN 3 ms"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """4,000 events of a second and a half each thousand, in row groups of 100."""
    table = table_of(3, 4000, False, False)
    pq.write_table(table, tmp_path / "0.parquet", row_group_size=100)
    with mock.patch.object(light_index, "BLOCK_ROWS", 20):
        build_index.build_indexes(str(tmp_path))
    return tmp_path


def choice(folder: Path, *texts: str, **more: Any) -> AccessChoice:
    workload = load_bound({"name": "w", "stream": STREAM, "queries": list(texts)})
    return choose_access(FileSource(str(folder), workload.stream, Faults()), workload, **more)


def test_only_row_groups_in_which_windows_end_are_read(stored: Path) -> None:
    access = choice(stored, HOURLY, wanted="index")
    # But for 0, which is a round time.
    ends = pq.read_table(stored / "0.parquet")["ts"].to_numpy()[-1] // 1001
    assert access.summed is not None
    assert access.row_groups == ends > 3
    report = sheaf.run(
        sheaf.plan({"name": "w", "stream": STREAM, "queries": [HOURLY]}), stored, access="index"
    ).report
    assert report["read"]["row_groups"] == ends
    assert report["read"]["events"] == 100 * ends
    assert report["events"] == 4000
    assert report["access"]["summed"]["queries"] == ["hourly"]


def test_nothing_is_read_for_slides_of_round_times(stored: Path) -> None:
    document = {"name": "w", "stream": STREAM, "queries": [ROUND]}
    found = sheaf.run(sheaf.plan(document), stored, access="index")
    assert found.report["read"]["row_groups"] == 0
    whole = sheaf.run(sheaf.plan(document), stored, access="scan")
    assert whole.report["read"]["row_groups"] == 40
    assert multiset(found.aggregates) == multiset(whole.aggregates)


def test_a_slide_that_cuts_every_block_is_scanned(stored: Path) -> None:
    assert choice(stored, FINE).summed is None
    assert choice(stored, FINE, wanted="index").method == "scan"


def test_what_others_read_anyway_is_not_summed_up_besides(stored: Path) -> None:
    anything = "QUERY any PATTERN SEQ(A a, B b) RETURN a.x WITHIN 900 ms"
    with mock.patch("engines.access.choice.INDEX_NANOSECONDS", 0.0):
        assert choice(stored, HOURLY).summed is not None
        assert choice(stored, HOURLY, anything).method == "scan"
        both = choice(stored, HOURLY, PAIRS)
    assert both.summed is not None
    assert [each.query for each in both.queries] == ["pairs"]


def test_queries_that_are_summed_up_and_others_run_together(stored: Path) -> None:
    document = {"name": "w", "stream": STREAM, "queries": [HOURLY, FINE, PAIRS]}
    whole = sheaf.run(sheaf.plan(document), stored, access="scan")
    found = sheaf.run(sheaf.plan(document), stored, access="index")
    assert found.report["access"]["summed"]["queries"] == ["hourly"]
    assert multiset(found.aggregates) == multiset(whole.aggregates)
    assert multiset(found.matches) == multiset(whole.matches)
    apart = sheaf.run(sheaf.plan(document, sharing=False), stored, access="index")
    assert multiset(apart.aggregates) == multiset(whole.aggregates)


def test_an_index_that_is_stale_is_not_summed_up(stored: Path) -> None:
    table = pq.read_table(stored / "0.parquet").slice(0, 3000)
    pq.write_table(table, stored / "0.parquet", row_group_size=100)
    access = choice(stored, HOURLY, wanted="index")
    assert access.summed is None
    assert "has changed" in access.warnings[0]
    document = {"name": "w", "stream": STREAM, "queries": [HOURLY]}
    found = sheaf.run(sheaf.plan(document), stored, access="index").aggregates
    counts = [row["count"] for row in found.to_pylist() if row["aggregate"] == "COUNT(*)"]
    assert sum(counts) == 3000


def test_infinite_and_very_large_values_are_read(tmp_path: Path) -> None:
    for name, values in (("inf", [1.0, math.inf] * 8), ("large", [2**60] * 16)):
        table = pa.table({"ts": range(16), "kind": ["A"] * 16, "x": values, "y": [1.0] * 16})
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "0.parquet", row_group_size=4)
        build_index.build_indexes(str(tmp_path / name))
        assert choice(tmp_path / name, HOURLY, wanted="index").summed is None


def test_counts_of_events_need_no_index(tmp_path: Path) -> None:
    table = table_of(5, 400, False, False)
    pq.write_table(table, tmp_path / "0.parquet", row_group_size=10)
    query = "QUERY n PATTERN ANY a AGG COUNT(*) WITHIN 200 ms SLIDE 100 ms"
    assert choice(tmp_path, query, wanted="index").summed is not None
    document = {"name": "w", "stream": STREAM, "queries": [query]}
    whole = sheaf.run(sheaf.plan(document), tmp_path, access="scan")
    found = sheaf.run(sheaf.plan(document), tmp_path, access="index")
    assert multiset(found.aggregates) == multiset(whole.aggregates)
    assert found.report["read"]["row_groups"] < 40


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A a AGG COUNT(*) WITHIN 1 s",
        "PATTERN A a PARTITION BY k AGG COUNT(*) WITHIN 1 s SLIDE 1 s",
        "PATTERN A a AGG SUM(a.x * a.x) WITHIN 1 s SLIDE 1 s",
        "PATTERN A a AGG VAR(a.x) WITHIN 1 s SLIDE 1 s",
        "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 1 s SLIDE 1 s",
    ],
)
def test_what_blocks_do_not_have_is_read(stored: Path, text: str) -> None:
    access = choice(stored, f"QUERY q {text}", wanted="index")
    assert access.summed is None
