"""Requests made from the service's own documentation, right and wrong: never an error of ours.

`-m soak` sends many more.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.client import Client
from api.http import examples
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from api.store.workloads import workload_id
from engines.report import about_of
from optimizer.bind.binder import bind
from optimizer.plan.plan import to_json
from sharing.planner import make_plan
from workloads.loading import load_workload

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


class Service:
    """A service with one of everything in it."""

    def __init__(self, address: str, source: Path) -> None:
        self.address = address
        with Client(address) as client:
            workload = client.post_workload(EXAMPLE_WORKLOAD)
            plan = client.plan(workload.id)
            job = client.wait(client.launch(plan.id, source).id)
            task = client.begin_plan(workload.id)
        index = httpx.post(f"{address}/v1/indexes", json={"source": str(source)}).json()
        self._ids = {
            "workloads": workload.id,
            "plans": plan.id,
            "jobs": job.id,
            "tasks": task.id,
            "indexes": index["id"],
        }

    def check(self, case: Any) -> None:
        """Send a request as it was made, and again about something that is there."""
        if case.operation.path.endswith("/{id}/events"):
            return  # of a job that is not over it has no end
        case.call_and_validate(base_url=self.address, checks=CHECKS, timeout=60)
        if "id" in (case.path_parameters or {}) and case.method != "DELETE":
            case.path_parameters["id"] = self._ids[case.operation.path.split("/")[2]]
            case.call_and_validate(base_url=self.address, checks=CHECKS, timeout=60)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, pretend: list[str]) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    app = create_app(Settings(data=folder / "data", roots=(folder,)), pretend)
    with serving(app) as address:
        (folder / "good.csv").write_text("ts,kind\n1,View\n")
        yield Service(address, folder / "good.csv")


def test_the_examples_of_a_plan_and_of_a_jobs_account_are_of_the_example_workload() -> None:
    document = examples.WORKLOAD
    plan = to_json(make_plan(bind(load_workload(document)), document))
    assert workload_id("shop") == examples.WORKLOAD_ID
    assert examples.PLAN.keys() == {*plan, "title", "workload_version"}

    def groups(some: dict[str, Any]) -> list[Any]:
        names = ("queries", "engine", "device", "segments", "tree")
        return [[group.get(name) for name in names] for group in some["groups"]]

    assert groups(examples.PLAN) == groups(plan)
    real = {(o["kind"], about_of(o)): o for o in plan["operators"]}
    for operator in examples.PLAN["operators"]:
        found = real[operator["kind"], about_of(operator)]
        assert operator["detail"].items() <= found["detail"].items()
        for name in ("schema", "order"):
            assert operator[name] == found[name]
    assert {(o["kind"], o["about"]) for o in examples.OPERATORS["operators"]} <= real.keys()


def send(service: Service, requests: int) -> None:
    """So many requests of each kind that the documentation names."""
    schema = schemathesis.openapi.from_url(f"{service.address}/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()

        @seed(1)
        @settings(
            max_examples=requests,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy())
        def check(case: Any) -> None:
            service.check(case)

        check()


def test_no_request_that_is_documented_is_an_error_of_ours(service: Service) -> None:
    send(service, 10)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_many_requests_are_no_errors_of_ours(service: Service) -> None:
    send(service, 300)
