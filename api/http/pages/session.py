"""Signing in: a token in a cookie that no script can read, and no other site can use.

The cookie stands for the `Authorization` header that programs send, so everything behind it is the
same for both.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.middleware.tokens import token_of
from api.http.pages.render import page
from api.http.problems import problem_response
from api.http.routes.state import handed, settings
from api.http.settings import Settings

router = APIRouter()

COOKIE = "sheaf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Session:
    """Reads the cookie, shows the way in, and refuses what another site's page sends here."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["method"] not in SAFE_METHODS and is_from_elsewhere(headers):
            said = "a page of another site sent this; only pages of this service may change things"
            await problem_response("forbidden", said)(scope, receive, send)
            return
        secret = kept_secret(headers)
        if secret is not None and "authorization" not in headers:
            bearer = (b"authorization", b"Bearer " + secret.encode())
            scope["headers"] = [*scope["headers"], bearer]
        if not is_page(scope, headers):
            await self.app(scope, receive, send)
            return
        refused = False

        async def unless_refused(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] == 401:
                refused = True
            if not refused:
                await send(message)

        await self.app(scope, receive, unless_refused)
        if refused:
            request = Request(scope)
            await sign_in_page(request, back_to(request.url))(scope, receive, send)


def is_page(scope: Scope, headers: Headers) -> bool:
    """Whether somebody looks at a page, and not a program at an answer."""
    return (
        scope["method"] == "GET"
        and "text/html" in headers.get("accept", "")
        and not scope["path"].startswith(("/v1/", "/static/"))
    )


def is_from_elsewhere(headers: Headers) -> bool:
    """Whether a browser says that a page of another origin sent a request; programs say nothing."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def kept_secret(headers: Headers) -> str | None:
    kept = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    try:
        return base64.urlsafe_b64decode(kept).decode("ascii") or None
    except (binascii.Error, UnicodeError):
        return None


def sign_in_page(request: Request, to: str, wrong: bool = False) -> Response:
    answer = page(request, "signin.html", 401, to=to, wrong=wrong)
    answer.headers["www-authenticate"] = "Bearer"
    return answer


def back_to(url: object) -> str:
    """An address of ours as far as it says where, without the host."""
    parts = urlsplit(str(url))
    return parts.path + (f"?{parts.query}" if parts.query else "")


@router.post("/signin")
async def sign_in(request: Request, settings: Annotated[Settings, handed(settings)]) -> Response:
    """Keep a good token in the browser's cookie, and go on to where it was asked for."""
    given = parse_qs((await request.body()).decode(errors="replace"))
    secret, to = given.get("token", [""])[0].strip(), given.get("to", ["/"])[0]
    # Two slashes, or a backslash, would lead to another host.
    to = to if re.fullmatch(r"/(?![/\\])[^\\\x00-\x20]*", to) else "/"
    if settings.tokens and token_of(settings.tokens, secret) is None:
        return sign_in_page(request, to, wrong=True)
    answer = RedirectResponse(to, status_code=303)
    answer.set_cookie(
        COOKIE,
        base64.urlsafe_b64encode(secret.encode()).decode(),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/signout")
def sign_out() -> Response:
    answer = RedirectResponse("/", status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return answer
