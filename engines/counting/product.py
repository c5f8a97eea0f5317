"""Aggregate queries of one key, counted together by the sliding product.

Queries whose events can all be taken back go through the reversible kernel, which does half the
work and all windows in one visit of the events; the others through the two stacks of
`kernels.product.cpu`, once for each width. A device takes each window and slide by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Tables, compile_steps, compile_tables, triggered
from engines.counting.letters import (
    ONE_WORD,
    TWO_WORDS,
    CountingPlan,
    CountResult,
    LetterGroups,
    bits_of_counts,
    counted_by_query,
    joined_queries,
    nothing,
    prepare,
    value_columns,
)
from engines.counting.tables import Letters
from engines.device_kernels import CPU, DeviceKernels
from engines.devices import DeviceRequest
from kernels.groups import Groups, RowSegments, Spans
from kernels.reversible.cpu import Steps
from kernels.windows.cpu import boundaries

__all__ = ["CountResult", "CountingPlan", "count", "value_columns"]

Int64s = npt.NDArray[np.int64]
Made = TypeVar("Made")

ON_CPU = DeviceRequest()
MAX_ROWS_AT_ONCE = 50_000_000  # that are made room for at once


def count(
    plan: CountingPlan,
    columns: Columns,
    layout: Layout,
    spans: Spans,
    is_count: bool,
    request: DeviceRequest = ON_CPU,
) -> CountResult | None:
    """Count all queries of the plan over a layout; None where the stream makes that impossible.

    Large counts come marked as not exact, and nothing wraps unseen.
    """
    prepared = prepare(plan, columns, layout, spans.widest, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    if prepared.has_ties and any(m.has_conjunction for ms in plan.machines for m in ms):
        # Simultaneous events would have to be paired with one another.
        return None
    by_rank = (spans.slide > 0) & is_count
    bits = bits_of_counts(plan, prepared, spans)
    dual = needs_floats(bits)
    begun, since = from_the_beginning(prepared.groups)
    room = room_for(plan, prepared, since, spans)
    kernels = DeviceKernels(request)
    found = []
    for part in parts_of(room):
        start, rows = run_product(
            plan, prepared, part, begun, since, spans, bits, room, kernels=kernels
        )
        found.append(counted_by_query(prepared, layout, start, rows, dual, by_rank[part]))
    return found[0] if len(found) == 1 else joined_queries(found)


def needs_floats(bits: npt.NDArray[np.float64]) -> bool:
    """Are there counts that may be too large to be exact, so that all have floats beside them?"""
    return bool((bits >= ONE_WORD).any())


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
    spans: Spans,
    bits: npt.NDArray[np.float64],
    room: Int64s,
    compiled: CompiledTables | None = None,
    kernels: DeviceKernels = CPU,
) -> tuple[Int64s, RowSegments]:
    """Where the rows of each query of a part of the plan start, and the rows.

    `begun` and `since` as `kernels.product.cpu.slide_product` has them; `bits` are those that the
    counts of each query may have, `room` how many rows each can give (`room_for`).
    """
    groups, dual = prepared.groups, needs_floats(bits)
    mine, bits, room = spans.of(part), bits[part], room[part]
    start = np.cumsum(room) - room
    rows = int(room.sum())
    out = RowSegments(
        start.copy(),
        start + room,
        np.empty(rows, np.int64),
        np.empty(rows if mine.slide.any() else 0, np.int64),
        np.empty(rows, np.uint64),
        np.empty(rows if dual else 0, np.float64),
        np.empty((rows, plan.most_values), np.float64),
    )
    compiled = compiled or CompiledTables()
    back = plan.reversible[part] & (bits < TWO_WORDS)
    for chosen in _calls(mine, back, kernels.on_device):
        queries = tuple(part[chosen].tolist())
        own = out._replace(end=out.end[chosen], room=out.room[chosen])
        some = mine.of(chosen)
        if back[chosen[0]]:
            window = tuple(some.windows[1].tolist())
            steps = compiled.steps(plan, queries, prepared.letters, window)
            fits = kernels.reversible(groups, begun, since, steps, some, dual, own)
        else:
            tables = compiled.tables(plan, queries, prepared.letters)
            fits = kernels.product(groups, begun, since, *tables, some, dual, own)
        assert fits, "a query gave more rows than it has evaluations"
        out.end[chosen] = own.end
    return start, out


def _calls(spans: Spans, back: npt.NDArray[np.bool_], on_device: bool) -> Iterator[Int64s]:
    """The queries that one call of a kernel takes, by whether their events can be taken back."""
    one = np.zeros(len(back), np.int64)
    width = spans.width if on_device else np.where(back, 0, spans.width)
    kinds = np.stack([~back, width, spans.slide if on_device else one], axis=1)
    if (kinds == kinds[:1]).all():
        yield np.arange(len(kinds))
        return
    _, number = np.unique(kinds, axis=0, return_inverse=True)
    number = number.reshape(-1)
    for i in range(int(number.max(initial=-1)) + 1):
        yield np.flatnonzero(number == i)


_LETTERINGS = 16  # that tables are kept for


class CompiledTables:
    """The tables of a plan's queries, kept for as long as the stream has the same letters.

    Parts of a stream that are counted in turns, such as the buckets of a live one, may each have
    letters of their own.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Letters, dict[Hashable, Any]]] = []  # what was used last: first

    def steps(
        self,
        plan: CountingPlan,
        queries: tuple[int, ...],
        letters: Letters,
        window: tuple[int, ...],
    ) -> Steps:
        def made() -> Steps:
            return compile_steps([plan.terms[q] for q in queries], letters, window)

        return self._kept(letters, ("steps", queries, window), made)

    def tables(self, plan: CountingPlan, queries: tuple[int, ...], letters: Letters) -> Tables:
        def made() -> Tables:
            return compile_tables([plan.terms[q] for q in queries], letters)

        return self._kept(letters, ("tables", queries), made)

    def triggered(self, plan: CountingPlan, letters: Letters) -> list[Int64s]:
        """By letter, the queries of the plan that an event triggers."""

        def made() -> list[Int64s]:
            return [np.array(own, np.int64) for own in triggered(plan.triggers, letters)]

        return self._kept(letters, "triggered", made)

    def _kept(self, letters: Letters, what: Hashable, made: Callable[[], Made]) -> Made:
        place = next((i for i, (own, _) in enumerate(self._known) if own == letters), None)
        # As they are now: letters may grow.
        own = Letters(list(letters.moves), list(letters.stays)), dict[Hashable, Any]()
        known = own if place is None else self._known.pop(place)
        self._known = [known, *self._known[: _LETTERINGS - 1]]
        _, found = known
        if what not in found:
            found[what] = made()
        kept: Made = found[what]
        return kept


def from_the_beginning(groups: Groups) -> tuple[Int64s, Int64s]:
    """No group of any run has been counted before, and no boundary evaluated."""
    runs = len(groups.run) - 1
    return np.zeros(runs, np.int64), np.full(runs, -(2**62), np.int64)


def room_for(
    plan: CountingPlan,
    prepared: LetterGroups,
    since: Int64s,
    spans: Spans,
    compiled: CompiledTables | None = None,
) -> Int64s:
    """How many rows each query can give: one for each time that it is evaluated."""
    groups, letters = prepared.groups, prepared.letters
    room = np.zeros(len(plan.queries), np.int64)
    if not spans.slide.all():
        events = np.bincount(groups.move_letter, minlength=len(letters.moves))
        asked = (compiled or CompiledTables()).triggered(plan, letters)
        for number, queries in zip(events.tolist(), asked, strict=True):
            room[queries] += number
    marks = spans.marks
    for m, (width, slide) in enumerate(zip(marks.width, marks.slide, strict=True)):
        most = boundaries(groups.run, groups.limit, groups.position, since, width, slide)
        room[marks.queries[marks.marked[m] : marks.marked[m + 1]]] = most
    return room
