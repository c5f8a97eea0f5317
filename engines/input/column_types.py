"""Types of the columns of text files: guessed from a sample, declared, or voted for by values."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from engines.input.event_table import as_times, with_times
from engines.input.json_values import is_deep
from engines.input.text_bytes import arrow_reader
from workloads.workload import AttributeKind, Stream

_DECLARED: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}


_PLAIN = re.compile(r"\w[^:,{}\[\]#&*!|>'\"%@`]*")  # names that YAML takes without quotes
_NO_NAME = re.compile(r"[\d_.+-].*|true|false|null|yes|no|on|off|y|n", re.IGNORECASE)


@dataclass(frozen=True)
class SpoiltColumn:
    """A column that a few values keep from being one of numbers."""

    name: str
    row: int  # of the first of them
    value: str
    numbers: int  # the other values
    kind: AttributeKind

    def sentence(self, file: str, declared: Mapping[str, AttributeKind]) -> str:
        """What is wrong, and what to declare: all attributes that queries read."""
        pairs = ", ".join(f"{yaml_name(name)}: {kind}" for name, kind in declared.items())
        return (
            f"row {self.row} of '{file}' has {self.value!r} in '{self.name}' where the other "
            f"{self.numbers:,} are numbers; declare `attributes: {{{pairs}}}` under stream, "
            "and leave such rows out (on_error: skip, or --on-error skip)"
        )


def yaml_name(name: str) -> str:
    """A name as a YAML text has it: in quotes where it could be taken for something else."""
    is_plain = _PLAIN.fullmatch(name) and not _NO_NAME.fullmatch(name) and name == name.strip()
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def doubtful_columns(schema: pa.Schema, stream: Stream) -> list[tuple[str, AttributeKind]]:
    """Columns that were guessed to be of a type they should not have, and what they should be."""
    wanted: dict[str, AttributeKind] = dict(stream.attributes)
    wanted[stream.time] = "time"
    if stream.sequence is not None:
        wanted[stream.sequence] = "int"
    found: list[tuple[str, AttributeKind]] = []
    for name, kind in wanted.items():
        if name not in schema.names or schema.names.count(name) > 1:
            continue
        guess = schema.field(name).type
        is_text = pa.types.is_string(guess) or pa.types.is_binary(guess)
        role = name in (stream.time, stream.sequence)
        real = role and pa.types.is_floating(guess)
        if (is_text and kind != "string") or real or (pa.types.is_null(guess) and not role):
            found.append((name, kind))
    return found


_WHOLE = r"^\s*[+-]?\d{1,19}\s*$"
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_DAY = r"^\s*\d{4}-\d\d-\d\d\s*$"
_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)"
_MOMENT = rf"^\s*\d{{4}}-\d\d-\d\d[T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?{_ZONE}?\s*$"
_FRACTION = r"\d\.\d"


def voted_type(texts: pa.Array, wanted: AttributeKind) -> pa.DataType | None:
    """The type that most values have, if it is of the wanted kind."""
    if wanted == "string":
        return pa.string()
    if wanted in ("float", "bool"):
        return _DECLARED[wanted]
    texts = texts.drop_null()

    def votes(pattern: str, among: pa.Array = texts) -> int:
        return int(pc.sum(pc.match_substring_regex(among, pattern)).as_py() or 0)

    whole, number = votes(_WHOLE), votes(_NUMBER)
    half = max(len(texts), 1) / 2
    if wanted == "int":
        return pa.int64() if whole >= half else None
    moments = texts.filter(pc.match_substring_regex(texts, _MOMENT))
    days = votes(_DAY)
    if max(number, days, len(moments)) < half:
        return None
    if len(moments) and len(moments) >= max(number, days):
        fine = votes(_FRACTION, moments) > 0
        zoned = votes(_ZONE + r"\s*$", pc.utf8_slice_codeunits(moments, 10)) * 2 > len(moments)
        return pa.timestamp("ns" if fine else "s", "UTC" if zoned else None)
    if days > number:
        return pa.date32()
    return pa.int64() if whole >= half else pa.float64()


SPOILT_SHARE = 0.1  # at most so many of the values of a spoilt column are no numbers


def spoilt_column(name: str, texts: pa.Array) -> SpoiltColumn | None:
    number = pc.match_substring_regex(texts, _NUMBER)
    numbers = int(pc.sum(number).as_py() or 0)
    others = len(texts) - texts.null_count - numbers
    if not others or others > SPOILT_SHARE * (numbers + others):
        return None
    first = pc.index(pc.fill_null(number, True), False).as_py()
    whole = int(pc.sum(pc.match_substring_regex(texts, _WHOLE)).as_py() or 0)
    kind: AttributeKind = "int" if whole == numbers else "float"
    return SpoiltColumn(name, first + 1, str(texts[first]), numbers, kind)


def with_declared(schema: pa.Schema, stream: Stream) -> pa.Schema:
    """With the declared attributes that no row has, or only nulls."""
    for name, kind in stream.attributes.items():
        wanted = _DECLARED.get(kind, pa.timestamp("s") if kind == "time" else pa.string())
        place = schema.get_field_index(name)
        if place < 0:
            schema = schema.append(pa.field(name, wanted))
        elif pa.types.is_null(schema.types[place]):
            schema = schema.set(place, pa.field(name, wanted))
    return schema


def usual_lines(sample: bytes, stream: Stream) -> bytes:
    """The rows without the values of another class than most values of their column."""
    found: list[tuple[dict[str, Any], dict[str, str]]] = []
    votes: dict[str, Counter[str]] = {}
    exact = {stream.sequence, stream.time if stream.format is None else None}
    for line in sample.splitlines():
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and not is_deep(row):
            classes = {n: _class(v, n in exact) for n, v in row.items() if v is not None}
            found.append((row, classes))
            for name, kind in classes.items():
                votes.setdefault(name, Counter())[kind] += 1
    for count in (votes.get(stream.time, Counter()), votes.get(stream.sequence or "", Counter())):
        for kind in ("list", "dict", "bool"):  # which no time is
            if len(count) > 1:
                count.pop(kind, None)
    usual = {name: count.most_common(1)[0][0] for name, count in votes.items()}
    declared = {"int": "number", "float": "number", "bool": "bool", "string": "text"}
    usual |= {n: declared[k] for n, k in stream.attributes.items() if k in declared}
    if usual.get(stream.time) == "real":  # a whole number is one as well
        for _, classes in found:
            if classes.get(stream.time) == "number":
                classes[stream.time] = "real"
    return b"\n".join(
        json.dumps(
            {n: v if usual.get(n) == classes.get(n) else None for n, v in row.items()}
        ).encode()
        for row, classes in found
    )


def _class(value: Any, exact: bool) -> str:
    """Which class of JSON values it is in; `exact` ones tell reals and times apart."""
    match value:
        case bool():
            return "bool"
        case int():
            return "number"
        case float():
            return "real" if exact else "number"
        case str():
            is_time = exact and as_times(pa.chunked_array([[value]])) is not None
            return "time" if is_time else "text"
        case _:
            return type(value).__name__


def json_schema(sample: bytes) -> pa.Schema:
    options = pyarrow.json.ReadOptions(block_size=len(sample) + 1)
    return with_times(pyarrow.json.read_json(arrow_reader(sample), options)).schema
