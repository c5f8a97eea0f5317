"""Rows posted to an address: at least once, each with an id by which repetitions are told."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workloads.errors import SheafError

if TYPE_CHECKING:
    import httpx

ROWS_PER_POST = 100
TRIES = 8  # of a job that ends: about a minute
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 60.0
_TIMEOUT_SECONDS = 30.0
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers after which trying again makes sense


class WebhookError(SheafError):
    """Rows could not be posted, or may not be posted there."""


def check_address(address: str) -> None:
    """Refuse what is no address of HTTP."""
    try:
        found = urlsplit(address)
        is_one = found.scheme in ("http", "https") and bool(found.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        raise WebhookError("a webhook is an address that begins with https:// or http://")


def check_allowed(address: str, allowed: Collection[str]) -> None:
    """Refuse an address that begins with none of those that the operator names."""
    check_address(address)
    wanted = urlsplit(address)
    steps = wanted.path.lower().replace("%2e", ".").split("/")
    for prefix in allowed if ".." not in steps else ():
        known = urlsplit(prefix)
        same_place = (wanted.scheme, wanted.netloc) == (known.scheme, known.netloc)
        folder = known.path.rstrip("/") + "/"
        if same_place and (wanted.path.startswith(folder) or wanted.path == known.path):
            return
    raise WebhookError(
        f"{shown_address(address)} is not among the webhooks that jobs may post to; the operator "
        "names their beginnings in SHEAF_WEBHOOKS"
    )


def shown_address(address: str) -> str:
    """Where an address leads; what follows the host is often a secret."""
    found = urlsplit(address)
    port = f":{found.port}" if found.port else ""
    return f"{found.scheme}://{found.hostname}{port}/…"


@dataclass(frozen=True)
class Webhook:
    """Posts rows; `sender` is a job or a plan, and part of the ids of its rows.

    Without `tries` it goes on until the rows are taken: a stream waits as long as nobody does.
    """

    address: str
    sender: str
    tries: int | None = TRIES
    wait: Callable[[float], None] = time.sleep

    def deliver(self, files: Iterable[Path], part: str = "") -> int:
        """Post the rows of files in Parquet, and give how many they were.

        Rows of the same sender and `part` have the same ids however often they are posted.
        """
        import httpx

        sent = 0
        with httpx.Client(timeout=_TIMEOUT_SECONDS, follow_redirects=False) as client:
            for rows in _in_posts(self._rows(files, part)):
                self._post(client, rows)
                sent += len(rows)
        return sent

    def _rows(self, files: Iterable[Path], part: str) -> Iterator[str]:
        """Each row as a JSON object with its id."""
        import pyarrow.parquet as pq

        from engines.results.json_lines import json_rows

        met: Counter[bytes] = Counter()  # rows may be alike
        for path in files:
            with pq.ParquetFile(path) as file:
                kind = "matches" if "match" in file.schema_arrow.names else "aggregates"
                for batch in file.iter_batches(10 * ROWS_PER_POST):
                    for text in json_rows(batch).to_pylist():
                        content = "\0".join((self.sender, part, kind, text)).encode()
                        digest = hashlib.sha256(content)
                        number = met[digest.digest()]
                        met[digest.digest()] += 1
                        digest.update(str(number).encode() if number else b"")
                        yield f'{{"id":"{digest.hexdigest()[:32]}",{text[1:]}'

    def _post(self, client: httpx.Client, rows: list[str]) -> None:
        import httpx

        body = ('{"rows":[' + ",".join(rows) + "]}").encode()
        headers = {
            "content-type": "application/json",
            "idempotency-key": hashlib.sha256(body).hexdigest()[:32],
        }
        tried, pause = 0, FIRST_WAIT_SECONDS
        while True:
            tried += 1
            asked: float | None = None
            try:
                answer = client.post(self.address, content=body, headers=headers)
            except httpx.HTTPError as error:
                said = f"does not answer ({type(error).__name__})"
            else:
                if answer.is_success:
                    return
                said = f"answered {answer.status_code}"
                if answer.status_code not in _PASSING:
                    raise WebhookError(f"the webhook {shown_address(self.address)} {said}")
                asked = _asked_to_wait(answer.headers.get("retry-after"))
            if tried == self.tries:
                times = "once" if tried == 1 else f"{tried} times"
                raise WebhookError(
                    f"the webhook {shown_address(self.address)} {said}; it was tried {times}"
                )
            # Spread, so that those who wait for one receiver do not come back all at once.
            self.wait(max(asked or 0.0, pause * random.uniform(0.5, 1.0)))
            pause = min(2 * pause, LONGEST_WAIT_SECONDS)


def _in_posts(rows: Iterable[str]) -> Iterator[list[str]]:
    found: list[str] = []
    for row in rows:
        found.append(row)
        if len(found) == ROWS_PER_POST:
            yield found
            found = []
    if found:
        yield found


def _asked_to_wait(said: str | None) -> float | None:
    """The seconds of a `Retry-After`, which are no more than ours at most."""
    if said is None:
        return None
    try:
        seconds = float(said) if said.isdigit() else parsedate_to_datetime(said).timestamp()
    except ValueError:
        return None
    seconds -= 0.0 if said.isdigit() else time.time()
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
