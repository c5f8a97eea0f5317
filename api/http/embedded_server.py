"""The HTTP service inside another program, on a free port of the loopback interface."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from api.http.connection import MAX_HEADER_BYTES, bounded
from api.http.settings import Settings


class Server(uvicorn.Server):
    """Tells the app as soon as it is to stop: streams that have no end would keep it open.

    `started` hears the port when requests are taken.
    """

    def __init__(
        self, config: uvicorn.Config, started: Callable[[int], None] = lambda port: None
    ) -> None:
        super().__init__(config)
        self._told = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.servers:
            self._told(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        cast(FastAPI, self.config.app).state.closing.set()
        super().handle_exit(sig, frame)


def server_config(app: FastAPI, **more: Any) -> uvicorn.Config:
    """How a service is served: within the limits of its settings."""
    settings = cast(Settings, app.state.settings)
    return uvicorn.Config(
        app,
        http=bounded(settings),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=settings.keep_alive_seconds,  # type: ignore[arg-type]  # any number
        log_config=None,
        **more,
    )


@contextmanager
def serving(app: FastAPI, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the app from a thread for as long as the block runs, and give its address."""
    # The protocol is spelled out because asyncio sends small answers at once only where it is.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind((host, port))
        server = Server(server_config(app, timeout_graceful_shutdown=5))
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="sheaf-http", daemon=True
        )
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the HTTP service did not start")
            time.sleep(0.005)
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            app.state.closing.set()
            server.should_exit = True
            thread.join()
