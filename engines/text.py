"""Values as compact JSON text: columns at a time, or one object.

Both write the same: integers as integers, what is no finite number as null, times as ISO strings
with as many digits as they need.
"""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ESCAPED = r'["\\\x00-\x1f]'
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def json_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Each value as JSON text; null is `null`."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        text = column.cast(pa.string())
    elif pa.types.is_null(kind):
        text = pa.nulls(len(column), pa.string())
    else:
        # Of values that repeat, each is written once.
        encoded = column if pa.types.is_dictionary(kind) else _encoded(column)
        text = _distinct(encoded.dictionary).take(encoded.indices)
    return pc.fill_null(text, "null")


def json_text(value: Any) -> str:
    """One value, or an object of values, as JSON text."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def joined(*parts: pa.Array | str) -> pa.Array:
    """Texts side by side."""
    return pc.binary_join_element_wise(*parts, "")


def iso_texts(column: pa.Array) -> pa.Array:
    """Times as ISO strings; those with a time zone in UTC."""
    kind = column.type
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.string())
    zone = "Z" if kind.tz is not None else ""
    ticks = column.cast(pa.int64())
    present = np.asarray(pc.fill_null(ticks, 0))
    texts = np.empty(len(present), "U32")
    done = np.zeros(len(present), bool)
    for unit, digits in _DIGITS.items():
        if digits > _DIGITS[kind.unit]:
            break
        step = 10 ** (_DIGITS[kind.unit] - digits)
        now = ~done & (present % step == 0)
        moments = (present[now] // step).view(f"datetime64[{unit}]")
        texts[now] = np.datetime_as_string(moments)
        done |= now
    found = pa.array(texts, pa.string())
    found = joined(found, zone) if zone else found
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.string()))


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        indices = pa.array(np.arange(len(column)), pa.int64())
        return pa.DictionaryArray.from_arrays(indices, column)
    return column.dictionary_encode()


def _distinct(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return joined('"', iso_texts(values), '"')
    if pa.types.is_floating(kind):
        return _numbers(values.cast(pa.float64()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(values.cast(pa.string()))
    texts = [None if v is None else json_text(v) for v in values.to_pylist()]
    return pa.array(texts, pa.string())


def _numbers(values: pa.Array) -> pa.Array:
    """Doubles as Python writes them; null for what is none."""
    numbers = np.asarray(pc.fill_null(values, np.nan))
    size = np.abs(numbers)
    # Arrow writes the same digits, but begins to write an exponent elsewhere.
    alike = ((size >= 1e-4) & (size < 1e9)) | (size == 0)
    texts = values.cast(pa.string())
    whole = alike & (numbers == np.floor(numbers))
    texts = pc.if_else(pa.array(whole), joined(texts, ".0"), texts)
    if alike.all():
        return texts
    others = [repr(v) if math.isfinite(v) else None for v in numbers[~alike].tolist()]
    return pc.replace_with_mask(texts, pa.array(~alike), pa.array(others, pa.string()))


def _strings(values: pa.Array) -> pa.Array:
    """Strings in quotes; only those that something has to be escaped in are looked at."""
    texts = joined('"', values, '"')
    special = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if not pc.any(special).as_py():
        return texts
    others = [json_text(v) for v in values.filter(special).to_pylist()]
    return pc.replace_with_mask(texts, special, pa.array(others, pa.string()))


def _plain(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case datetime.datetime():
            return _iso(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case _:
            return value


def _iso(moment: datetime.datetime) -> str:
    zone = ""
    if moment.tzinfo is not None:
        moment, zone = moment.astimezone(datetime.UTC).replace(tzinfo=None), "Z"
    whole, _, fraction = moment.isoformat().partition(".")
    # 0, 3, 6 or 9 digits, as many as it takes.
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return whole + (f".{fraction}" if fraction else "") + zone


def repeated(text: str, times: int) -> pa.Array:
    """A column that holds one text over and over."""
    data = text.encode()
    if len(data) * times >= 2**31:
        return pa.repeat(pa.scalar(text), times)
    offsets = np.arange(0, len(data) * times + 1, len(data) or 1, dtype=np.int32)
    if not data:
        offsets = np.zeros(times + 1, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * times)]
    return pa.StringArray.from_buffers(times, buffers[1], buffers[2])
