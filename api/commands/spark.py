"""`sheaf run --engine spark`: a workload over stored events as one Spark job."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import typer

from api.commands.showing import ROWS_SHOWN, show, tell_faults
from api.execution import Device, OnError, Stages, kinds_of, run_on_spark
from api.progress import progress_bar
from api.sinks import check_sink
from workloads.errors import SheafError

if TYPE_CHECKING:
    from engines.how import How
    from engines.spark.progress import Progress
    from engines.spark.targets import Target
    from optimizer.ir.query import BoundWorkload
    from workloads.model import Workload

TABLE = "table:"


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs, and settings that win over ours."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Do tasks run on this machine?"""
        return self.master.startswith("local")

    def device(self, wanted: Device) -> OneOf["cpu", "opencl"]:
        """What tasks on other machines compute on: by itself a GPU if Spark gives them one."""
        given = float(self.conf.get("spark.task.resource.gpu.amount", "0")) > 0
        return "opencl" if wanted == "opencl" or (wanted == "auto" and given) else "cpu"


def settings_of(texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as settings."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise SheafError(f"--conf is '{text}'; write spark.NAME=VALUE")
        found[key] = value
    return found


def check_spark_sink(path: str) -> None:
    """Refuse what a job could not write to."""
    if path.startswith(TABLE):
        return
    if not path.endswith("/"):
        check_sink(path)
        return
    folder = Path(path.rstrip("/"))
    if not folder.absolute().parent.is_dir():
        raise SheafError(f"there is no folder '{folder.parent}' to write results to")
    if folder.is_file():
        raise SheafError(f"'{folder}' is a file; leave the slash out to write to a file")


def run_spark(
    workload: Workload,
    bound: BoundWorkload,
    events: str,
    stages: Stages,
    out: str | None,
    options: SparkOptions,
    on_error: OnError,
    how: How,
) -> dict[str, Any]:
    """Run it as a job; gives what goes to the report."""
    from engines.errors import BadRowError
    from engines.faults import Faults
    from engines.session import spark_session
    from engines.spark.targets import Shown, target_for

    target: Target = Shown(ROWS_SHOWN)
    if out is not None:
        target = target_for(out, *kinds_of(bound))
    faults = Faults(on_error)
    address: list[str] = []
    with ExitStack() as sessions:
        sessions.enter_context(interruptible())

        def session() -> Any:
            return sessions.enter_context(spark_session(options.master, conf=options.conf))

        told = sessions.enter_context(progress_bar(bound.name))

        def progress(now: Progress) -> None:
            if now.ui is not None and not address:
                address.append(now.ui)
                typer.echo(f"Spark's own page: {now.ui}", err=True)
            told(now.part)

        try:
            done = run_on_spark(workload, events, stages, session, target, faults, how, progress)
        except BadRowError as error:
            raise SheafError(f"{error} (--on-error skip leaves such rows out)") from error
    for name in done.names:
        typer.echo(name)
    if done.first is not None:
        show(done.first, typer.echo, done.numbers)
    tell_faults(faults)
    return {
        "events": done.events,
        "skipped": faults.total,
        "rows": {"aggregates": done.numbers[0], "matches": done.numbers[1]},
        "rows_by_query": done.rows,
        "master": options.master,
        "spread": done.spread,
        "tasks": done.parts,
    }


@contextmanager
def interruptible() -> Iterator[None]:
    """Have a request to end stop the job and clean up, as Ctrl-C does."""

    def stop(number: int, frame: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # Spark has its own handler for this one

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
