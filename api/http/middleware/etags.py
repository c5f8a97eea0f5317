"""ETags: whoever has the same answer already is told so in place of getting it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


def etag_of(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def is_known(etag: str, headers: Mapping[str, str]) -> bool:
    """Whether If-None-Match names it; a weak one of the same content will do (RFC 9110, 13.1.2)."""
    given = [
        part.strip().removeprefix("W/") for part in headers.get("if-none-match", "").split(",")
    ]
    return "*" in given or etag in given


class Etags:
    """Gives answers to GET that come in one piece an ETag; streams have to see to themselves."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        held: Message | None = None

        async def tagging(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and message["status"] == 200:
                held = message
                return
            if held is not None:
                start, held = held, None
                if not message.get("more_body", False):
                    message = _tagged(scope, start, message)
                await send(start)
            await send(message)

        return await self.app(scope, receive, tagging)


def _tagged(scope: Scope, start: Message, body: Message) -> Message:
    """Put the ETag into the beginning of an answer, and leave out what is known."""
    headers = MutableHeaders(scope=start)
    if "etag" in headers or not scope["path"].startswith("/v1/"):
        return body
    etag = etag_of(body.get("body", b""))
    headers["etag"] = etag
    headers.setdefault("cache-control", "private, no-cache")
    if is_known(etag, Headers(scope=scope)):
        start["status"] = 304
        for name in ("content-length", "content-type"):
            del headers[name]
        return {**body, "body": b""}
    return body
