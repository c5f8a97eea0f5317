"""`sheaf serve`: the HTTP service."""

from __future__ import annotations

import errno
import gc
import ipaddress
import logging
import signal
import socket
from pathlib import Path
from typing import Annotated
from typing import Literal as OneOf

import typer

from workloads.errors import SheafError


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; it takes jobs from whoever can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where it keeps everything; or SHEAF_DATA."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A PostgreSQL database in place of a file; SHEAF_STORE."),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Where sources and sinks may be; where it was started by default; or SHEAF_ROOTS.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Jobs at once, 1 by default; or SHEAF_JOBS_AT_ONCE.")
    ] = None,
    log: Annotated[
        OneOf["auto", "json", "text"],
        typer.Option(help="Lines of JSON, or text, which it is on a terminal by itself."),
    ] = "auto",
) -> None:
    """Run the HTTP service, with its pages; it says where they are."""
    from api.http.app import create_app
    from api.http.embedded_server import Server, server_config
    from api.http.logs import set_up
    from api.http.settings import from_environment

    check_address(host, port)
    set_up(log)
    roots = tuple(root) if root else None
    settings = from_environment(data=data, store=store, roots=roots, jobs_at_once=jobs)
    warn_if_open(host, bool(settings.tokens))
    app = create_app(settings)
    config = server_config(
        app,
        host=host,
        port=port,
        access_log=False,  # ours has the request's id
        timeout_graceful_shutdown=10,
    )

    def started(at: int) -> None:
        log_address(host, at)
        app.state.computing.warm()
        # What has been imported stays: looking through it for garbage would hold up requests.
        gc.collect()
        gc.freeze()

    server = Server(config, started)

    def end(number: int, frame: object) -> None:
        app.state.closing.set()
        server.should_exit = True

    # Which the server goes back to at its end, when it hands on the signal that it got.
    before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_address(host: str, port: int) -> None:
    """Refuse an address that nothing can listen on now."""
    try:
        (kind, _, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(kind, socket.SOCK_STREAM, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} of {host} is in use; end what listens there, or take another"
        elif error.errno == errno.EACCES:
            why = f"port {port} is for the system's own; take one from 1024 on"
        else:
            said = error.strerror or str(error)
            raise SheafError(
                f"cannot listen on {host}: {said}; name another with --host"
            ) from error
        raise SheafError(f"{why}, such as --port {port + 1 if port >= 1024 else 8000}") from error


def log_address(host: str, port: int) -> None:
    """Say where the pages are, as a browser on this machine finds them."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    logging.getLogger("sheaf").info("open http://%s:%d in a browser", name, port)


def warn_if_open(host: str, has_tokens: bool) -> None:
    if not has_tokens and not is_loopback(host):
        logging.getLogger("sheaf").warning(
            "listening on %s without tokens: whoever can reach it can run jobs and read their "
            "results; set SHEAF_TOKEN_FILE",
            host,
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
