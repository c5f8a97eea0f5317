"""SEM over machines: any pattern that can be counted, with a vector for each active START.

Counters are those of ways from the start of the queries' machines; ways that evolve alike are one
counter, whichever query they belong to. Queries of one key are counted together, each with its own
window and slide (`kernels.starts.cpu`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Counters, Term, Value, explore_all, operators_of, triggered
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    LetterGroups,
    counted,
    filled,
    may_overflow,
    nothing,
    prepare,
)
from engines.counting.pane_tables import WindowSpan, ends_of
from engines.counting.tables import Letters, ints, pointers
from kernels.groups import ResultRows, Spans
from kernels.product.cpu import Operators
from kernels.starts import cpu as kernel
from kernels.starts.cpu import StartReadings

FIRST, MOST = 1 << 10, 1 << 21  # rows that are made room for at first


def count(
    plan: CountingPlan,
    columns: Columns,
    layout: Layout,
    spans: Spans,
    is_count: bool,
) -> CountResult | None:
    """Count the plan's queries, each with its own window and slide (0: per trigger).

    None where the stream makes that impossible. Either all of them slide or none.
    """
    prepared = prepare(plan, columns, layout, spans.widest, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    if prepared.has_ties and any(m.has_conjunction for ms in plan.machines for m in ms):
        # Simultaneous events would have to be paired with one another.
        return None
    dual = may_overflow(plan, prepared, spans)
    rows = start_rows(plan, prepared, window_spans(spans), dual)
    return counted(prepared, layout, rows, dual, (spans.slide > 0) & is_count)


def window_spans(spans: Spans) -> list[WindowSpan]:
    """The window and slide of each query."""
    return [WindowSpan(*pair) for pair in zip(*(s.tolist() for s in spans), strict=True)]


def start_rows(
    plan: CountingPlan, prepared: LetterGroups, spans: Sequence[WindowSpan], dual: bool
) -> ResultRows:
    """The rows of the plan's queries."""
    operators, readings = compile_starts(plan.terms, prepared.letters, spans)
    groups = prepared.groups
    room = FIRST
    if not spans[0].slide:
        room = int(np.diff(readings.triggered)[groups.move_letter].sum())
    return filled(
        partial(kernel.count_starts, groups, operators, readings, dual),
        min(MOST, max(FIRST, room)),
        dual,
        plan.most_values,
    )


def compile_starts(
    terms: Sequence[Term], letters: Letters, spans: Sequence[WindowSpan]
) -> tuple[Operators, StartReadings]:
    """The tables of queries with these windows and slides for the letters of a stream."""
    explored = explore_all(terms, letters)
    wanted: dict[int, dict[Value, None]] = defaultdict(dict)
    for term in terms:
        for machine in term.machines:
            wanted[id(machine)].update(dict.fromkeys(term.values))
    counters = Counters(explored, wanted, ("append",), only_from_start=True)
    operators = operators_of(counters, letters, set())
    finals, results = ends_of(terms, explored, counters)
    begins = {
        symbol
        for machine in explored.values()
        for (symbol, _), edges in machine.moves.items()
        if any(edge.source == 0 for edge in edges)
    }
    readings = StartReadings(
        np.array([bool(symbols & begins) for symbols, _ in letters.moves], np.bool_),
        *pointers(triggered((term.triggers for term in terms), letters)),
        ints(span.width for span in spans),
        ints(span.slide for span in spans),
        *pointers(finals),
        ints(np.cumsum([0, *map(len, results)])),
        ints(value.kind for term in terms for value in term.values),
        *pointers(part for mine in results for part in mine),
    )
    return operators, readings
