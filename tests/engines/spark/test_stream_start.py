"""What a live stream loads, and starts, before its first batch."""

import subprocess
import sys
from typing import Any

import pytest

from engines.spark.runtime.worker_start import start_workers

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
