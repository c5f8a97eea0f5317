"""Matches as JSON objects of what a query returns of them; each event is written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.grouped import Groups
from engines.columns.instances import Columns
from engines.columns.vectors import Vector, broadcast
from engines.events import Events
from engines.text import joined, json_column, json_text, repeated
from optimizer.ir.query import Construction, ReturnAlias, ReturnAttribute, ReturnValue
from workloads import expressions as ex

# An event's text may have a thousand characters or so, and a column of texts takes 2**31.
EVENTS_AT_ONCE = 1_000_000
# Fewer rows than one in so many of the table are sorted, and not looked up in its length.
FEW = 50
HANDFUL = 2_000  # rows that are written as often as they come: to find out costs more

Rows = npt.NDArray[Any]


class Bound(NamedTuple):
    """Matches: for each alias the table's row of its event, or a group of them."""

    size: int
    columns: Mapping[str, Rows | Groups]
    value: Callable[[ex.Expression], Vector]  # of an expression over bound aliases


class _Objects(NamedTuple):
    """What stands under a name: some columns of an alias's events."""

    alias: str
    names: list[str]


def match_texts(output: Construction, bound: Bound, columns: Columns) -> pa.Array:
    """The returned items of each match; those of absent aliases left out."""
    items: dict[str, _Objects | ex.Expression] = {}  # in the order of RETURN
    for item in output.items:
        match item:
            case ReturnAlias(alias, name):
                if alias in bound.columns:
                    items[name or alias] = _Objects(alias, columns.events.table.column_names)
            case ReturnAttribute(alias, attribute):
                if alias in bound.columns:
                    known = items.setdefault(alias, _Objects(alias, []))
                    assert isinstance(known, _Objects)
                    if attribute not in known.names:  # `RETURN a, a.x`
                        known.names.append(attribute)
            case ReturnValue(expression, name):
                items[name] = expression
    objects = _texts([i for i in items.values() if isinstance(i, _Objects)], bound, columns.events)
    pieces: list[pa.Array | str] = []
    for name, wanted in items.items():
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        if isinstance(wanted, _Objects):
            pieces.append(objects.pop(0))
        else:
            pieces.append(_value_texts(wanted, bound, columns))
    return joined(*pieces, "}") if pieces else repeated("{}", bound.size)


def parts(size: int, singles: int, groups: Sequence[Groups]) -> Iterator[npt.NDArray[np.int64]]:
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


def object_texts(rows: Rows, names: Sequence[str], events: Events) -> pa.Array:
    """Columns of rows of the table as JSON objects."""
    taken = pa.array(rows)
    pieces: list[pa.Array | str] = []
    for name in names:
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        pieces.append(json_column(events.whole(name).take(taken)))
    return joined(*pieces, "}")


def _texts(wanted: list[_Objects], bound: Bound, events: Events) -> list[pa.Array]:
    """Events as objects, groups of them as lists; an event is written once for all that want it."""
    found: list[pa.Array | None] = [None] * len(wanted)
    columns = [bound.columns[one.alias] for one in wanted]
    rows = [column.rows if isinstance(column, Groups) else column for column in columns]
    for i, one in enumerate(wanted):
        if found[i] is not None:
            continue
        alike = [j for j, other in enumerate(wanted) if other.names == one.names]
        written = _written([rows[j] for j in alike], one.names, events)
        for j, objects in zip(alike, written, strict=True):
            column = columns[j]
            if isinstance(column, Groups):
                lists = pa.ListArray.from_arrays(pa.array(column.offsets, pa.int32()), objects)
                objects = joined("[", pc.binary_join(lists, ","), "]")
            found[j] = objects
    return found


def _written(columns: list[Rows], names: Sequence[str], events: Events) -> list[pa.Array]:
    """Rows as objects, column by column."""
    ends = np.cumsum([0, *map(len, columns)]).tolist()
    if ends[-1] <= HANDFUL:
        texts = object_texts(np.concatenate(columns), names, events)
        return [texts.slice(a, b - a) for a, b in pairwise(ends)]
    used, numbers = _distinct(columns, len(events))
    texts = object_texts(used, names, events)
    return [texts.take(pa.array(number)) for number in numbers]


def _distinct(columns: list[Rows], length: int) -> tuple[Rows, list[Rows]]:
    """The rows of all columns, each once, and for each column where its rows stand in them."""
    if FEW * sum(map(len, columns)) < length:
        used, number = np.unique(np.concatenate(columns), return_inverse=True)
        return used, np.split(number, np.cumsum([len(column) for column in columns[:-1]]))
    seen = np.zeros(length, bool)
    for column in columns:
        seen[column] = True
    used = np.flatnonzero(seen)
    place = np.empty(length, np.int32)
    place[used] = np.arange(len(used))
    return used, [place[column] for column in columns]


def _value_texts(expression: ex.Expression, bound: Bound, columns: Columns) -> pa.Array:
    if not ex.aliases(expression) <= bound.columns.keys():
        return repeated("null", bound.size)
    vector = broadcast(bound.value(expression), bound.size)
    if vector.kind == "object":
        present = vector.present()
        return pa.array(
            [json_text(v) if p else "null" for v, p in zip(vector.values, present, strict=True)]
        )
    return json_column(columns.values(vector))
