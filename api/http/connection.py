"""Connections that are bounded: how many there are, and how long a client may take over each part.

uvicorn closes connections that stay idle after an answer; it does not mind a client that sends a
header or a body a byte at a time, nor one that does not read what it asked for.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.http.problems import MEDIA_TYPE, PROBLEMS
from api.http.settings import Settings

MAX_HEADER_BYTES = 16 * 1024  # of a request line and its headers together


class BoundedProtocol(H11Protocol):
    """A connection that is closed when its client is slow, with the reason where it can be said."""

    settings: Settings  # of the service; see `bounded`

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None  # for what the client is to send
        self._send_timer: asyncio.TimerHandle | None = None
        self._phase = "header"
        self._has_begun = False
        here = self.client and self.client[0]
        ours = [other for other in self.connections if isinstance(other, BoundedProtocol)]
        same = sum(other.client is not None and other.client[0] == here for other in ours)
        if here and same > self.settings.address_connections:
            said = f"{here} has too many connections open; close some, or try again later"
            self._turn_away(429, "too-many-requests", said)
        elif len(self.connections) > self.settings.max_connections:
            said = "too many connections are open; try again later"
            self._turn_away(503, "unavailable", said)
        else:
            self._await("header", self.settings.header_seconds)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._has_begun = True
        if self.conn.their_state is h11.IDLE and self._timer is None:
            self._await("header", self.settings.header_seconds)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Set the clock for what the client is to send next."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            if self._phase != "body":
                self._await("body", self.settings.body_seconds)
        elif state is not h11.IDLE or self._phase == "body":
            self._phase = "header"
            self._stop_timer()

    def _await(self, phase: str, seconds: float) -> None:
        self._stop_timer()
        self._phase = phase
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._phase == "body" and self.flow.read_paused:  # it is we who do not read on
            self._await("body", self.settings.body_seconds)
        elif not self._has_begun:
            self.transport.close()
        else:
            seconds = getattr(self.settings, f"{self._phase}_seconds")
            self._refuse(408, "too-slow", f"the {self._phase} was not there after {seconds:g} s")

    def _turn_away(self, status: int, kind: str, detail: str) -> None:
        """Refuse a new connection, which counts no more though it takes a while to close."""
        self.connections.discard(self)
        self._refuse(status, kind, detail)

    def _refuse(self, status: int, kind: str, detail: str) -> None:
        """Answer without the app, unless it has begun to, and close the connection."""
        cycle = self.cycle
        between = cycle is None or (cycle.response_complete and self._phase == "header")
        if between or not cycle.response_started:
            self.transport.write(raw_problem(status, kind, detail))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid-http", "it is not HTTP/1.1, or its header is too long")

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(
                self.settings.send_seconds, self.transport.abort
            )

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_send_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_send_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None


def bounded(settings: Settings) -> type[BoundedProtocol]:
    """The protocol of a service with these settings."""
    return type("BoundedProtocol", (BoundedProtocol,), {"settings": settings})


def raw_problem(status: int, kind: str, detail: str) -> bytes:
    """A problem as the bytes of a whole answer, after which the connection is closed."""
    content: dict[str, Any] = {
        "type": f"urn:sheaf:problem:{kind}",
        "title": PROBLEMS[kind][1],
        "status": status,
        "detail": detail,
    }
    body = json.dumps(content).encode()
    lines = [
        f"HTTP/1.1 {status} {PHRASES[status]}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "connection: close",
        *(["retry-after: 10"] if status in (429, 503) else ()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    429: "Too Many Requests",
    503: "Service Unavailable",
}
