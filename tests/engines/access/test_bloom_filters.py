"""Filters of values: what a row group has is never denied, and what it has not mostly is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.access.bloom_filters import RowGroupFilters, checksums_of, encoded, hashed

GROUP = 500


# From the specification of xxHash.
@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
    ],
)
def test_hashes_are_those_of_the_specification(data: bytes, number: int) -> None:
    assert hashed(data) == number


def filters(folder: Path, values: list[Any], kind: pa.DataType) -> RowGroupFilters:
    path = folder / "values.parquet"
    options = {"value": {"ndv": GROUP, "fpp": 0.05}}
    table = pa.table({"value": pa.array(values, kind)})
    pq.write_table(table, path, row_group_size=GROUP, bloom_filter_options=options)
    return RowGroupFilters(path, pq.read_metadata(path), checksums_of(path))


values = st.one_of(
    st.lists(st.integers(-(2**62), 2**62)).map(lambda found: ("int", pa.int64(), found)),
    st.lists(st.floats(allow_nan=False)).map(
        lambda found: ("float", pa.float64(), [value + 0.0 for value in found])
    ),
    st.lists(st.text(max_size=80)).map(lambda found: ("string", pa.string(), found)),
)


@given(values)
@settings(max_examples=100, deadline=None)
def test_what_a_row_group_has_is_never_denied(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, pa.DataType, list[Any]]
) -> None:
    kind, stored, found = case
    known = filters(tmp_path_factory.mktemp("filters"), found, stored)
    for place, value in enumerate(found):
        data = encoded(value, kind)
        assert data is not None
        assert known.may_have(place // GROUP, data)


def test_most_of_what_it_has_not_is_denied(tmp_path: Path) -> None:
    known = filters(tmp_path, [f"user {i}" for i in range(2 * GROUP)], pa.string())
    others = [encoded(f"user {i}", "string") for i in range(GROUP, 2 * GROUP)]
    maybe = sum(known.may_have(0, data) for data in others if data is not None)
    assert maybe < 0.1 * GROUP


@pytest.mark.parametrize(
    ("value", "kind", "like"),
    [(5.0, "int", 5), (-0.0, "float", 0.0), (3, "float", 3.0)],
)
def test_equal_values_are_stored_alike(value: Any, kind: str, like: Any) -> None:
    assert encoded(value, kind) == encoded(like, kind)


@pytest.mark.parametrize(("value", "kind"), [(5.5, "int"), ("5", "int"), (5, "string")])
def test_a_column_cannot_have_what_is_of_another_kind(value: Any, kind: str) -> None:
    assert encoded(value, kind) is None


def test_a_filter_that_is_not_the_one_that_was_written_denies_nothing(tmp_path: Path) -> None:
    known = filters(tmp_path, list(range(GROUP)), pa.int64())
    absent = [encoded(value, "int") for value in range(10**6, 10**6 + 50)]
    path = tmp_path / "values.parquet"
    assert not all(known.may_have(0, data) for data in absent if data is not None)
    checksums = checksums_of(path)
    offset = pq.read_metadata(path).row_group(0).column(0).bloom_filter_offset
    data = bytearray(path.read_bytes())
    data[offset + 40] ^= 0xFF
    path.write_bytes(bytes(data))
    spoilt = RowGroupFilters(path, pq.read_metadata(path), checksums)
    assert all(spoilt.may_have(0, data) for data in absent if data is not None)
