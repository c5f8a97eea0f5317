"""Who may do what: bearer tokens with a role, each of which includes those before it.

read    look at workloads, plans, jobs and results
plan    post workloads, plan them
run     launch, cancel and drop jobs
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.problems import problem_response
from workloads.errors import SheafError

ROLES = ("read", "plan", "run")
MIN_TOKEN_LENGTH = 16  # characters of a token: fewer can be guessed

# What anyone may see: that the service is there, and how it is spoken to.
OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs", "/signin", "/signout"})
# What lies where sources may be is for those who use them.
SOURCES = ("/pages/files", "/v1/events", "/v1/uploads")
OPEN_FOLDER = "/static/"  # scripts and styles, the same for everyone


class TokenError(SheafError):
    """The tokens that are configured cannot be used; it never quotes one."""


@dataclass(frozen=True)
class Token:
    """Whose it is, what it is good for, and the SHA-256 of its text, which alone is kept."""

    name: str
    role: str
    digest: str


def read_tokens(lines: Iterable[str], where: str) -> tuple[Token, ...]:
    """Tokens as `NAME ROLE TOKEN` a line; TOKEN may be `sha256:` and its digest in hex."""
    found = tuple(_read(lines, where))
    if len({token.name for token in found}) < len(found):
        raise TokenError(f"{where}: two tokens have the same name")
    return found


def read_token_file(path: Path) -> tuple[Token, ...]:
    try:
        return read_tokens(path.read_text().splitlines(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"{path}: the tokens cannot be read") from error


def _read(lines: Iterable[str], where: str) -> Iterator[Token]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = line.split()
        if len(parts) != 3:
            raise TokenError(f"{where}, line {number}: write NAME ROLE TOKEN")
        name, role, secret = parts
        if role not in ROLES:
            raise TokenError(f"{where}, line {number}: '{role}' is not one of {', '.join(ROLES)}")
        if secret.startswith("sha256:"):
            digest = secret.removeprefix("sha256:").lower()
            if not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise TokenError(f"{where}, line {number}: a SHA-256 has 64 hexadecimal digits")
        elif len(secret) < MIN_TOKEN_LENGTH:
            raise TokenError(
                f"{where}, line {number}: a token has at least {MIN_TOKEN_LENGTH} characters"
            )
        else:
            digest = _digest(secret)
        yield Token(name, role, digest)


def needed(method: str, path: str) -> str | None:
    """The role that a request needs; None for what is open. A path nobody thought of is closed."""
    if path in OPEN or path.startswith(OPEN_FOLDER):
        return None
    if path in SOURCES:
        return "plan"
    if method in ("GET", "HEAD", "OPTIONS"):
        return "read"
    return "run" if path.startswith(("/v1/jobs", "/v1/indexes")) else "plan"


class Access:
    """Lets a request through whose token has the role for it."""

    def __init__(self, app: ASGIApp, tokens: tuple[Token, ...]) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        role = needed(scope["method"], scope["path"])
        if role is None:
            return await self.app(scope, receive, send)
        kind, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
        token = token_of(self.tokens, secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            answer = problem_response(
                "unauthorized", "send `Authorization: Bearer` and a token of this service"
            )
            answer.headers["www-authenticate"] = "Bearer"
            return await answer(scope, receive, send)
        if ROLES.index(token.role) < ROLES.index(role):
            said = f"this needs the role '{role}', and the token of {token.name} has '{token.role}'"
            return await problem_response("forbidden", said)(scope, receive, send)
        scope.setdefault("state", {})["subject"] = token.name
        return await self.app(scope, receive, send)


def token_of(tokens: tuple[Token, ...], secret: str) -> Token | None:
    """The token with this text, if there is one."""
    given = _digest(secret)
    found = None
    for token in tokens:  # all of them, so that the time says nothing
        if hmac.compare_digest(token.digest, given):
            found = token
    return found


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
