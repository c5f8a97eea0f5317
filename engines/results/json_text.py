"""Values, keys and matches as JSON text, column by column."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import Layout, Rows
from engines.columns.vectors import Vector, broadcast
from engines.input.event_table import Events
from engines.results.row_texts import NumberedTexts
from optimizer.ir.keys import is_added, key_name
from optimizer.ir.query import (
    Construction,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnEvents,
    ReturnValue,
)
from workloads import expressions as ex

if TYPE_CHECKING:
    from engines.results.kept_texts import KeptTexts

_ESCAPED, _CONTROL = r'["\\]', r"[\x00-\x1f]"
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
        codes = encoded(column)
        text = distinct_texts(codes.dictionary).take(codes.indices)
    return pc.fill_null(text, "null")


def json_text(value: Any) -> str:
    """One value, or an object of values, as JSON text."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def plain_value(value: Any) -> Any:
    """A value, or an object of values, as JSON has it."""
    return _plain(value)


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


def shown_moment(column: pa.Array) -> int | str:
    """The one time of a column as people read it: a number, or ISO 8601 as far as it matters.

    The end of what a stream has settled is the last moment before another: of 26.234999999 s, by a
    clock of nanoseconds, nobody wants to know more than 26.234.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        ticks = column.cast(pa.int64())[0].as_py()
        for unit in ("ms", "us"):
            step = 10 ** (_DIGITS[kind.unit] - _DIGITS[unit])
            if (ticks + 1) % step == 0:
                column = pa.array([ticks + 1 - step], pa.int64()).cast(kind)
                break
    found = column[0].as_py() if pa.types.is_integer(kind) else iso_texts(column)[0].as_py()
    return found if isinstance(found, int) else str(found)


def encoded(column: pa.Array) -> pa.DictionaryArray:
    """A column as a dictionary and numbers in it; values that cannot be compared one by one."""
    if pa.types.is_dictionary(column.type):
        return column
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        indices = pa.array(np.arange(len(column)), pa.int64())
        return pa.DictionaryArray.from_arrays(indices, column)
    return column.dictionary_encode()


def distinct_texts(values: pa.Array) -> pa.Array:
    """Each value as JSON text; null for what JSON has no number for."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return joined('"', iso_texts(values), '"')
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.string())
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
    texts = values
    if pc.any(pc.match_substring_regex(values, _ESCAPED)).as_py():
        for character in ("\\", '"'):  # the backslash first, as it is what escapes
            texts = pc.replace_substring(texts, character, "\\" + character)
    texts = joined('"', texts, '"')
    special = pc.fill_null(pc.match_substring_regex(values, _CONTROL), False)
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


class KeyTexts:
    """The keys of a layout's partitions as JSON objects, each written when it is first needed."""

    def __init__(self, events: Events, layout: Layout, key: tuple[str, ...]) -> None:
        self._events, self._layout, self._key = events, layout, key
        self._every: pa.Array | None = None

    def of(self, partitions: Rows) -> pa.Array:
        """The key of each given partition; null where there is none."""
        codes = self.codes(partitions)
        return codes.dictionary.take(codes.indices)

    def codes(self, partitions: Rows) -> pa.DictionaryArray:
        """The keys of given partitions, as numbers in a dictionary."""
        if not self._key:
            none = pa.nulls(len(partitions), pa.int32())
            return pa.DictionaryArray.from_arrays(none, pa.array([], pa.string()))
        number = len(self._layout.starts) - 1
        if self._every is None and 4 * len(partitions) < number:
            used, (place,) = distinct_rows([partitions], number)
            return pa.DictionaryArray.from_arrays(place.astype(np.int32), self._texts(used))
        if self._every is None:
            self._every = self._texts(np.arange(number))
        return pa.DictionaryArray.from_arrays(partitions.astype(np.int32), self._every)

    def _texts(self, partitions: Rows) -> pa.Array:
        rows = self._layout.order[self._layout.starts[partitions]]
        return object_texts(rows, self._key, self._events)


