"""The JVM of this process: one for all its Spark sessions, started by the first."""

import logging
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from workloads.errors import SheafError

TAIL = 2000  # characters of the log that an error shows


class JvmStartError(SheafError):
    """The JVM ended before it was up, with the end of what it said."""


def start_jvm(settings: Mapping[str, str], log: Path) -> None:
    """Start the JVM with its output in `log`, unless it is running.

    Its output is no place for ours: Spark's Python workers write remarks there, and what a service
    reads from this process has to be this process's own.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf().setAll(list(settings.items()))
    with log.open("ab") as output:
        before = output.tell()
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
        except PySparkRuntimeError as problem:
            said = log.read_bytes()[before:].decode(errors="replace").strip()
            raise JvmStartError(_why(said)) from problem
    SparkContext._ensure_initialized(gateway=gateway)


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

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)  # none where Spark itself started this Python
    if gateway is None or process is None or process.poll() is not None:
        return
    # A thread of py4j may be in the middle of telling the JVM what Python has freed, and would
    # report the end of the connection as an error.
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
    gateway.shutdown()
    process.stdin.close()  # the JVM exits when its input ends
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
