"""Traces of requests and jobs for OpenTelemetry, where the environment names a collector."""

from __future__ import annotations

import logging
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from api.jobs.model import Job

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
MOST_JOBS = 10_000  # whose requests are remembered until they end
_JOB = re.compile(r"/v1/jobs/([^/]+)")


def tracing_from_environment(environment: Mapping[str, str] = os.environ) -> Tracing | None:
    """What sends traces; None where no collector is named, or the extra `tracing` is missing."""
    if not any(environment.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        log.warning("no traces are sent: pip install 'sheaf[tracing]'")
        return None
    about = {"service.version": version("sheaf")}
    if not environment.get("OTEL_SERVICE_NAME"):
        about["service.name"] = "sheaf"
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


class Tracing:
    """The spans of one service: requests as they come, jobs when they are over."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("sheaf", version("sheaf"))
        self._posted: OrderedDict[str, Context] = OrderedDict()  # by job, the request's

    def begin_request(self, method: str, headers: Mapping[str, str]) -> Span:
        """The span of a request, within the trace of its caller where that has one."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        caller = TraceContextTextMapPropagator().extract(dict(headers))
        return self._tracer.start_span(method, caller, SpanKind.SERVER)

    def end_request(self, span: Span, method: str, route: str, status: int, id: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        span.update_name(f"{method} {route}")
        span.set_attributes(
            {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "sheaf.request_id": id,
            }
        )
        if status >= 500 or not status:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def posted(self, span: Span, location: str) -> None:
        """A request made what its answer's `Location` names: a job's span will be its child."""
        from opentelemetry.trace import set_span_in_context

        if (found := _JOB.fullmatch(location)) is not None:
            self._posted.setdefault(found[1], set_span_in_context(span))
            while len(self._posted) > MOST_JOBS:
                self._posted.popitem(last=False)

    def job_ended(self, job: Job) -> None:
        """The span of a job that is over, if it ran."""
        from opentelemetry.trace import Status, StatusCode

        context = self._posted.pop(job.id, None)
        if job.started is None or job.finished is None:
            return
        span = self._tracer.start_span("job", context, start_time=_nanoseconds(job.started))
        request = job.request
        span.set_attributes(
            {
                "sheaf.job": job.id,
                "sheaf.plan": request.plan,
                "sheaf.workload": request.workload,
                "sheaf.engine": request.engine,
                "sheaf.status": job.status,
                "sheaf.mode": "batch" if request.live is None else "stream",
            }
        )
        if job.done is not None:
            span.set_attribute("sheaf.events", job.done.events)
            span.set_attribute("sheaf.rows", sum(map(job.done.total, job.done.rows)))
        if job.status == "failed":
            span.set_status(Status(StatusCode.ERROR, job.reason))
        span.end(_nanoseconds(job.finished))

    def close(self) -> None:
        """Send what has not been sent yet."""
        self._provider.shutdown()


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1_000
