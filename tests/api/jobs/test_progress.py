"""How far a job says that it is."""

from pathlib import Path
from typing import Any

import pytest

from api.jobs import worker
from api.jobs.folder import JobFolder
from api.jobs.worker import JobMonitor
from engines.spark.batch.progress import BatchProgress


def test_the_progress_of_a_job_never_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PROGRESS_EVERY", -1.0)
    told: list[dict[str, Any]] = []
    with JobMonitor(JobFolder(tmp_path), told.append) as monitor:
        for part in (0.0, 0.004, 0.3, 0.2, 0.3, 0.999, 1.0):
            monitor.on_progress(part)
            monitor.on_tasks(BatchProgress(part))
    found = [message["progress"] for message in told if "progress" in message]
    assert found == [[0, 100], [30, 100], [99, 100], [100, 100]]
