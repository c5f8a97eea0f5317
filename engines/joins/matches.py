"""Queries that return matches: their times, their keys, and the match as JSON text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.keys import KeyTexts
from engines.columns.layout import Rows
from engines.columns.vectors import broadcast
from engines.joins.conditions import value
from engines.joins.distinct import distinct
from engines.joins.frame import Frame, Slot
from engines.joins.plan import Mode, plan_choice
from engines.joins.scan import Scan
from engines.joins.steps import Plan, run_steps
from engines.results import match_schema
from engines.text import joined, json_column, json_text
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Pattern
from optimizer.ir.query import Construction, Query, ReturnAlias, ReturnAttribute, ReturnValue
from optimizer.places import waits
from workloads import expressions as ex

# An event's text may have a thousand characters or so, and a column of texts takes 2**31.
EVENTS_AT_ONCE = 1_000_000


def match_rows(query: Query, scan: Scan, keys: KeyTexts) -> pa.Table:
    """The rows of a query that returns matches."""
    found = 0
    tables = [match_schema(scan.columns.events.time_type).empty_table()]
    for pattern in alternatives(query.pattern):
        plan = plan_choice(pattern, query.conditions, Mode.MATCH)
        seed = Frame(1, {Slot.LOW: np.array([0]), Slot.HIGH: np.array([len(scan.layout)])})
        frames: Iterable[Frame] = run_steps(plan.steps, scan, seed)
        if plan.unkept:
            frames = distinct(frames, plan.kept, (), scan)
        for frame in frames:
            found += frame.size
            if found > scan.limits.results:
                scan.refuse(f"it has more than {scan.limits.results:,} matches")
            tables += [
                _table(query, pattern, plan, scan, part, keys) for part in _slices(frame, plan.kept)
            ]
    return pa.concat_tables(tables)


def _slices(frame: Frame, kept: tuple[str, ...]) -> Iterator[Frame]:
    """Parts of a frame with no more events than a column of texts can take."""
    sizes = np.full(frame.size, len(kept))
    for alias in kept:
        if frame.is_group(alias):
            sizes = sizes + frame.group(alias).sizes
    total = np.cumsum(sizes)
    start = 0
    while start < frame.size:
        done = int(total[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(total, done + EVENTS_AT_ONCE, "right")))
        whole = start == 0 and end == frame.size
        yield frame if whole else frame.take(np.arange(start, end))
        start = end


def _table(
    query: Query,
    pattern: Pattern,
    plan: Plan,
    scan: Scan,
    frame: Frame,
    keys: KeyTexts,
) -> pa.Table:
    events, layout = scan.columns.events, scan.layout
    first, last = plan.extent.of(frame)
    ticks = layout.ticks[last]
    if waits(pattern) and query.window.is_count:
        # The event whose rank closes the window, or else the partition's last one.
        end = layout.starts[layout.partition[first] + 1] - 1
        ticks = layout.ticks[np.minimum(scan.reach_high[first], end)]
    elif waits(pattern):
        ticks = layout.ticks[first] + scan.width
    columns = {
        "query": pa.repeat(pa.scalar(query.name), frame.size),
        "key": keys.of(layout.partition[first]),
        "start": events.times(layout.ticks[first]),
        "end": events.times(layout.ticks[last]),
        "time": events.times(ticks),
        "match": _match_texts(query, plan.kept, scan, frame),
    }
    return pa.table(columns, schema=match_schema(events.time_type))


def _match_texts(query: Query, kept: tuple[str, ...], scan: Scan, frame: Frame) -> pa.Array:
    """The returned items of each match as a JSON object; those of absent aliases left out."""
    assert isinstance(query.output, Construction)
    fields: dict[str, list[str]] = {}  # of the events under a name; in the order of RETURN
    aliases: dict[str, str] = {}
    values: dict[str, ex.Expression] = {}
    for item in query.output.items:
        match item:
            case ReturnAlias(alias, name) if alias in kept:
                fields[name or alias] = list(scan.columns.events.table.column_names)
                aliases[name or alias] = alias
            case ReturnAttribute(alias, attribute) if alias in kept:
                fields.setdefault(alias, []).append(attribute)
                aliases[alias] = alias
            case ReturnValue(expression, name):
                fields[name] = []
                values[name] = expression
            case _:
                pass
    pieces: list[pa.Array | str] = []
    for name, names in fields.items():
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        if name in values:
            pieces.append(_value_texts(values[name], kept, scan, frame))
        else:
            pieces.append(_event_texts(aliases[name], names, scan, frame))
    if not pieces:
        return pa.repeat(pa.scalar("{}"), frame.size)
    return joined(*pieces, "}")


def _value_texts(
    expression: ex.Expression, kept: tuple[str, ...], scan: Scan, frame: Frame
) -> pa.Array:
    if not ex.aliases(expression) <= set(kept):
        return pa.repeat(pa.scalar("null"), frame.size)
    vector = broadcast(value(expression, scan, frame), frame.size)
    if vector.kind == "object":
        present = vector.present()
        return pa.array(
            [json_text(v) if p else "null" for v, p in zip(vector.values, present, strict=True)]
        )
    return json_column(scan.columns.values(vector))


def _event_texts(alias: str, names: list[str], scan: Scan, frame: Frame) -> pa.Array:
    if not frame.is_group(alias):
        return _object_texts(frame.column(alias), names, scan)
    group = frame.group(alias)
    objects = _object_texts(group.rows, names, scan)
    lists = pa.ListArray.from_arrays(pa.array(group.offsets, pa.int32()), objects)
    return joined("[", pc.binary_join(lists, ","), "]")


def _object_texts(rows: Rows, names: list[str], scan: Scan) -> pa.Array:
    """The given columns of events as JSON objects; each event that occurs is written once."""
    used, place = np.unique(rows, return_inverse=True)
    taken = pa.array(scan.layout.order[used])
    pieces: list[pa.Array | str] = []
    for name in names:
        pieces.append(("," if pieces else "{") + json_text(name) + ":")
        pieces.append(json_column(scan.columns.events.column(name).take(taken)))
    return joined(*pieces, "}").take(pa.array(place))
