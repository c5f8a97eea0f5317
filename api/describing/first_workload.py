"""A first workload for events: the columns of time, type and key, and a query that finds rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from api.describing.columns import ColumnProfile, EventsProfile
from engines.input.column_types import yaml_name
from engines.input.time_texts import parse_times
from workloads.printing import print_name, print_path
from workloads.time_format import time_format
from workloads.workload import NANOSECONDS, TimeUnit

# Names that columns often have, by what they are for.
_TIMES = re.compile(r"\b(ts|time|timestamp|date|datetime|when|at|created|occurred)\b")
_TYPES = re.compile(r"\b(type|kind|event|action|activity|name|category|operation|op|verb)\b")
_KEYS = re.compile(
    r"\b(user|customer|client|card|account|session|device|host|id|key|order|case|symbol|ticker|ip)\b"
)
_SEQUENCES = re.compile(r"\b(seq|sequence|offset|nr|number)\b")
_RECENT = (631_152_000 * 10**9, 4_102_444_800 * 10**9)  # 1990 and 2100, in nanoseconds
_FORMATS = (
    "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",
    "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%b %d, %Y %I:%M %p",
    "%d %b %Y %H:%M:%S", "%d %b %Y %H:%M", "%d/%b/%Y:%H:%M:%S %z", "%Y/%m/%d %H:%M:%S",
    "%Y%m%d%H%M%S",
)  # fmt: skip
_FORMAT_SAMPLE = 500
MOST_TYPES = 200
LISTED_TYPES = 40
_WINDOWS = (1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 6 * 3_600, 86_400, 7 * 86_400)  # seconds
_UNITS = ((86_400, "days", "day"), (3_600, "hours", "hour"), (60, "min", "min"), (1, "s", "s"))
DEFAULT_WINDOW = 600
MOSTLY = 0.5  # part of a type's events that have a number
RARELY = 0.05  # of the most frequent pair: one that has numbers is taken if it is not so rare
MOST_BAD = 0.05  # of the values of a column that has the time
GAP_QUANTILE = 0.9  # of the gaps between the two events fit into the window

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TimeColumn:
    """The column that has the time, how it is written, and the times in nanoseconds.

    There is a time for each value of the column; those of `bad` ones mean nothing.
    """

    name: str
    unit: TimeUnit | None = None  # of numbers
    format: str | None = None  # of texts
    is_guess: bool = False  # numbers that are no moments in recent years
    nanoseconds: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    bad: Bools | None = None  # values that are no times, where some are

    @property
    def good(self) -> Int64s:
        """The times of values that are some."""
        return self.nanoseconds if self.bad is None else self.nanoseconds[~self.bad]


@dataclass(frozen=True)
class FirstWorkload:
    """What was made of a profile: the roles of columns, the text, and what is doubtful about it."""

    time: str | None
    type: str | None
    key: str | None
    number: str | None
    first: str | None  # the earliest time of the sample, for people
    last: str | None
    text: str
    notes: tuple[str, ...]


def first_workload(profile: EventsProfile, name: str = "my_workload") -> FirstWorkload:
    """A workload over these events, with a query whose pattern they have."""
    notes: list[str] = []
    time = find_time(profile)
    if time is None:
        notes.append(
            "no column looks like a time: name one under `time`, with its `unit` or its `format`"
        )
    elif time.is_guess:
        notes.append(
            f"the numbers of '{time.name}' are no times of recent years: "
            "see whether `unit` is right"
        )
    elif time.bad is not None:
        notes.append(_bad_times(profile, time, time.bad))
    taken = {time.name} if time else set()
    type_ = _best(profile, taken, _type_score)
    taken |= {type_.name} if type_ else set()
    key = _best(profile, taken, _key_score)
    taken |= {key.name} if key else set()
    number = _best(profile, taken, _number_score)
    if type_ is None:
        notes.append("no column looks like a type: every event is of the type 'Event'")
    spoilt = [column.spoilt for column in profile.columns if column.spoilt is not None]
    for column in spoilt:
        notes.append(
            f"'{column.name}' has {column.value!r} in row {column.row} where {column.numbers:,} "
            "are numbers: it is declared as one; leave such rows out (on_error: skip)"
        )
        number = number or profile.column(column.name)
    if profile.faults:
        notes.append(f"{profile.faults:,} rows could not be read")
    pair, window, has_number = _frequent_pair(profile, time, type_, key, number)
    number = number if has_number else None
    text = _text(name, profile, time, type_, key, number, pair, window)
    first, last = _span(time)
    return FirstWorkload(
        time.name if time else None,
        type_.name if type_ else None,
        key.name if key else None,
        number.name if number else None,
        first,
        last,
        text,
        tuple(notes),
    )


# --- which column is what ------------------------------------------------------------------------


def _words(name: str) -> str:
    """A column's name as words: `customerId` and `customer_id` are `customer id`."""
    return re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def find_time(profile: EventsProfile, named: str | None = None) -> TimeColumn | None:
    """The column that is most likely the time, or the one that is `named`."""
    found: list[tuple[float, TimeColumn]] = []
    for column in profile.columns:
        if named not in (None, column.name):
            continue
        values = profile.table.column(column.name).combine_chunks()
        read = _as_time(column, values)
        if read is None:
            continue
        is_named = named is not None or bool(_TIMES.search(_words(column.name)))
        steps = np.diff(read.good)
        ordered = bool(len(steps)) and float(np.mean(steps >= 0)) > 0.95
        if read.is_guess and not is_named and not (ordered and column.distinct > 1):
            continue
        score = 4 * (not read.is_guess) + 2 * is_named + ordered - 2 * (column.nulls > 0)
        found.append((score, read))
    return max(found, key=lambda each: each[0])[1] if found else None


