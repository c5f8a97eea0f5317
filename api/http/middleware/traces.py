"""A span around every request, for services that send traces."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.middleware.request_log import METHODS, UNLOGGED_PATHS
from api.http.tracing import Tracing


class Traces:
    """Outside of all else, so that a span lasts as long as its request."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self.app = app
        self.tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNLOGGED_PATHS:
            return await self.app(scope, receive, send)
        method = scope["method"] if scope["method"] in METHODS else "other"
        span = self.tracing.begin_request(method, Headers(scope=scope))
        status, id = 0, ""

        async def seen(message: Message) -> None:
            nonlocal status, id
            if message["type"] == "http.response.start":
                headers = Headers(raw=message["headers"])
                status, id = message["status"], headers.get("x-request-id", "")
                if status == 201:
                    self.tracing.posted(span, headers.get("location", ""))
            await send(message)

        try:
            await self.app(scope, receive, seen)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.tracing.end_request(span, method, route, status, id)
