"""Spark sessions: their settings, their silence, and what they leave behind.

A process has one session at a time, so the tests that start one do it in a process of their own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.spark.runtime.session import (
    MasterError,
    SessionInUseError,
    _cores,
    check_master,
    spark_session,
)

JOB = """
import json, os, sys
from engines.spark.runtime.session import spark_session

with spark_session("local[2]", "job", {"spark.sql.shuffle.partitions": "3"}) as spark:
    first = {key: spark.conf.get(key, None) for key in sys.argv[1:]}
    def double(frames):
        os.write(1, b"a remark on stdout")
        os.write(2, b"a remark on stderr")
        return (2 * frame for frame in frames)

    doubled = spark.range(100).mapInPandas(double, "id long")
    total = doubled.groupBy().sum().collect()[0][0]
    spark.range(3).write.saveAsTable("kept")
    spark.sql("SELECT count(*) FROM kept").collect()
with spark_session("local[1]", "job") as spark:
    second = {key: spark.conf.get(key, None) for key in sys.argv[1:]}
    try:
        spark.range(1).mapInPandas(lambda frames: 1 / 0, "id long").collect()
    except Exception as problem:
        error = str(problem)
print(json.dumps({"first": first, "second": second, "total": total, "error": error}))
"""

SHOWN = [
    "spark.sql.shuffle.partitions",
    "spark.sql.session.timeZone",
    "spark.ui.enabled",
    "spark.driver.host",
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, Path]:
    """A job's report, its standard error, and the folder with its `work`, `tmp` and log in it."""
    place = tmp_path_factory.mktemp("a job")
    for name in ("work", "tmp"):
        (place / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", JOB, *SHOWN],
        cwd=place / "work",
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(place / "tmp"),
            "SHEAF_SPARK_LOG": str(place / "spark.log"),
            "SPARK_HOME": "/nowhere",
            "JAVA_HOME": "/nowhere",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr, place


@pytest.mark.spark
def test_python_workers_run(job: tuple[dict[str, Any], str, Path]) -> None:
    assert job[0]["total"] == 2 * sum(range(100))


@pytest.mark.spark
def test_the_callers_settings_win_and_do_not_outlive_their_session(
    job: tuple[dict[str, Any], str, Path],
) -> None:
    assert job[0]["first"] == dict(zip(SHOWN, ("3", "UTC", "false", "127.0.0.1"), strict=True))
    assert job[0]["second"] == dict(zip(SHOWN, ("1", "UTC", "false", "127.0.0.1"), strict=True))


@pytest.mark.spark
def test_an_error_in_a_worker_is_raised_and_logged_but_not_printed(
    job: tuple[dict[str, Any], str, Path],
) -> None:
    report, terminal, place = job
    assert "ZeroDivisionError" in report["error"]
    assert "ZeroDivisionError" in (place / "spark.log").read_text()
    assert terminal == ""


@pytest.mark.spark
def test_what_a_worker_prints_is_logged_and_not_printed(
    job: tuple[dict[str, Any], str, Path],
) -> None:
    assert "a remark on stderr" in (job[2] / "spark.log").read_text()


@pytest.mark.spark
def test_no_file_is_left_behind(job: tuple[dict[str, Any], str, Path]) -> None:
    place = job[2]
    assert list((place / "work").iterdir()) == []
    assert list((place / "tmp").iterdir()) == []


def test_a_second_session_at_the_same_time_is_an_error(spark: object) -> None:
    with pytest.raises(SessionInUseError), spark_session():
        pass


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("no such option", "Spark's JVM did not start. It said:\nno such option"),
        ("'; kill -9 $$; '", "Spark's JVM ended while it started, and did not say why"),
        (
            "RuntimeException: [unresolved dependency: org.some#thing;4.3.0: not found]",
            "Spark cannot load org.some:thing:4.3.0: no registry",
        ),
    ],
)
def test_a_jvm_that_does_not_start_is_an_error_with_what_it_said(
    tmp_path: Path, said: str, error: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    java.chmod(0o755)
    start = "from engines.spark.runtime.session import spark_session\nwith spark_session(): pass"
    environment = {"PATH": os.environ["PATH"], "SHEAF_JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", start], env=environment, capture_output=True, text=True, timeout=60
    )
    assert f"Error: {error}" in done.stderr


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("sc://localhost:15002", "is a Spark Connect server, .* name the master behind it"),
        ("spark:localhost", "is no master of Spark's; write local"),
        ("localhost:7077", "is no master of Spark's"),
    ],
)
def test_what_is_no_master_is_refused_before_java_starts(master: str, said: str) -> None:
    with pytest.raises(MasterError, match=said), spark_session(master):
        pass


@pytest.mark.parametrize(
    "master",
    ["local", "local[*,3]", "local-cluster[2,1,1024]", "spark://a:1,b:1", "yarn", "k8s://h"],
)
def test_masters_of_every_kind_are_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[4, 2]", 4),
        ("local[*]", os.cpu_count()),
        ("local[*,3]", os.cpu_count()),
        ("local-cluster[2, 3, 1024]", 6),
    ],
)
def test_cores_of_a_local_master(master: str, cores: int) -> None:
    assert _cores(master) == cores


@pytest.mark.spark
def test_workers_do_not_look_for_garbage_in_what_is_loaded_before_they_start(spark: Any) -> None:
    def frozen(_: int) -> int:
        import gc

        return gc.get_freeze_count()

    assert spark.sparkContext.parallelize([0], 1).map(frozen).first() > 50_000