def _as_time(column: ColumnProfile, values: pa.Array) -> TimeColumn | None:
    stored, values = values.type, values.drop_null()
    if pa.types.is_timestamp(stored) or pa.types.is_date(stored):
        return TimeColumn(column.name, nanoseconds=_of_moments(values))
    if pa.types.is_string(stored):
        return _as_written(column, values)
    if not (pa.types.is_integer(stored) or pa.types.is_floating(stored)):
        return None
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    if not len(numbers) or not np.isfinite(numbers).all() or np.abs(numbers).max() > 2**62:
        return None
    units: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
    for unit in units:
        low, high = numbers.min() * NANOSECONDS[unit], numbers.max() * NANOSECONDS[unit]
        if low > _RECENT[0] and high < _RECENT[1]:
            return TimeColumn(column.name, unit, None, False, _ticks(numbers, unit))
    if numbers.min() < 0 or numbers.max() * NANOSECONDS["s"] > 2**62:
        return None
    return TimeColumn(column.name, "s", None, True, _ticks(numbers, "s"))


def _as_written(column: ColumnProfile, texts: pa.Array) -> TimeColumn | None:
    """The time as texts in a format that nearly all of them have."""
    for written in _FORMATS if len(texts) else ():
        if parse_times(texts.slice(0, _FORMAT_SAMPLE), time_format(written))[1].mean() > MOST_BAD:
            continue
        times, bad = parse_times(texts, time_format(written))
        if bad.mean() <= MOST_BAD:
            wrong = bad if bad.any() else None
            return TimeColumn(column.name, None, written, False, _of_moments(times), wrong)
    return None


def _of_moments(times: pa.Array) -> Int64s:
    ticks = times.cast(pa.timestamp("ns"), safe=False).cast(pa.int64()).fill_null(0)
    found: Int64s = ticks.to_numpy()
    return found


def _bad_times(profile: EventsProfile, time: TimeColumn, bad: Bools) -> str:
    """What is to be known of values that are no times."""
    values = profile.table.column(time.name)
    rows = np.flatnonzero(pc.is_valid(values).to_numpy())[bad]
    more = f", and {len(rows) - 1:,} more such rows" if len(rows) > 1 else ""
    first = int(rows[0])
    return (
        f"'{time.name}' has {values[first].as_py()!r} in row {first + 1}{more}, which is no time: "
        "leave such rows out (on_error: skip)"
    )