def with_fixed(keys: pa.Array, query: Query) -> pa.Array:
    """Keys of a query's partitions as its results have them: with the attributes of `fixed_key`."""
    if not query.fixed_key:
        return keys
    if pa.types.is_dictionary(keys.type) and query.key:
        return pa.DictionaryArray.from_arrays(keys.indices, with_fixed(keys.dictionary, query))
    named = query.result_key
    if not query.key:
        return repeated(json_text(dict(named)), len(keys))
    columns = [i for i, (_, value) in enumerate(named) if value is None]
    before, after = named[: columns[0]], named[columns[-1] + 1 :]
    if len(before) + len(after) == len(query.fixed_key):
        inner = pc.utf8_slice_codeunits(keys, 1, -1)
        first = "".join(f"{_member(name, value)}," for name, value in before)
        last = "".join(f",{_member(name, value)}" for name, value in after)
        return joined("{" + first, inner, last + "}")
    encoded = keys.dictionary_encode()
    texts = [_completed(text, named) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _member(name: str, value: str | None) -> str:
    return f"{json_text(name)}:{json_text(value)}"


def _completed(key: str, named: tuple[tuple[str, str | None], ...]) -> str:
    """One key with fixed attributes between its own, whose values stay as they are spelled."""
    decode = json.JSONDecoder().raw_decode
    members: list[str] = []
    place = 1
    for name, value in named:
        if value is not None:
            members.append(_member(name, value))
            continue
        _, colon = decode(key, place)
        _, end = decode(key, colon + 1)
        members.append(key[place:end])
        place = end + 1
    return "{" + ",".join(members) + "}"


# An event's text may have a thousand characters or so, and a column of texts takes 2**31.
EVENTS_AT_ONCE = 250_000
# Fewer rows than one in so many of the table are sorted, and not looked up in its length.
FEW_DISTINCT_VALUES = 50
HANDFUL = 2_000  # rows that are written as often as they come: to find out costs more

RowNumbers = npt.NDArray[Any]


class BoundAliases(NamedTuple):
    """Matches: for each alias the table's row of its event, or a group of them.

    Components that only have to exist may have no column; `matched` has the names of all.
    """

    size: int
    columns: Mapping[str, RowNumbers | EventGroups]
    value: Callable[[ex.Expression], Vector]  # of an expression over bound aliases
    matched: frozenset[str] = frozenset()


class ReturnedEvents(NamedTuple):
    """What stands under a name: some columns of an alias's events."""

    alias: str
    names: list[str]


def returned_items(
    output: Construction, every: Sequence[str]
) -> dict[str, ReturnedEvents | ex.Expression]:
    """What stands under each name of a match, in the order of RETURN.

    Whole events have the columns `every`.
    """
    items: dict[str, ReturnedEvents | ex.Expression] = {}
    for item in output.items:
        match item:
            case ReturnAlias(alias, name):
                items[name or alias] = ReturnedEvents(alias, list(every))
            case ReturnAttribute(alias, attribute):
                known = items.setdefault(alias, ReturnedEvents(alias, []))
                assert isinstance(known, ReturnedEvents)
                if attribute not in known.names:  # `RETURN a, a.x`
                    known.names.append(attribute)
            case ReturnValue(expression, name):
                items[name] = expression
            case ReturnEvents(aliases, name):
                items[name] = ReturnedEvents(list_alias(aliases), list(every))
    return items


def list_alias(aliases: tuple[str, ...]) -> str:
    """What a list of the events of components is called among aliases, none of which it can be."""
    return json_text(aliases)


def with_lists(output: Construction, bound: BoundAliases) -> BoundAliases:
    """Matches with the lists that are returned of their events, and with groups of no event."""
    bound = _with_empty_groups(output, bound)
    lists = {item.aliases for item in output.items if isinstance(item, ReturnEvents)}
    if not lists:
        return bound
    columns = dict(bound.columns)
    for aliases in lists:
        events = [bound.columns[alias] for alias in aliases if alias in bound.columns]
        rows = np.array([e for e in events if not isinstance(e, EventGroups)], np.int64)
        offsets = np.arange(bound.size + 1, dtype=np.int64) * len(rows)
        columns[list_alias(aliases)] = EventGroups(offsets, rows.T.reshape(-1))
    return bound._replace(columns=columns)


def _with_empty_groups(output: Construction, bound: BoundAliases) -> BoundAliases:
    matched = bound.matched | bound.columns.keys()
    absent = [group.alias for group in output.empty_groups if group.is_empty(matched)]
    if not absent:
        return bound
    empty = EventGroups(np.zeros(bound.size + 1, np.int64), np.zeros(0, np.int64))

    def value(expression: ex.Expression) -> Vector:
        return bound.value(ex.without_groups(expression, absent))

    return bound._replace(columns={**bound.columns, **dict.fromkeys(absent, empty)}, value=value)


def match_pieces(
    output: Construction, bound: BoundAliases, columns: Columns, kept: KeptTexts | None = None
) -> list[str | NumberedTexts]:
    """What the JSON of matches is put together of; items of absent aliases are left out.

    With `kept` events are numbers of texts there.
    """
    bound = with_lists(output, bound)
    items = {
        name: item
        for name, item in returned_items(output, columns.events.names).items()
        if not isinstance(item, ReturnedEvents) or item.alias in bound.columns
    }
    objects = _texts(
        [i for i in items.values() if isinstance(i, ReturnedEvents)], bound, columns.events, kept
    )
    pieces: list[str | NumberedTexts] = []
    for name, wanted in items.items():
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        if isinstance(wanted, ReturnedEvents):
            pieces.append(objects.pop(0))
        else:
            pieces.append(in_turn(value_texts(wanted, bound, columns)))
    return [*pieces, "}"] if pieces else ["{}"]


def in_turn(texts: pa.Array) -> NumberedTexts:
    """Each row's own text."""
    return NumberedTexts(texts, np.arange(len(texts), dtype=np.int32))


def parts(
    size: int, singles: int, groups: Sequence[EventGroups]
) -> Iterator[npt.NDArray[np.int64]]:
    """The rows of matches, in parts of no more events than a column of texts can take.

    A match has so many single events, and one group of each of `groups`.
    """
    if not groups and size * max(singles, 1) <= EVENTS_AT_ONCE:
        yield np.arange(size)
        return
    sizes = np.full(size, max(singles, 1))
    for group in groups:
        sizes = sizes + group.sizes
    total = np.cumsum(sizes)
    start = 0
    while start < size:
        done = int(total[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(total, done + EVENTS_AT_ONCE, "right")))
        yield np.arange(start, end)
        start = end


def object_texts(rows: RowNumbers, names: Sequence[str], events: Events) -> pa.Array:
    """Columns of rows of the table as JSON objects."""
    taken = pa.array(rows)
    pieces: list[pa.Array | str] = []
    for name in names:
        pieces.append(("," if pieces else "{") + json_text(key_name(name)) + ":")
        values = events.whole(name).take(taken)
        pieces.append(values if is_added(name) else json_column(values))
    return joined(*pieces, "}")


def _texts(
    wanted: list[ReturnedEvents], bound: BoundAliases, events: Events, kept: KeptTexts | None
) -> list[NumberedTexts]:
    """Events as objects, groups of them as lists; an event is written once for all that want it."""
    found: dict[int, NumberedTexts] = {}
    columns = [bound.columns[one.alias] for one in wanted]
    rows = [column.rows if isinstance(column, EventGroups) else column for column in columns]
    for i, one in enumerate(wanted):
        if i in found:
            continue
        alike = [j for j, other in enumerate(wanted) if other.names == one.names]
        if kept is not None:
            single = [j for j in alike if not isinstance(columns[j], EventGroups)]
            numbers = kept.objects([rows[j] for j in single], one.names, events)
            found |= zip(single, numbers, strict=True)
            alike = [j for j in alike if j not in found]
        written = _written([rows[j] for j in alike], one.names, events)
        for j, objects in zip(alike, written, strict=True):
            column = columns[j]
            if isinstance(column, EventGroups):
                texts = objects.texts.take(pa.array(objects.numbers))
                lists = pa.ListArray.from_arrays(pa.array(column.offsets, pa.int32()), texts)
                objects = in_turn(joined("[", pc.binary_join(lists, ","), "]"))
            found[j] = objects
    return [found[i] for i in range(len(wanted))]


def _written(
    columns: list[RowNumbers], names: Sequence[str], events: Events
) -> list[NumberedTexts]:
    """Rows as objects, column by column."""
    if sum(map(len, columns)) <= HANDFUL:
        return [in_turn(object_texts(column, names, events)) for column in columns]
    used, numbers = distinct_rows(columns, len(events))
    texts = object_texts(used, names, events)
    return [NumberedTexts(texts, number) for number in numbers]


def distinct_rows(columns: list[RowNumbers], length: int) -> tuple[RowNumbers, list[RowNumbers]]:
    """The rows of all columns, each once, and for each column where its rows stand in them."""
    if FEW_DISTINCT_VALUES * sum(map(len, columns)) < length:
        used, number = np.unique(np.concatenate(columns), return_inverse=True)
        return used, np.split(number, np.cumsum([len(column) for column in columns[:-1]]))
    seen = np.zeros(length, bool)
    for column in columns:
        seen[column] = True
    used = np.flatnonzero(seen)
    place = np.empty(length, np.int32)
    place[used] = np.arange(len(used))
    return used, [place[column] for column in columns]


def value_texts(expression: ex.Expression, bound: BoundAliases, columns: Columns) -> pa.Array:
    if not ex.aliases(expression) <= bound.columns.keys():
        return repeated("null", bound.size)
    if isinstance(expression, ex.Literal):
        return repeated(json_text(expression.value), bound.size)
    vector = broadcast(bound.value(expression), bound.size)
    if vector.kind == "object":
        present = vector.present()
        return pa.array(
            [json_text(v) if p else "null" for v, p in zip(vector.values, present, strict=True)]
        )
    return json_column(returned_values(expression, vector, columns))


def returned_values(expression: ex.Expression, vector: Vector, columns: Columns) -> pa.Array:
    """A computed vector as values for people; times as the attribute has them that they are of."""
    found = columns.values(vector)
    if not pa.types.is_timestamp(found.type):
        return found
    (name,) = set(ex.attributes(expression))
    return found.cast(columns.events.column(name).type)
