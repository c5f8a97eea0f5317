"""Runs of single events, each directly behind the one before, counted for all queries in one pass.

What runs begin with alike is followed once, and queries with one run and window read one queue
(`kernels.runs.cpu`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting import product
from engines.counting.letters import (
    ONE_WORD,
    CountingPlan,
    CountResult,
    LetterGroups,
    counted_by_query,
    joined_queries,
    nothing,
    spoken_groups,
)
from engines.counting.tables import Letters, ints, pointers
from kernels.groups import RowSegments, Spans
from kernels.runs import cpu as kernel
from kernels.runs.cpu import RunTables
from optimizer.ir.pattern import Symbol, run_of

Int64s = npt.NDArray[np.int64]


def count(
    plan: CountingPlan, columns: Columns, layout: Layout, spans: Spans, is_count: bool
) -> CountResult | None:
    """Count the plan's queries, each with its own window and slide (0: per trigger).

    Where simultaneous events make more of a run than a number holds, the product counts them.
    """
    prepared = spoken_groups(plan, columns, layout, spans.widest, is_count)
    if not len(prepared.used):
        return nothing(plan)
    if not fits(plan, prepared):
        return product.count(plan, columns, layout, spans, is_count)
    begun, since = product.from_the_beginning(prepared.groups)
    return counted_runs(plan, prepared, layout, begun, since, spans, is_count)


def fits(plan: CountingPlan, prepared: LetterGroups) -> bool:
    """Is no window's number of runs past what one number is sure to hold?

    A run has at most as many ways as its groups have events, one for another.
    """
    if not prepared.has_ties:
        return True
    sizes = np.diff(prepared.groups.event)
    longest = max(map(len, _runs(plan)))
    return bool(np.log2(len(sizes)) + longest * np.log2(sizes.max()) < ONE_WORD)


def counted_runs(
    plan: CountingPlan,
    prepared: LetterGroups,
    layout: Layout | None,
    begun: Int64s,
    since: Int64s,
    spans: Spans,
    is_count: bool,
) -> CountResult:
    """The rows of the plan's queries; `begun` and `since` as `kernels.runs.cpu` has them.

    `layout` is needed for boundaries that are ranks.
    """
    room, found = product.room_for(plan, prepared, since, spans), []
    for part in product.parts_of(room):
        mine, start = spans.of(part), np.cumsum(room[part]) - room[part]
        rows = int(room[part].sum())
        out = RowSegments(
            start.copy(),
            start + room[part],
            np.empty(rows, np.int64),
            np.empty(rows if mine.slide.any() else 0, np.int64),
            np.empty(rows, np.uint64),
            np.empty(0, np.float64),
            np.empty((rows, 0), np.float64),
        )
        runs = _runs(plan)
        tables = run_tables([runs[q] for q in part.tolist()], mine, prepared.letters)
        filled = kernel.count_runs(prepared.groups, begun, since, tables, out)
        assert filled, "a run gave more rows than it has evaluations"
        by_rank = (mine.slide > 0) & is_count
        found.append(counted_by_query(prepared, layout, start, out, False, by_rank))
    return found[0] if len(found) == 1 else joined_queries(found)


def _runs(plan: CountingPlan) -> list[tuple[Symbol, ...]]:
    return [run_of(choices) or () for choices in plan.choices]


def run_tables(runs: Sequence[Sequence[Symbol]], spans: Spans, letters: Letters) -> RunTables:
    """The tree of some runs, and the queues that each query is read off, by the letters of a
    stream.
    """
    number: dict[Symbol, int] = {}
    nodes: dict[tuple[int, int], int] = {}
    queues: dict[tuple[int, int, int], int] = {}  # node, width, slide
    slides: dict[int, int] = {}
    depth: list[int] = [0]
    ended: list[list[int]] = [[]]
    listed: list[int] = []
    queries: list[list[int]] = []
    for q, (run, width, slide) in enumerate(zip(runs, *(s.tolist() for s in spans), strict=True)):
        node = 0
        for symbol in run:
            step = node, number.setdefault(symbol, len(number))
            node = nodes.setdefault(step, len(depth))
            if node == len(depth):
                depth.append(depth[step[0]] + 1)
                ended.append([])
        queue = queues.setdefault((node, width, slide), len(queries))
        if queue == len(queries):
            ended[node].append(queue)
            queries.append([])
            place = number[run[-1]]
            if slide:  # behind the lists of symbols, whose number is not known yet
                place = -1 - slides.setdefault(slide, len(slides))
            listed.append(place)
        queries[queue].append(q)
    child = np.zeros((len(depth), len(number)), np.int32)
    for (node, symbol_number), to in nodes.items():
        child[node, symbol_number] = to
    lists = ints(len(number) - 1 - place if place < 0 else place for place in listed)
    sizes = np.bincount(lists, minlength=len(number) + len(slides))
    return RunTables(
        child,
        ints(depth),
        *pointers(ended),
        lists,
        ints(width for _, width, _ in queues),
        *pointers(queries),
        np.append(0, np.cumsum(sizes)),
        ints(slides),
        *pointers([number[s] for s in symbols if s in number] for symbols, _ in letters.moves),
    )
