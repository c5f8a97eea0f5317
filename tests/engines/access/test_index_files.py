"""Indexes of stored events: what they hold, and that none is trusted that holds no more."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from api.cli.main import app
from engines.access.build_index import build_indexes
from engines.access.choice import AccessChoice, choose_access
from engines.access.index_files import (
    FOLDER,
    checked_manifest,
    clear_unused,
    folder_of,
    manifest_path,
)
from engines.access.light_index import BLOCK_ROWS, LightIndex
from engines.access.reading_cost import AccessCosts
from engines.input.batches import FileSource
from engines.input.event_table import Faults
from optimizer.bind.binder import load_bound
from optimizer.plan.plan import Solver

ROWS, GROUP = 8192, 2048
STREAM = {"time": "ts", "type": "kind", "unit": "ms"}
WORKLOAD = load_bound(
    {
        "name": "w",
        "stream": STREAM,
        "queries": [
            "QUERY q PATTERN SEQ(A a, B b) WHERE a.x = 7 AND b.x = 8 RETURN a.ts WITHIN 50 ms"
        ],
    }
)


def events(seed: int = 1) -> pa.Table:
    """Values from 0 to 999 everywhere, and 7 and 8 close to each other in one row group only."""
    draw = np.random.default_rng(seed)
    x = draw.integers(10, 1000, ROWS)
    x[::GROUP] = 0
    x[[5000, 5010]] = [7, 8]
    kind = np.where(np.arange(ROWS) % 2 == 0, "A", "B")
    kind[[5000, 5010]] = ["A", "B"]
    return pa.table({"ts": np.arange(ROWS), "kind": kind, "x": x, "note": ["n"] * ROWS})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.parquet"
    pq.write_table(events(), path, row_group_size=GROUP)
    return path


def choice(path: Path) -> AccessChoice:
    source = FileSource(str(path), WORKLOAD.stream, Faults())
    return choose_access(source, WORKLOAD, "index")


def side(file: Path, kind: str) -> Path:
    (found,) = folder_of(file).glob(f"*.{kind}-*.parquet")
    return found


def test_a_light_index_has_the_bounds_of_small_blocks(file: Path) -> None:
    (built,) = build_indexes(str(file))
    light = LightIndex(str(file), built.manifest)
    table = events().to_pydict()
    found = light.bounds("x")
    assert found is not None
    ends = [*light.first.tolist()[1:], ROWS]
    blocks = [table["x"][a:b] for a, b in zip(light.first.tolist(), ends, strict=True)]
    assert found.least.tolist() == [min(block) for block in blocks]
    assert found.greatest.tolist() == [max(block) for block in blocks]
    assert light.sets("kind") is not None
    # After so many rows of a row group, and at round times.
    assert set(light.first.tolist()) >= set(range(0, ROWS, BLOCK_ROWS))
    assert max(map(len, blocks)) <= BLOCK_ROWS
    assert len(blocks) <= 2 * ROWS // BLOCK_ROWS
    light.close()


def test_footers_alone_keep_all_and_a_secondary_index_one_row_group(file: Path) -> None:
    assert choice(file).method == "scan"
    build_indexes(str(file), ["x"])
    found = choice(file)
    assert found.groups == {str(file): [2]}
    assert found.by == ("footers", "light index", "secondary index")
    assert [probe["entries"] for probe in found.probes] == [1, 1]


def test_a_file_that_changed_is_read_without_its_index(file: Path) -> None:
    build_indexes(str(file), ["x"])
    table = events(seed=2)
    pq.write_table(table, file, row_group_size=GROUP)
    found = choice(file)
    assert found.method == "scan"
    assert [str(file) in sentence for sentence in found.warnings] == [True]
    assert "changed" in found.warnings[0]
    (again,) = build_indexes(str(file))
    assert again.is_new
    assert list(again.manifest.on) == ["x"]  # as before
    assert choice(file).warnings == ()


def test_a_file_that_was_only_touched_is_not_trusted_either(file: Path) -> None:
    build_indexes(str(file), ["x"])
    os.utime(file, ns=(1, 1))
    assert "changed" in choice(file).warnings[0]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    """One byte of the first column's values."""
    column = pq.read_metadata(path).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[begin + column.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(bytes(data))


def remove(path: Path) -> None:
    path.unlink()


def flip_the_footer(path: Path) -> None:
    """A byte of what the footer says of columns, which Parquet has no checksum of."""
    data = bytearray(path.read_bytes())
    data[-8 - int.from_bytes(data[-8:-4], "little") // 2] ^= 0x01
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("spoil", [cut, flip, flip_the_footer, remove])
@pytest.mark.parametrize("kind", ["light", "run"])
def test_a_spoilt_side_file_gives_a_warning_that_names_it(
    file: Path, kind: str, spoil: Any
) -> None:
    build_indexes(str(file), ["x"])
    spoilt = side(file, kind)
    spoil(spoilt)
    found = choice(file)
    assert found.method == "scan"
    assert any(spoilt.name in sentence for sentence in found.warnings)


@pytest.mark.parametrize("spoil", [cut, flip_the_footer, remove])
@pytest.mark.parametrize("kind", ["light", "run"])
def test_a_spoilt_side_file_is_made_anew(file: Path, kind: str, spoil: Any) -> None:
    build_indexes(str(file), ["x"])
    spoil(side(file, kind))
    (built,) = build_indexes(str(file), ["x"])
    assert built.is_new
    assert choice(file).groups == {str(file): [2]}


@pytest.mark.parametrize("name", ["x", "rows"])
def test_a_manifest_that_was_changed_is_not_trusted(file: Path, name: str) -> None:
    build_indexes(str(file), ["x"])
    path = manifest_path(file)
    path.write_text(path.read_text().replace(f'"{name}"', f'"{name}x"', 1))
    found = choice(file)
    assert found.method == "scan"
    assert str(path) in found.warnings[0]


def test_a_side_file_of_other_events_is_not_used(tmp_path: Path, file: Path) -> None:
    build_indexes(str(file), ["x"])
    other = tmp_path / "other" / "events.parquet"
    other.parent.mkdir()
    pq.write_table(events(seed=3), other, row_group_size=GROUP)
    build_indexes(str(other), ["x"])
    foreign = side(other, "run").read_bytes()
    side(file, "run").write_bytes(foreign)
    found = choice(file)
    assert found.method == "scan"
    assert "as it was written" in found.warnings[0]
    manifest_path(file).write_bytes(manifest_path(other).read_bytes())
    assert "has changed since it was indexed" in choice(file).warnings[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [("{", "cannot be read"), ('{"version": 99}', "another version"), ("[1]", "no index")],
)
def test_a_manifest_that_is_none_is_not_used(file: Path, text: str, why: str) -> None:
    build_indexes(str(file), ["x"])
    manifest_path(file).write_text(text)
    found = choice(file)
    assert found.method == "scan"
    assert why in found.warnings[0]


def test_a_new_file_is_read_by_its_footer_until_it_is_indexed(file: Path) -> None:
    build_indexes(str(file.parent), ["x"])
    new = file.with_name("later.parquet")
    table = events(seed=4)
    table = table.set_column(0, "ts", pa.array(np.arange(ROWS) + ROWS))
    pq.write_table(table, new, row_group_size=GROUP)
    found = choice(file.parent)
    assert found.groups == {str(file): [2], str(new): [0, 1, 2, 3]}
    built = build_indexes(str(file.parent), ["x"])
    assert [each.is_new for each in built] == [False, True]
    found = choice(file.parent)
    assert found.groups == {str(file): [2], str(new): [2]}


BUILD = """
import sys
from engines.access import index_files
from engines.access.build_index import build_indexes
if len(sys.argv) > 2:
    write = index_files._synced
    def slowly(path):
        write(path)
        print("written", flush=True)
        import time
        time.sleep(60)
    index_files._synced = slowly
build_indexes(sys.argv[1], ["x", "kind"])
"""


def test_a_build_that_is_killed_leaves_the_index_as_it_was(file: Path) -> None:
    build_indexes(str(file), ["x"])
    before = choice(file)
    command = [sys.executable, "-c", BUILD, str(file), "slowly"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = len(list(folder_of(file).iterdir()))
    assert choice(file).document() == before.document()
    (built,) = build_indexes(str(file), ["x", "kind"])
    assert sorted(built.manifest.on) == ["kind", "x"]
    assert choice(file).groups == before.groups
    clear_unused(file, seconds=0.0)
    kept = {each.name for each in folder_of(file).iterdir()}
    used = {name for each in built.manifest.side_files for name in each.names}
    assert kept == used | {manifest_path(file).name, "lock"}
    assert left > len(used) - 1


def test_two_builds_at_once_do_no_harm(file: Path) -> None:
    commands = [[sys.executable, "-c", BUILD, str(file)] for _ in range(2)]
    running = [subprocess.Popen(command) for command in commands]
    deadline = time.monotonic() + 60
    while any(process.poll() is None for process in running):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        if manifest_path(file).exists():
            assert choice(file).groups == {str(file): [2]}
    assert [process.returncode for process in running] == [0, 0]
    assert checked_manifest(file) is not None
    assert choice(file).groups == {str(file): [2]}


def sheaf(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_command_builds_tells_and_removes(file: Path) -> None:
    made = sheaf("index", str(file), "--on", "x", "--json")
    assert made.exit_code == 0, made.stderr
    (told,) = json.loads(made.stdout)["files"]
    assert (told["rows"], told["on"], told["new"]) == (ROWS, ["x"], True)
    again = sheaf("index", str(file), "--light")
    assert "as it was" in again.stdout
    assert sheaf("index", str(file), "--remove").exit_code == 0
    assert not (file.parent / FOLDER).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--on", "xx"), "did you mean 'x'"),
        (("--on", ","), "names no attribute"),
        (("--remove", "--light"), "leave out"),
    ],
)
def test_the_command_refuses_with_a_remedy(
    file: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = sheaf("index", str(file), *arguments)
    assert refused.exit_code == 1
    assert said in refused.stderr


def test_text_files_cannot_be_indexed(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("ts,kind\n1,A\n")
    refused = sheaf("index", str(path))
    assert refused.exit_code == 1
    assert "only Parquet" in refused.stderr


def written(folder: Path, *queries: str) -> str:
    path = folder / "w.json"
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    named = [f"QUERY q{i} {query} WITHIN 50 ms" for i, query in enumerate(queries)]
    path.write_text(json.dumps({"name": "w", "stream": stream, "queries": named}))
    return str(path)


RARE = "PATTERN SEQ(A a, B b) WHERE a.x < 9 AND b.note = 'n' RETURN a.ts"


def test_advice_names_the_attribute_that_leaves_the_least_to_read(file: Path) -> None:
    workload = written(file.parent, RARE)
    made = sheaf("index", str(file), "--workload", workload, "--advise", "--json")
    assert made.exit_code == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["on"] == ["x"]
    assert told["part"] < 1
    assert told["attributes"]["x"] < told["attributes"]["kind"]
    assert not (file.parent / FOLDER).exists()


@pytest.mark.parametrize("budget", ["10B", "0.00001 MB"])
def test_advice_keeps_to_the_budget(file: Path, budget: str) -> None:
    options = ("--advise", "--budget", budget)
    made = sheaf("index", str(file), "--workload", written(file.parent, RARE), *options)
    assert "no index of an attribute would help" in made.stdout


def test_an_index_that_saves_next_to_nothing_is_not_advised(file: Path) -> None:
    frequent = "PATTERN SEQ(A a, B b) WHERE a.x > 1 RETURN a.ts"
    workload = written(file.parent, frequent)
    made = sheaf("index", str(file), "--workload", workload, "--advise")
    assert "no index of an attribute would help" in made.stdout


def test_a_query_that_reads_everything_leaves_nothing_to_advise(file: Path) -> None:
    workload = written(file.parent, RARE, "PATTERN SEQ(A a, B b) RETURN a.ts AS at INTO Made")
    made = sheaf("index", str(file), "--workload", workload, "--advise")
    assert made.exit_code == 0, made.stderr
    assert "q1 reads all events" in made.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--advise",), "give --workload"),
        (("--budget", "1GB"), "for --advise"),
        (("--advise", "--workload", "shop", "--budget", "much"), "500MB or 1GB"),
    ],
)
def test_advice_is_refused_with_a_remedy(file: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = sheaf("index", str(file), *arguments)
    assert refused.exit_code == 1
    assert said in refused.stderr


@pytest.mark.parametrize("solver", ["greedy", "cpsat", "exhaustive"])
def test_probes_are_chosen_for_the_workload(file: Path, solver: Solver) -> None:
    build_indexes(str(file), ["x"])
    source = FileSource(str(file), WORKLOAD.stream, Faults())
    cheap = AccessCosts(decode=50.0, run=50.0, entry=1.0, found=1.0)
    with (
        mock.patch("engines.access.choice.INDEX_NANOSECONDS", 0.0),
        mock.patch.object(AccessCosts, "of", return_value=cheap),
    ):
        alone = choose_access(source, WORKLOAD, solver=solver)
        assert alone.groups == {str(file): [2]}
        assert alone.bound <= alone.expected
        every = "QUERY every PATTERN SEQ(A a, B b) RETURN a.ts WITHIN 50 ms"
        scanning = load_bound({"name": "w", "stream": STREAM, "queries": [every]})
        both = replace(WORKLOAD, queries=(*WORKLOAD.queries, *scanning.queries))
        beside = choose_access(source, both, solver=solver)
    # The other query reads every row group anyway, so that nothing is looked up.
    assert beside.method == "scan"
    assert beside.expected == beside.bound


def test_probes_are_made_beside_a_query_that_is_summed_up(file: Path) -> None:
    """Though it would read all events if it were not."""
    build_indexes(str(file), ["x"])
    every = "QUERY every PATTERN ANY a AGG COUNT(*), SUM(a.x) WITHIN 1 hour SLIDE 1 hour"
    summing = load_bound({"name": "w", "stream": STREAM, "queries": [every]})
    both = replace(WORKLOAD, queries=(*WORKLOAD.queries, *summing.queries))
    cheap = AccessCosts(decode=50.0, run=50.0, entry=1.0, found=1.0)
    with (
        mock.patch("engines.access.choice.INDEX_NANOSECONDS", 0.0),
        mock.patch("engines.access.probe_choice.TRIED_PART", 0.0),
        mock.patch.object(AccessCosts, "of", return_value=cheap),
    ):
        access = choose_access(FileSource(str(file), WORKLOAD.stream, Faults()), both)
    assert access.summed is not None
    assert access.probes
    assert access.groups == {str(file): [2]}


@pytest.mark.parametrize(
    ("wanted", "probed"), [("index:A", {"A"}), ("index:b", {"B"}), ("index:a, B", {"A", "B"})]
)
def test_components_that_are_named_are_looked_up(
    file: Path, tmp_path: Path, wanted: str, probed: set[str]
) -> None:
    build_indexes(str(file), ["x"])
    asked = "WHERE a.x = 7 AND b.x = 8 RETURN a.ts, b.ts WITHIN 50 ms"
    workload = tmp_path / "w.json"
    query = f"QUERY q PATTERN SEQ(A a, B b) {asked}"
    workload.write_text(json.dumps({"name": "w", "stream": STREAM, "queries": [query]}))
    given = ("run", str(workload), "--events", str(file), "--json", "--access")
    found = json.loads(sheaf(*given, wanted).stdout)
    assert {probe["symbol"][0] for probe in found["access"]["probes"]} == probed
    assert found["rows"] == json.loads(sheaf(*given, "scan").stdout)["rows"]
    refused = sheaf(*given, "index:c")
    assert refused.exit_code == 1
    assert "no component is called 'c'" in refused.stderr
    assert "it can be auto, scan, index" in sheaf(*given, "indexes").stderr


def test_what_no_index_has_is_not_looked_up(file: Path) -> None:
    build_indexes(str(file))
    (said,) = choose_access(
        FileSource(str(file), WORKLOAD.stream, Faults()), WORKLOAD, "index:A"
    ).warnings
    assert "no index can be asked for events of 'A'" in said
