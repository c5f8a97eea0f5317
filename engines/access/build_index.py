"""Building indexes of stored events: file by file, so that new files add to what there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.access.index_files import (
    DataFileState,
    Manifest,
    SideFile,
    StaleIndexError,
    read_manifest,
    whole_manifest,
    write_manifest,
    write_side,
)
from engines.access.light_index import LIGHT_FORM, kind_of, light_table
from engines.access.merge_runs import merge_runs
from engines.access.sorted_runs import INDEXED, run_form, run_table
from engines.input.event_table import format_of, list_files
from engines.limits import EventsError
from workloads.errors import did_you_mean


@dataclass(frozen=True)
class IndexedFile:
    """What came of one file: its index, and whether it was there already."""

    path: str
    manifest: Manifest
    is_new: bool


def indexed_document(indexed: IndexedFile) -> dict[str, Any]:
    """What came of one file, as plain values."""
    manifest = indexed.manifest
    return {
        "file": indexed.path,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "of_bytes": manifest.size,
        "on": sorted(manifest.on),
        "seconds": manifest.seconds,
        "new": indexed.is_new,
    }


def build_indexes(
    path: str,
    on: Sequence[str] = (),
    progress: Callable[[float], None] = lambda part: None,
) -> list[IndexedFile]:
    """Index the files under a path: the light index, and one for each attribute of `on`.

    What is indexed already and has not changed stays as it is; attributes that were indexed before
    stay indexed.
    """
    files = list_files(path)
    for file in files:
        if format_of(file) != "parquet":
            raise EventsError(
                f"'{file}' is not Parquet, and only Parquet files can be indexed: they are read in "
                "parts; convert it, or give only the Parquet files"
            )
        _check_attributes(file, on)
    found = []
    for number, file in enumerate(files):

        def told(part: float, number: int = number) -> None:
            progress((number + part) / len(files))

        found.append(_build(file, on, told))
    if any(each.is_new for each in found):
        merge_runs(files)
    return found


def _check_attributes(file: str, on: Collection[str]) -> None:
    schema = _schema(file)
    for name in on:
        if name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"it has {', '.join(schema.names)}"
            raise EventsError(f"'{file}' has no column '{name}' to index; {hint}")
        if kind_of(schema.field(name).type) not in INDEXED:
            raise EventsError(
                f"'{file}': the column '{name}' has type {schema.field(name).type}; columns of "
                "integers, doubles, texts and truth values can be indexed"
            )


def _schema(file: str) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        why = str(error).splitlines()[0]
        raise EventsError(f"'{file}' cannot be read as Parquet: {why}") from error


def _build(file: str, on: Sequence[str], progress: Callable[[float], None]) -> IndexedFile:
    began = time.perf_counter()
    try:
        before = whole_manifest(file)
    except StaleIndexError:
        before = None
    known = {} if before is None else dict(before.on)
    on = [*on, *(name for name in _indexed_before(file) if name not in on)]
    missing = [name for name in on if name not in known]
    if before is not None and not missing:
        progress(1.0)
        return IndexedFile(file, before, False)
    state = DataFileState.of(file)
    steps = len(missing) + 1
    with pq.ParquetFile(file) as opened:
        table = light_table(opened, lambda part: progress(part / steps))
        light = write_side(file, "light", table, state, LIGHT_FORM)
        ordered = _ordered(table, opened.schema_arrow)
        added: dict[str, SideFile] = {}
        for number, name in enumerate(missing, 2):
            run = run_table(opened, name, ordered)
            added[name] = write_side(file, "run", run, state, run_form(run))
            progress(number / steps)
        rows = opened.metadata.num_rows
    if DataFileState.of(file) != state:
        raise EventsError(f"'{file}' changed while it was indexed; index it when it is complete")
    manifest = Manifest(
        file,
        state.size,
        state.modified,
        rows,
        state.footer,
        light,
        {**known, **added},
        round(time.perf_counter() - began, 3),
    )
    return IndexedFile(file, write_manifest(file, manifest), True)


def _indexed_before(file: str) -> list[str]:
    """The attributes that a file's index has, whether or not it still holds."""
    try:
        found = read_manifest(file)
    except StaleIndexError:
        return []
    schema = _schema(file)
    on = [] if found is None else [name for name in found.on if schema.names.count(name) == 1]
    return [name for name in on if kind_of(schema.field(name).type) in INDEXED]


def _ordered(light: pa.Table, schema: pa.Schema) -> list[str]:
    """The columns of integers and times that rise from block to block, as times do."""
    import json

    about = json.loads((light.schema.metadata or {})[b"sheaf.columns"])
    found = []
    for name, each in about.items():
        if each["kind"] not in ("int", "time") or schema.names.count(name) > 1:
            continue
        number = each["number"]
        low, high = light.column(f"min_{number}"), light.column(f"max_{number}")
        nulls = pc.sum(light.column(f"nulls_{number}")).as_py() or 0
        if (
            nulls == 0
            and len(low)
            and pc.all(pc.less_equal(high.slice(0, len(high) - 1), low.slice(1))).as_py()
            is not False
        ):
            found.append(name)
    return found
