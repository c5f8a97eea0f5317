"""The rows of queries that are answered in one pass, and which function makes the pass.

Another engine of this sort is a module here and a line in `RUNNERS`; planning knows it by a module
in `optimizer/engines/` and a line in `PASSING` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from engines.account import charged
from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.limits import named_error
from engines.program import PassUnit, RunContext
from engines.results.chunks import RowChunk
from optimizer.ir.query import Query
from workloads.errors import UnsupportedError


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


Runner: TypeAlias = Callable[[PassUnit, PassInput], Iterator[RowChunk]]
RUNNERS: Mapping[str, Runner] = {}


def pass_chunks(
    unit: PassUnit,
    columns: Columns,
    arranged: Callable[[Query], ArrangedEvents],
    context: RunContext,
    outputs: Mapping[str, str],
) -> Iterator[RowChunk]:
    """The rows of a unit's queries, as they are found; finding them is charged to its operator."""
    account, operator = context.account, unit.operator
    account.count(operator, len(columns.events))
    given = PassInput(columns, arranged, context, outputs)
    try:
        for chunk in charged(account, operator, RUNNERS[unit.engine](unit, given)):
            account.count(operator, 0, len(chunk))
            account.count(outputs[chunk.query], len(chunk), len(chunk))
            if chunk.query not in context.ledger.stopped:
                yield chunk
    except UnsupportedError as error:
        raise named_error(error, unit.queries[0].name) from error
