"""The bytes of text files: unpacked, known to be text, and in blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from engines.limits import EventsError

BLOCK = 4 * 2**20  # bytes that are parsed at once
SAMPLE = 16 * 2**20  # bytes at the start of a file that its types are guessed from
LONGEST_LINE = 64 * 2**20

UTF8_MARK = b"\xef\xbb\xbf"
_CODECS = {".gz": ("gzip", b"\x1f\x8b"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}
PACKED = tuple(_CODECS)
# What files begin with that are no text, what they are, and what to do with them.
_OTHERS = (
    (b"BZh", "is packed with bzip2", "unpack it (bunzip2), or pack it with gzip or zstd"),
    (b"\xfd7zXZ", "is packed with xz", "unpack it (unxz), or pack it with gzip or zstd"),
    (b"\x04\x22\x4d\x18", "is packed with lz4", "unpack it (unlz4), or pack it with gzip or zstd"),
    (b"PK\x03\x04", "is a zip archive or an Excel workbook", "unpack it, or export it as CSV"),
    (b"7z\xbc\xaf", "is a 7z archive", "unpack it"),
    (b"\xd0\xcf\x11\xe0", "is an Excel workbook", "export it as CSV"),
    (b"PAR1", "is Parquet", "let its name end in .parquet"),
    (b"ARROW1", "is an Arrow file", "write it as Parquet"),
    (b"ORC", "is ORC", "write it as Parquet"),
    (b"Obj\x01", "is Avro", "write it as Parquet"),
    (b"SQLite format 3", "is a database of SQLite", "export the table as CSV"),
    (b"%PDF-", "is a PDF", "give a file of events"),
)


class ReadProgress(Protocol):
    """Hears how much of a file has been read: 0 to 1."""

    def __call__(self, file: str, part: float) -> None: ...


def untold(file: str, part: float) -> None:
    """Progress that nobody wants to hear of."""


def arrow_reader(text: bytes | pa.Buffer) -> pa.BufferReader:
    """The bytes in memory of Arrow's own, for its threads to read and to free.

    One of its threads may still hold a buffer when a parser has returned. A buffer that belongs to
    Python can be freed only by asking the interpreter, which ends the process if it is ending.
    """
    buffer = pa.allocate_buffer(len(text))
    if len(text):
        memoryview(buffer).cast("B")[:] = memoryview(text).cast("B")
    return pa.BufferReader(buffer)


def is_splittable(file: str) -> bool:
    """Is it plain text whose lines end in newlines?"""
    with pa.OSFile(file) as raw:
        start = raw.read(BLOCK)
        return _codec(file, start) is None and b"\n" in start


def blocks(
    file: str,
    progress: ReadProgress = untold,
    start: int = 0,
    stop: int | None = None,
    quotes: bool = False,
) -> Iterator[bytes]:
    """The file in blocks of whole lines; a last line need not end.

    With `start` and `stop` only the lines whose first byte is from one to before the other. Where
    `quotes` can enclose newlines, a block does not end between two of them if that can be helped.
    """
    total = max(Path(file).stat().st_size, 1)
    with pa.OSFile(file) as raw:
        codec = _codec(file, raw.read(8))
        raw.seek(0)
        text: Any = raw if codec is None else pa.CompressedInputStream(raw, codec)
        if start or (stop is not None and stop < total):
            text = _Lines(raw, start, total if stop is None else stop)
        rest, first, done = b"", start == 0, 0
        while new := text.read(BLOCK):
            if first:
                new, first = new.removeprefix(UTF8_MARK), False
            progress(file, min(raw.tell() / total, 1.0))
            if b"\n" not in new and b"\r" in new:
                new = new.replace(b"\r", b"\n")
            piece = rest + new if rest else new
            cut = _cut(piece, quotes)
            if cut:
                yield piece[:cut]
                done += cut
            rest = piece[cut:]
            if len(rest) > LONGEST_LINE:
                raise EventsError(
                    f"'{file}' has a line of more than {LONGEST_LINE >> 20} MB after its first "
                    f"{done:,} bytes; write one event a line"
                )
        if rest.strip():
            yield rest


def _cut(piece: bytes, quotes: bool) -> int:
    """Where the last whole line ends."""
    end = piece.rfind(b"\n") + 1
    if quotes and end and piece.count(b'"', 0, end) % 2:
        # The last quote opens a value that goes on: its line is for the next block.
        before = piece.rfind(b"\n", 0, piece.rfind(b'"', 0, end)) + 1
        if before and len(piece) - before <= BLOCK:
            return before
    return end


class _Lines:
    """The bytes of the lines that begin in a range of a file."""

    def __init__(self, raw: pa.NativeFile, start: int, stop: int) -> None:
        self._raw, self._stop = raw, stop
        if start:  # a line that begins right here follows a newline
            raw.seek(start - 1)
            self._to_next_line()

    def read(self, size: int) -> bytes:
        left = self._stop - self._raw.tell()
        if left <= 0:
            return b""
        found: bytes = self._raw.read(min(size, left))
        if len(found) == left and not found.endswith(b"\n"):
            found += self._to_next_line()
        return found

    def _to_next_line(self) -> bytes:
        """Go behind the next newline; gives what was passed."""
        passed = b""
        while piece := self._raw.read(2**16):
            line, newline, after = piece.partition(b"\n")
            passed += line + newline
            if newline:
                self._raw.seek(self._raw.tell() - len(after))
                break
        return passed


def sample(file: str, quotes: bool = False) -> tuple[bytes, bool]:
    """The start of a file, and whether that is all of it; raises where it is no text."""
    found: list[bytes] = []
    size = 0
    for block in blocks(file, quotes=quotes):
        if not found:
            _check_text(file, block)
        if found and size + len(block) > SAMPLE:
            return b"".join(found), False
        found.append(block)
        size += len(block)
    return b"".join(found), True


def bad_byte(text: bytes) -> str | None:
    """The first byte that is not UTF-8, such as `0x80`; None where all are."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"{text[error.start]:#04x}"
    return None


def not_utf8(file: str, byte: str, line: int, encoding: str = "cp1252") -> EventsError:
    """That a file has to be converted."""
    return EventsError(
        f"'{file}' is not UTF-8: byte {byte} in line {line}; "
        f"convert it: iconv -f {encoding} -t utf-8"
    )


def _codec(file: str, start: bytes) -> str | None:
    """What a file is packed with, by how it begins; its ending must not say another thing."""
    for ending, (codec, magic) in _CODECS.items():
        if start.startswith(magic):
            return codec
        if file.lower().endswith(ending) and start:
            raise EventsError(
                f"'{file}' cannot be read: it ends in {ending}, and is not packed with {codec}"
            )
    return None


def _check_text(file: str, block: bytes) -> None:
    for magic, what, remedy in _OTHERS:
        if block.startswith(magic):
            raise EventsError(f"'{file}' {what}, and not text; {remedy}")
    start = block[:4096]
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        if start.startswith(mark):
            raise not_utf8(file, f"{start[0]:#04x}", 1, "utf-16")
    place = start.find(b"\0")
    # One among many others is for the row that it is in.
    few = start.count(b"\0") <= max(4, len(start) // 100)
    if place < 0 or (few and b"\n" in start[:place]):
        return
    line = start.count(b"\n", 0, place) + 1
    others = max(start[::2].count(b"\0"), start[1::2].count(b"\0"))
    if others * 4 > len(start):  # every second byte of plain letters is zero
        raise not_utf8(file, "0x00", line, "utf-16" + ("be" if start[0] == 0 else "le"))
    raise EventsError(
        f"'{file}' is not text: byte 0x00 in line {line}; give CSV or JSON lines, or let the "
        "name end in .parquet if it is that"
    )
