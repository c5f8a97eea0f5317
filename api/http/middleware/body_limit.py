"""A limit on the size of request bodies, answered like every other error.

Compressed bodies are refused: how large one is shows only when it has been unpacked.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import ProblemError, problem_response


class BodyLimit:
    """Refuses a body by its announced length, or by what actually arrives."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        packed = Headers(scope=scope).get("content-encoding", "identity").strip().lower()
        if packed not in ("", "identity"):
            answer = problem_response(
                "unsupported-encoding", f"Content-Encoding is '{packed[:40]}'; send it as it is"
            )
            return await answer(scope, receive, send)
        said = f"at most {self.max_bytes:,} bytes are taken"
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdigit() and int(announced) > self.max_bytes:
            return await problem_response("too-large", said)(scope, receive, send)
        taken = 0

        async def counting() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.max_bytes:
                raise ProblemError("too-large", said)
            return message

        return await self.app(scope, counting, send)
