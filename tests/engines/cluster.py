"""A standalone cluster of Spark on this machine: a master and workers in processes of their own.

Its workers have another folder, no PYTHONPATH, and a Python that does not find this project: only
what a session ships is there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyspark

from engines.spark.runtime.java import java_home

PATIENCE = 90.0


@dataclass
class Cluster:
    """A running cluster; `python` is what its workers run."""

    master: str
    python: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)


@contextmanager
def cluster(folder: Path, workers: int = 2, memory: str = "900m") -> Iterator[Cluster]:
    """A master and workers of one core each, for as long as the block runs."""
    started: list[subprocess.Popen[bytes]] = []
    log = (folder / "cluster.log").open("wb")
    try:
        master = _start(folder, log, "master.Master", "--host", "127.0.0.1", "--port", "0")
        started.append(master)
        address = _said(folder / "cluster.log", r"spark://127\.0\.0\.1:\d+", master)
        found = Cluster(address, str(_python(folder)))
        for i in range(workers):
            place = folder / f"worker-{i}"
            place.mkdir()
            options = ("--cores", "1", "--memory", memory, "--host", "127.0.0.1")
            worker = _start(place, log, "worker.Worker", *options, "-d", str(place), address)
            started.append(worker)
            found.workers.append(worker)
        for _ in range(workers):
            _said(folder / "cluster.log", "Successfully registered with master", master)
        yield found
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the executors that it started
            process.wait()
        log.close()


def _start(folder: Path, log: IO[bytes], name: str, *options: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    kept = ("PATH", "HOME", "TMPDIR", "LANG")
    environment = {key: os.environ[key] for key in kept if key in os.environ}
    environment |= {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    command += ["--webui-port", "0", *options]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )


def _said(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """What a process of the cluster has said by now, or will soon."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"the cluster did not say {pattern}:\n{log.read_text()[-3000:]}")


def _python(folder: Path) -> Path:
    """This Python with the packages that are installed, but none that is installed in place."""
    packages = sysconfig.get_paths()["purelib"]
    base = Path(sys.executable).resolve()
    script = folder / "python"
    # -S: no `.pth` files are read, which is how a package in place is found.
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec "{base}" -S "$@"\n')
    script.chmod(0o755)
    return script
