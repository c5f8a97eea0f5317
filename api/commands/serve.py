"""`sheaf serve`: the HTTP service."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer


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
) -> None:
    """Run the HTTP service; its documentation is at /docs."""
    import uvicorn

    from api.app import create_app
    from api.embedded import Server
    from api.settings import from_environment

    roots = tuple(root) if root else None
    app = create_app(from_environment(data=data, store=store, roots=roots, jobs_at_once=jobs))
    config = uvicorn.Config(
        app, host=host, port=port, log_level="info", timeout_graceful_shutdown=10
    )
    with suppress(KeyboardInterrupt):  # when all is closed
        Server(config).run()
