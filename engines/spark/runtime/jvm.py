"""The JVM of this process: one for all its Spark sessions, started by the first."""

import ctypes
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from engines.spark.runtime.process_tree import kill_tree
from workloads.errors import SheafError

TAIL = 2000  # characters of the log that an error shows
CONNECTION = "connection"
START_POLL_SECONDS = 0.05
PR_SET_PDEATHSIG = 1


class JvmStartError(SheafError):
    """The JVM ended before it was up, with the end of what it said."""


class JvmKilledError(JvmStartError):
    """The JVM was killed before it was up; another may do better."""


_PROCESSES: list[subprocess.Popen[bytes]] = []  # the JVM that this process started, if any


def start_jvm(settings: Mapping[str, str], folder: Path, log: Path) -> None:
    """Start the JVM with its output in `log`, unless it is running; `folder` is for its files.

    Its output is no place for ours: Spark's Python workers write remarks there, and what a service
    reads from this process has to be this process's own. pyspark would start one too, but leave it
    behind where it is interrupted meanwhile.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        return
    with log.open("ab") as output:
        before = output.tell()
        process = _started(settings, folder, output)
    while not (folder / CONNECTION).is_file():
        if (code := process.poll()) is not None:
            said = log.read_bytes()[before:].decode(errors="replace").strip()
            if code < 0 or not said:
                raise JvmKilledError(
                    "Spark's JVM ended while it started, and did not say why, as when it is killed "
                    "because the machine has no memory left; run it again"
                )
            raise JvmStartError(_why(said))
        time.sleep(START_POLL_SECONDS)
    SparkContext._ensure_initialized(gateway=_connected(folder / CONNECTION))


def _started(
    settings: Mapping[str, str], folder: Path, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    """The process of the JVM, which writes to the file `CONNECTION` how it is spoken with."""
    (folder / CONNECTION).unlink(missing_ok=True)
    command = [str(Path(os.environ["SPARK_HOME"], "bin", "spark-submit"))]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = {
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / CONNECTION),
        "TMPDIR": str(folder / "tmp"),  # of Python workers on this machine
    }
    library = ctypes.CDLL(None)
    # The signal comes when the thread that started the process ends.
    ends_with_us = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    parent = os.getpid()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process to handle
        if ends_with_us:
            library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # the JVM exits when it ends
        stdout=output,
        stderr=output,
        env=environment,
        preexec_fn=prepare,
    )
    _PROCESSES[:] = [process]
    return process


def _connected(info: Path) -> Any:
    """A gateway to the JVM that wrote the file."""
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    with info.open("rb") as file:
        port, secret = read_int(file), UTF8Deserializer().loads(file)
    info.unlink()
    where = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": str(secret)}
    os.environ.update(where)
    try:
        return launch_gateway()
    finally:
        for name in where:
            os.environ.pop(name, None)


def _why(said: str) -> str:
    """What kept the JVM from starting, by what it said."""
    if missing := re.search(r"\[unresolved dependency: (.+?)#(.+?);(.+?): ", said):
        return (
            f"Spark cannot load {':'.join(missing.groups())}: no registry that is reached from "
            "here has it; fetch its jars and name them, --conf spark.jars=A.jar,B.jar"
        )
    return f"Spark's JVM did not start. It said:\n{said[-TAIL:]}"


def forget(keys: Iterable[str]) -> None:
    """Clear what the JVM keeps of its first settings, where the next session would find it."""
    from pyspark import SparkContext

    if (jvm := SparkContext._jvm) is not None:
        for key in keys:
            jvm.java.lang.System.clearProperty(key)


def stop_jvm(timeout: float = 10) -> None:
    """End the JVM and wait for it, since it writes to a folder that is about to be removed."""
    from pyspark import SparkContext

    if not has_jvm():
        return
    (process,) = _PROCESSES
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    # A thread of py4j may be in the middle of telling the JVM what Python has freed, and would
    # report the end of the connection as an error.
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
    if (gateway := SparkContext._gateway) is not None:
        gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()  # the JVM exits when its input ends
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        process.wait()


def has_jvm() -> bool:
    """Whether a JVM that this process started is running."""
    return bool(_PROCESSES) and _PROCESSES[0].poll() is None


def kill_jvm() -> None:
    """End the JVM and its Python workers at once; whoever is speaking with it gets an error."""
    while _PROCESSES:
        process = _PROCESSES.pop()
        if process.returncode is None:  # its number may be another's by now
            kill_tree(process.pid)


def forget_jvm() -> None:
    """Have the next session of this process start a JVM of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None
