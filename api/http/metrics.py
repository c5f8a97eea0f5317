"""What the service counts and measures, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from api.jobs.model import Job

QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SECONDS_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600)
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Metrics:
    """The metrics of one service; `jobs` gives how many jobs there are of each status."""

    def __init__(self, jobs: Callable[[], Mapping[str, int]]) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sheaf_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "sheaf_http_request_seconds",
            "Time to answer a request.",
            ["method", "route"],
            buckets=QUICK,
            registry=registry,
        )
        self._plans = Counter(
            "sheaf_plans", "Plans that were made.", ["solver", "status"], registry=registry
        )
        self._planning = Histogram(
            "sheaf_planning_seconds",
            "Time to make a plan.",
            ["solver"],
            buckets=QUICK,
            registry=registry,
        )
        self._sharing = Histogram(
            "sheaf_sharing_ratio",
            "Cost of plans as shared, over that of their queries one by one.",
            buckets=RATIOS,
            registry=registry,
        )
        self._ended = Counter(
            "sheaf_jobs_ended", "Jobs that are over.", ["status", "engine"], registry=registry
        )
        self._running = Histogram(
            "sheaf_job_seconds",
            "Time that jobs ran.",
            ["engine"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._events = Counter(
            "sheaf_events", "Events that jobs worked through.", registry=registry
        )
        self._batches = Histogram(
            "sheaf_batch_seconds",
            "Time that batches of streams took.",
            buckets=QUICK,
            registry=registry,
        )
        self._state = Gauge(
            "sheaf_stream_state_bytes",
            "State of each stream that runs, after its last batch.",
            ["job"],
            registry=registry,
        )
        self._rows = Counter("sheaf_rows", "Rows that jobs found.", ["kind"], registry=registry)
        Gauge("sheaf_build_info", "Which Sheaf this is.", ["version"], registry=registry).labels(
            version("sheaf")
        ).set(1)
        registry.register(_JobsNow(jobs))
        ProcessCollector(registry=registry)

    def planned(self, plan: Mapping[str, Any], seconds: float) -> None:
        self._plans.labels(plan["solver"], plan["status"]).inc()
        self._planning.labels(plan["solver"]).observe(seconds)
        if plan["cost"]["separate"] > 0:
            self._sharing.observe(plan["cost"]["shared"] / plan["cost"]["separate"])

    def ended(self, job: Job) -> None:
        engine = job.request.engine
        self._ended.labels(job.status, engine).inc()
        if job.started is not None and job.finished is not None:
            self._running.labels(engine).observe((job.finished - job.started).total_seconds())
        if job.request.live is not None:  # its batches have been counted one by one
            with suppress(KeyError):
                self._state.remove(job.id)
        elif job.done is not None:
            self._events.inc(job.done.events)
            for kind in job.done.rows:
                self._rows.labels(kind).inc(job.done.total(kind))

    def batch(self, job: str, did: Mapping[str, Any]) -> None:
        """Count what one batch of a stream did, as its process says it."""
        self._batches.observe(did["seconds"])
        self._state.labels(job).set(did["state"])
        self._events.inc(did["events"])
        for kind in ("aggregates", "matches"):
            self._rows.labels(kind).inc(did[kind])

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _JobsNow(Collector):
    """Looks into the store when it is asked, so that what it says is so."""

    def __init__(self, jobs: Callable[[], Mapping[str, int]]) -> None:
        self._jobs = jobs

    def describe(self) -> list[GaugeMetricFamily]:
        return [GaugeMetricFamily("sheaf_jobs", "Jobs there are, by status.", labels=["status"])]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        (family,) = self.describe()
        found = self._jobs()
        for status in ("queued", "running", "succeeded", "failed", "cancelled"):
            family.add_metric([status], found.get(status, 0))
        yield family
