"""Runs of many files are merged: probes find the same, and whatever stops a merge does no harm."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.access.build_index import build_indexes
from engines.access.choice import AccessChoice, choose_access
from engines.access.index_files import (
    SHARED,
    clear_shared,
    folder_of,
    read_manifest,
    remove_index,
)
from engines.access.merge_runs import MOST_RUNS, merge_runs
from engines.input.batches import FileSource
from engines.input.event_table import Faults
from optimizer.bind.binder import load_bound

ROWS, GROUP, FILES = 400, 100, MOST_RUNS + 3
STREAM = {"time": "ts", "type": "kind", "unit": "ms"}
QUERY = "QUERY q PATTERN SEQ(A a, B b) WHERE a.x = 70003 AND b.x = 80003 RETURN a.ts WITHIN 50 ms"
WORKLOAD = load_bound({"name": "w", "stream": STREAM, "queries": [QUERY]})


def write(folder: Path, number: int) -> Path:
    """A file of events; in the third row group of one of them is a match."""
    draw = np.random.default_rng(number)
    x = draw.integers(0, 10**5, ROWS) // 10 * 10
    kinds = np.array(["A", "B"])[draw.integers(0, 2, ROWS)]
    x[250], kinds[250], x[251], kinds[251] = 70000 + number, "A", 80000 + number, "B"
    path = folder / f"{number:02}.parquet"
    table = pa.table({"ts": np.arange(ROWS) + number * ROWS, "kind": pa.array(kinds), "x": x})
    pq.write_table(table, path, row_group_size=GROUP)
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [write(tmp_path, number) for number in range(FILES)]


def choice(folder: Path) -> AccessChoice:
    source = FileSource(str(folder), WORKLOAD.stream, Faults())
    return choose_access(source, WORKLOAD, "index")


def side_names(files: list[Path]) -> list[str]:
    found = []
    for file in files:
        manifest = read_manifest(file)
        assert manifest is not None
        found.append(manifest.on["x"].name)
    return found


def wanted(files: list[Path]) -> dict[str, list[int]]:
    return {str(file): [2] if number == 3 else [] for number, file in enumerate(files)}


def test_runs_of_many_files_become_one_and_find_the_same(files: list[Path]) -> None:
    folder = files[0].parent
    with mock.patch("engines.access.merge_runs.MOST_RUNS", FILES):
        build_indexes(str(folder), ["x"])
    before = choice(folder)
    assert len(set(side_names(files))) == FILES
    merge_runs(map(str, files))
    (name,) = set(side_names(files))
    assert name.startswith(SHARED)
    assert choice(folder).groups == before.groups == wanted(files)
    assert choice(folder).warnings == ()


def test_a_new_file_adds_a_run_and_the_merged_one_stays_until_there_are_too_many(
    files: list[Path],
) -> None:
    folder = files[0].parent
    build_indexes(str(folder), ["x"])
    (merged,) = set(side_names(files))
    more = [write(folder, FILES + number) for number in range(MOST_RUNS)]
    for file in more[:-1]:
        build_indexes(str(file), ["x"])
    assert len(set(side_names(files + more[:-1]))) == MOST_RUNS
    assert set(side_names(files)) == {merged}
    build_indexes(str(folder), ["x"])
    assert len(set(side_names(files + more))) < MOST_RUNS
    assert choice(folder).groups == wanted(files + more)


def test_what_changed_since_is_read_without_its_part(files: list[Path]) -> None:
    folder = files[0].parent
    build_indexes(str(folder), ["x"])
    write(folder, 40).replace(files[5])
    found = choice(folder)
    assert [str(files[5]) in warning for warning in found.warnings] == [True]
    assert found.groups is not None
    assert {name: groups for name, groups in found.groups.items() if name != str(files[5])} == {
        name: groups for name, groups in wanted(files).items() if name != str(files[5])
    }
    build_indexes(str(folder), ["x"])
    assert choice(folder).warnings == ()


def test_a_merged_run_that_is_spoilt_gives_a_warning_that_names_it(files: list[Path]) -> None:
    folder = files[0].parent
    build_indexes(str(folder), ["x"])
    (merged,) = folder_of(files[0]).glob(f"{SHARED}-*.parquet")
    data = bytearray(merged.read_bytes())
    column = pq.read_metadata(merged).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin + column.total_compressed_size - 1] ^= 0xFF
    merged.write_bytes(bytes(data))
    assert any(merged.name in warning for warning in choice(folder).warnings)


def test_a_merged_run_of_other_events_is_not_used(files: list[Path], tmp_path: Path) -> None:
    folder = files[0].parent
    build_indexes(str(folder), ["x"])
    (merged,) = folder_of(files[0]).glob(f"{SHARED}-*.parquet")
    table = pq.read_table(merged)
    stamp = table.schema.metadata[b"sheaf.index"].split()
    stamp[4] = b"0" * len(stamp[4])
    metadata = {**table.schema.metadata, b"sheaf.index": b" ".join(stamp)}
    pq.write_table(table.replace_schema_metadata(metadata), merged)
    assert any("as it was written" in warning for warning in choice(folder).warnings)


MERGE = """
import sys
from engines.access import index_files
from engines.access.merge_runs import merge_runs
write = index_files._synced
left = int(sys.argv[1])
def slowly(path):
    global left
    write(path)
    left -= 1
    if left == 0:
        print("written", flush=True)
        import time
        time.sleep(60)
index_files._synced = slowly
merge_runs(sys.argv[2:])
"""


@pytest.mark.parametrize("written", [1, 2, 3, 6])
def test_a_merge_that_is_killed_leaves_an_index_that_can_be_used(
    files: list[Path], written: int
) -> None:
    folder = files[0].parent
    with mock.patch("engines.access.merge_runs.MOST_RUNS", FILES):
        build_indexes(str(folder), ["x"])
    command = [sys.executable, "-c", MERGE, str(written), *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (choice(folder).groups, choice(folder).warnings) == (wanted(files), ())
    merge_runs(map(str, files))
    assert (choice(folder).groups, choice(folder).warnings) == (wanted(files), ())
    assert len(set(side_names(files))) <= MOST_RUNS
    clear_shared(folder_of(files[0]), seconds=0.0)
    left = {path.name for path in folder_of(files[0]).glob(f"{SHARED}-*.parquet")}
    assert left == {name for name in side_names(files) if name.startswith(SHARED)}
    assert (choice(folder).groups, choice(folder).warnings) == (wanted(files), ())


BUILD = """
import sys
from engines.access.build_index import build_indexes
build_indexes(sys.argv[1], sys.argv[2].split(","))
"""


def test_two_builds_that_merge_at_once_do_no_harm(files: list[Path]) -> None:
    folder = files[0].parent
    commands = [[sys.executable, "-c", BUILD, str(folder), on] for on in ("x", "x,kind")]
    running = [subprocess.Popen(command) for command in commands]
    deadline = time.monotonic() + 60
    while any(process.poll() is None for process in running):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        assert choice(folder).warnings == ()
    assert [process.returncode for process in running] == [0, 0]
    assert (choice(folder).groups, choice(folder).warnings) == (wanted(files), ())
    for file in files:
        manifest = read_manifest(file)
        assert manifest is not None
        assert sorted(manifest.on) == ["kind", "x"]


def test_nothing_is_left_when_the_last_index_is_removed(files: list[Path]) -> None:
    build_indexes(str(files[0].parent), ["x"])
    for file in files[:-1]:
        assert remove_index(file)
    assert choice(files[0].parent).warnings == ()
    assert remove_index(files[-1])
    assert not folder_of(files[0]).exists()
