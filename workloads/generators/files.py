"""`write_events`: a generated stream as a file of events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from workloads.generators.columns import schema
from workloads.generators.distributions import SpecError
from workloads.generators.spec import StreamSpec
from workloads.generators.stream import generate

ENDINGS = (".parquet", ".csv", ".jsonl")


def write_events(spec: StreamSpec, path: str | os.PathLike[str], batch_rows: int = 262_144) -> Path:
    """Write the stream to a Parquet, CSV or JSON lines file, by the path's ending.

    The file appears under its name only when it is complete.
    """
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise SpecError(f"events are written to {', '.join(ENDINGS)}, not to '{target.name}'")
    if not target.parent.is_dir():
        raise SpecError(f"there is no folder '{target.parent}'")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    batches = generate(spec, batch_rows)
    try:
        match target.suffix:
            case ".parquet":
                _write_parquet(batches, spec, schema(spec), partial)
            case ".csv":
                _write_csv(batches, schema(spec), partial)
            case _:
                _write_jsonl(batches, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _write_parquet(
    batches: Iterator[pa.RecordBatch], spec: StreamSpec, columns: pa.Schema, path: Path
) -> None:
    # Times and sequence numbers grow by little: their differences take a tenth of the space.
    # Random floats do not repeat: a dictionary for them costs time and saves nothing.
    growing = [name for name in (spec.time, spec.sequence) if name is not None]
    repeating = [
        field.name
        for field in columns
        if field.name not in growing and not pa.types.is_floating(field.type)
    ]
    with pq.ParquetWriter(
        path,
        columns,
        compression="zstd",
        use_dictionary=repeating,
        column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
    ) as out:
        for batch in batches:
            out.write_batch(batch)


def _write_csv(batches: Iterator[pa.RecordBatch], columns: pa.Schema, path: Path) -> None:
    with pyarrow.csv.CSVWriter(path, columns) as out:
        for batch in batches:
            out.write_batch(batch)


def _write_jsonl(batches: Iterator[pa.RecordBatch], path: Path) -> None:
    with path.open("wb") as out:
        for batch in batches:
            lines = _json_lines(batch)
            _, offsets, text = lines.buffers()
            ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
            out.write(memoryview(text)[ends[0] : ends[-1]])


def _json_lines(batch: pa.RecordBatch) -> pa.Array:
    """Every row as a JSON object and a line's end."""
    pieces: list[Any] = []
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        pieces.append(("," if number else "{") + json.dumps(name) + ":")
        pieces.append(pc.fill_null(_json_values(column), "null"))
    return pc.binary_join_element_wise(*pieces, "}\n", "")


def _json_values(column: pa.Array) -> pa.Array:
    """Each value as JSON text; of strings, only the distinct ones are escaped."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        labels = pa.array([json.dumps(v) for v in encoded.dictionary.to_pylist()], pa.string())
        return labels.take(encoded.indices)
    return column.cast(pa.string())
