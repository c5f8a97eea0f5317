"""`sheaf run --stream` and `sheaf stream`: a workload over events that keep coming."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from api.execution import OnError, Stages
from workloads.errors import SheafError

if TYPE_CHECKING:
    from api.commands.spark import SparkOptions
    from engines.how import How
    from engines.spark.live_source import LiveSource
    from engines.spark.stream import Progress, Stream
    from optimizer.ir.query import BoundWorkload
    from workloads.model import Workload


PATIENCE = 5.0  # seconds that a batch is given to end before the stream does


@dataclass(frozen=True)
class Live:
    """What the options say about a stream."""

    checkpoint: str | None = None
    once: bool = False
    finish: bool = False
    every: float | None = None
    buckets: int | None = None
    files: int | None = None
    schema: str | None = None

    def refuse(self) -> None:
        """Raise where there is no stream that they could be about."""
        if self != Live():
            raise SheafError(
                "--checkpoint, --once, --finish, --every, --buckets, --files and --schema are for "
                "--stream"
            )


def run_live(
    workload: Workload,
    path: str,
    stages: Stages,
    out: str | None,
    live: Live,
    on_error: OnError,
    how: How,
    where: SparkOptions,
) -> dict[str, Any]:
    """Run until there is nothing more, or until it is stopped; gives what goes to the report."""
    from engines.events import column_kinds
    from engines.session import spark_session
    from engines.spark import updates
    from engines.spark.checkpoint import read_manifest
    from engines.spark.live_source import open_live_source
    from engines.spark.stream import StreamOptions, finish_stream, settings_for, start_stream
    from optimizer.bind import bind

    if live.checkpoint is None or out is None:
        raise SheafError("--stream needs --checkpoint DIR, for its state, and --out DIR, for rows")
    if live.finish and not live.once:
        raise SheafError("--finish ends a stream that ends by itself: give --once too")
    with stages("read"):
        before = read_manifest(live.checkpoint)
        known = None if before is None else before.schema
        source = open_live_source(path, workload.stream, live.schema, known, on_error)
        bound = bind(workload, column_kinds(source.schema))
    options = StreamOptions(
        live.checkpoint,
        out,
        buckets=live.buckets,
        files_per_batch=live.files,
        every=live.every,
        once=live.once,
    )
    totals = _Totals()
    with ExitStack() as sessions:
        with stages("start"):
            settings = {**settings_for(path, out), **where.conf}
            if "spark.jars" in where.conf:  # jars that are there take the place of a registry's
                settings.pop("spark.jars.packages", None)
            spark = sessions.enter_context(spark_session(where.master, conf=settings))
            if (address := spark.sparkContext.uiWebUrl) is not None:
                typer.echo(f"Spark's own page: {address}", err=True)
        with stages("run"), _shown(source) as show:

            def told(progress: Progress) -> None:
                totals.add(progress)
                show(progress)

            stream = start_stream(spark, bound, source, options, how, told)
            if stream.takeover.afresh:
                typer.echo(f"note: {', '.join(stream.takeover.afresh)} start afresh", err=True)
            with _asked_to_end() as asked:
                while not asked.is_set() and not stream.wait(1):
                    if (update := updates.asked(live.checkpoint)) is not None:
                        said, bound, source = _updated(
                            stream, update.document, bound, source, live.schema, how, asked.is_set
                        )
                        updates.answer(live.checkpoint, update, said)
                if asked.is_set():
                    stream.stop(PATIENCE)
            if live.finish and not asked.is_set():
                told(finish_stream(spark, bound, source, options, how))
    if totals.late:
        typer.echo(f"{totals.late:,} events came too late; they are in {out}/late", err=True)
    if totals.bad:
        typer.echo(f"left out {totals.bad:,} rows; the first: {totals.first_bad}", err=True)
    return {
        "events": totals.read,
        "skipped": totals.bad,
        "late": totals.late,
        "batches": totals.batches,
        "rows": {"aggregates": totals.aggregates, "matches": totals.matches},
        "rows_by_query": dict(totals.rows),
    }


def _updated(
    stream: Stream,
    document: Mapping[str, Any],
    bound: BoundWorkload,
    source: LiveSource,
    like: str | None,
    how: How,
    enough: Callable[[], bool],
) -> tuple[dict[str, Any], BoundWorkload, LiveSource]:
    """What came of other queries, and what runs now."""
    from engines.events import column_kinds
    from engines.spark.live_source import open_live_source
    from optimizer.bind import bind
    from workloads.loading import load_workload

    try:
        workload = load_workload(document)
        new = open_live_source(
            source.path, workload.stream, like, source.schema, source.on_error, source.options
        )
        wanted = bind(workload, column_kinds(new.schema))
        done = stream.replace(wanted, new, replace(how, groups=None, trees=()), enough)
    except SheafError as error:
        return {"error": str(error)}, bound, source
    said = {"kept": done.kept, "afresh": done.afresh, "removed": done.removed}
    typer.echo(f"note: {told_of(said)}", err=True)
    return said, wanted, new


def told_of(said: Mapping[str, Any]) -> str:
    """What became of a stream's queries, in a sentence."""
    words = {"kept": "go on", "afresh": "start afresh", "removed": "are gone"}
    parts = [f"{', '.join(said[kind])} {word}" for kind, word in words.items() if said[kind]]
    return "; ".join(parts)


commands = typer.Typer(no_args_is_help=True, help="Look after streams that run.")


@commands.callback()
def about() -> None:
    """Look after streams that run."""


@commands.command()
def update(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Of the stream.")],
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="File or name.")],
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the stream.")] = 600,
) -> None:
    """Have a stream that runs go on with other queries, from the end of its batch."""
    from api.inputs import open_workload
    from engines.spark.updates import ask
    from workloads.document import to_document

    parsed, _ = open_workload(workload)
    said = ask(checkpoint, to_document(parsed), timeout)
    if "error" in said:
        raise SheafError(said["error"])
    typer.echo(told_of(said))


@dataclass
class _Totals:
    """All batches of a run."""

    batches: int = 0
    read: int = 0
    bad: int = 0
    late: int = 0
    aggregates: int = 0
    matches: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    first_bad: str | None = None

    def add(self, progress: Progress) -> None:
        self.batches += 1
        self.read += progress.read
        self.bad += progress.bad
        self.late += progress.late
        self.aggregates += progress.aggregates
        self.matches += progress.matches
        self.rows.update(progress.rows)
        self.first_bad = self.first_bad or progress.first_bad


@contextmanager
def _shown(source: LiveSource) -> Iterator[Callable[[Progress], None]]:
    """A line on the terminal that says how it goes; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console

    from engines.events import from_table

    none = from_table(source.schema.empty_table(), source.stream)

    def text(progress: Progress) -> str:
        rows = progress.aggregates + progress.matches
        parts = [
            f"batch {progress.batch}",
            f"{progress.read:,} events in",
            f"{rows:,} rows out",
            f"{progress.seconds:.1f} s",
            f"state {progress.state / 2**20:.1f} MB",
        ]
        if progress.until is not None:
            parts.append(f"up to {none.times(np.array([progress.until]))[0].as_py()}")
        if progress.late:
            parts.append(f"{progress.late:,} too late")
        return " · ".join(parts)

    with Console(stderr=True).status("starting; Ctrl-C ends it") as status:
        yield lambda progress: status.update(text(progress))


@contextmanager
def _asked_to_end() -> Iterator[Event]:
    """Is set by Ctrl-C or a request to end, which must not cut off a word with the JVM."""
    asked = Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: asked.set()) for number in signals]
    try:
        yield asked
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
