"""`run(plan, source, sink, options)`: the one way in which a plan is executed, whatever runs it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from engines.account import Account, Fallbacks, all_threads
from engines.execution import (
    ALL_ROWS,
    QUIET,
    EventSource,
    Execution,
    Monitor,
    RowSink,
    RunReport,
    SliceProgress,
    Stages,
)
from engines.limits import Ledger
from engines.program import Program, RunContext, RunOptions, bound_program
from optimizer.plan.plan import Plan, PlanError
from workloads.imported_rules import refusals

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from engines.access.choice import AccessChoice
    from engines.access.summed_rows import SummedRun
    from engines.input.batches import FileSource
    from engines.input.event_table import Events, Faults
    from engines.results.chunks import RowChunk
    from engines.spark.batch.progress import BatchProgress as SparkProgress
    from optimizer.ir.query import BoundWorkload
    from workloads.errors import Diagnostic
    from workloads.workload import Workload


def run(
    plan: Plan,
    source: EventSource,
    sink: RowSink,
    execution: Execution | None = None,
    monitor: Monitor = QUIET,
) -> RunReport:
    """Execute a plan over events; rows go to the sink.

    Every engine runs the plan's operators and nothing else. Raises `PlanError` where the plan does
    not fit these events.
    """
    report = _executed(plan, source, sink, execution or Execution(), monitor)
    if report.bound is not None:
        report.notes = [*refusals(report.bound[0].refused), *report.notes]
    return report


def _executed(
    plan: Plan, source: EventSource, sink: RowSink, wanted: Execution, monitor: Monitor
) -> RunReport:
    if sink.tables and sink.path is not None:
        from engines.table_runs import run_to_tables

        return run_to_tables(plan, source, sink.path, sink.match, wanted, monitor)
    if sink.path is not None and wanted.stream is None:
        from engines.results.lake_place import lake_place

        if (place := lake_place(sink.path)) is not None:
            from engines.lake_runs import run_to_lake

            return run_to_lake(plan, source, place, sink.match, wanted, monitor)
    match wanted.engine:
        case "oracle":
            return _run_oracle(plan, source, sink, monitor)
        case "spark" if wanted.stream is not None:
            from engines.spark.stream.run import run_stream

            return run_stream(plan, source, wanted, monitor)
        case "spark":
            return _run_spark(plan, source, sink, wanted, monitor)
        case "local":
            return _run_local(plan, source, sink, wanted, monitor)


def device_of(plan: Plan, options: RunOptions) -> str:
    """The device that a run computes on."""
    return options.device or next((g.device for g in plan.groups if g.device != "cpu"), "cpu")


def kinds_of(plan: Plan) -> tuple[bool, bool]:
    """Whether a plan has queries that aggregate, and queries that return matches."""
    kinds = {operator.detail["rows"] for operator in plan.operators if operator.kind == "sink"}
    return "aggregates" in kinds, "matches" in kinds


# --- in this process ------------------------------------------------------------------------------


def _run_local(
    plan: Plan, source: EventSource, sink: RowSink, execution: Execution, monitor: Monitor
) -> RunReport:
    """Slice by slice, so that memory follows the window and the slice, and not the file."""
    from engines.access.choice import merged_access
    from engines.columns.occurrences import Occurrences
    from engines.input.event_table import Faults
    from engines.input.time_sense import TimeSpan, notes_about_events
    from engines.local.run import SlicedRun, within_limit
    from engines.local.slices import folds_only, give_back_memory
    from engines.local.threads import SliceThreads, threads_for
    from engines.results.first_rows import FirstRows
    from engines.results.sorting import FileOutput
    from engines.results.struct_sorting import StructRows
    from engines.results.structs import all_match_structs
    from engines.results.tables import empty_results
    from kernels.joins import cpu as joins
    from kernels.texts import cpu as texts

    stages, faults = Stages(monitor), Faults(source.on_error)
    with stages("start"):
        # The first compiled kernel that is loaded brings the compiler's tables along.
        texts.warm()
        joins.warm()
    account, ledger, fallbacks = Account(), Ledger(), Fallbacks()
    report = RunReport("local", device_of(plan, execution.options), faults=faults)
    report.account, report.ledger, report.fallbacks = account, ledger, fallbacks
    rows: Counter[str] = Counter()
    times = TimeSpan()
    with ExitStack() as stack:
        with stages("start"):  # no event is read yet
            bound, readings = _opened(plan, source, execution, faults, monitor)
        report.bound = (bound, readings[0].source.schema)
        occurred = Occurrences(bound)
        structs = None
        if sink.match == "struct":
            structs = all_match_structs(bound, readings[0].source.schema)
        output: FileOutput | FirstRows | StructRows
        if sink.path is not None:
            kinds = (True, True) if sink.both else kinds_of(plan)
            output = stack.enter_context(FileOutput(sink.path, *kinds, structs=structs))
        else:
            output = FirstRows(sink.shown) if structs is None else StructRows(structs)

        def write(chunks: Iterator[RowChunk], cpu: Callable[[], int] = lambda: 0) -> None:
            """Take the rows of a slice, or of all; `cpu` is that of the threads that make them."""
            taken = 0
            while True:
                with stages("run", is_new=not taken):
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                operator, taken = f"sink-{chunk.kind}", taken + 1
                writing = all_threads(account, operator, cpu)
                with stages("write", is_new=taken == 1), writing:
                    output.take(chunk)
                account.count(operator, len(chunk), len(chunk))
                rows[chunk.query] += len(chunk)

        edges = 0  # events that are read besides those of slices
        for number, (program, events_in, slices, access, summed) in enumerate(readings):
            context = RunContext(execution.options, account, fallbacks, ledger)
            scan, run = program.ids.scan, SlicedRun(program, events_in.tick, context)
            seen = occurred.afresh(program.workload)
            number_of = threads_for(program, execution.options)
            threads = SliceThreads(run, number_of)
            stack.enter_context(threads)
            if folds_only(program):  # which takes less time than reading
                events_in.read_in(number_of)
            sliced, events, pieces = threads.ahead(slices(run)), 0, 0
            while True:
                began = time.perf_counter()
                with stages("read"), account.charge(scan):
                    piece = next(sliced, None)
                account.spend(scan, events_in.take_spent())
                if piece is None:
                    break
                own = len(piece.own)
                events, pieces = events + own, pieces + 1
                account.count(scan, own, own)
                if access.groups is None:  # else what does not occur may be in what is not read
                    with stages("read", is_new=False), account.charge(program.conditions):
                        seen.add(piece.own.table)
                if not number:  # further scans read the same events
                    report.events = events
                    times.add(piece.own.ticks)
                    monitor.on_events(piece.own)
                output.add(empty_results(piece.events.time_type))
                write(threads.chunks(piece), threads.cpu_nanoseconds)
                passed = round(time.perf_counter() - began, 4)
                held = len(piece.events) - own
                until = shown_time(piece.events, piece.stop)
                progress = SliceProgress(report.events, rows.total(), passed, held, until)
                monitor.on_slice(progress, rows, account)
                if piece.start is not None or piece.stop is not None:  # there are others
                    give_back_memory()
            threads.close()
            if summed is not None:
                output.add(empty_results(events_in.time_type))
                write(within_limit(summed.chunks(account), context))
                more = {name: n for name, n in summed.source.read.items() if name != "of"}
                report.read = _added(report.read, more)
                edges += summed.events
            report.unbounded += run.unbounded if pieces > 1 else ()
            report.is_cut = pieces > 1
            report.decisions += context.decisions
            report.changes += 0 if context.adaptive is None else context.adaptive.changes
            report.read = _added(report.read, events_in.read)
            occurred.merge(seen.seen())
        report.access = merged_access([reading.access for reading in readings])
        with stages("write"):
            if isinstance(output, FileOutput):
                at_once = threads_for(readings[0].program, execution.options) > 1
                report.files = output.write(_charges(plan, account), at_once)
            else:
                report.first = output.first
    account.count(readings[0].program.ids.scan, faults.total)
    report.rows, report.numbers = dict(rows), (output.aggregates, output.matches)
    report.skipped = faults.total
    report.seconds, report.cpu_seconds = stages.seconds, stages.cpu_seconds
    first = readings[0]
    report.span_seconds = times.seconds(first.source.tick)
    if first.access.groups is not None:  # what is not read is there all the same
        report.read["events"], report.events = report.events + edges, first.access.of_events
        report.span_seconds = first.access.span_seconds(first.source.tick)
    odd = times.notes(first.source.time_type, first.program.workload.stream)
    if all(reading.access.groups is None for reading in readings):
        report.notes += occurred.notes() if report.events else []
        report.notes += notes_about_events(source.shown, report.events, odd, faults)
    for each in (reading.access for reading in readings):
        report.notes += [*each.notes, *each.warnings]
    return report


def _added(read: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """What was read in all; also that nothing was."""
    return {name: read.get(name, 0) + more.get(name, 0) for name in {**read, **more}}


def _charges(plan: Plan, account: Account) -> Callable[[str], AbstractContextManager[object]]:
    """What writing a kind of rows is charged to: the sink that the plan has for it, if any."""
    sinks = {operator.id for operator in plan.operators if operator.kind == "sink"}
    return lambda kind: account.charge(f"sink-{kind}") if f"sink-{kind}" in sinks else nullcontext()


class _Reading(NamedTuple):
    """A program, the events that it reads, and what cuts these into slices."""

    program: Program
    source: FileSource
    slices: Callable[[Any], Iterator[Any]]
    access: AccessChoice
    summed: SummedRun | None  # queries that are answered from blocks


def _opened(
    plan: Plan, source: EventSource, execution: Execution, faults: Faults, monitor: Monitor
) -> tuple[BoundWorkload, list[_Reading]]:
    """The queries over the source's columns, and what reads it: one scan for all that share, or one
    for each query."""
    from engines.access.choice import choose_access, why_all_events
    from engines.access.forced_probes import check_forced
    from engines.access.summed_rows import SummedRun
    from engines.input.batches import FileSource
    from engines.input.event_table import Faults
    from engines.local.slices import slices_of
    from workloads.loading import load_workload
    from workloads.workload import written_workload

    workload = written_workload(plan.document) or load_workload(plan.document)
    progress = _ScanProgress(monitor)
    files = FileSource(source.path, workload.stream, faults, progress=progress)
    program = fitted(plan, files.schema, files.kinds, workload, files.path, files)
    check_forced(execution.access, program.workload.queries)
    parts = program.separate()
    progress.scans = len(parts)
    readings = []
    for number, part in enumerate(parts):
        if number:
            # Faults have been told of when they were first met.
            progress, again = _ScanProgress(monitor, number, len(parts)), Faults(source.on_error)
            given = {"progress": progress, "schema": files.schema, "like": files}
            files = FileSource(source.path, workload.stream, again, **given)
        # What is no event must not depend on the query, and who watches sees all that queries read.
        whole = source.on_error == "skip" or (monitor.reads_events and not number)
        columns = program.workload if whole else part.workload
        obstacle = why_all_events(source, execution, monitor)
        wanted = execution.access
        access = choose_access(files, part.workload, wanted, obstacle, solver=plan.solver)
        if access.groups is not None:
            files.only(access.groups, access.rows)
        summed = None
        if access.summed is not None:
            names = {one.query.name for one in access.summed.queries}
            given = {"schema": files.schema, "like": files}
            edges = FileSource(source.path, workload.stream, Faults(), **given)
            edges.only(access.edges or {})
            summed = SummedRun(access.summed, part.of_queries(names), edges)
            part = part.of_queries({query.name for query in part.workload.queries} - names)
            columns = part.workload
        slices = slices_of(files, part, columns, source, execution)
        readings.append(_Reading(part, files, slices, access, summed))
    return program.workload, readings


@dataclass
class _ScanProgress:
    """Tells the progress of one of several scans as that of the run."""

    monitor: Monitor
    number: int = 0
    scans: int = 1

    def __call__(self, part: float) -> None:
        self.monitor.on_progress((self.number + part) / self.scans)


def fitted(
    plan: Plan,
    schema: pa.Schema,
    kinds: Mapping[str, Any] | None,
    workload: Workload,
    path: str,
    files: FileSource | None = None,
) -> Program:
    """The plan's program over columns of these kinds; the workload is that of its document.

    The `files` that have these columns tell why they are of other kinds than queries want.
    """
    from engines.input.query_columns import bind_to
    from workloads.errors import WorkloadError

    try:
        return bound_program(plan, bind_to(workload, schema, path, kinds))
    except WorkloadError as error:
        found = error if files is None else files.explained(error, workload)
        about = f"{plan.id} does not fit these events: " if found is error else ""
        raise PlanError(about + "; ".join(map(_finding, found.diagnostics))) from error


def _finding(found: Diagnostic) -> str:
    """A finding in a line: of which query, what, and what to do about it."""
    query = f"query {found.query}: " if found.query else ""
    return query + found.message + (f" ({found.hint})" if found.hint else "")


def shown_time(events: Events, time: int | None) -> int | str | None:
    """A time as people read it: a number, or a timestamp in ISO 8601."""
    import numpy as np

    from engines.results.json_text import shown_moment

    return None if time is None else shown_moment(events.times(np.array([time])))


def _run_oracle(plan: Plan, source: EventSource, sink: RowSink, monitor: Monitor) -> RunReport:
    """The reference over all events at once: what the queries mean, whatever the plan."""
    from engines.columns.occurrences import Occurrences
    from engines.input.batches import read_events
    from engines.input.event_table import column_kinds
    from engines.input.query_columns import bind_to
    from engines.reference.oracle import run_oracle
    from engines.results.first_rows import FirstRows
    from engines.results.tables import row_counts, sorted_results
    from engines.results.writers import write_results
    from workloads.loading import load_workload

    stages = Stages(monitor)
    with stages("read"):
        workload = load_workload(plan.document)
        events = read_events(source.path, workload.stream)
        schema = events.table.schema
        columns = column_kinds(schema) if len(events) else None
        bound = bind_to(workload, schema, source.shown, columns)
    with stages("run"):
        results = sorted_results(run_oracle(bound, events))
    report = RunReport("oracle", "cpu", len(events), rows=dict(row_counts(results)))
    report.numbers = (results.aggregates.num_rows, results.matches.num_rows)
    report.bound = (bound, events.table.schema)
    occurred = Occurrences(bound)
    occurred.add(events.table)
    report.notes += occurred.notes()
    with stages("write"):
        if sink.path is None:
            kept = FirstRows(sink.shown)
            kept.add(results)
            report.first = kept.first
        else:
            kinds = (True, True) if sink.both else kinds_of(plan)
            report.files = write_results(results, sink.path, *kinds)
    report.seconds, report.cpu_seconds = stages.seconds, stages.cpu_seconds
    return report


# --- on Spark -------------------------------------------------------------------------------------


def _run_spark(
    plan: Plan, source: EventSource, sink: RowSink, execution: Execution, monitor: Monitor
) -> RunReport:
    """As one job of a session, which is made once the input is known to be good.

    Only what Spark has to find, a table or another machine's files, is looked at after that.
    """
    import numpy as np

    from engines.access.choice import choose_access, table_access, why_all_events, will_read
    from engines.access.forced_probes import check_forced
    from engines.input.event_table import Faults, column_kinds
    from engines.input.query_columns import named_columns
    from engines.input.time_sense import TimeSpan, notes_about_events
    from engines.results.structs import all_match_structs
    from engines.spark.batch.job import SpreadSettings, run_batch
    from engines.spark.batch.source import SparkSource, open_source, open_table, table_of
    from engines.spark.batch.targets import FileTarget, FirstRowsTarget, Target, target_for
    from engines.spark.runtime.session import spark_session
    from workloads.loading import load_workload

    stages, faults = Stages(monitor), Faults(source.on_error)
    where = execution.spark
    workload = load_workload(plan.document)
    stream = workload.stream
    with ExitStack() as sessions:

        def session() -> SparkSession:
            made = spark_session(where.master, where.name or "sheaf", where.conf)
            spark: SparkSession = sessions.enter_context(made)
            return spark

        opened: SparkSource
        read: dict[str, int] = {}
        if (table := table_of(source.path)) is not None:
            with stages("start"):
                spark = session()
            with stages("read"):
                opened = open_table(spark, table, stream, faults, source.options, source.name)
                kinds = column_kinds(opened.schema)
                program = fitted(plan, opened.schema, kinds, workload, source.shown)
                access = table_access(opened, program.workload, source, execution, monitor)
        else:
            with stages("read"):
                opened = open_source(source.path, stream, faults)
                files = opened.files
                program = fitted(plan, files.schema, files.kinds, workload, files.path, files)
                opened.files.assume(named_columns(program.workload))
                obstacle = why_all_events(source, execution, monitor)
                check_forced(execution.access, program.workload.queries)
                asked = (opened.files, program.workload, execution.access, obstacle)
                access = choose_access(*asked, False, plan.solver, with_rows=False)
                opened.kept = access.groups
                read = will_read(opened.files, program.workload, access)
            with stages("start"):
                spark = session()
        structs = None
        if sink.match == "struct":
            structs = all_match_structs(program.workload, opened.schema)
        target: Target = FirstRowsTarget(sink.shown or ALL_ROWS, structs)
        if sink.path is not None and sink.both:
            target = FileTarget(sink.path, structs=structs)
        elif sink.path is not None:
            target = target_for(sink.path, *kinds_of(plan), structs)
        pages: list[str] = []

        def told(progress: SparkProgress) -> None:
            if progress.ui is not None and not pages:
                pages.append(progress.ui)
                monitor.on_page(progress.ui)
            monitor.on_progress(progress.part)
            monitor.on_tasks(progress)

        settings = SpreadSettings(plan.spark.spread, plan.spark.buckets)
        with stages("run"):
            done = run_batch(spark, program, opened, target, execution.options, settings, told)
    kind, times = opened.schema.field(stream.time).type, TimeSpan()
    times.add(np.array([] if done.first_tick is None else [done.first_tick], np.int64))
    told_of: list[str] = []
    if access.method == "scan":
        told_of = [
            *(done.notes if done.events else []),
            *notes_about_events(source.shown, done.events, times.notes(kind, stream), faults),
        ]
    else:  # what is not read is there all the same
        read["events"] = done.events
    return RunReport(
        "spark",
        device_of(plan, execution.options),
        done.events if access.groups is None else access.of_events,
        faults.total,
        stages.seconds,
        done.seconds.get("cpu", 0.0) + done.account.nanoseconds[program.ids.scan] / 1e9,
        done.rows,
        done.numbers,
        done.names,
        done.first,
        done.account,
        done.fallbacks,
        done.decisions,
        sum(decision.what == "changed" for decision in done.decisions),
        done.ledger,
        done.unbounded,
        faults,
        {"master": where.master, "spread": done.spread, "tasks": done.parts},
        read=read,
        access=access.document(),
        bound=(program.workload, opened.schema),
        notes=[*told_of, *access.notes, *access.warnings],
    )
