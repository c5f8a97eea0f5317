"""The rows of queries that are answered in one pass, and which function makes the pass.

Another engine of this sort is a module here and a line in `RUNNERS`; planning knows it by a module
in `optimizer/engines/` and a line in `PASSING` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from engines.account import charged
from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.limits import named_error
from engines.matching.passes.frames import framed_chunks
from engines.matching.passes.funnels import funnel_chunks
from engines.matching.passes.input import PassInput
from engines.matching.passes.joins import joined_chunks
from engines.matching.passes.latest import latest_chunks
from engines.matching.passes.rowpattern import recognize
from engines.matching.passes.selection import selected
from engines.matching.passes.situations import situation_chunks
from engines.program import PassUnit, RunContext
from engines.results.chunks import RowChunk
from optimizer.engines import frames, funnels, joins, latest, rowpattern, selection, situations
from optimizer.ir.query import Query
from workloads.errors import UnsupportedError

Runner: TypeAlias = Callable[[PassUnit, PassInput], Iterator[RowChunk]]
RUNNERS: Mapping[str, Runner] = {
    latest.NAME: latest_chunks,
    joins.NAME: joined_chunks,
    funnels.NAME: funnel_chunks,
    frames.NAME: framed_chunks,
    rowpattern.NAME: recognize,
    situations.NAME: situation_chunks,
    selection.NAME: selected,
}


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
