"""What an engine reads that answers queries in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.program import RunContext
from optimizer.ir.query import Query


@dataclass(frozen=True, eq=False)
class PassInput:
    """What a pass reads: columns of events, and their order for a query's key and window.

    `outputs` are the operators that make the rows of each query. The queries that the `context` has
    as stopped need not be answered any more.
    """

    columns: Columns
    arranged: Callable[[Query], ArrangedEvents]
    context: RunContext
    outputs: Mapping[str, str]
