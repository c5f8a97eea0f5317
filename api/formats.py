"""Results in the formats that other programs read: CSV, Parquet, Arrow, a piece at a time."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from typing import Literal as OneOf

from api.result_files import iterate_rows, opened

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


def encoded(path: Path, start: int, stop: int, format: Format) -> Iterator[bytes]:
    """The rows of a file from one place to another, in a format, as bytes to be sent."""
    writers: dict[str, Callable[[Path, int, int], Iterator[bytes]]] = {
        "csv": _csv,
        "parquet": _parquet,
        "arrow": _arrow,
    }
    return writers[format](path, start, stop)


def _csv(path: Path, start: int, stop: int) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.csv

    from engines.text import iso_texts

    with opened(path) as file:
        names = file.schema_arrow.names
    yield (",".join(f'"{name}"' for name in names) + "\n").encode()
    bare = pyarrow.csv.WriteOptions(include_header=False)
    for batch in iterate_rows(path, start, stop):
        columns = [
            iso_texts(column) if pa.types.is_temporal(column.type) else column
            for column in batch.columns
        ]
        out = io.BytesIO()
        pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(columns, names=names), out, bare)
        yield out.getvalue()


def _arrow(path: Path, start: int, stop: int) -> Iterator[bytes]:
    import pyarrow as pa

    with opened(path) as file:
        schema = file.schema_arrow
    out = _Drained()
    with pa.ipc.new_stream(pa.PythonFile(out, mode="w"), schema) as writer:
        for batch in iterate_rows(path, start, stop):
            writer.write_batch(batch)
            yield out.drained()
    yield out.drained()


def _parquet(path: Path, start: int, stop: int) -> Iterator[bytes]:
    import pyarrow.parquet

    with tempfile.TemporaryFile() as spooled:
        with opened(path) as file:
            whole = start == 0 and stop == file.metadata.num_rows
            schema = file.schema_arrow
        if whole:
            with path.open("rb") as same:
                yield from _chunks(same)
            return
        with pyarrow.parquet.ParquetWriter(spooled, schema, compression="zstd") as writer:
            for batch in iterate_rows(path, start, stop):
                writer.write_batch(batch)
        spooled.seek(0)
        yield from _chunks(spooled)


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
