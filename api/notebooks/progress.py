"""How far a run is, as a bar below the cell of a notebook; nothing is shown elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from api.cli.terminal.progress import TimeLeft, shown_seconds, stage_text
from engines.execution import QUIET, Monitor

FIRST_SECONDS = 0.5  # of a run in which no bar is shown: most end before
BETWEEN_SECONDS = 0.2  # two bars


class NotebookBar(Monitor):
    """Shows what a run is at, how much is done, and how long it will take.

    `show` takes HTML and gives a handle, whose `update` puts other HTML in its place.
    """

    def __init__(
        self,
        engine: str,
        show: Callable[[str], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._show, self._clock = engine, show, clock
        self._stage, self._left = "start", TimeLeft(clock)
        self._next = clock() + FIRST_SECONDS
        self._handle: Any = None

    def on_stage(self, name: str) -> None:
        self._stage = name
        if name == "run":
            self._left.tell(0.0)
        self._draw()

    def on_progress(self, part: float) -> None:
        self._left.tell(part)
        self._draw()

    def end(self) -> None:
        """Take the bar away."""
        if self._handle is not None:
            self._handle.update("")

    def _draw(self) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + BETWEEN_SECONDS
        html = self._html()
        if self._handle is None:
            self._handle = self._show(html)
        else:
            self._handle.update(html)

    def _html(self) -> str:
        part, seconds = self._left.part, self._left.seconds
        bar = (
            f'<progress max="1" value="{part:.3f}"></progress>' if part else "<progress></progress>"
        )
        left = "" if seconds is None else f", about {shown_seconds(seconds)} left"
        return f"{bar} {stage_text(self._stage, self._engine)}{left}"


class _Handle:
    """What IPython shows at one place."""

    def __init__(self, handle: Any, wrap: Callable[[str], Any]) -> None:
        self._handle, self._wrap = handle, wrap

    def update(self, html: str) -> None:
        self._handle.update(self._wrap(html))


@contextmanager
def notebook_bar(engine: str) -> Iterator[Monitor]:
    """A bar for as long as the block runs, where it runs in a notebook."""
    if (shell := running_shell()) is None or not hasattr(shell, "kernel"):
        yield QUIET
        return
    screen = import_module("IPython.display")

    def show(html: str) -> _Handle:
        return _Handle(screen.display(screen.HTML(html), display_id=True), screen.HTML)

    bar = NotebookBar(engine, show)
    try:
        yield bar
    finally:
        bar.end()


def running_shell() -> Any:
    """IPython's shell, where this process is one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
