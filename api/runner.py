"""Does the service's jobs, in a Spark session that stays for the next job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from api.execution import Stages, choose_how, kinds_of, run_here, run_on_spark
from api.jobs import Done, Request
from engines.session import spark_session
from workloads.loading import load_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """Runs one job after the other; a `session` that it is given is used and not stopped."""

    def __init__(self, session: SparkSession | None = None) -> None:
        self._given = session
        self._session: SparkSession | None = session
        self._master: str | None = None
        self._open = ExitStack()

    def run(self, id: str, request: Request, stage: Callable[[str], None]) -> Done:
        from engines.results import write_results
        from optimizer.bind import bind

        stages = Stages(stage)
        workload = load_workload(request.plan.document)
        how = choose_how(request.device)
        if request.engine == "local":
            results, events = run_here(workload, request.source, "local", stages, how)
        else:
            results, events = run_on_spark(
                workload, request.source, stages, lambda: self._start(id, request), how
            )
        files: list[str] = []
        if request.sink is not None:
            with stages("write"):
                files = write_results(results, request.sink, *kinds_of(bind(workload)))
        return Done(results, events, stages.seconds, tuple(files))

    def cancel(self, id: str) -> None:
        if self._session is not None:
            self._session.sparkContext.cancelJobGroup(id)

    def progress(self, id: str) -> tuple[int, int] | None:
        if self._session is None:
            return None
        # The session may end while it is asked.
        with contextlib.suppress(Exception):
            tracker = self._session.sparkContext.statusTracker()
            jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(id)]
            stages = [tracker.getStageInfo(s) for job in jobs if job for s in job.stageIds]
            known = [stage for stage in stages if stage is not None]
            return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
        return None

    def close(self) -> None:
        self._session = None
        self._open.close()

    def _start(self, id: str, request: Request) -> SparkSession:
        """The session for the job's master, with everything that follows under the job's name."""
        if self._given is None and self._master != request.master:
            self.close()
            self._session = self._open.enter_context(spark_session(request.master))
            self._master = request.master
        assert self._session is not None
        self._session.sparkContext.setJobGroup(id, f"sheaf {id}", interruptOnCancel=True)
        return self._session
