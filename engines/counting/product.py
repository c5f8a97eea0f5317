"""Aggregate queries of one key and window, counted together by the sliding product."""

from __future__ import annotations

from engines.columns.instances import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Tables, compile_tables
from engines.counting.plan import Plan, value_columns
from engines.counting.prepare import (
    Counted,
    Prepared,
    counted,
    may_overflow,
    nothing,
    prepare,
    rows_for,
)
from engines.devices import give_up, opencl_handle
from engines.how import USUAL, How
from kernels import product as kernel
from kernels.product_opencl import slide_product_opencl

__all__ = ["Counted", "Plan", "count", "value_columns"]


def count(
    plan: Plan,
    columns: Columns,
    layout: Layout,
    width: int,
    slide: int,
    is_count: bool,
    how: How = USUAL,
) -> Counted | None:
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
    tables = compile_tables(plan.terms, prepared.letters)
    rows = _run_on_device(plan, prepared, tables, width, slide, how)
    dual = rows is not None
    if rows is None:
        dual = may_overflow(plan, columns, layout, width)
        rows = _run(plan, prepared, tables, width, slide, dual)
    return counted(prepared, layout, rows, dual, by_rank=slide > 0 and is_count)


def _run_on_device(
    plan: Plan, prepared: Prepared, tables: Tables, width: int, slide: int, how: How
) -> kernel.Rows | None:
    """The rows, if an OpenCL device is asked for and works."""
    device = opencl_handle(how)
    if device is None:
        return None
    try:
        return slide_product_opencl(
            device,
            prepared.groups,
            tables.back,
            tables.front,
            tables.readings,
            len(plan.queries),
            width,
            slide,
            tables.triggered,
        )
    except Exception as error:  # drivers fail in many ways: out of memory, a compiler's limits, …
        give_up(how, f"the OpenCL device failed: {error}")
        return None


def _run(
    plan: Plan, prepared: Prepared, tables: Tables, width: int, slide: int, dual: bool
) -> kernel.Rows:
    groups = prepared.groups
    capacity = 1024
    if slide == 0:
        capacity = int(tables.triggered[groups.move_letter].sum())
    while True:
        out = rows_for(capacity, dual, plan.most_values)
        made = kernel.slide_product(
            groups,
            tables.back,
            tables.front,
            tables.readings,
            len(plan.queries),
            width,
            slide,
            dual,
            out,
        )
        if made >= 0:
            return kernel.Rows(*(column[:made] for column in out))
        capacity *= 4