def _ticks(numbers: npt.NDArray[np.float64], unit: str) -> Int64s:
    return (numbers * NANOSECONDS[unit]).astype(np.int64)


def _type_score(column: ColumnProfile, rows: int) -> float:
    """Few values that come again and again, with a name that says so."""
    if column.kind != "string" or not 2 <= column.distinct <= min(MOST_TYPES, max(2, rows / 2)):
        return 0
    named = bool(_TYPES.search(_words(column.name)))
    is_key = bool(_KEYS.search(_words(column.name)))
    return 1 + 3 * named - (column.nulls > 0) - (0 if named or not is_key else 1.5)


def _key_score(column: ColumnProfile, rows: int) -> float:
    """Values of which there are several events each, with a name that says so."""
    if column.kind not in ("string", "int") or not 2 <= column.distinct <= max(2, rows / 1.5):
        return 0
    named = bool(_KEYS.search(_words(column.name)))
    if column.kind == "int" and not named:
        return 0
    return 1 + 3 * named + min(1.0, column.distinct / 100) - (column.nulls > 0)


def _number_score(column: ColumnProfile, rows: int) -> float:
    if column.kind not in ("int", "float") or column.distinct < 2 or _is_counter(column, rows):
        return 0
    return 1 + (column.kind == "float") - 1.5 * bool(_KEYS.search(_words(column.name)))


def _is_counter(column: ColumnProfile, rows: int) -> bool:
    """Whether every row has a whole number of its own, as sequence numbers are."""
    return column.kind == "int" and column.nulls == 0 and column.distinct == rows > 2


def _best(
    profile: EventsProfile, taken: Iterable[str], score: Callable[[ColumnProfile, int], float]
) -> ColumnProfile | None:
    """The column with the highest score above 0 of those that are not taken."""
    rows = profile.table.num_rows
    scored = [
        (score(column, rows), column) for column in profile.columns if column.name not in taken
    ]
    found = max(scored, key=lambda each: each[0], default=None)
    return found[1] if found and found[0] > 0 else None


# --- the query -----------------------------------------------------------------------------------


def _frequent_pair(
    profile: EventsProfile,
    time: TimeColumn | None,
    type_: ColumnProfile | None,
    key: ColumnProfile | None,
    number: ColumnProfile | None,
) -> tuple[tuple[str, str], int, bool]:
    """Two types that often follow each other for one key, and seconds in which they mostly do.

    Of the second most events have the number, where there are such types; the last says whether.
    """
    if type_ is None or time is None:
        usual = type_.examples[:2] if type_ else ("Event", "Event")
        return (usual[0], usual[-1]), DEFAULT_WINDOW, True
    columns = [profile.table.column(c.name) for c in (type_, *([key] if key else []))]
    has_time = pc.is_valid(profile.table.column(time.name)).to_numpy()
    timed = has_time.copy()
    timed[has_time] = True if time.bad is None else ~time.bad
    valid = pa.chunked_array([pa.array(timed)])
    for column in columns:
        valid = pc.and_(valid, pc.is_valid(column))
    kept = valid.to_numpy()
    if not kept.any():
        return (type_.examples[0], type_.examples[-1]), DEFAULT_WINDOW, True
    times = time.nanoseconds[kept[has_time]]
    codes = [pc.dictionary_encode(c.filter(valid).combine_chunks()) for c in columns]
    types = codes[0].indices.to_numpy()
    many = len(codes[0].dictionary)
    numbered = np.ones(many, np.bool_)
    if number is not None:
        given = pc.is_valid(profile.table.column(number.name)).filter(valid).to_numpy()
        numbered = np.bincount(types, given, many) > MOSTLY * np.bincount(types, minlength=many)
    keys = codes[1].indices.to_numpy() if key else np.zeros(len(types), np.int64)
    order = np.lexsort((times, keys))
    types, keys, times = types[order], keys[order], times[order]
    follows = (keys[1:] == keys[:-1]) & (types[1:] != types[:-1]) & (times[1:] > times[:-1])
    if not follows.any():
        return (type_.examples[0], type_.examples[-1]), DEFAULT_WINDOW, True
    pairs = types[:-1].astype(np.int64) * many + types[1:]
    counts = np.bincount(pairs[follows], minlength=many * many)
    summed = counts * np.tile(numbered, many)
    often = int(np.argmax(summed if summed.max() > RARELY * counts.max() else counts))
    gaps = np.diff(times)[follows & (pairs == often)] / 10**9
    wanted = float(np.quantile(gaps, GAP_QUANTILE))
    window = next((seconds for seconds in _WINDOWS if seconds > wanted), _WINDOWS[-1])
    names = codes[0].dictionary.to_pylist()
    first, second = often // many, often % many
    return (names[first], names[second]), window, bool(numbered[second])


