"""A plan over events that keep coming, by Spark, until it ends or is told to."""

from __future__ import annotations

from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import replace

from engines.columns.occurrences import Occurrences
from engines.execution import (
    EventSource,
    Execution,
    Monitor,
    Replacement,
    RunReport,
    Stages,
    percentile,
)
from engines.input.event_paths import each_path
from engines.input.event_table import column_kinds, from_table
from engines.program import Program
from engines.run import device_of, fitted
from engines.spark.runtime.session import spark_session
from engines.spark.stream.checkpoint import read_manifest
from engines.spark.stream.job import StreamProgress, finish_stream, start_stream
from engines.spark.stream.session import settings_for
from engines.spark.stream.source import LiveSource, open_live_source
from optimizer.plan.plan import Plan
from workloads.loading import load_workload
from workloads.sources import late_by

STREAM_STOP_SECONDS = 5.0  # that a batch is given to end before the stream does
COMMAND_POLL_SECONDS = 0.25
TIMED_BATCHES = 10_000  # the last ones, of which a report says how long they took


def run_stream(
    plan: Plan, source: EventSource, execution: Execution, monitor: Monitor
) -> RunReport:
    """Until there is nothing more, or until it is told to stop."""
    assert execution.stream is not None
    options, where = execution.stream, execution.spark
    if options.buckets is None and plan.spark.buckets is not None:
        options = replace(options, buckets=plan.spark.buckets)
    stages = Stages(monitor)
    report = RunReport("spark", device_of(plan, execution.options))
    totals: Counter[str] = Counter()
    took: deque[float] = deque(maxlen=TIMED_BATCHES)
    rows: Counter[str] = Counter()

    def told(progress: StreamProgress) -> None:
        totals.update(
            batches=1,
            read=progress.read,
            bad=progress.bad,
            late=progress.late,
            aggregates=progress.aggregates,
            matches=progress.matches,
        )
        took.append(progress.seconds)
        rows.update(progress.rows)
        if progress.account:
            report.account.add(progress.account)
        report.fallbacks.update(list(progress.fallbacks))
        occurred.merge(progress.seen)
        if progress.first_bad is not None:
            report.about.setdefault("first_bad", progress.first_bad)
        monitor.on_batch(progress)

    with stages("read"):
        program, live = open_stream(plan, source, options.checkpoint)
    occurred = Occurrences(program.workload)
    with ExitStack() as sessions:
        with stages("start"):
            settings = settings_for(*each_path(source.path), options.out, conf=where.conf)
            made = spark_session(where.master, where.name or "sheaf", settings)
            spark = sessions.enter_context(made)
            if (address := spark.sparkContext.uiWebUrl) is not None:
                monitor.on_page(address)
        with stages("run"):
            stream = start_stream(spark, program, live, options, execution.options, told)
            monitor.on_refused(program.workload.refused)
            monitor.on_start(stream.takeover)
            stopped = False
            while not stopped and not stream.wait(COMMAND_POLL_SECONDS):
                match monitor.command():
                    case "stop":
                        stream.stop(STREAM_STOP_SECONDS)
                        stopped = True
                    case Replacement(new, answer):
                        try:
                            wanted, opened = open_stream(new, source, options.checkpoint, live)
                            done = stream.replace(wanted, opened, execution.options)
                        except Exception as error:
                            answer(error)
                        else:
                            program, live = wanted, opened
                            before, occurred = occurred, Occurrences(program.workload)
                            occurred.merge(before.seen())
                            monitor.on_refused(program.workload.refused)
                            answer(done)
            if execution.finish and not stopped:
                told(finish_stream(spark, program, live, options, execution.options))
    report.events, report.skipped = totals["read"], totals["bad"]
    report.rows, report.numbers = dict(rows), (totals["aggregates"], totals["matches"])
    report.seconds = stages.seconds
    report.cpu_seconds = sum(report.account.nanoseconds.values()) / 1e9
    report.about |= {"late": totals["late"], "batches": totals["batches"]}
    if took:
        report.about["batch_seconds"] = {f"p{n}": percentile(took, n) for n in (50, 99)}
    kind = from_table(live.schema.empty_table(), live.stream).time_type
    report.notes += [*occurred.notes(), *occurred.time_notes(kind)]
    return report


def open_stream(
    plan: Plan, source: EventSource, checkpoint: str, running: LiveSource | None = None
) -> tuple[Program, LiveSource]:
    """The plan's program over a live source, with the columns that the checkpoint knows."""
    workload = load_workload(plan.document)
    if source.disorder is not None:  # which wins over what the workload states
        workload = replace(workload, stream=late_by(workload.stream, source.disorder))
    before = read_manifest(checkpoint)
    known = None if before is None else before.schema
    options = source.options if running is None else running.options
    live = open_live_source(
        source.path, workload.stream, source.like, known, source.on_error, options, source.registry
    )
    kinds = column_kinds(live.schema)
    return fitted(plan, live.schema, kinds, workload, source.shown), live
