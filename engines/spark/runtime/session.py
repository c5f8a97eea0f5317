"""Spark sessions as Sheaf wants them: quiet, on the bundled Java, and leaving no files behind."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from engines.spark.runtime.code_archive import ship
from engines.spark.runtime.java import java_home
from engines.spark.runtime.jvm import (
    forget,
    forget_jvm,
    has_jvm,
    kill_jvm,
    start_jvm,
    stop_jvm,
)
from engines.spark.runtime.scratch import scratch_folder
from engines.spark.runtime.startup import startup_options
from workloads.errors import SheafError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionInUseError(SheafError):
    """A Spark session is running in this process; there can be one at a time."""


class MasterError(SheafError):
    """What is no master that a job can run on."""


class NoSessionError(SheafError):
    """A master that gives no session now."""


_MASTERS = re.compile(r"local(-cluster)?(\[.+\])?|spark://.+|yarn|k8s://.+")


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

    check_master(master)
    if SparkContext._active_spark_context is not None:
        raise SessionInUseError("This process has a Spark session running; stop it first.")
    folder = scratch_folder(stop_jvm)
    os.environ.update(_environment(master, folder))
    log = Path(os.environ.get("SHEAF_SPARK_LOG") or folder / "spark.log").absolute()
    settings = {
        **_settings(master, folder, log),
        **(conf or {}),
        "spark.master": master,
        "spark.app.name": app_name,
    }
    session: SparkSession | None = None
    try:
        start_jvm(settings, folder, log)
        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        with _started(master), _own_interrupts():
            session = builder.getOrCreate()
        if not _is_one_process(master):
            ship(session, folder)
        yield session
    except KeyboardInterrupt:
        kill_jvm()  # it may have been in the middle of a word with this process
        raise
    finally:
        if not has_jvm():
            forget_jvm()
        elif session is not None:
            session.stop()
            forget(settings)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Leave interrupts to whoever handles them: Spark would set a handler that asks the JVM.

    It does so while the session is being made, which takes seconds more, and what it asks then
    comes in the middle of another word with the JVM.
    """
    context: Any = import_module("pyspark.core.context")
    before = context.signal
    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda number, handler: None)
    try:
        yield
    finally:
        context.signal = before


def check_master(master: str) -> None:
    """Refuse what is no master that a job can run on."""
    if master.startswith("sc://"):
        raise MasterError(
            f"'{master}' is a Spark Connect server, and its sessions have no accumulators, by "
            "which tasks tell what they have read and found; name the master behind it: "
            "spark://HOST:PORT, yarn or k8s://…"
        )
    if _MASTERS.fullmatch(master) is None:
        raise MasterError(
            f"'{master}' is no master of Spark's; write local[N], spark://HOST:PORT, yarn or k8s://…"
        )


@contextmanager
def _started(master: str) -> Iterator[None]:
    """What keeps a session from starting, in a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise NoSessionError(
            f"no session can be had from '{master}': is it there, and reached from here? "
            "SHEAF_SPARK_LOG names a file for what Spark says"
        ) from error


def _environment(master: str, folder: Path) -> dict[str, str]:
    """What the JVM and the Python workers it forks must find in their environment."""
    import pyspark

    environment = {
        "JAVA_HOME": str(java_home()),
        # Another Spark on the machine must not lend its jars to this one's Python.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    if _is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    else:
        # Not as a setting, which would hold for the executors' machines too.
        environment["SPARK_LOCAL_DIRS"] = str(folder / "local")
        environment.setdefault("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", sys.executable))
    return environment


def _settings(master: str, folder: Path, log: Path) -> dict[str, str]:
    """Our settings for a master, all of which a caller can replace."""
    for name in ("local", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    properties = {
        "log4j2.configurationFile": Path(__file__).with_name("log4j2.properties").as_uri(),
        "sheaf.log": str(log),
        "java.io.tmpdir": str(folder / "tmp"),
    }
    settings = {
        "spark.driver.defaultJavaOptions": shlex.join(
            [*startup_options(), *(f"-D{name}={value}" for name, value in properties.items())]
        ),
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
            "spark.local.dir": str(folder / "local"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": str(_cores(master)),
        }
    if _is_one_process(master):  # elsewhere our code arrives after the daemon has started
        settings["spark.python.daemon.module"] = "engines.spark.runtime.daemon"
    return settings


def _is_local(master: str) -> bool:
    """Whether driver and executors are on this machine."""
    return master.startswith("local")


def _is_one_process(master: str) -> bool:
    """Whether tasks run in this process' own workers."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _cores(master: str) -> int:
    """How many tasks a local master runs at once."""
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(found[1]) * int(found[2])
    if found := re.fullmatch(r"local\[\s*(\d+|\*).*\]", master):
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
    return 1
