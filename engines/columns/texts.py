"""Functions of texts and tests on them over arrays of distinct values, each by a library.

Whatever is said of a text is said once of each distinct one; events take it by its number.
"""

from __future__ import annotations

import bisect
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workloads import expressions as ex
from workloads.texts import lower, upper

Mask: TypeAlias = npt.NDArray[np.bool_]

_ANY_TEXT = {"%": ".*", "_": "."}  # of LIKE, as regular expressions
_NUMBER = r"^[+-]?(\d{1,300}(\.\d*)?|\.\d+)$"


class TextCodes:
    """The texts of all columns in one sorted dictionary, made when it is first needed.

    The code of its i-th entry is 2i + 1, so that a constant that is not in it takes the even number
    between its neighbours and compares right.
    """

    def __init__(self, found: Callable[[], Iterable[str]]) -> None:
        self._found = found
        self._made: tuple[list[str], pa.Array] | None = None
        self._changed: dict[tuple[str, tuple[int, ...]], tuple[npt.NDArray[np.int64], Mask]] = {}

    def _dictionary(self) -> tuple[list[str], pa.Array]:
        if self._made is None:
            ordered = sorted(set(self._found()))
            self._made = ordered, pa.array(ordered, pa.string())
        return self._made

    def code(self, text: str) -> int:
        """Where a text stands among the codes."""
        ordered, _ = self._dictionary()
        place = bisect.bisect_left(ordered, text)
        return 2 * place + 1 if place < len(ordered) and ordered[place] == text else 2 * place

    def codes(self, texts: pa.Array) -> npt.NDArray[np.int64]:
        """The codes of texts that are in the dictionary."""
        places = pc.index_in(texts.cast(pa.string()), value_set=self._dictionary()[1])
        return 2 * np.asarray(pc.fill_null(places, 0)).astype(np.int64) + 1

    def changed(
        self, name: str, constants: tuple[int, ...], codes: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], Mask]:
        """The codes of what a function makes of texts, and where that is null.

        The function is worked out once for the whole dictionary.
        """
        known = self._changed.get((name, constants))
        if known is None:
            found = apply(name, constants, self._dictionary()[1])
            known = self.codes(found), np.asarray(pc.is_null(found))
            self._changed[name, constants] = known
        values, nulls = known
        if not len(values):
            return np.ones(len(codes), np.int64), np.ones(len(codes), bool)
        places = np.minimum(codes // 2, len(values) - 1)
        return values[places], nulls[places]

    def distinct(
        self, codes: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The distinct ones among codes, and the place of each code among them."""
        present = np.zeros(2 * len(self._dictionary()[0]) + 2, np.bool_)
        present[codes] = True
        found = np.flatnonzero(present)
        if len(found) == len(present):
            return found, codes
        return found, (np.cumsum(present) - 1)[codes]

    def texts(self, codes: npt.NDArray[np.int64], nulls: Mask | None = None) -> pa.Array:
        """The texts of codes."""
        _, array = self._dictionary()
        if not len(array):
            return pa.nulls(len(codes), pa.string())
        return array.take(pa.array(codes // 2, pa.int64(), mask=nulls))


def apply(name: str, constants: Sequence[int], values: pa.Array) -> pa.Array:
    """A function of each value: texts, 64-bit integers or doubles; null where it has none."""
    kind = values.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    match name:
        case "text":
            return values if is_text else _as_texts(values)
        case "number":
            if pa.types.is_boolean(kind):
                return pa.nulls(len(values), pa.int64())
            return _as_numbers(values) if is_text else values
        case "length":
            return pc.utf8_length(values).cast(pa.int64())
        case "substring":
            start = constants[0]
            stop = None if len(constants) == 1 else max(1, start + constants[1]) - 1
            return pc.utf8_slice_codeunits(values, max(1, start) - 1, stop)
        case "slice":
            return pc.utf8_slice_codeunits(values, *constants)
        case _:
            return _cased(name, values)


def _as_texts(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        return values.cast(pa.string())
    if pa.types.is_floating(values.type):  # a whole number, whatever type its column has
        numbers = np.asarray(values.cast(pa.float64()))
        whole = (np.abs(numbers) < 2**53) & (np.trunc(numbers) == numbers)
        digits = np.where(whole, numbers, 0).astype(np.int64)
        return pa.array(digits, mask=~whole).cast(pa.string())
    return pa.nulls(len(values), pa.string())


def _as_numbers(texts: pa.Array) -> pa.Array:
    plain = pc.match_substring_regex(texts, _NUMBER)
    return pa.array(
        [
            float(text) if is_number else None
            for text, is_number in zip(texts.to_pylist(), plain.to_pylist(), strict=True)
        ],
        pa.float64(),
    )


def _cased(name: str, texts: pa.Array) -> pa.Array:
    """Lower or upper case, character by character."""
    by_arrow = pc.ascii_lower if name == "lower" else pc.ascii_upper
    found = by_arrow(texts)
    other = np.asarray(pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False))
    if not other.any():
        return found
    change = lower if name == "lower" else upper
    rest = [change(text) for text in texts.filter(pa.array(other)).to_pylist()]
    return pc.replace_with_mask(found, pa.array(other), pa.array(rest, texts.type))


def hold(test: ex.TextTest, texts: pa.Array) -> Mask:
    """For which texts a test with constant patterns holds; for no null."""
    present = np.asarray(pc.is_valid(texts))
    patterns = [p.value for p in test.patterns if isinstance(p, ex.Literal)]
    known = [p for p in patterns if isinstance(p, str)]
    if len(known) < len(patterns) and test.negated:
        return np.zeros(len(texts), bool)  # compared with a null
    found = np.full(len(texts), test.every)
    for pattern in known:
        one = _one(test.operator, pattern, texts)
        found = found & one if test.every else found | one
    if len(known) < len(patterns) and test.every:
        found[:] = False
    result: Mask = present & (found != test.negated)
    return result


def _one(operator: str, pattern: str, texts: pa.Array) -> Mask:
    match operator:
        case "CONTAINS":
            found = pc.match_substring(texts, pattern)
        case "STARTS WITH":
            found = pc.starts_with(texts, pattern)
        case "ENDS WITH":
            found = pc.ends_with(texts, pattern)
        case "LIKE":
            found = _like(texts, pattern)
        case "MATCHES":
            return _matches(texts, pattern)
        case _:
            return _in_network(texts, pattern)
    return np.asarray(pc.fill_null(found, False))


def _like(texts: pa.Array, pattern: str) -> pa.Array:
    """Arrow's own takes a backslash as an escape, but not everywhere, and here none is one."""
    if "\\" not in pattern:
        return pc.match_like(texts, pattern)
    parts = (_ANY_TEXT.get(c) or re.escape(c) for c in pattern)
    return pc.match_substring_regex(texts, rf"(?s)\A{''.join(parts)}\z")


def _matches(texts: pa.Array, pattern: str) -> Mask:
    """Arrow has RE2, too, and goes through many texts sooner; perhaps an older one."""
    try:
        return np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False))
    except pa.ArrowInvalid:
        search = regex(pattern).search
        return np.array([t is not None and search(t) is not None for t in texts.to_pylist()], bool)


