"""Filters of Parquet files (split-block bloom filters): is a value certainly not in a row group?

They are written by Arrow and read here. A filter says "no" or "maybe": a damaged one could say "no"
of what is there, so checksums of them are kept beside the file, and one that differs is not used.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

_BLOCK = 32  # bytes
_SALTS = (
    0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
)  # fmt: skip
_WORD, _LONG = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
# The primes of xxHash64.
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def encoded(value: Any, kind: str | None) -> bytes | None:
    """A value as it is stored in a column of a kind; None where such a column cannot have it."""
    match kind, value:
        case "int", int() | float() if value == int(value):
            return struct.pack("<q", int(value))
        case "float", int() | float():
            return struct.pack("<d", float(value) + 0.0)  # of both zeros the positive one
        case "string", str():
            return value.encode()
        case _:
            return None


def hashed(data: bytes) -> int:
    """The xxHash64 of some bytes, with seed 0."""
    place, number = 0, len(data)
    if number >= _BLOCK:
        lanes = [(_P1 + _P2) & _LONG, _P2, 0, -_P1 & _LONG]
        while place + _BLOCK <= number:
            words = struct.unpack_from("<4Q", data, place)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            place += _BLOCK
        found = sum(map(_turned, lanes, (1, 7, 12, 18))) & _LONG
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _LONG
    else:
        found = _P5
    found = (found + number) & _LONG
    while place + 8 <= number:
        (word,) = struct.unpack_from("<Q", data, place)
        found = (_turned(found ^ _round(0, word), 27) * _P1 + _P4) & _LONG
        place += 8
    if place + 4 <= number:
        (word,) = struct.unpack_from("<I", data, place)
        found = (_turned(found ^ (word * _P1 & _LONG), 23) * _P2 + _P3) & _LONG
        place += 4
    for byte in data[place:]:
        found = _turned(found ^ (byte * _P5 & _LONG), 11) * _P1 & _LONG
    found = (found ^ found >> 33) * _P2 & _LONG
    found = (found ^ found >> 29) * _P3 & _LONG
    return found ^ found >> 32


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _LONG


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _P2) & _LONG, 31) * _P1 & _LONG


def may_have(bits: bytes, data: bytes) -> bool:
    """Can a row group with such a filter have a value that is stored so?"""
    number = hashed(data)
    block = ((number >> 32) * (len(bits) // _BLOCK) >> 32) * _BLOCK
    words = struct.unpack_from("<8I", bits, block)
    key = number & _WORD
    return all(
        word >> ((key * salt & _WORD) >> 27) & 1
        for word, salt in zip(words, _SALTS, strict=True)
    )  # fmt: skip


class RowGroupFilters:
    """The filters of a file's first column, read as they are asked for."""

    def __init__(self, path: Path, metadata: pq.FileMetaData, checksums: Sequence[int]) -> None:
        self._path, self._metadata, self._checksums = path, metadata, checksums
        self._known: dict[int, bytes | None] = {}

    def may_have(self, group: int, data: bytes) -> bool:
        """Can a row group have a value that is stored so? It can where it has no filter."""
        if group not in self._known:
            self._known[group] = self._read(group)
        bits = self._known[group]
        return bits is None or may_have(bits, data)

    def _read(self, group: int) -> bytes | None:
        """The bits of a filter; None where there is none, or not the one that was written."""
        found = filter_bytes(self._path, self._metadata, group)
        if found is None or zlib.crc32(found) != self._checksums[group]:
            return None
        # A header comes first: a field that is an integer, how many bytes follow it.
        size, shift, place = 0, 0, 1
        while True:
            size |= (found[place] & 0x7F) << shift
            shift, place = shift + 7, place + 1
            if not found[place - 1] & 0x80:
                break
        return found[-(size >> 1) :]


def filter_bytes(path: Path, metadata: pq.FileMetaData, group: int) -> bytes | None:
    """The header and the bits of the filter of a row group's first column."""
    column = metadata.row_group(group).column(0)
    if column.bloom_filter_offset is None or column.bloom_filter_length is None:
        return None
    with path.open("rb") as file:
        file.seek(column.bloom_filter_offset)
        return file.read(column.bloom_filter_length)


def checksums_of(path: Path) -> list[int]:
    """The checksums of a file's filters, 0 for row groups without one."""
    metadata = pq.read_metadata(path)
    groups = range(metadata.num_row_groups)
    return [zlib.crc32(filter_bytes(path, metadata, group) or b"") for group in groups]
