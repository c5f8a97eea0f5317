"""Blocks end at round times, so that windows which open and close there cut none of them.

Slides are mostly a second, a minute, an hour: where blocks of a light index end with them as well,
aggregates of such windows are sums of whole blocks, and no event is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.access.blocks import Int64s
from workloads.workload import NANOSECONDS

# Each divides the next, so that what ends with one of them ends with all that are longer.
_MILLISECONDS = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)


def round_steps(
    metadata: pq.FileMetaData, schema: pa.Schema, events: int
) -> Mapping[str, Sequence[int]]:
    """By column of times that rise through a file, the round steps of which it has so many events.

    Steps are in the numbers that the column is stored as. A file without timestamps may have its
    times as integers: these are taken for seconds, and for milliseconds, and so on.
    """
    rising = {
        field.name: found
        for field in schema
        if (found := _range(metadata, schema, field)) is not None
    }
    stamps = {n: r for n, r in rising.items() if pa.types.is_timestamp(schema.field(n).type)}
    steps = {}
    for name, (low, high) in (stamps or rising).items():
        kind = schema.field(name).type
        units = [NANOSECONDS[kind.unit]] if name in stamps else list(NANOSECONDS.values())
        wanted = max(1, (high - low) * events // max(metadata.num_rows, 1))
        some = {step for unit in units if (step := _step(unit, wanted)) and step <= high - low}
        steps[name] = [s for s in sorted(some) if not any(s % t == 0 for t in some - {s})]
    return {name: own for name, own in steps.items() if own}


def _step(unit: int, least: int) -> int | None:
    """The shortest round time of at least so many units."""
    for milliseconds in _MILLISECONDS:
        step, rest = divmod(milliseconds * 10**6, unit)
        if not rest and step >= least:
            return step
    return None


def _range(metadata: pq.FileMetaData, schema: pa.Schema, field: pa.Field) -> tuple[int, int] | None:
    """The least and the greatest number of a column that rises from row group to row group."""
    names = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    is_time = pa.types.is_timestamp(field.type) or pa.types.is_int64(field.type)
    if not is_time or names.count(field.name) != 1 or schema.names.count(field.name) != 1:
        return None
    place, last, first = names.index(field.name), None, None
    for group in range(metadata.num_row_groups):
        if not metadata.row_group(group).num_rows:
            continue
        found = metadata.row_group(group).column(place).statistics
        if found is None or not found.has_min_max or not isinstance(found.min_raw, int):
            return None
        if found.null_count != 0 or (last is not None and found.min_raw < last):
            return None
        first, last = found.min_raw if first is None else first, found.max_raw
    return None if first is None or last is None else (first, last)


def round_starts(times: pa.ChunkedArray, steps: Sequence[int]) -> Int64s:
    """The rows at which a new step begins, where times rise; an event at a round time ends one.

    A boundary looks at events up to its own time: see `BlockSums`.
    """
    values = np.asarray(times.cast(pa.int64()))
    if len(values) < 2 or (np.diff(values) < 0).any():
        return np.zeros(0, np.int64)
    found = [np.flatnonzero(np.diff(-(-values // step))) + 1 for step in steps]
    return np.unique(np.concatenate(found)).astype(np.int64)
