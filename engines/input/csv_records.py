"""Records of CSV: lines, or several of them where a quoted value has newlines in it.

As Arrow reads them: a value is quoted if it begins with a quote, two quotes in it are one, and what
comes behind its last quote belongs to it.
"""

from __future__ import annotations

import csv

from engines.input.text_bytes import bad_byte, not_utf8
from workloads.workload import Stream

DELIMITERS = (",", ";", "\t", "|")
# Lines with quotes that a quoted value can go on over, where a row is looked at by itself.
_MOST_LINES = 200


def split_header(block: bytes) -> tuple[bytes, bytes]:
    """The first line that is not empty, and what is behind it."""
    text = block.lstrip(b"\r\n")
    for place, byte in enumerate(text):
        if byte in b"\r\n":
            return text[:place], text[place:].removeprefix(b"\r").removeprefix(b"\n")
        if byte == ord('"'):
            break
    records = split_records(text, b",", most=1)
    return records[0], text[len(records[0]) :].lstrip(b"\r\n")


def header_names(file: str, line: bytes, stream: Stream) -> tuple[str, list[str]]:
    """The delimiter of a file and the names of its columns.

    Where the stream has no delimiter, it is that by which the time column is found.
    """
    if (byte := bad_byte(line)) is not None:
        raise not_utf8(file, byte, 1)
    text = line.decode()
    if stream.delimiter is not None:
        return stream.delimiter, _fields(text, stream.delimiter)
    for mark in DELIMITERS:
        names = _fields(text, mark)
        if stream.time in names:
            return mark, names
    return ",", _fields(text, ",")


def likely_delimiter(line: bytes) -> str:
    """What is most likely between the names of a header: what gives the most of them."""
    text = line.decode(errors="replace")
    return max(DELIMITERS, key=lambda mark: len(_fields(text, mark)))


def _fields(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        return [text]


def count_fields(record: bytes, delimiter: bytes) -> int:
    """How many values a record has; 0 where a quoted one does not end."""
    if b'"' not in record:
        return record.count(delimiter) + 1
    is_open, fields = _scan(record, delimiter, 0, False)
    return 0 if is_open else fields


def split_records(
    block: bytes, delimiter: bytes, width: int = 0, most: int | None = None
) -> list[bytes]:
    """The records of a block, or the first of them, without the ends of their lines.

    A line whose quoted value does not end within some lines, or ends in a record that has not
    `width` values, is a record of its own.
    """
    if b'"' not in block:
        return [line for line in block.splitlines() if line][:most]
    lines = block.splitlines(keepends=True)
    quoted = [b'"' in line for line in lines]
    records: list[bytes] = []
    place = 0
    while place < len(lines) and (most is None or len(records) < most):
        last = place
        if quoted[place]:
            last = _last_line(lines, quoted, place, delimiter, width)
        if record := b"".join(lines[place : last + 1]).rstrip(b"\r\n"):
            records.append(record)
        place = last + 1
    return records


def _last_line(
    lines: list[bytes], quoted: list[bool], first: int, delimiter: bytes, width: int
) -> int:
    """The line that ends the record which begins in another."""
    is_open, fields = _scan(lines[first].rstrip(b"\r\n"), delimiter, 0, False)
    looked, place = 0, first
    while is_open and looked < _MOST_LINES:
        place += 1
        while place < len(lines) and not quoted[place]:
            place += 1
        if place == len(lines):
            return first
        looked += 1
        is_open, fields = _scan(lines[place].rstrip(b"\r\n"), delimiter, fields, True)
    if is_open or (place > first and width and fields != width):
        return first
    return place


def _scan(line: bytes, delimiter: bytes, fields: int, is_open: bool) -> tuple[bool, int]:
    """Whether a line ends within a quoted value, and how many values have ended so far.

    A value that goes on from the line before ends in a quote, and not with the first quote of
    another value: none have ended then that could be told.
    """
    place, goes_on = 0, is_open
    while True:
        if not is_open and line.startswith(b'"', place):
            is_open, place = True, place + 1
        while is_open:
            place = line.find(b'"', place)
            if place < 0:
                return True, fields
            doubled = line.startswith(b'"', place + 1)
            is_open = doubled
            place += 2 if doubled else 1
        if goes_on and place < len(line) and not line.startswith(delimiter, place):
            return False, -len(line)
        goes_on = False
        fields += 1
        place = line.find(delimiter, place)
        if place < 0:
            return False, fields
        place += len(delimiter)
