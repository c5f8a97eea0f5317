"""Idempotency keys: what was answered to whom, so that asking again does nothing again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from api.store.database import Database
from api.store.schema import KeyRow
from workloads.errors import SheafError

KEY_LIFETIME = timedelta(days=1)


class KeyInUseError(SheafError):
    """The request of this key has not been answered yet."""


class KeyMismatchError(SheafError):
    """The key belongs to another request."""


@dataclass(frozen=True)
class Answer:
    """What was answered; or, where a service was killed before it could, what had been made."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class CreatedResource:
    """The address of what a request made whose answer was never given."""

    address: str


class Keys:
    """Keys that were used in the last day, with a name for this run of the service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._run = secrets.token_hex(8)

    def begin(self, key: str, request: str) -> Answer | CreatedResource | None:
        """What a request of this key came to before; None if it is to be done now."""
        try:
            return self._begin(key, request)
        except IntegrityError:  # PostgreSQL, when the same key comes twice at once
            return self._begin(key, request)

    def _begin(self, key: str, request: str) -> Answer | CreatedResource | None:
        now = datetime.now(UTC)
        with self._database.write() as session:
            session.execute(delete(KeyRow).where(KeyRow.created < now - KEY_LIFETIME))
            row = session.get(KeyRow, key, with_for_update=True)
            if row is None:
                session.add(KeyRow(key=key, request=request, run=self._run, created=now))
                return None
            if row.request != request:
                raise KeyMismatchError("the key was used for another request; take a new one")
            if row.status is not None:
                headers = {str(k): str(v) for k, v in (row.headers or {}).items()}
                return Answer(row.status, headers, (row.body or "").encode())
            if row.run == self._run:
                raise KeyInUseError("the first request of this key is not done yet; try again")
            if row.made is not None:
                return CreatedResource(row.made)
            row.run = self._run  # a service was killed before anything was made
            return None

    def end(self, key: str, answer: Answer | None) -> None:
        """Keep the answer; without one, the request can be made again."""
        with self._database.write() as session:
            row = session.get(KeyRow, key)
            if row is None:
                return
            if answer is None:
                session.delete(row)
                return
            row.status, row.headers = answer.status, dict(answer.headers)
            row.body = answer.body.decode()
