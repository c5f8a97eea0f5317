"""Around every request: an id, a line in the log, metrics, and headers that keep pages safe."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.logs import request_id
from api.http.metrics import Metrics
from api.http.problems import problem_response

log = logging.getLogger("sheaf.requests")

SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    ),
}


class RequestLog:
    """The outermost layer: nothing is answered that it does not see."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        given = Headers(scope=scope).get("x-request-id", "")
        id = given if re.fullmatch(r"[\w.-]{1,64}", given, re.ASCII) else secrets.token_hex(8)
        token = request_id.set(id)
        start, status = time.perf_counter(), 0
        asked = scope["method"]
        if asked == "HEAD":  # the server sends no body with the answer to it
            scope = {**scope, "method": "GET"}

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = id
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, marked)
        except Exception:
            log.exception("a request failed in a way that was not foreseen")
            if status:  # half of an answer is out: the connection has to tell
                raise
            said = f"This is a bug; the service's log has its traceback, under request {id}."
            await problem_response("internal", said)(scope, receive, marked)
        finally:
            self._note(asked, scope, status, time.perf_counter() - start)
            request_id.reset(token)

    def _note(self, asked: str, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = asked if asked in METHODS else "other"
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.request_seconds.labels(method, route).observe(seconds)
        about = {
            "method": asked,
            "path": scope["path"],
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "token": scope.get("state", {}).get("subject"),
        }
        level = logging.DEBUG if scope["path"] in UNLOGGED_PATHS else logging.INFO
        log.log(level, "request", extra=about)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
UNLOGGED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds
