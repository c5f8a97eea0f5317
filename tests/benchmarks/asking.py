"""Requests that cost little to send: what measures a service must not be what is measured."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import NamedTuple

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(NamedTuple):
    """A status, and a body as it came."""

    status: int
    body: bytes


class Asking:
    """HTTP/1.1 to one port of this machine, over connections that are kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: deque[_Connection] = deque()

    async def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Send a request, and wait for the whole answer; raises OSError where there is none."""
        reader, writer = self._unused() or await self._opened()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
            status, length = _STATUS.match(answer), _LENGTH.search(answer)
            if status is None or length is None:
                raise ConnectionError(f"no answer with a length: {answer[:200]!r}")
            found = Answer(int(status[1]), await reader.readexactly(int(length[1])))
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the connection was closed") from error
        self._idle.append((reader, writer))
        return found

    def _unused(self) -> _Connection | None:
        """The connection used last; the service closes those that nobody has used for long."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    async def _opened(self) -> _Connection:
        return await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)

    def close(self) -> None:
        """Let go of all connections."""
        for _, writer in self._idle:
            writer.close()
