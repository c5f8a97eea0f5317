"""Times that are written in a format, or as fractions of seconds, as timestamps: whole columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workloads.time_format import MONTHS, TimeFormat, time_format
from workloads.workload import NANOSECONDS, Stream

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

# Numbers with a fraction become these: a double of seconds since 1970 is good for microseconds.
FRACTIONS = pa.timestamp("us", "UTC")
_FRACTIONAL_UNITS = ("s", "ms")
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def format_type(format: TimeFormat) -> pa.DataType:
    """The type of times that a format gives."""
    return pa.timestamp("ns" if format.has_fraction else "s", "UTC" if format.has_zone else None)


def time_type(stored: pa.DataType, stream: Stream) -> pa.DataType:
    """The type that a time column has once it is read, where it is stored in another."""
    if pa.types.is_dictionary(stored):
        return time_type(stored.value_type, stream)
    if stream.format is not None and (_is_text(stored) or pa.types.is_integer(stored)):
        return format_type(time_format(stream.format))
    real = pa.types.is_floating(stored) or pa.types.is_decimal(stored)
    if real and stream.format is None and stream.unit in _FRACTIONAL_UNITS:
        return FRACTIONS
    return stored


@dataclass(frozen=True)
class TimeReader:
    """Reads a stream's time column where it is stored as something else than a time."""

    column: str
    unit: str
    format: TimeFormat | None = None

    @property
    def stored(self) -> pa.DataType:
        """The type that JSON values are taken in before they are read."""
        return pa.float64() if self.format is None else pa.string()

    @property
    def expected(self) -> str:
        """What a value ought to be, for people."""
        return "time" if self.format is None else f"time of the format '{self.format.text}'"

    def read(self, values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
        """The values as times, null where they are none, and where that is."""
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_temporal(values.type) or pa.types.is_null(values.type):
            return values.cast(kind), np.zeros(len(values), bool)
        if self.format is not None:
            return self._formatted(values, kind)
        if not _is_text(values.type):
            return _moments(_numbers(values), np.asarray(pc.is_valid(values)), self.unit)
        return self._fractions(values, kind)

    def _formatted(self, values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
        assert self.format is not None
        if not _is_text(values.type):
            values = values.cast(pa.string())
        found, bad = parse_times(values, self.format)
        return found.cast(kind), bad

    def _fractions(self, texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
        texts = pc.utf8_trim_whitespace(texts)
        present = np.asarray(pc.is_valid(texts))
        number = np.asarray(pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False))
        numbers = pc.if_else(pa.array(number), texts, "0").cast(pa.float64())
        found, bad = _moments(np.asarray(numbers), number, self.unit)
        others = np.flatnonzero(present & ~number)
        if not len(others):
            return found.cast(kind), bad
        times, wrong = cast_texts(texts.take(pa.array(others)), kind)
        bad[others] = wrong
        merged = pc.replace_with_mask(
            found.cast(kind), pa.array(np.isin(np.arange(len(texts)), others)), times
        )
        return merged, bad


def time_reader(stream: Stream, kind: pa.DataType) -> TimeReader | None:
    """What reads the lines of a stream whose times are to be of a type; None where Arrow can."""
    if stream.format is not None:
        return TimeReader(stream.time, stream.unit, time_format(stream.format))
    return TimeReader(stream.time, stream.unit) if kind == FRACTIONS else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _numbers(values: pa.Array) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.asarray(
        pc.fill_null(values.cast(pa.float64(), safe=False), 0.0)
    )
    return found


def _moments(numbers: npt.NDArray[np.float64], present: Bools, unit: str) -> tuple[pa.Array, Bools]:
    """Numbers of a unit since 1970 as timestamps; what is out of range is bad."""
    with np.errstate(all="ignore"):
        scaled = np.rint(numbers * (NANOSECONDS[unit] // NANOSECONDS["us"]))
        bad = present & ~(np.abs(scaled) < 2.0**62)
    whole = np.where(present & ~bad, scaled, 0).astype(np.int64)
    return pa.array(whole, pa.int64(), mask=bad | ~present).cast(FRACTIONS), bad


def cast_texts(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    """Texts in another type, null where that fails, and where it does: found by halving."""
    bad = np.zeros(len(values), bool)
    if pa.types.is_null(kind):
        return pa.nulls(len(values)), np.asarray(pc.is_valid(values))

    def cast(part: pa.Array) -> pa.Array:
        texts = part.cast(pa.string())
        if not pa.types.is_string(kind):
            texts = pc.utf8_trim_whitespace(texts)
        return texts.cast(kind)

    def halves(start: int, stop: int) -> list[pa.Array]:
        try:
            return [cast(values.slice(start, stop - start))]
        except pa.ArrowInvalid:
            if stop - start == 1:
                bad[start] = True
                return [pa.nulls(1, kind)]
            middle = (start + stop) // 2
            return halves(start, middle) + halves(middle, stop)

    parts = halves(0, len(values)) if len(values) else [pa.array([], kind)]
    return pa.concat_arrays(parts), bad


def cast_moments(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    """Times and dates out of JSON: those with a zone are times without one too, as Arrow has it."""
    if pa.types.is_date(kind) or kind.tz is not None:
        return cast_texts(texts, kind)
    zoned = pc.match_substring_regex(texts, r"(Z|[+-]\d\d(:?\d\d)?)\s*$")
    nothing = pa.scalar(None, pa.string())
    there, wrong_there = cast_texts(
        pc.if_else(zoned, texts, nothing), pa.timestamp(kind.unit, "UTC")
    )
    here, wrong_here = cast_texts(pc.if_else(zoned, nothing, texts), kind)
    return pc.coalesce(there.cast(kind), here), wrong_there | wrong_here


# --- formats -------------------------------------------------------------------------------------


def parse_times(texts: pa.Array, format: TimeFormat) -> tuple[pa.Array, Bools]:
    """Texts as timestamps of the format's type, null where one does not fit, and where that is."""
    texts = texts.cast(pa.string())
    found = pc.extract_regex(texts, format.pattern)
    fits = np.asarray(pc.is_valid(found))
    given = pa.array(fits)

    def text(name: str) -> pa.Array:
        return pc.if_else(given, pc.struct_field(found, name), "")

    def number(name: str, absent: int = 0) -> Int64s:
        if name not in format.fields:
            return np.full(len(texts), absent, np.int64)
        digits = pc.if_else(given, pc.struct_field(found, name), "0")
        values: Int64s = np.asarray(digits.cast(pa.int64()))
        return values

    year = number("Y")
    if "y" in format.fields:
        short = number("y")
        year = np.where(short < 69, 2000 + short, 1900 + short)
    if "j" in format.fields:
        ordinal = number("j")
        right = (ordinal >= 1) & (ordinal <= 365 + _is_leap(year))
        days = _days(year, np.ones_like(year), np.ones_like(year)) + ordinal - 1
    else:
        month, day = number("m"), number("d")
        if "b" in format.fields:
            short_names = pc.utf8_slice_codeunits(pc.utf8_lower(text("b")), 0, 3)
            names = pa.array([name[:3] for name in MONTHS])
            month = np.asarray(pc.fill_null(pc.index_in(short_names, names), -1)) + 1
        right = (month >= 1) & (month <= 12) & (day >= 1)
        month = np.where(right, month, 1).astype(np.int64)
        right &= day <= _month_lengths(year, month)
        days = _days(year, month, day)
    hour, minute, second = number("H"), number("M"), number("S")
    if "I" in format.fields:
        hour = number("I")
        right &= (hour >= 1) & (hour <= 12)
        late = np.asarray(pc.starts_with(pc.utf8_lower(text("p")), "p"))
        hour = hour % 12 + 12 * late
    right &= (hour <= 23) & (minute <= 59) & (second <= 59)
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    if format.has_zone:
        seconds = seconds - _offsets(text("z"))
    kind = format_type(format)
    ticks = seconds
    if format.has_fraction:
        digits = pc.utf8_rpad(text("f"), 9, "0")
        fraction = np.asarray(pc.if_else(given, digits, "0").cast(pa.int64()))
        right &= np.abs(seconds) < 2**63 // 10**9 - 1
        ticks = np.where(right, seconds, 0) * 10**9 + fraction
    good = fits & right
    times = pa.array(np.where(good, ticks, 0), pa.int64(), mask=~good).cast(kind)
    return times, np.asarray(pc.is_valid(texts)) & ~good


def _is_leap(year: Int64s) -> Bools:
    leap: Bools = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return leap


def _month_lengths(year: Int64s, month: Int64s) -> Int64s:
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)[month - 1]
    found: Int64s = lengths + ((month == 2) & _is_leap(year))
    return found


def _days(year: Int64s, month: Int64s, day: Int64s) -> Int64s:
    """Days from 1970-01-01 on; years of them begin in March, so that leap days come last."""
    shifted = year - (month <= 2)
    before = (153 * ((month + 9) % 12) + 2) // 5
    of_years = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400
    days: Int64s = of_years + before + day - 1 - 719_468
    return days


def _offsets(texts: pa.Array) -> Int64s:
    """Seconds by which clocks of a zone are ahead: `+01:00`, `-0330`, `Z`."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(texts, r"[^0-9]", ""), 4, "0")
    numbers = np.asarray(digits.cast(pa.int64()))
    seconds = (numbers // 100 * 60 + numbers % 100) * 60
    found: Int64s = np.where(np.asarray(pc.starts_with(texts, "-")), -seconds, seconds)
    return found
