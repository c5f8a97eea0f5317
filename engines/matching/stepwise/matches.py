"""Queries that return matches: their times, their keys, and the match as JSON text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.matching.stepwise.bind import distinct
from engines.matching.stepwise.plan import Mode, plan_choice
from engines.matching.stepwise.steps import Frame, QueryScan, Slot, StepPlan, run_steps, value
from engines.results.json_text import BoundAliases, KeyTexts, match_texts, parts, with_fixed
from engines.results.tables import match_schema
from optimizer.ir.query import Construction, Pattern, Query, alternatives, waits


def match_rows(query: Query, scan: QueryScan, keys: KeyTexts) -> pa.Table:
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
    groups = [frame.group(alias) for alias in kept if frame.is_group(alias)]
    for rows in parts(frame.size, len(kept) - len(groups), groups):
        yield frame if len(rows) == frame.size else frame.take(rows)


def _table(
    query: Query,
    pattern: Pattern,
    plan: StepPlan,
    scan: QueryScan,
    frame: Frame,
    keys: KeyTexts,
) -> pa.Table:
    assert isinstance(query.output, Construction)
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
        "key": with_fixed(keys.of(layout.partition[first]), query),
        "start": events.times(layout.ticks[first]),
        "end": events.times(layout.ticks[last]),
        "time": events.times(ticks),
        "match": match_texts(query.output, _bound(plan.kept, scan, frame), scan.columns),
    }
    return pa.table(columns, schema=match_schema(events.time_type))


def _bound(kept: tuple[str, ...], scan: QueryScan, frame: Frame) -> BoundAliases:
    order = scan.layout.order
    columns: dict[str, Rows | EventGroups] = {}
    for alias in kept:
        if frame.is_group(alias):
            group = frame.group(alias)
            columns[alias] = EventGroups(group.offsets, order[group.rows])
        else:
            columns[alias] = order[frame.column(alias)]
    return BoundAliases(frame.size, columns, lambda expression: value(expression, scan, frame))
