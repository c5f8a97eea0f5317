"""Why a query of a workload gives rows over events, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from api.cli.workload_files import only_queries
from workloads import syntax as sx
from workloads.errors import SheafError
from workloads.printing import print_aggregate, print_duration, print_kept, print_query
from workloads.workload import Workload

if TYPE_CHECKING:
    from api.run_settings import OnError
    from engines.input.batches import FileSource
    from engines.input.event_paths import EventPath
    from engines.why.explain import GivenRows, Question
    from optimizer.ir.query import Query

MOST_ROWS = 200_000  # of a query that are looked through


def why(
    workload: Workload,
    query: str,
    events: EventPath,
    at: str | None = None,
    key: str | Mapping[str, Any] | None = None,
    on_error: OnError = "stop",
) -> dict[str, Any]:
    """The explanation as plain values; `engines.why.text` makes a text of it."""
    from engines.input.batches import FileSource
    from engines.input.event_table import Faults
    from engines.why.explain import explain, read_question

    alone = only_queries(workload, [query])
    query = alone.queries[0].name or query
    is_chained = any(other.into for other in workload.queries)
    asked = replace(workload if is_chained else alone, tests=())
    source = FileSource(events, workload.stream, Faults(on_error))
    bound = source.bind(asked)
    if refused := [rule for rule in bound.refused if rule.name == query]:
        raise SheafError(f"the events do not fit {query}: {refused[0].reason}")
    wanted = bound.query(query)
    question = read_question(source, wanted, at, key)
    given = _given(asked, wanted, source, question, on_error)
    return explain(source, replace(bound, queries=(wanted,)), question, given)


def _given(
    workload: Workload, query: Query, source: FileSource, question: Question, on_error: OnError
) -> GivenRows:
    """The rows of the query that the question is about, by the engine that runs jobs."""
    rows, total, is_cut = _rows(workload, query, source, question, on_error)
    without: dict[str, list[Mapping[str, Any]]] = {}
    written = next(one for one in workload.queries if one.name == query.name)
    if not rows and not is_cut:
        for clause, other in _with_less(written):
            others = tuple(other if one is written else one for one in workload.queries)
            changed = replace(workload, queries=others)
            found, _, _ = _rows(changed, query, source, question, on_error)
            if found:
                without[clause] = found
    from engines.why.explain import GivenRows

    return GivenRows(rows, total, is_cut, without)


def _rows(
    workload: Workload, query: Query, source: FileSource, question: Question, on_error: OnError
) -> tuple[list[Mapping[str, Any]], int, bool]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.limits import BadRowError
    from engines.program import RunOptions
    from engines.run import run

    plan = plan_on_events(workload)
    execution = Execution("local", RunOptions(row_limit=MOST_ROWS))
    try:
        report = run(
            plan, EventSource(source.place, on_error), RowSink(None, shown=None), execution
        )
    except BadRowError as error:
        raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
    total, rows = 0, list[Mapping[str, Any]]()
    first = report.first
    for table in () if first is None else (first.aggregates, first.matches):
        own = table.filter(pc.equal(table.column("query").cast(pa.string()), query.name))
        total += own.num_rows
        for row in own.to_pylist():
            for name in ("key", "match"):
                if isinstance(row.get(name), str):
                    row[name] = json.loads(row[name])
            if _is_asked(row, query, source, question):
                rows.append(row)
    rows.sort(key=lambda row: _distance(row, source, question))
    return rows, total, bool(report.ledger.stopped)


def _is_asked(row: Mapping[str, Any], query: Query, source: FileSource, question: Question) -> bool:
    """Is a row about the key and the time that were asked for?

    A match is about every time from its start on until it is reported, an aggregate about those of
    its window.
    """
    from engines.why.explain import ticks_of
    from engines.why.scan import key_text

    if question.key is not None:
        key = row.get("key")
        names = [name for name, fixed in query.result_key if fixed is None]
        if not isinstance(key, Mapping):
            return False
        if tuple(key_text(key.get(name)) for name in names) != question.key:
            return False
    if question.at is None:
        return True
    time = ticks_of(source, row["time"])
    if row.get("start") is not None:
        return ticks_of(source, row["start"]) <= question.at <= time
    if not query.window.is_timed:
        return time == question.at
    return question.at <= time < question.at + query.window.ticks(source.tick)


def _distance(row: Mapping[str, Any], source: FileSource, question: Question) -> int:
    from engines.why.explain import ticks_of

    return 0 if question.at is None else abs(ticks_of(source, row["time"]) - question.at)


def _with_less(query: sx.Query) -> Iterator[tuple[str, sx.Query]]:
    """The query without one of the clauses that leave matches or rows out, and the clause."""
    output = query.output
    changed: list[tuple[str, sx.Query]] = []
    if isinstance(output, sx.Aggregates) and output.having is not None:
        less: Any = replace(output, having=None)
        changed.append((f"HAVING {print_aggregate(output.having)}", replace(query, output=less)))
    if isinstance(output, sx.Return) and output.suppress is not None:
        less = replace(output, suppress=None)
        clause = f"SUPPRESS {print_duration(output.suppress)}"
        changed.append((clause, replace(query, output=less)))
    if isinstance(output, sx.Return) and output.keep:
        changed.append(
            (print_kept(output.keep).strip(), replace(query, output=replace(output, keep=())))
        )
    if isinstance(output, sx.Return) and output.limit is not None:
        less = replace(output, limit=None)
        changed.append((f"LIMIT {output.limit}", replace(query, output=less)))
    if query.skip == "past last event":
        changed.append(("AFTER MATCH SKIP PAST LAST EVENT", replace(query, skip=None)))
    for clause, other in changed:
        yield clause, replace(other, text=print_query(other))
