"""How much one client has done at once: the rest of its requests wait, and too many are refused.

A client is whoever has a token, or an address where there are no tokens. What waits takes no
thread, so that a client that floods the service is in nobody's way but its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.problems import problem_response
from api.http.settings import Settings

OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
FOLLOWING = re.compile(r"/v1/jobs/[^/]+/events")
# What may take a process that plans, by method.
PLANNING = {
    "POST": re.compile(r"/v1/workloads(/[^/]+/plans)?|/pages/check"),
    "PUT": re.compile(r"/v1/workloads/[^/]+"),
    "PATCH": re.compile(r"/v1/jobs/[^/]+"),
    "GET": re.compile(r"/v1/workloads/[^/]+/explain|/v1/events"),
}
WAIT_SECONDS = 60.0  # that a request waits for its turn


class FullError(Exception):
    """As many requests wait as may, or one has waited for too long."""


@dataclass
class _Place:
    """The requests of one client in a lane."""

    slots: asyncio.Semaphore
    waiting: int = 0
    users: int = 0


@dataclass
class Lane:
    """Requests of one kind: so many of each client at once, so many of all, and so many wait."""

    each: int
    waiting: int
    total: int = 10**9
    _places: dict[str, _Place] = field(default_factory=dict)
    _all: asyncio.Semaphore | None = None

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it for as long as the block runs."""
        place = self._places.setdefault(client, _Place(asyncio.Semaphore(self.each)))
        if place.slots.locked() and place.waiting >= self.waiting:
            raise FullError
        self._all = self._all or asyncio.Semaphore(self.total)
        place.users += 1
        try:
            place.waiting += 1
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await place.slots.acquire()
            except TimeoutError as error:
                raise FullError from error
            finally:
                place.waiting -= 1
            try:
                async with self._all:
                    yield
            finally:
                place.slots.release()
        finally:
            place.users -= 1
            if not place.users:
                self._places.pop(client, None)


class Admission:
    """Lets requests of a client through as its others are done."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.reading = Lane(settings.token_requests, settings.token_waiting)
        self.planning = Lane(settings.token_plans, settings.token_waiting, settings.plans_at_once)
        self.following = Lane(settings.token_followers, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN:
            return await self.app(scope, receive, send)
        address = scope.get("client")
        client = scope.get("state", {}).get("subject") or (address[0] if address else "")
        lane = self.lane(scope["method"], scope["path"])
        try:
            async with lane.turn(client):
                return await self.app(scope, receive, send)
        except FullError:
            who = client or "this client"
            said = f"{lane.each:,} requests of {who} are under way and {lane.waiting:,} wait"
            answer = problem_response("too-many-requests", f"{said}; try again later")
            return await answer(scope, receive, send)

    def lane(self, method: str, path: str) -> Lane:
        """Where a request waits."""
        if FOLLOWING.fullmatch(path):
            return self.following
        heavy = PLANNING.get("GET" if method == "HEAD" else method)
        if heavy is not None and heavy.fullmatch(path):
            return self.planning
        return self.reading
