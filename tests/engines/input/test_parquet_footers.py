"""Footers are parsed once, and anew where a file has changed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input import parquet_footers
from engines.input.parquet_footers import ParquetFooter, ParsedFooter


def _settled(path: Path, *columns: list[int]) -> str:
    """A file of row groups of two, written a while ago."""
    table = pa.table({f"c{i}": pa.array(values, pa.int64()) for i, values in enumerate(columns)})
    pq.write_table(table, path, row_group_size=2)
    before = path.stat().st_mtime_ns - 10**10
    os.utime(path, ns=(before, before))
    return str(path)


def test_a_footer_is_parsed_once_for_all_who_ask(tmp_path: Path) -> None:
    name = _settled(tmp_path / "a.parquet", [1, 2, 3])
    assert ParquetFooter(name).parsed is ParquetFooter(name).parsed


def test_a_footer_is_parsed_anew_where_the_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    footer = ParquetFooter(_settled(path, [1, 2, 3]))
    assert footer.parsed.column(0).greatest == [2, 3]
    _settled(path, [1, 2, 3, 9])
    assert footer.parsed.column(0).greatest == [2, 9]


def test_a_file_that_has_just_changed_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    assert ParquetFooter(str(path)).parsed is not ParquetFooter(str(path)).parsed


def test_footers_that_were_asked_for_long_ago_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_footers, "MOST_CHUNKS", 5)
    names = [_settled(tmp_path / f"{i}.parquet", [1, 2, 3], [4, 5, 6]) for i in range(3)]
    first = ParquetFooter(names[0]).parsed
    ParquetFooter(names[1]).parsed  # noqa: B018
    assert ParquetFooter(names[0]).parsed is not first


def test_sizes_and_statistics_are_those_of_the_file(tmp_path: Path) -> None:
    name = _settled(tmp_path / "a.parquet", [1, 2, 3], [7, 8, 5])
    found, metadata = ParsedFooter(name), pq.read_metadata(name)
    sizes = [
        sum(metadata.row_group(g).column(c).total_compressed_size for c in (0, 1)) for g in (0, 1)
    ]
    np.testing.assert_array_equal(found.sizes(["c0", "c1"]), sizes)
    np.testing.assert_array_equal(found.sizes([]), [0, 0])
    assert (found.column(1).least, found.column(1).greatest) == ([7, 5], [8, 5])
    assert found.rows == [2, 1]
