"""How far a run is, in a line on the terminal; nothing is shown elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

STAGES = {
    "read": "looking at the events",
    "start": "starting",
    "run": "running",
    "write": "writing the rows",
    "finish": "giving the rows that wait",
}
NOTICE_SECONDS = 1.0  # of compiling kernels after which a user wants to know
LEAST_PART = 0.02  # of the work from which on its speed is known
LEAST_SECONDS = 1.0
LEAST_LEFT = 0.1  # of an estimate that stays until the next is made


def stage_text(stage: str, engine: str) -> str:
    """What a run is at, in words."""
    if (stage, engine) == ("start", "spark"):
        return "starting Spark"
    return STAGES.get(stage, stage)


class TimeLeft:
    """How long a run will take, by what it took so far; None while that says nothing.

    A part that is told never falls. Between two that are told the time left goes down with the
    clock, though never to nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.part = 0.0
        self._clock = clock
        self._began: float | None = None
        self._told = 0.0
        self._estimate: float | None = None

    def tell(self, part: float) -> None:
        """So much is done, from 0 to 1."""
        now = self._clock()
        if self._began is None:
            self._began = now
        if part <= self.part:
            return
        self.part = min(part, 1.0)
        passed = now - self._began
        if self.part >= LEAST_PART and passed >= LEAST_SECONDS:
            self._told, self._estimate = now, passed * (1 - self.part) / self.part

    @property
    def seconds(self) -> float | None:
        if self._estimate is None:
            return None
        left = self._estimate - (self._clock() - self._told)
        return max(left, LEAST_LEFT * self._estimate)


def shown_seconds(seconds: float) -> str:
    """Seconds as they are read at a glance: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


class RunBar:
    """A line that says what a run is at, how much is done, and how long it will take."""

    def __init__(self, bar: Progress | None = None, engine: str = "local") -> None:
        self._bar, self._engine = bar, engine
        self._left = TimeLeft()
        self._began = time.monotonic()
        self._is_compiling = False
        self._task: TaskID | None = None
        if bar is not None:
            self._task = bar.add_task(STAGES["read"], total=None, left=self._said)

    def stage(self, name: str) -> None:
        """A stage of the run begins."""
        if name == "run":
            self._left.tell(0.0)
        if not (self._is_compiling and name in ("start", "run")):
            self._describe(stage_text(name, self._engine))

    def compiling(self) -> None:
        """Kernels have been compiled for a while, as happens the first time."""
        self._is_compiling = True
        self._describe("compiling kernels (once)")

    def part(self, part: float) -> None:
        """So much is done, from 0 to 1."""
        self._left.tell(part)
        if self._is_compiling and self._left.part > 0:
            self._is_compiling = False
            self._describe(STAGES["run"])
        if self._bar is not None and self._task is not None and self._left.part > 0:
            self._bar.update(self._task, total=1.0, completed=self._left.part)

    def _describe(self, text: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text)

    def _said(self) -> str:
        left = self._left.seconds
        if left is None:
            return shown_seconds(time.monotonic() - self._began)
        return f"about {shown_seconds(left)} left"


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says on the terminal what the block is at."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def run_bar(engine: str) -> Iterator[RunBar]:
    """A bar for as long as the block runs."""
    if not sys.stderr.isatty():
        yield RunBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(task.fields["left"]())

    class Percent(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.total is None else f"{task.percentage:>3.0f} %")

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        Percent(),
        Left(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = RunBar(bar, engine)
        with compilation_noticed(shown.compiling):
            yield shown


@contextmanager
def compilation_noticed(
    notice: Callable[[], None], seconds: float = NOTICE_SECONDS
) -> Iterator[None]:
    """Gives notice, once, where the block has been compiling kernels for so long.

    Loading what was compiled before is no compilation.
    """
    event: Any = import_module("numba.core.event")
    timer = threading.Timer(seconds, notice)
    timer.daemon = True

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, about: object) -> None:
            if timer.ident is None:
                timer.start()

        def on_end(self, about: object) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
        timer.cancel()
