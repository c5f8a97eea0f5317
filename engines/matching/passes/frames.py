"""Windows that follow another clock than time: the layout that frames them, and their rows.

A session is a partition of its own, events of counted types give ranks, and windows from the first
event have times that begin with it. What then is a match is found as in any other window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, Layout, Rows, blocks
from engines.matching.aggregate.aggregates import aggregate_rows
from engines.matching.aggregate.windows import SessionWindows, SlideWindows, WindowEdges, Windows
from engines.matching.passes.input import PassInput
from engines.matching.stepwise.matches import match_chunks
from engines.matching.stepwise.steps import QueryScan
from engines.program import PassUnit
from engines.results.chunks import NEVER, AggregateChunk, RowChunk
from engines.results.json_text import KeyTexts
from optimizer.ir.pattern import Symbol, events
from optimizer.ir.query import Aggregation, Query, whole_ticks


def framed_chunks(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The rows of a unit's queries, as they are found."""
    frames: dict[object, Frame] = {}
    for query in unit.queries:
        if query.name in given.context.ledger.stopped:
            continue
        place = (query.window, query.from_first, _types(query) if query.window.session else None)
        if place not in frames:
            frames[place] = frame_of(query, given.arranged(query))
        yield from _rows(query, frames[place], given)


@dataclass(frozen=True, eq=False)
class Frame:
    """Events in the order and with the positions that windows go by.

    `closes` is when the sessions of each partition end; `shift` is the time of each partition that
    has the position 0, where positions are not times.
    """

    arranged: ArrangedEvents
    width: int
    closes: Rows | None = None
    shift: Rows | None = None


def frame_of(query: Query, arranged: ArrangedEvents) -> Frame:
    """The frame of a query's windows over events that are in the order of its key."""
    layout, columns = arranged.layout, arranged.columns
    width = query.window.ticks(columns.events.tick)
    if query.window.session:
        return _sessions(query, layout, columns, width)
    if query.window.of:
        return Frame(ArrangedEvents(_ranked(query, layout, columns), columns), width)
    if query.from_first and len(layout):
        shift = layout.ticks[layout.starts[:-1]] + width - 1
        shifted = replace(layout, position=layout.ticks - shift[layout.partition])
        return Frame(ArrangedEvents(shifted, columns), width, shift=shift)
    return Frame(arranged, width)


def _types(query: Query) -> tuple[str, ...]:
    return tuple(sorted({event.symbol.type for event in events(query.pattern)}))


def _sessions(query: Query, layout: Layout, columns: Columns, gap: int) -> Frame:
    """The events of the query's types; where two are a gap apart, another partition begins."""
    masks = [columns.instances(Symbol(name)) for name in _types(query)]
    kept = np.flatnonzero(reduce(np.logical_or, masks)[layout.order])
    partition, ticks = layout.partition[kept], layout.ticks[kept]
    begins = np.ones(len(kept), bool)
    begins[1:] = (np.diff(partition) != 0) | (np.diff(ticks) >= gap)
    new = begins.copy()
    new[1:] |= np.diff(layout.block[kept]) != 0
    block, after = blocks(new)
    starts = np.append(np.flatnonzero(begins), len(kept))
    made = Layout(layout.order[kept], np.cumsum(begins) - 1, starts, block, after, ticks, ticks)
    last = ticks[starts[1:] - 1]
    spans = last - ticks[starts[:-1]]
    # A window that holds the longest session holds each of them whole.
    return Frame(ArrangedEvents(made, columns), int(spans.max(initial=0)) + 1, closes=last + gap)


def _ranked(query: Query, layout: Layout, columns: Columns) -> Layout:
    """Positions that count events of some types; another event has that of the last before it."""
    masks = [columns.instances(Symbol(name)) for name in query.window.of]
    counted = reduce(np.logical_or, masks)[layout.order]
    before = np.zeros(len(layout) + 1, np.int64)
    np.cumsum(counted, out=before[1:])
    own = before[layout.starts[layout.partition]]
    # The last counted event up to the end of a row's block, and the first of its own block.
    places = np.flatnonzero(counted)
    upto = before[layout.after[:-1]]
    newest = np.append(places, 0)[np.maximum(upto, 1) - 1]
    rank = before[layout.block[newest]] - own + 1
    return replace(layout, position=np.where(upto > own, rank, 0))


def _rows(query: Query, frame: Frame, given: PassInput) -> Iterator[RowChunk]:
    columns, layout = frame.arranged.columns, frame.arranged.layout
    scan = QueryScan(frame.arranged, frame.width, query.name, given.context.limits)
    keys = KeyTexts(columns.events, layout, query.key)
    if isinstance(query.output, Aggregation):
        context = given.context
        windows = _windows(query, frame, scan, context.since, context.until)
        is_new = isinstance(windows, SlideWindows)
        for table in aggregate_rows(query, scan, keys, windows=windows):
            yield AggregateChunk(query.name, table, is_new)
        return
    account, output = given.context.account, given.outputs[query.name]
    yield from match_chunks(query, scan, keys, account, output, closes=frame.closes)


def _windows(
    query: Query, frame: Frame, scan: QueryScan, since: int | None, until: int | None
) -> Windows | None:
    """The windows of an aggregate query; None for those that each trigger closes.

    Of those that slide the ones that are certain when all events before the time `until` are there,
    and were not before `since`.
    """
    layout = frame.arranged.layout
    if frame.closes is not None:
        return SessionWindows(layout, frame.closes)
    if query.slide is None:
        return None
    ranked = query.window.is_count
    slide = query.slide
    if not ranked:
        slide = whole_ticks(query.slide, scan.columns.events.tick, "slide")
    begin, end = _edges(frame, slide, ranked)
    begin = np.maximum(begin, _before(frame, slide, ranked, since))
    if until is not None:
        last = layout.position[layout.starts[1:] - 1]
        end = np.minimum(end, -(-(last if ranked else until - _shift(frame)) // slide))
    edges = WindowEdges(begin, np.maximum(begin, end), frame.shift, query.empty_rows)
    return SlideWindows(scan, {e.symbol for e in events(query.pattern)}, slide, ranked, edges)


def _edges(frame: Frame, slide: int, ranked: bool) -> tuple[Rows, Rows]:
    """The multiples of the slide at which the windows of partitions close, the end excluded."""
    layout = frame.arranged.layout
    first, last = layout.position[layout.starts[:-1]], layout.position[layout.starts[1:] - 1]
    if frame.shift is not None:
        # Its windows close at 0 and at multiples of the slide, as long as they open in time.
        return np.zeros(len(first), np.int64), (last - first) // slide + 1
    return -(-first // slide), last // slide + 1 if ranked else -(-(last + frame.width) // slide)


def _before(frame: Frame, slide: int, ranked: bool, since: int | None) -> Rows:
    """Of each partition the first multiple whose window was not certain before the time `since`.

    That of a rank is certain when a later rank is there; one in time when it is over, and has been
    opened before the partition's last event.
    """
    layout = frame.arranged.layout
    number = len(layout.starts) - 1
    if since is None:
        return np.full(number, -NEVER)
    behind = np.zeros(number, np.int64)
    np.add.at(behind, layout.partition[layout.ticks < since], 1)
    newest = layout.position[np.maximum(layout.starts[:-1] + behind, 1) - 1]
    if not ranked:
        newest = np.minimum(since - _shift(frame), newest + frame.width)
    return np.where(behind > 0, -(-newest // slide), -NEVER)


def _shift(frame: Frame) -> Rows | int:
    return 0 if frame.shift is None else frame.shift
