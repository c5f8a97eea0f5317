"""`sheaf run --stream` and `sheaf stream`: a workload over events that keep coming."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from api.cli.completion import WorkloadName
from api.cli.terminal.progress import STAGES, stage_text
from engines.execution import Command, EventSource, Execution, Monitor, Replacement
from workloads.errors import SheafError
from workloads.imported_rules import refusals

if TYPE_CHECKING:
    from engines.execution import RunReport
    from engines.spark.stream.checkpoint import Takeover
    from engines.spark.stream.job import StreamProgress
    from optimizer.plan.plan import Plan
    from workloads.imported_rules import RefusedRule


@dataclass(frozen=True)
class LiveOptions:
    """What the options say about a stream."""

    checkpoint: str | None = None
    once: bool = False
    finish: bool = False
    every: float | None = None
    buckets: int | None = None
    files: int | None = None
    schema: list[str] | None = None
    light: bool = False
    registry: str | None = None

    def refuse(self) -> None:
        """Raise where there is no stream that they could be about."""
        if self != LiveOptions():
            raise SheafError(
                "--checkpoint, --once, --finish, --every, --buckets, --files, --schema, --light "
                "and --registry are for --stream"
            )


def run_live(
    plan: Plan,
    source: EventSource,
    out: str | None,
    live: LiveOptions,
    execution: Execution,
    webhook: str | None = None,
    out_options: Mapping[str, str] | None = None,
) -> RunReport:
    """Run until there is nothing more, or until it is stopped; rows are posted batch by batch."""
    from api.cli.sinks import batch_post
    from engines.execution import RowSink
    from engines.results.lake_place import lake_place
    from engines.run import run
    from engines.spark.stream.job import StreamOptions

    if live.checkpoint is None or out is None:
        raise SheafError("--stream needs --checkpoint DIR, for its state, and --out DIR, for rows")
    if live.finish and not live.once:
        raise SheafError("--finish ends a stream that ends by itself: give --once too")
    if (place := lake_place(out)) is not None:
        place.check()
        if live.light:
            raise SheafError("--light is for files of rows, and --out names a table")
    options = StreamOptions(
        live.checkpoint,
        out,
        out_options=out_options or {},
        buckets=live.buckets,
        files_per_batch=live.files,
        every=live.every,
        once=live.once,
        light=live.light,
    )
    execution = replace(execution, stream=options, finish=live.finish)
    post = None if webhook is None else batch_post(webhook, out, live.checkpoint)
    with _shown() as show, _Ending() as ending:
        monitor = _Watching(live.checkpoint, plan, ending, show, post)
        report = run(plan, source, RowSink(out), execution, monitor)
    if report.about["late"]:
        late, place = report.about["late"], lake_place(out)
        folder = out if place is None else place.folder
        typer.echo(f"{late:,} events came too late; they are in {folder}/late", err=True)
    if report.skipped:
        first = report.about.get("first_bad")
        typer.echo(f"left out {report.skipped:,} rows; the first: {first}", err=True)
    return report


class _Watching(Monitor):
    """Shows a stream on the terminal, and hands on what is asked of it through its checkpoint."""

    def __init__(
        self,
        checkpoint: str,
        plan: Plan,
        ending: _Ending,
        show: Callable[[str], None],
        post: Callable[[int], object] | None,
    ) -> None:
        self._checkpoint, self._plan, self._ending, self._show = checkpoint, plan, ending, show
        self._post = post

    def on_stage(self, name: str) -> None:
        words = "waiting for the first batch" if name == "run" else stage_text(name, "spark")
        self._show(f"{words}; Ctrl-C ends it")

    def on_page(self, address: str) -> None:
        typer.echo(f"Spark's own page: {address}", err=True)

    def on_refused(self, rules: Sequence[RefusedRule]) -> None:
        for sentence in refusals(rules):
            typer.echo(f"note: {sentence}", err=True)

    def on_start(self, takeover: Takeover) -> None:
        self._ending.is_running = True
        if takeover.afresh:
            typer.echo(f"note: {', '.join(takeover.afresh)} start afresh", err=True)

    def on_batch(self, progress: StreamProgress) -> None:
        if self._post is not None and progress.aggregates + progress.matches:
            # Before the batch counts as done: one that is done again is posted again, as it was.
            self._show(f"posting the rows of batch {progress.batch}; Ctrl-C ends it")
            self._post(progress.batch)
        self._show(_batch_text(progress))

    def command(self) -> Command:
        from engines.spark.stream import updates

        if self._ending.is_asked:
            return "stop"
        update = updates.asked(self._checkpoint)
        if update is None:
            return None
        try:
            plan = self._planned(update.document)
        except SheafError as error:
            updates.answer(self._checkpoint, update, {"error": str(error)})
            return None

        def answer(outcome: Takeover | Exception) -> None:
            if isinstance(outcome, SheafError):
                updates.answer(self._checkpoint, update, {"error": str(outcome)})
                return
            if isinstance(outcome, Exception):
                raise outcome
            self._plan = plan
            said = {"kept": outcome.kept, "afresh": outcome.afresh, "removed": outcome.removed}
            typer.echo(f"note: {told_of(said)}", err=True)
            updates.answer(self._checkpoint, update, said)

        return Replacement(plan, answer)

    def _planned(self, document: Mapping[str, Any]) -> Plan:
        """A plan of other queries, with as much of the one that runs as they still have."""
        from engines.calibration.machine_costs import known
        from optimizer.bind.binder import bind
        from sharing.planner import make_plan
        from workloads.loading import load_workload
        from workloads.workload import to_document

        workload = load_workload(document)
        return make_plan(
            bind(workload),
            to_document(workload),
            sharing=self._plan.sharing,
            earlier=self._plan,
            unit_costs=known(),
        )


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
    workload: WorkloadName,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the stream.")] = 600,
) -> None:
    """Have a running stream go on with other queries.

    They take over at the end of its batch.
    """
    from api.cli.workload_files import open_workload
    from engines.spark.stream.updates import ask
    from workloads.workload import to_document

    parsed, _ = open_workload(workload)
    said = ask(checkpoint, to_document(parsed), timeout)
    if "error" in said:
        raise SheafError(said["error"])
    typer.echo(told_of(said))


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says how it goes; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{STAGES['read']}; Ctrl-C ends it") as status:
        yield lambda text: status.update(text)


def _batch_text(progress: StreamProgress) -> str:
    """A batch in a line."""
    rows = progress.aggregates + progress.matches
    parts = [
        f"batch {progress.batch}",
        f"{progress.read:,} events in",
        f"{rows:,} rows out",
        f"{progress.seconds:.1f} s",
        f"state {progress.state / 2**20:.1f} MB",
    ]
    if progress.until is not None:
        parts.append(f"up to {progress.until_shown}")
    if progress.late:
        parts.append(f"{progress.late:,} too late")
    return " · ".join(parts)


class _Ending:
    """Has a running stream end with its batch when Ctrl-C or a request to end comes.

    Before it runs, and where it is asked again, the process ends as any other command's does.
    """

    def __init__(self) -> None:
        self.is_running = self.is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.is_running and not self.is_asked:
            self.is_asked = True
        elif callable(handler := self._before[number]):
            handler(number, frame)
        else:
            raise KeyboardInterrupt