def _text(
    name: str,
    profile: EventsProfile,
    time: TimeColumn | None,
    type_: ColumnProfile | None,
    key: ColumnProfile | None,
    number: ColumnProfile | None,
    pair: tuple[str, str],
    window: int,
) -> str:
    lines = [f"name: {yaml_name(name)}", "stream:"]
    column = time.name if time else profile.columns[0].name
    about = (
        "the column with an event's time"
        if time
        else "no column looks like a time: name the right one"
    )
    lines.append(f"  time: {yaml_name(column)}   # {about}")
    if time and time.unit:
        doubt = "a guess: s, ms, us or ns" if time.is_guess else "of the numbers in it"
        lines.append(f"  unit: {time.unit}   # {doubt}")
    if time and time.format:
        lines.append(f"  format: {yaml_name(time.format)}")
    if type_:
        lines.append(f"  type: {yaml_name(type_.name)}   # {_listed(profile, type_)}")
    else:
        lines.append("  types:")
        lines.append(f"    Event: {yaml_name(print_path(column) + ' IS NOT NULL')}")
    if sequence := find_sequence(profile, {column}):
        lines.append(f"  sequence: {yaml_name(sequence)}   # the order of simultaneous events")
    if any(each.spoilt for each in profile.columns):  # with one, all that queries read are declared
        lines.append("  attributes:")
        roles = {column, type_.name if type_ else None, sequence}
        others = [each for each in profile.columns if each.name not in roles]
        lines += [f"    {yaml_name(each.name)}: {each.declared}" for each in others]
    first, second = pair
    query = ["QUERY first", f"PATTERN SEQ({print_name(first)} a, {print_name(second)} b)"]
    if key:
        query.append(f"PARTITION BY {print_path(key.name)}")
    total = f", SUM(b.{print_path(number.name)})" if number else ""
    query += [f"AGG COUNT(*){total}", f"WITHIN {_duration(window)}"]
    return "\n".join([*lines, "queries:", "  - |", *(f"    {line}" for line in query), ""])


def find_sequence(profile: EventsProfile, taken: set[str]) -> str | None:
    """A column of sequence numbers, by its name and its values."""
    rows = profile.table.num_rows
    for column in profile.columns:
        if (
            column.name not in taken
            and _SEQUENCES.search(_words(column.name))
            and _is_counter(column, rows)
        ):
            return column.name
    return None


def _listed(profile: EventsProfile, type_: ColumnProfile) -> str:
    """The types that the sample has, in a line."""
    names = pc.unique(profile.table.column(type_.name).drop_null()).to_pylist()
    shown = ", ".join(" ".join(str(name).split()) for name in sorted(names)[:LISTED_TYPES])
    shown = shown if len(shown) <= 160 else shown[:159] + "…"
    return shown + (" …" if len(names) > LISTED_TYPES else "")


def _duration(seconds: int) -> str:
    for size, several, one in _UNITS:
        if seconds % size == 0:
            return f"{seconds // size} {one if seconds == size else several}"
    raise AssertionError(seconds)


def _span(time: TimeColumn | None) -> tuple[str | None, str | None]:
    if time is None or not len(time.good):
        return None, None
    ends = time.good.min(), time.good.max()
    if time.is_guess:
        return tuple(f"{int(end) // 10**9:,} s" for end in ends)  # type: ignore[return-value]
    shown = [str(np.datetime64(int(end), "ns").astype("datetime64[s]")) for end in ends]
    return shown[0].replace("T", " "), shown[1].replace("T", " ")
