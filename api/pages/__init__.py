"""The pages that people open in a browser: server-rendered, with small scripts of our own.

Nothing on them comes from another host, and nothing has to be built. What pages show and do goes
through the HTTP calls that everyone has; `/pages/…` adds the few that only an editor or a form
needs.
"""

from __future__ import annotations

from fastapi import FastAPI

from api.pages import assets, forms, reference, routes, session
from api.pages.session import Session

__all__ = ["Session", "install"]


def install(app: FastAPI) -> None:
    """Add the pages to the service, which has `Session` around what asks for tokens."""
    for module in (routes, forms, session, reference, assets):
        app.include_router(module.router, include_in_schema=False)
