"""Spark sessions as Sheaf wants them: quiet, on the bundled Java, and leaving no files behind."""

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engines.java import java_home
from engines.scratch import scratch_folder
from engines.startup import startup_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionInUseError(RuntimeError):
    """A Spark session is running in this process; there can be one at a time."""


@contextmanager
def spark_session(
    master: str = "local[*]", app_name: str = "sheaf", conf: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """A Spark session that is stopped at the end of the block; `conf` wins over our settings.

    The JVM stays for the next session of this process, which then starts at once; driver memory
    and Java options are those of the first. `SHEAF_SPARK_LOG` names a file to keep Spark's log in.
    """
    # Imported here because it takes most of a second, which only those who run Spark should pay.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise SessionInUseError("This process has a Spark session running; stop it first.")
    folder = scratch_folder(stop_jvm)
    os.environ.update(_environment(master))
    settings = _settings(master, folder) | dict(conf or {})
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        _forget(settings)


def _environment(master: str) -> dict[str, str]:
    """What the JVM and the Python workers it forks must find in their environment."""
    import pyspark

    environment = {
        "JAVA_HOME": str(java_home()),
        # Another Spark on the machine must not lend its jars to this one's Python.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    if _is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    elif "PYSPARK_PYTHON" not in os.environ:
        environment["PYSPARK_PYTHON"] = sys.executable
    return environment


def _settings(master: str, folder: Path) -> dict[str, str]:
    """Our settings for a master, all of which a caller can replace."""
    for name in ("local", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    log = os.environ.get("SHEAF_SPARK_LOG") or folder / "spark.log"
    properties = {
        "log4j2.configurationFile": Path(__file__).with_name("log4j2.properties").as_uri(),
        "sheaf.log": str(Path(log).absolute()),
        "java.io.tmpdir": str(folder / "tmp"),
    }
    settings = {
        "spark.driver.defaultJavaOptions": shlex.join(
            [*startup_options(), *(f"-D{name}={value}" for name, value in properties.items())]
        ),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        # One task is one core: neither library may start threads of its own in a worker.
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
        "spark.executorEnv.POCL_MAX_PTHREAD_COUNT": "1",
    }
    if _is_local(master):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": str(_cores(master)),
        }
    return settings


def _is_local(master: str) -> bool:
    """Whether driver and executors are on this machine."""
    return master.startswith("local")


def _cores(master: str) -> int:
    """How many tasks a local master runs at once."""
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(found[1]) * int(found[2])
    if found := re.fullmatch(r"local\[\s*(\d+|\*).*\]", master):
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
    return 1


def _forget(keys: Iterable[str]) -> None:
    """Clear what the JVM keeps of its first settings, where the next session would find it."""
    from pyspark import SparkContext

    if (jvm := SparkContext._jvm) is not None:
        for key in keys:
            jvm.java.lang.System.clearProperty(key)


def stop_jvm(timeout: float = 10) -> None:
    """End the JVM and wait for it, since it writes to the folder that is about to be removed."""
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