@lru_cache(4096)
def regex(pattern: str) -> Any:
    """A compiled regular expression."""
    import re2

    return re2.compile(pattern)


def _in_network(texts: pa.Array, pattern: str) -> Mask:
    network = ipaddress.ip_network(pattern, strict=False)
    found = np.zeros(len(texts), bool)
    for i, text in enumerate(texts.to_pylist()):
        address = None if text is None else address_of(text)
        found[i] = address is not None and address in network
    return found


@lru_cache(1 << 16)
def address_of(text: str) -> Any:
    """A text as an address; None for what is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def pair_holds(operator: str, text: str, pattern: str) -> bool:
    """A test of one text with another that is no constant."""
    if operator == "CONTAINS":
        return pattern in text
    return text.startswith(pattern) if operator == "STARTS WITH" else text.endswith(pattern)


def of_several(name: str, given: Sequence[Any]) -> str | int | None:
    """A function of several values of which none is null; None where one is of no kind for it."""
    if name == "concat":
        parts = [_spelling(value) for value in given]
        return None if None in parts else "".join(map(str, parts))
    texts = given[:1] if name == "slice" else given[:2] if name == "index_of" else given[:3]
    if not all(isinstance(text, str) for text in texts):
        return None
    source, *rest = texts
    if name == "between":
        return _between(source, rest[0], rest[1], greedy=given[3:] == [True])
    numbers = given[len(texts) :]
    if not all(isinstance(n, int | float) and math.isfinite(n) and n == int(n) for n in numbers):
        return None
    places = list(map(int, numbers))
    if name == "slice":
        return str(source[places[0] : places[1] if len(places) > 1 else None])
    place = source.find(*rest, *places)
    return None if place < 0 else int(place)


def _spelling(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value) if isinstance(value, int | str) else None


def _between(source: str, left: str, right: str, greedy: bool) -> str:
    """What stands behind the first `left`, up to the next `right`, or the last where greedy."""
    _, found, rest = source.partition(left) if left else ("", "any", source)
    end = rest.rfind(right) if greedy else rest.find(right)
    return rest[:end] if found and end >= 0 else ""


def base_attribute(node: ex.Expression) -> ex.Attribute | None:
    """The attribute that a chain of functions is of."""
    while isinstance(node, ex.Function | ex.Call):
        if isinstance(node, ex.Call):
            if node.argument is None:
                return None
            node = node.argument
        else:
            node = node.operand
    return node if isinstance(node, ex.Attribute) else None


def functions_of(node: ex.Expression) -> list[ex.Function]:
    """The functions of a chain, the innermost first."""
    found: list[ex.Function] = []
    while isinstance(node, ex.Function | ex.Call):
        if isinstance(node, ex.Function):
            found.append(node)
            node = node.operand
        else:
            assert node.argument is not None
            node = node.argument
    return found[::-1]
