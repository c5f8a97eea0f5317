"""Commands that are interrupted leave no process, no folder and no traceback."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from workloads import bundled
from workloads.generators import write_events

COMMAND = [sys.executable, "-c", "from api.cli.entry_point import main; main()"]
MARK = "SHEAF_TEST_MARK"
HANG_SECONDS = 60
SPARK = ("run", "shop", "--engine", "spark")
LIVE = (*SPARK, "--stream", "--checkpoint", "state")


@dataclass
class Started:
    """A command in a session of its own, with all that it starts and its temporary files."""

    folder: Path
    arguments: list[str]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.process = subprocess.Popen(
            [*COMMAND, *self.arguments],
            env={**os.environ, MARK: self.mark, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder.parent,
            start_new_session=True,
            # Where the tests run in the background, it is ignored, and would stay so.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def processes(self) -> list[str]:
        """The commands of all live processes that it started, itself included."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes():
                    found.append((path / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found

    def has_jvm(self) -> bool:
        return any("java" in command and "spark" in command for command in self.processes())

    def interrupt(self, number: signal.Signals, group: bool = False) -> str:
        """What it said on the error output after the signal."""
        if group:  # as a terminal does
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return self.process.communicate(timeout=HANG_SECONDS)[1]

    def assert_nothing_left(self, number: signal.Signals, said: str) -> None:
        assert (self.process.returncode, said) == (128 + number, "interrupted\n")
        assert self.processes() == []
        assert [path.name for path in self.folder.iterdir() if path.is_dir()] == []


@contextmanager
def command(folder: Path, *arguments: str | Path) -> Iterator[Started]:
    started = Started(folder / "tmp", [str(argument) for argument in arguments])
    try:
        yield started
    finally:
        if started.process.poll() is None:
            os.killpg(started.process.pid, signal.SIGKILL)
            started.process.communicate()


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = bundled.stream("shop", events=200_000)
    return write_events(spec, tmp_path_factory.mktemp("events") / "e.parquet")


def wait_until(what: Callable[[], bool], deadline: float = HANG_SECONDS) -> None:
    end = time.monotonic() + deadline
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_spark_starts(events: Path, tmp_path: Path, number: signal.Signals) -> None:
    with command(tmp_path, "run", "shop", "--events", events, "--engine", "spark") as started:
        wait_until(started.has_jvm)
        said = started.interrupt(number)
        started.assert_nothing_left(number, said)


@pytest.mark.slow
def test_killing_it_while_spark_starts_leaves_no_process(events: Path, tmp_path: Path) -> None:
    with command(tmp_path, "run", "shop", "--events", events, "--engine", "spark") as started:
        wait_until(started.has_jvm)
        started.process.kill()
        started.process.communicate()
        wait_until(lambda: started.processes() == [])


@pytest.mark.soak
def test_a_running_stream_ends_with_its_batch(events: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    arguments = (*LIVE, "--events", events.parent, "--out", out)
    with command(tmp_path, *arguments) as started:
        wait_until(lambda: any(out.glob("matches/*.parquet")), 2 * HANG_SECONDS)
        said = started.interrupt(signal.SIGINT, group=True)
        assert started.process.returncode == 0
        assert json.loads(said.splitlines()[-1])["events"] == 200_000
        assert started.processes() == []
        assert [path.name for path in started.folder.iterdir() if path.is_dir()] == []


def test_while_a_command_is_loaded(tmp_path: Path) -> None:
    with command(tmp_path, "plan", "stocks") as started:
        wait_until(lambda: "numpy" in Path(f"/proc/{started.process.pid}/maps").read_text())
        said = started.interrupt(signal.SIGINT)
        started.assert_nothing_left(signal.SIGINT, said)


TWO_SESSIONS = """
from engines.spark.runtime.session import spark_session
try:
    with spark_session("local[1]") as spark:
        assert spark.range(3).count() == 3
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
with spark_session("local[1]") as spark:
    print(spark.range(5).count())
"""


@pytest.mark.slow
def test_a_program_can_go_on_after_an_interrupted_session(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_SESSIONS],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=2 * HANG_SECONDS,
    )
    assert (done.stdout, done.stderr) == ("5\n", "")
    assert list(tmp_path.iterdir()) == []


MOMENTS = (0.3, 0.6, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 14)


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        *((SPARK, seconds) for seconds in MOMENTS),
        *((LIVE, seconds) for seconds in (0.5, 2, 3, 4, 6)),
        *((("run", "shop"), seconds) for seconds in (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.5)),
        *((("calibrate",), seconds) for seconds in (0.5, 1, 2, 4)),
        *((("plan", "shop"), seconds) for seconds in (0.2, 0.4, 0.6)),
        *((("demo",), seconds) for seconds in (0.5, 1, 2, 3, 5, 8, 12, 20)),
    ],
)
def test_after_some_seconds(
    events: Path,
    tmp_path: Path,
    number: signal.Signals,
    arguments: tuple[str, ...],
    seconds: float,
) -> None:
    more: list[str | Path] = []
    if arguments[0] == "run":
        (tmp_path / "rows").mkdir()
        out = tmp_path / "rows" / ("live" if arguments == LIVE else "rows.parquet")
        more = ["--events", events.parent if arguments == LIVE else events, "--out", out]
    with command(tmp_path, *arguments, *more) as started:
        time.sleep(seconds)
        said = started.interrupt(number, group=True)
        started.assert_nothing_left(number, said)
    if arguments[0] == "run" and arguments != LIVE:
        assert list((tmp_path / "rows").iterdir()) == []
