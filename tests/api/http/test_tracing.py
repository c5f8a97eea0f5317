"""Traces that a service sends to a collector, which here is a server of the test's own."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from api.http.tracing import tracing_from_environment
from tests.api.service import finished, posted_job, posted_plan

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(BaseHTTPRequestHandler):
    spans: list[Span]
    services: set[str]

    def receive(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for pair in resource.resource.attributes:
                if pair.key == "service.name":
                    self.services.add(pair.value.string_value)
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Collector]]:
    own = {"spans": [], "services": set(), "do_POST": Collector.receive}
    kept = type("Kept", (Collector,), own)
    server = ThreadingHTTPServer(("127.0.0.1", 0), kept)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


def values(span: Span) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_requests_and_jobs_are_spans_of_the_callers_trace(
    collector: type[Collector], pretend: list[str], tmp_path: Path
) -> None:
    with (
        serving(create_app(Settings(data=tmp_path / "data"), pretend)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        client.get("/healthz")
        posted_plan(client)
        client.headers["traceparent"] = f"00-{TRACE}-{CALLER}-01"
        done = posted_job(client, "fine")["id"]
        failed = posted_job(client, "missing")["id"]
        del client.headers["traceparent"]
        assert finished(client, done)["status"] == "succeeded"
        assert finished(client, failed)["status"] == "failed"
        client.get("/v1/plans/none")
    # All has been sent when the service has stopped.
    assert collector.services == {"sheaf"}
    named = {span.name for span in collector.spans}
    assert {"POST /v1/jobs", "GET /v1/plans/{id}", "job"} <= named
    assert "GET /healthz" not in named
    jobs = {values(span)["sheaf.job"]: span for span in collector.spans if span.name == "job"}
    assert jobs.keys() == {done, failed}
    posts = {span.span_id: span for span in collector.spans if span.name == "POST /v1/jobs"}
    for span in jobs.values():
        post = posts[span.parent_span_id]
        assert span.trace_id == post.trace_id == bytes.fromhex(TRACE)
        assert post.parent_span_id == bytes.fromhex(CALLER)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    assert values(jobs[done])["sheaf.rows"] == 4
    assert [jobs[id].status.code for id in (done, failed)] == [0, 2]
    (missed,) = [span for span in collector.spans if span.name == "GET /v1/plans/{id}"]
    assert values(missed)["http.response.status_code"] == 404


def test_without_a_collector_nothing_is_sent() -> None:
    assert tracing_from_environment({}) is None
