"""Aggregate queries of one key and window, counted together by the sliding product.

Queries whose events can all be taken back go through the reversible kernel, which does half the
work; the others through the two stacks of `kernels.product.cpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Tables, Term, compile_steps, compile_tables, triggered
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    LetterGroups,
    counted_by_query,
    joined_queries,
    may_overflow,
    nothing,
    prepare,
    value_columns,
)
from engines.counting.tables import Letters
from engines.device_kernels import CPU, DeviceKernels
from engines.devices import DeviceRequest
from kernels.groups import Groups, RowSegments
from kernels.reversible.cpu import Steps
from kernels.windows.cpu import boundaries

__all__ = ["CountResult", "CountingPlan", "count", "value_columns"]

Int64s = npt.NDArray[np.int64]

ON_CPU = DeviceRequest()
MAX_ROWS_AT_ONCE = 50_000_000  # that are made room for at once


def count(
    plan: CountingPlan,
    columns: Columns,
    layout: Layout,
    width: int,
    slide: int,
    is_count: bool,
    request: DeviceRequest = ON_CPU,
) -> CountResult | None:
    """Count all queries of the plan over a layout; None where the stream makes that impossible.

    `slide` 0 means per trigger. Large counts come marked as not exact, and nothing wraps unseen.
    """
    prepared = prepare(plan, columns, layout, width, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    if prepared.has_ties and any(m.has_conjunction for ms in plan.machines for m in ms):
        # Simultaneous events would have to be paired with one another.
        return None
    by_rank = slide > 0 and is_count
    dual = may_overflow(plan, prepared, width)
    begun, since = from_the_beginning(prepared.groups)
    parts = list(parts_of(room_for(plan, prepared, since, width, slide)))

    kernels = DeviceKernels(request)
    found = []
    for part in parts:
        start, rows = run_product(
            plan, prepared, part, begun, since, width, slide, dual, kernels=kernels
        )
        found.append(counted_by_query(prepared, layout, start, rows, dual, by_rank))
    return found[0] if len(found) == 1 else joined_queries(found)


def parts_of(room: Int64s) -> Iterator[Int64s]:
    """The numbers of the queries, in parts whose rows find room at once."""
    first, taken = 0, 0
    for q, rows in enumerate(room.tolist()):
        if q > first and taken + rows > MAX_ROWS_AT_ONCE:
            yield np.arange(first, q)
            first, taken = q, 0
        taken += rows
    yield np.arange(first, len(room))


def run_product(
    plan: CountingPlan,
    prepared: LetterGroups,
    part: Int64s,
    begun: Int64s,
    since: Int64s,
    width: int,
    slide: int,
    dual: bool,
    compiled: CompiledTables | None = None,
    kernels: DeviceKernels = CPU,
) -> tuple[Int64s, RowSegments]:
    """Where the rows of each query of a part of the plan start, and the rows.

    `begun` and `since` as `kernels.product.cpu.slide_product` has them.
    """
    groups = prepared.groups
    room = room_for(plan, prepared, since, width, slide)[part]
    start = np.cumsum(room) - room
    rows = int(room.sum())
    out = RowSegments(
        start.copy(),
        start + room,
        np.empty(rows, np.int64),
        np.empty(rows if slide else 0, np.int64),
        np.empty(rows, np.uint64),
        np.empty(rows if dual else 0, np.float64),
        np.empty((rows, plan.most_values), np.float64),
    )
    compiled = compiled or CompiledTables()
    marks = np.array([plan.terms[q].reversible and not dual for q in part])
    for chosen in (np.flatnonzero(marks), np.flatnonzero(~marks)):
        if not len(chosen):
            continue
        queries = tuple(part[chosen].tolist())
        mine = out._replace(end=out.end[chosen], room=out.room[chosen])
        if marks[chosen[0]]:
            steps = compiled.steps(plan, queries, prepared.letters)
            fits = kernels.reversible(groups, begun, since, steps, width, slide, mine)
        else:
            tables = compiled.tables(plan, queries, prepared.letters)
            fits = kernels.product(groups, begun, since, *tables, width, slide, dual, mine)
        assert fits, "a query gave more rows than it has evaluations"
        out.end[chosen] = mine.end
    return start, out


class CompiledTables:
    """The tables of a plan's queries, kept for as long as the stream has the same letters."""

    def __init__(self) -> None:
        self._letters: Letters | None = None
        self._found: dict[Hashable, Any] = {}

    def steps(self, plan: CountingPlan, queries: tuple[int, ...], letters: Letters) -> Steps:
        found: Steps = self._kept(compile_steps, plan, queries, letters)
        return found

    def tables(self, plan: CountingPlan, queries: tuple[int, ...], letters: Letters) -> Tables:
        found: Tables = self._kept(compile_tables, plan, queries, letters)
        return found

    def _kept(
        self,
        compile_terms: Callable[[Sequence[Term], Letters], Any],
        plan: CountingPlan,
        queries: tuple[int, ...],
        letters: Letters,
    ) -> Any:
        if letters != self._letters:
            self._letters, self._found = letters, {}
        if (compile_terms, queries) not in self._found:
            terms = [plan.terms[q] for q in queries]
            self._found[compile_terms, queries] = compile_terms(terms, letters)
        return self._found[compile_terms, queries]


def from_the_beginning(groups: Groups) -> tuple[Int64s, Int64s]:
    """No group of any run has been counted before, and no boundary evaluated."""
    runs = len(groups.run) - 1
    return np.zeros(runs, np.int64), np.full(runs, -(2**62), np.int64)


def room_for(
    plan: CountingPlan, prepared: LetterGroups, since: Int64s, width: int, slide: int
) -> Int64s:
    """How many rows each query can give: one for each time that it is evaluated."""
    groups, letters = prepared.groups, prepared.letters
    if slide:
        most = boundaries(groups.run, groups.limit, groups.position, since, width, slide)
        return np.full(len(plan.queries), most, np.int64)
    events = np.bincount(groups.move_letter, minlength=len(letters.moves))
    room = np.zeros(len(plan.queries), np.int64)
    for number, queries in zip(events.tolist(), triggered(plan.terms, letters), strict=True):
        room[queries] += number
    return room
