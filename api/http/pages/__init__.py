"""The pages that people open in a browser: server-rendered, with small scripts of our own.

Nothing on them comes from another host, and nothing has to be built. What pages show and do goes
through the HTTP calls that everyone has; `/pages/…` adds the few that only an editor or a form
needs.
"""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from api.http.pages import assets, forms, glossary, query_panel, reference, routes, session
from api.http.pages.render import error_page
from api.http.pages.session import Session

__all__ = ["Session", "install"]


def install(app: FastAPI) -> None:
    """Add the pages to the service, which has `Session` around what asks for tokens."""
    for module in (routes, forms, session, reference, glossary, query_panel, assets):
        app.include_router(module.router, include_in_schema=False)
    problem = app.exception_handlers[HTTPException]

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        """A page for whoever looks for one, where nothing is."""
        wants_page = "text/html" in request.headers.get("accept", "")
        if error.status_code != 404 or not wants_page or request.url.path.startswith("/v1/"):
            return await problem(request, error)  # type: ignore[misc, no-any-return]
        return error_page(request, "not-found", f"No page is at {request.url.path}.")
