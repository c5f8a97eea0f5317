"""The service's calls as data, for clients that send them one way or another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, TypeAdapter

from api.client.errors import ClientError, ServiceError, UnreachableError
from api.client.plan import Plan
from api.http.alert_schemas import AlertsOut
from api.http.row_schemas import ResultsOut
from api.http.schemas import (
    ExplainOut,
    JobChanged,
    JobOut,
    OperatorsOut,
    PlanSummary,
    TaskOut,
    WorkloadOut,
    WorkloadSummary,
)
from api.http.what_if_schemas import OtherWindow, WhatIfOut

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

Document = Mapping[str, Any] | str | Path
LATER = {"prefer": "respond-async"}  # RFC 7240
TIMEOUT = 120.0  # seconds; a large workload may take a minute to plan
RETRY_SECONDS = 0.3  # between looks at a job
MAX_TRIES = 5  # to go on following a job after the connection broke


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, Any] | None = None
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] | None = None

    def arguments(self) -> dict[str, Any]:
        """What httpx takes; parameters that are None are not sent."""
        params = {k: v for k, v in (self.params or {}).items() if v is not None}
        return {
            "method": self.method,
            "url": self.path,
            "params": params or None,
            "json": self.json,
            "content": self.content,
            "headers": dict(self.headers or {}),
        }


def answered(response: httpx.Response) -> httpx.Response:
    """The response, unless it is a problem."""
    if not response.is_error:
        return response
    try:
        said = response.json()
        kind = str(said["type"]).rpartition(":")[2]
        raise ServiceError(
            response.status_code,
            kind,
            str(said["title"]),
            str(said.get("detail", "")),
            said.get("diagnostics") or (),
        )
    except (ValueError, KeyError, TypeError):
        said = f"{response.status_code} {response.reason_phrase}"
        raise ServiceError(
            response.status_code, "unknown", f"what answers is no Sheaf service: {said}", ""
        ) from None


def next_page(response: httpx.Response) -> str | None:
    """The address of the page after this one."""
    link = response.links.get("next")
    return link["url"] if link else None


def _one(model: type[M]) -> Callable[[httpx.Response], M]:
    return lambda response: model.model_validate_json(response.content)


def _many(model: type[M]) -> Callable[[httpx.Response], list[M]]:
    kind = TypeAdapter(list[model])  # type: ignore[valid-type]
    return lambda response: kind.validate_json(response.content)


def _text(response: httpx.Response) -> str:
    return response.text


def _bytes(response: httpx.Response) -> bytes:
    return response.content


def _nothing(response: httpx.Response) -> None:
    return None


def _at(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


_FILES = (".yaml", ".yml", ".json", ".sql")


def _body(document: Document) -> dict[str, Any]:
    """A workload as it is sent: a document, the text of one, or the path of a file."""
    if isinstance(document, Mapping):
        return {
            "content": json.dumps(dict(document)).encode(),
            "headers": {"content-type": "application/json"},
        }
    path, text = document if isinstance(document, Path) else None, str(document)
    if path is None and "\n" not in text and Path(text).suffix in _FILES:
        path = Path(text)
    if path is not None:
        text = path.read_text()
    if path is not None and path.suffix == ".sql":  # whose name the text does not say
        headers, params = {"content-type": "application/sql"}, {"name": path.stem}
        return {"content": text.encode(), "headers": headers, "params": params}
    return {"content": text.encode(), "headers": {"content-type": "application/yaml"}}


def post_workload(document: Document) -> Call[WorkloadOut]:
    return Call("POST", _at("workloads"), _one(WorkloadOut), **_body(document))


def put_workload(id: str, document: Document) -> Call[WorkloadOut]:
    return Call("PUT", _at("workloads", id), _one(WorkloadOut), **_body(document))


def workloads(order: str) -> Call[list[WorkloadSummary]]:
    return Call("GET", _at("workloads"), _many(WorkloadSummary), {"order": order})


def workload(id: str, version: int | None) -> Call[WorkloadOut]:
    return Call("GET", _at("workloads", id), _one(WorkloadOut), {"version": version})


def versions(id: str) -> Call[list[WorkloadSummary]]:
    return Call("GET", _at("workloads", id, "versions"), _many(WorkloadSummary))


def explain(id: str, version: int | None) -> Call[ExplainOut]:
    path = _at("workloads", id, "explain")
    return Call("GET", path, _one(ExplainOut), {"version": version})


def _path(given: object, what: str) -> str:
    """A path as the service gets it; events in memory have none."""
    if isinstance(given, str | PathLike):
        return fspath(given)
    raise TypeError(
        f"{what} is a path as the service sees it, and this is a {type(given).__name__}: write it "
        'to a file there, as with frame.to_parquet("events.parquet"), and give its path; '
        "'import sheaf' runs over files without a service"
    )


def _paths(given: object, what: str) -> str | dict[str, str]:
    """A path as the service sees it, or of several sources theirs by name."""
    if isinstance(given, Mapping):
        return {str(name): _path(path, what) for name, path in given.items()}
    return _path(given, what)


def post_plan(id: str, wanted: Mapping[str, Any]) -> Call[Plan]:
    body = {key: value for key, value in wanted.items() if value is not None}
    for name in body.keys() & {"sample", "events"}:
        if not (isinstance(body[name], Mapping) and "path" in body[name]):
            body[name] = {"path": _paths(body[name], name)}
    return Call("POST", _at("workloads", id, "plans"), _one(Plan), json=body)


def begin_plan(id: str, wanted: Mapping[str, Any]) -> Call[TaskOut]:
    call: Call[Any] = post_plan(id, wanted)
    return replace(call, read=_one(TaskOut), headers=LATER)


def task(id: str) -> Call[TaskOut]:
    return Call("GET", _at("tasks", id), _one(TaskOut))


def cancel_task(id: str) -> Call[TaskOut]:
    return Call("DELETE", _at("tasks", id), _one(TaskOut))


def plans(workload: str | None, order: str) -> Call[list[PlanSummary]]:
    params = {"workload": workload, "order": order}
    return Call("GET", _at("plans"), _many(PlanSummary), params)


def plan(id: str) -> Call[Plan]:
    return Call("GET", _at("plans", id), _one(Plan))


def what_if(id: str, without: Sequence[str], windows: Mapping[str, str]) -> Call[WhatIfOut]:
    asked = {"without": list(without), "windows": dict(windows)}
    return Call("POST", _at("plans", id, "what-if"), _one(WhatIfOut), json=asked)


def windows(id: str, query: str) -> Call[list[OtherWindow]]:
    return Call("GET", _at("plans", id, "windows"), _many(OtherWindow), {"query": query})


def launch(
    plan: str, source: object, sink: object, wanted: Mapping[str, Any], key: str
) -> Call[JobOut]:
    where: dict[str, Any] = {"source": {"path": _paths(source, "source")}, "plan": plan}
    if sink is not None:
        where["sink"] = _path(sink, "sink")
    body = where | {name: value for name, value in wanted.items() if value is not None}
    return Call("POST", _at("jobs"), _one(JobOut), json=body, headers={"idempotency-key": key})


def jobs(status: str | None, order: str) -> Call[list[JobOut]]:
    return Call("GET", _at("jobs"), _many(JobOut), {"status": status, "order": order})


def job(id: str) -> Call[JobOut]:
    return Call("GET", _at("jobs", id), _one(JobOut))


def operators(id: str) -> Call[OperatorsOut]:
    return Call("GET", _at("jobs", id, "operators"), _one(OperatorsOut))


def alerts(id: str) -> Call[AlertsOut]:
    return Call("GET", _at("jobs", id, "alerts"), _one(AlertsOut))


def log(id: str) -> Call[str]:
    return Call("GET", _at("jobs", id, "log"), _text)


def cancel(id: str) -> Call[JobOut]:
    return Call("POST", _at("jobs", id, "cancel"), _one(JobOut))


def delete_job(id: str) -> Call[None]:
    return Call("DELETE", _at("jobs", id), _nothing, {"results": "delete"})


def delete_plan(id: str) -> Call[None]:
    return Call("DELETE", _at("plans", id), _nothing)


def delete_workload(id: str) -> Call[None]:
    return Call("DELETE", _at("workloads", id), _nothing)


def workload_text(id: str, version: int | None) -> Call[str]:
    params = {"version": version, "format": "yaml"}
    return Call("GET", _at("workloads", id), _text, params)


def change_plan(id: str, plan: str) -> Call[JobChanged]:
    return Call("PATCH", _at("jobs", id), _one(JobChanged), json={"plan": plan})


def events(id: str, last: str | None, rows: bool) -> Call[None]:
    headers = {"accept": "text/event-stream"}
    if last is not None:
        headers["last-event-id"] = last
    path = _at("jobs", id, "events")
    return Call("GET", path, _nothing, {"rows": str(rows).lower()}, headers=headers)


def results(
    id: str,
    query: str | None,
    offset: int,
    limit: int | None,
    key: str | None,
    sort: str | None,
    order: str | None,
) -> Call[ResultsOut]:
    params = {"query": query, "offset": offset, "limit": limit}
    chosen = {"key": key, "sort": sort, "order": order}
    return Call("GET", _at("jobs", id, "results"), _one(ResultsOut), params | chosen)


def results_as(
    id: str, format: str, kind: str | None, query: str | None, key: str | None
) -> Call[bytes]:
    params = {"format": format, "kind": kind, "query": query, "key": key}
    return Call("GET", _at("jobs", id, "results"), _bytes, params)


def ready() -> Call[None]:
    return Call("GET", "/readyz", _nothing)


def unreachable(address: str, error: httpx.TransportError) -> UnreachableError:
    said = str(error) or type(error).__name__
    return UnreachableError(f"nobody answers at {address}: {said}; is `sheaf serve` running there?")


def checked_address(address: str) -> str:
    """A service's address, as far as it can be one."""
    url = httpx.URL(address if "://" in address else f"http://{address}")
    if url.scheme not in ("http", "https") or not url.host:
        raise ClientError(f"'{address}' is no address of a service; write http://HOST:PORT")
    return str(url).rstrip("/")
