"""Ctrl-C and requests to end, at any moment of a command: nothing is left, and nothing is printed.

The first signal raises `KeyboardInterrupt` in the main thread, so that `with` blocks remove what
they made. What libraries print about it is not shown: it can come in the middle of anything. At the
end all processes that were started are killed, and the exit code is 128 and the signal's number.
Only what every command loads anyway is imported here: the handlers are set before all else.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = 15.0  # that blocks have to end
RETRY_SECONDS = 0.05
PR_SET_CHILD_SUBREAPER = 36
CLEAR_LINE_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


class _Interruption:
    """The signal that this process was asked to end with, if any."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.is_over = False  # the command is done
        self._is_due = False  # the exception is to be raised, and could not be yet
        self._stderr = 2

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt`, once, as soon as that can be done."""
        if self.is_over:
            return
        if self.number is None:
            self.number, self._is_due = number, True
            self._prepare()
        if self._is_due and not _is_importing(frame):
            self._is_due = False
            raise KeyboardInterrupt

    def _prepare(self) -> None:
        self._stderr = os.dup(2)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        sys.unraisablehook = self._unraisable
        _thread.start_new_thread(self._see_to_the_end, ())
        # Processes whose parents end become this one's, and are found in the end.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        if (jvm := sys.modules.get("engines.spark.runtime.jvm")) is not None:
            # No block could end it while it is being spoken with.
            with suppress(AttributeError):  # it may be half imported
                jvm.kill_jvm()

    def _unraisable(self, ignored: Any) -> None:
        """Raise again what came where nothing can be raised, such as in a destructor."""
        if ignored.exc_type is KeyboardInterrupt:
            self._is_due = True

    def _see_to_the_end(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            time.sleep(RETRY_SECONDS)
            if self._is_due and self.number is not None:
                _thread.interrupt_main(signal.Signals(self.number))
        self.end()

    def end(self) -> NoReturn:
        """End the process, and all that it started."""
        from engines.spark.runtime.process_tree import kill_descendants

        assert self.number is not None
        with suppress(Exception):
            kill_descendants()
        with suppress(BaseException):
            atexit._run_exitfuncs()
        with suppress(BaseException):
            sys.stdout.flush()
        with suppress(OSError):
            clear = CLEAR_LINE_SHOW_CURSOR if os.isatty(self._stderr) else b""
            os.write(self._stderr, clear + b"interrupted\n")
        os._exit(128 + self.number)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being loaded: libraries written in C can crash where that is cut off."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


_INTERRUPTION: _Interruption | None = None


@contextmanager
def interruptible() -> Iterator[None]:
    """A block that is all this process does: a signal to end it ends the process.

    Signals that are ignored stay so, as `nohup` wants it. After the block signals do nothing, so
    that what is to be removed at exit is.
    """
    global _INTERRUPTION
    if _INTERRUPTION is not None:
        yield
        return
    _INTERRUPTION = interruption = _Interruption()
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        try:
            for number in handled:
                signal.signal(number, interruption.handle)
            yield
        finally:
            interruption.is_over = True
    except BaseException:
        if interruption.number is None:
            raise
    finally:
        if interruption.number is not None:
            interruption.end()
