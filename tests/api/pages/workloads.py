"""Workloads that tests of the pages plan."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.service import finished
from workloads.generators.query_groups import TICKERS, query_group


def plan_of(client: httpx.Client, document: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    posted = client.post("/v1/workloads", json=document)
    assert posted.status_code == 201, posted.text
    made = client.post(f"/v1/workloads/{posted.json()['id']}/plans", json=wanted)
    assert made.status_code == 201, made.text
    plan: dict[str, Any] = made.json()
    return plan


class ServedJob(NamedTuple):
    """A job that has succeeded: the service it is of, its id, and the address of its page."""

    address: str
    id: str

    @property
    def page(self) -> str:
        return f"{self.address}/jobs/{self.id}"


@contextmanager
def served_job(folder: Path, document: dict[str, Any], events: str) -> Iterator[ServedJob]:
    """A service that has run a workload over lines of CSV, with the local engine."""
    source = folder / "events.csv"
    source.write_text(events)
    settings = Settings(data=folder / "real", roots=(folder,))
    with (
        serving(create_app(settings)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        plan = plan_of(http, document)
        body = {"plan": plan["id"], "source": {"path": str(source)}, "engine": "local"}
        job = http.post("/v1/jobs", json=body).json()["id"]
        assert finished(http, job)["status"] == "succeeded"
        yield ServedJob(address, job)


def many_queries(number: int) -> dict[str, Any]:
    """So many queries that have much in common."""
    pieces = [TICKERS[i : i + 3] for i in range(0, 18, 3)]
    queries = []
    for i in range(number):
        first, second = pieces[i % 6], pieces[(i // 6 + 1 + i) % 6]
        types = [*first, *(t for t in second if t not in first)]
        pattern = f"QUERY rule_{i:03d} PATTERN SEQ({', '.join(types)})"
        queries.append(f"{pattern} AGG COUNT(*) WITHIN {1 + i // 36 % 9} s")
    document, _ = query_group(1)
    return {**document, "name": "rules", "queries": queries}
