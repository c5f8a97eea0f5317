"""What a live stream loads, and starts, before its first batch."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engines.limits import StateError
from engines.spark.runtime.worker_start import start_workers
from engines.spark.stream import checkpoint
from engines.spark.stream.checkpoint import Manifest, read_manifest, write_manifest
from engines.spark.stream.session import settings_for

LIGHT = """
import pickle, sys
from engines.spark.stream.processor import BucketProcessor
pickle.loads(pickle.dumps(BucketProcessor(b"queries")))
print(sorted({"numba", "engines.live", "optimizer"} & set(sys.modules)))
"""


def test_who_asks_what_the_state_is_called_loads_no_engine() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


class _Broken:
    """A session whose JVM is gone."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError(name)


@pytest.mark.parametrize("master", ["local[2]", "spark://somewhere:7077"])
def test_workers_that_cannot_start_early_are_no_error(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[object] = []
    monkeypatch.setattr("threading.excepthook", failed.append)
    session: Any = _Broken()
    session.sparkContext = type("Context", (), {"master": master})()
    thread = start_workers(session)
    if thread is not None:
        thread.join()
    assert (thread is None) == master.startswith("spark:")
    assert failed == []


def test_a_checkpoint_of_another_version_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest({}, 10**6, pa.schema([("ts", pa.int64())]), 4, 2, 0)
    write_manifest(str(tmp_path), manifest)
    assert read_manifest(str(tmp_path)) == manifest
    monkeypatch.setattr(checkpoint, "VERSION", checkpoint.VERSION + 1)
    with pytest.raises(StateError, match=r"not written by this version .* the version that wrote"):
        read_manifest(str(tmp_path))


OPTIONS = "spark.driver.extraJavaOptions"


def test_a_collector_of_garbage_that_the_caller_names_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    assert settings_for()[OPTIONS].endswith("-XX:+UseParallelGC")
    given = {"spark.driver.defaultJavaOptions": "-Xss4m -XX:+UseZGC"}
    assert "GC" not in settings_for(conf=given)[OPTIONS]
    assert settings_for(conf={OPTIONS: "-XX:+UseG1GC"})[OPTIONS] == "-XX:+UseG1GC"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert "GC" not in settings_for()[OPTIONS]
