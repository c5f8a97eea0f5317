"""Aggregate queries of one key with different windows and slides, counted together by panes.

The stream is cut where windows open and close. The product of what lies between two cuts is made
once for all queries, and each window is put together from such products (`kernels.panes.cpu`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    LetterGroups,
    counted_by_query,
    joined_queries,
    may_overflow,
    nothing,
    prepare,
)
from engines.counting.pane_tables import PaneTables, WindowSpan, compile_panes, cuts_of
from engines.counting.product import from_the_beginning, parts_of
from kernels.groups import RowSegments, Spans
from kernels.panes.cpu import panes_of, slide_panes
from kernels.product import cpu as kernel
from kernels.windows.cpu import boundaries, most_of_letters

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Panes = tuple[Int64s, Int64s]  # row pointers by run, and where each pane ends

FEWEST = 3  # events in a pane, on average, below which panes are not even looked at

# What the cost rule weighs, each in additions of one counter to another (about a nanosecond).
# Measured with 5 to 80 queries of 4 to 8 components, counts, sums and negations.
PREPARE = 120.0  # an event, to be made a letter
EVENT = 50.0  # an event that is looked at by this rule, and multiplied to its pane
COPY = 0.5  # a counter of a new pane
TERM = 3.0  # a product of two counters, summed up; of values it counts twice


class Apart(NamedTuple):
    """The work of those queries of one window and slide that one kernel would count."""

    span: WindowSpan
    windows: int
    additions: float
    terms: int  # of putting one stretch in front of another
    readings: int  # of one window, where it is a product of two stacks
    reversible: bool
    dual: bool


class Work(NamedTuple):
    """The work of queries of several windows and slides, counted over a stream."""

    events: int
    panes: int  # that have an event in them
    most_panes: int  # of one window
    counters: int
    terms: int  # of multiplying two stretches
    additions: float
    apart: tuple[Apart, ...]


def together(work: Work, levels: int) -> float:
    """What counting by panes costs, if nodes are made of up to 2^levels of them.

    Each event is added once. Of two panes a node is made, of two nodes one of the next level; a
    window is put together from the largest, and about one of each smaller kind.
    """
    walked = 0.0
    for part in work.apart:
        # Each pane is in as many windows as the slide goes into the width.
        panes = work.panes * part.span.width / part.span.slide / (1 << levels)
        walked += (panes + part.windows * levels) * part.terms * (2 if part.dual else 1)
    merged = work.panes * (1 - 1 / (1 << levels)) * work.terms
    return (
        (PREPARE + EVENT) * work.events
        + work.additions
        + COPY * work.panes * work.counters
        + TERM * (merged + walked)
    )


def best_levels(work: Work) -> int:
    """Up to how many levels it pays to multiply panes with one another."""
    return min(range(work.most_panes.bit_length()), key=lambda levels: together(work, levels))


def count_panes(
    plan: CountingPlan,
    columns: Columns,
    layout: Layout,
    widths: Sequence[int],
    slides: Sequence[int],
) -> CountResult | None:
    """Count all queries of the plan over a layout, each with its own window and slide in time.

    None where the stream makes that impossible.
    """
    prepared = prepare(plan, columns, layout, max(widths), False)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    if prepared.has_ties and any(m.has_conjunction for ms in plan.machines for m in ms):
        # Simultaneous events would have to be paired with one another.
        return None
    return pane_counts(plan, prepared, layout, widths, slides)


def pane_counts(
    plan: CountingPlan,
    prepared: LetterGroups,
    layout: Layout | None,
    widths: Sequence[int],
    slides: Sequence[int],
) -> CountResult:
    """The same of events that are letters already."""
    spans = [WindowSpan(*pair) for pair in zip(widths, slides, strict=True)]
    cuts = cuts_of(spans)
    panes = panes_of(prepared.groups.run, prepared.groups.position, cuts)
    safe = _safe(plan, prepared, spans)
    tables = compile_panes(plan.terms, spans, prepared.letters)
    work = work_of(plan, prepared, tables, panes, safe)
    levels = best_levels(work)
    windows = {part.span: part.windows for part in work.apart}
    room = np.array([windows[span] for span in spans], np.int64)
    found = []
    for part in parts_of(room):
        mine = tables
        if len(part) < len(spans):
            terms, of_part = [plan.terms[q] for q in part], [spans[q] for q in part]
            mine = compile_panes(terms, of_part, prepared.letters)
        start = np.cumsum(room[part]) - room[part]
        dual = bool(mine.classes.width.max() > safe)
        rows = _segments(start, room[part], dual, plan.most_values)
        fits = slide_panes(prepared.groups, *mine, cuts, work.most_panes, levels, safe, rows)
        assert fits, "a query gave more rows than it has evaluations"
        found.append(counted_by_query(prepared, layout, start, rows, dual))
    return found[0] if len(found) == 1 else joined_queries(found)


def _safe(plan: CountingPlan, prepared: LetterGroups, spans: Sequence[WindowSpan]) -> int:
    """The widest window of which none can hold too many matches to be counted exactly."""
    safe = 0
    for width in sorted({span.width for span in spans} | {min(span.slide for span in spans)}):
        same = np.full(len(plan.queries), width)
        if may_overflow(plan, prepared, Spans(same, same)):
            break
        safe = width
    return safe


def work_of(
    plan: CountingPlan, prepared: LetterGroups, tables: PaneTables, panes: Panes, safe: int
) -> Work:
    """The work of queries over a stream, from their tables and how often each letter occurs."""
    operators, connections, classes = tables
    run, stop = panes
    one_letter = np.zeros(len(stop), np.int64)
    widest = int(classes.width.max())
    most_panes = int(most_of_letters(run, stop, np.arange(len(stop) + 1), one_letter, 1, widest)[0])
    _, since = from_the_beginning(prepared.groups)
    events = np.bincount(prepared.groups.move_letter, minlength=len(prepared.letters.moves))
    numbers = len(operators.start_counts), len(operators.start_values)
    by_counter, value_moves, value_tags = (
        _changes(operators.tables, events, number, *table)
        for number, table in (
            (numbers[0], (kernel.MOVE, kernel.MOVES, 2)),
            (numbers[1], (kernel.VALUE_MOVE, kernel.VALUE_MOVES, 2)),
            (numbers[1], (kernel.VALUE_TAG, kernel.VALUE_TAGS, 3)),
        )
    )
    by_value = value_moves + value_tags
    apart = []
    for c, span in enumerate(map(WindowSpan, classes.width.tolist(), classes.slide.tolist())):
        used = classes.counters[classes.used[c] : classes.used[c + 1]]
        used_values = classes.value_counters[classes.used_value[c] : classes.used_value[c + 1]]
        terms = _rows(connections.term, used)
        ahead, behind = (_rows(at, used_values) for at in (connections.ahead, connections.behind))
        # A product apart has the counters that its queries' ones are summed up from.
        left = [connections.term_left[terms], connections.left_alone[used], used]
        counters = np.unique(np.concatenate(left))
        values = np.unique(np.append(connections.ahead_left[ahead], used_values))
        queries = classes.members[classes.member[c] : classes.member[c + 1]]
        finals = connections.finals[_rows(connections.final, queries)]
        apart.append(
            Apart(
                span,
                boundaries(run, prepared.groups.limit, stop, since, *span),
                float(by_counter[counters[counters < numbers[0]]].sum() + by_value[values].sum()),
                len(used) + len(terms) + 2 * (len(ahead) + len(behind)),
                2 * len(finals) + len(_rows(connections.term, finals)),
                plan.terms[queries[0]].reversible and span.width <= safe,
                span.width > safe,
            )
        )
    values_in = len(connections.ahead_left) + len(connections.behind_left)
    return Work(
        int(events.sum()),
        len(stop),
        most_panes,
        sum(numbers),
        numbers[0] + len(connections.term_left) + 2 * values_in,
        float(by_counter.sum() + by_value.sum()),
        tuple(apart),
    )


def _changes(
    tables: np.ndarray, events: Int64s, counters: int, by: int, of: int, size: int
) -> Float64s:
    """How often each counter is added to, by how often each letter occurs."""
    at = tables[tables[by] : tables[by] + len(events) + 1]
    targets = tables[tables[of] : tables[of] + size * int(at[-1]) : size]
    times = np.repeat(events, np.diff(at)).astype(np.float64)
    return np.bincount(targets, times, counters).astype(np.float64)


def _rows(at: np.ndarray, numbers: np.ndarray) -> Int64s:
    """The rows that pointers give for some numbers."""
    first, end = at[numbers].astype(np.int64), at[numbers + 1].astype(np.int64)
    sizes = end - first
    return np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


def _segments(start: Int64s, room: Int64s, dual: bool, most_values: int) -> RowSegments:
    rows = int(room.sum())
    return RowSegments(
        start.copy(),
        start + room,
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint64),
        np.empty(rows if dual else 0, np.float64),
        np.empty((rows, most_values), np.float64),
    )
