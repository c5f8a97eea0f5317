"""Processors that are newer than the LLVM in PoCL: it is told a name that it knows.

PoCL compiles for the processor that its LLVM finds. One that came out later is called `generic`
there, which is no processor of the x86-64 family: every build fails with "unknown target CPU
'generic'", and no setting of PoCL's 3.0 names another. The name is a C string that the device
points to, beside the name of the family; pointing to another one before anything is built is all
that is needed.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import Any

# Names that LLVM has known for long, with what Linux calls the instructions that they stand for.
_NAMES = (
    ("skylake-avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "bmi2"}),
    ("haswell", {"avx2", "bmi1", "bmi2", "fma", "movbe", "f16c", "abm"}),
    ("x86-64", set[str]()),
)
_FAMILY, _UNKNOWN = b"x86_64", b"generic\0"
_STRUCT_BYTES = 4096  # no device of PoCL's is as large
_POINTER = struct.Struct("P")
_ADDRESS_END = 2**47  # of what a process on Linux may have


def name_processor(device: Any) -> None:
    """Have PoCL compile for an older processor with the instructions of this one, if it must."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return
    try:
        memory = os.open("/proc/self/mem", os.O_RDWR)
    except OSError:
        return  # then a build fails, and says so
    try:
        place = _place_of_name(memory, device.int_ptr)
        if place is not None:
            os.pwrite(memory, _POINTER.pack(_lasting(_known_name())), place)
    finally:
        os.close(memory)


def _place_of_name(memory: int, device: int) -> int | None:
    """Where the device points to the name of its processor, if that is one that LLVM lacks."""
    words = _read(memory, device, _STRUCT_BYTES)
    pointers = [word for (word,) in _POINTER.iter_unpack(words[: len(words) // 8 * 8])]
    for number in range(1, len(pointers)):
        family, name = (_read(memory, pointer, 8) for pointer in pointers[number - 1 : number + 1])
        if family.startswith(_FAMILY) and name == _UNKNOWN:
            return device + number * _POINTER.size
    return None


def _read(memory: int, address: int, size: int) -> bytes:
    """Bytes of this process, or as many as there are."""
    if not 0 < address < _ADDRESS_END:
        return b""
    try:
        return os.pread(memory, size, address)
    except OSError:
        return b""


def _known_name() -> str:
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[1].split())
            break
    return next(name for name, needed in _NAMES if needed <= flags)


def _lasting(name: str) -> int:
    """The address of a C string that PoCL may free as if it were its own."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    text = name.encode() + b"\0"
    address: int = library.malloc(len(text))
    ctypes.memmove(address, text, len(text))
    return address
