"""PoCL compiles for a processor that its LLVM does not know: by the name of an older one."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

from engines.pocl_processor import name_processor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PoCL's wheel is for Linux")


def named(family: bytes, name: bytes, offset: int) -> bytes | None:
    """What a device points to that says these, among other words, once it has been looked at."""
    words = (ctypes.c_char_p * 512)()
    words[offset], words[offset + 1] = family, name
    name_processor(SimpleNamespace(int_ptr=ctypes.addressof(words)))
    return words[offset + 1]


@pytest.mark.parametrize("offset", [0, 80, 510])
def test_a_processor_without_a_name_gets_one_that_llvm_knows(offset: int) -> None:
    found = named(b"x86_64-unknown-linux-gnu", b"generic", offset)
    assert found in (b"skylake-avx512", b"haswell", b"x86-64")


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (b"x86_64-unknown-linux-gnu", b"znver3"),
        (b"x86_64-unknown-linux-gnu", b"generic-rv64"),
        (b"aarch64-unknown-linux-gnu", b"generic"),
    ],
)
def test_other_names_stay(family: bytes, name: bytes) -> None:
    assert named(family, name, 80) == name


def test_words_that_are_no_addresses_do_no_harm() -> None:
    words = (ctypes.c_uint64 * 512)(*range(256), *(2**64 - 1 - n for n in range(256)))
    before = bytes(words)
    name_processor(SimpleNamespace(int_ptr=ctypes.addressof(words)))
    assert bytes(words) == before
