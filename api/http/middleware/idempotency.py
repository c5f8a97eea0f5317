"""`Idempotency-Key` on POST: the same request sent again gets the same answer, and is done once."""

from __future__ import annotations

import hashlib
import re

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import ProblemError, problem_response
from api.store.keys import Answer, CreatedResource, KeyInUseError, KeyMismatchError, Keys

KEPT_HEADERS = ("content-type", "location")


class Idempotency:
    """Keeps answers to requests with a key, and gives them again."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app = app
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        given = Headers(scope=scope).get("idempotency-key")
        if given is None:
            return await self.app(scope, receive, send)
        if not re.fullmatch(r"[\x21-\x7e]{1,200}", given):
            said = "Idempotency-Key: 1 to 200 visible characters of ASCII"
            return await problem_response("invalid-request", said)(scope, receive, send)
        try:
            body = await _body(receive)
        except ProblemError as error:
            return await problem_response(error.kind, error.detail)(scope, receive, send)
        key = f"{scope.get('state', {}).get('subject', '')}:{given}"
        try:
            found = await run_in_threadpool(self.keys.begin, key, _digest(scope, body))
        except KeyMismatchError as error:
            return await problem_response("key-mismatch", str(error))(scope, receive, send)
        except KeyInUseError as error:
            return await problem_response("key-in-use", str(error))(scope, receive, send)
        match found:
            case Answer():
                headers = {**found.headers, "idempotent-replayed": "true"}
                return await Response(found.body, found.status, headers)(scope, receive, send)
            case CreatedResource():
                return await self._show(found.address, scope, receive, send)
            case None:
                return await self._do(key, body, scope, receive, send)

    async def _do(self, key: str, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request be done, and keep the answer before it is sent."""
        scope.setdefault("state", {})["idempotency_key"] = key
        messages: list[Message] = []

        async def again() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message = {"type": "http.request", "body": body, "more_body": False}
            body = None  # type: ignore[assignment]
            return message

        async def keep(message: Message) -> None:
            messages.append(message)

        answer = None
        try:
            await self.app(scope, again, keep)
            answer = _answer(messages)
        finally:
            await run_in_threadpool(self.keys.end, key, answer)
        for message in messages:
            await send(message)

    async def _show(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as if it had just been made, with how it is now."""

        async def created(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                message["status"] = 201
                headers = MutableHeaders(scope=message)
                headers["location"] = address
                headers["idempotent-replayed"] = "true"
            await send(message)

        looked = {**scope, "method": "GET", "path": address, "raw_path": address.encode()}
        await self.app({**looked, "query_string": b""}, receive, created)


def _answer(messages: list[Message]) -> Answer | None:
    """An answer to keep: one that says that something was done."""
    if not messages or not 200 <= messages[0]["status"] < 300:
        return None
    headers = Headers(scope=messages[0])
    kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return Answer(messages[0]["status"], kept, body)


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _digest(scope: Scope, body: bytes) -> str:
    media = Headers(scope=scope).get("content-type", "")
    what = [scope["path"].encode(), scope["query_string"], media.encode(), body]
    return hashlib.sha256(b"\0".join(what)).hexdigest()
