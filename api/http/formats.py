"""Results in the formats that other programs read: CSV, Parquet, Arrow, a piece at a time."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from typing import Literal as OneOf

if TYPE_CHECKING:
    import pyarrow as pa

Format = OneOf["json", "csv", "parquet", "arrow"]

MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
PIECE = 1 << 16  # bytes


def accepted(accept: str) -> Format | None:
    """The format that an Accept header asks for; JSON where any will do, None where none is."""
    wanted: list[tuple[float, int, Format]] = []
    for position, part in enumerate(accept.split(",")):
        media, *parameters = [p.strip().lower() for p in part.split(";")]
        weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            quality = float(weight)
        except ValueError:
            quality = 0.0
        for format, known in MEDIA_TYPES.items():
            if quality > 0 and media in (known, f"{known.split('/')[0]}/*", "*/*"):
                wanted.append((-quality, position, format))
                break
    return min(wanted)[2] if wanted else None


def encoded(
    schema: pa.Schema, pieces: Iterator[pa.RecordBatch], format: Format, whole: Path | None = None
) -> Iterator[bytes]:
    """Rows in a format, as bytes to be sent; `whole` is a Parquet file that has just these."""
    match format:
        case "csv":
            return _csv(schema, pieces)
        case "arrow":
            return _arrow(schema, pieces)
        case "parquet" if whole is not None:
            return _file(whole)
        case "parquet":
            return _parquet(schema, pieces)
        case _:
            raise ValueError(format)


def _csv(schema: pa.Schema, pieces: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.csv

    from engines.results.json_text import iso_texts
    from engines.results.struct_texts import with_texts

    names = schema.names
    yield (",".join(f'"{name}"' for name in names) + "\n").encode()
    bare = pyarrow.csv.WriteOptions(include_header=False)
    for batch in pieces:
        columns = [
            iso_texts(column) if pa.types.is_temporal(column.type) else column
            for column in with_texts(batch, schema).columns
        ]
        out = io.BytesIO()
        pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(columns, names=names), out, bare)
        yield out.getvalue()


def _arrow(schema: pa.Schema, pieces: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    import pyarrow as pa

    out = _Drained()
    with pa.ipc.new_stream(pa.PythonFile(out, mode="w"), schema) as writer:
        for batch in pieces:
            writer.write_batch(batch)
            yield out.drained()
    yield out.drained()


def _parquet(schema: pa.Schema, pieces: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    import pyarrow.parquet

    with tempfile.TemporaryFile() as spooled:
        with pyarrow.parquet.ParquetWriter(spooled, schema, compression="zstd") as writer:
            for batch in pieces:
                writer.write_batch(batch)
        spooled.seek(0)
        yield from _chunks(spooled)


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from _chunks(file)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(PIECE):
        yield chunk


class _Drained(io.RawIOBase):
    """A file that keeps what is written until it is taken away."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._kept.append(bytes(data))
        return len(self._kept[-1])

    def drained(self) -> bytes:
        found, self._kept = b"".join(self._kept), []
        return found
