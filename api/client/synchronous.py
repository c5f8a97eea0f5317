"""The client for programs that wait for each answer; unasync writes it from the other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import pyarrow as pa

from api.client import calls, tables
from api.client.errors import JobError, UnreachableError
from api.client.events import Event, Reader
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
from api.run_settings import Access, MatchFormat, OnError
from workloads.workload import OnLimit

T = TypeVar("T")


class Client:
    """A service, and all that it does; problems are raised as `ServiceError`."""

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        token: str | None = None,
        timeout: float = calls.TIMEOUT,
    ) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.address = calls.checked_address(address)
        self._http = httpx.Client(base_url=self.address, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Workloads

    def post_workload(self, document: calls.Document) -> WorkloadOut:
        """Check a workload and keep it: a document, its text in YAML or JSON, or a file's path."""
        return self._send(calls.post_workload(document))

    def put_workload(self, id: str, document: calls.Document) -> WorkloadOut:
        """Change a workload: a new version, unless the latest says the same."""
        return self._send(calls.put_workload(id, document))

    def workloads(self, order: tables.Order = "desc") -> Iterator[WorkloadSummary]:
        """All workloads, the newest first, or with `asc` in the order they first came."""
        return self._pages(calls.workloads(order))

    def workload(self, id: str, version: int | None = None) -> WorkloadOut:
        return self._send(calls.workload(id, version))

    def workload_text(self, id: str, version: int | None = None) -> str:
        """A workload as YAML: as it was posted, unless that was JSON."""
        return self._send(calls.workload_text(id, version))

    def delete_workload(self, id: str) -> None:
        """Delete a workload in all its versions, and its plans; refused while jobs need them."""
        self._send(calls.delete_workload(id))

    def versions(self, id: str) -> list[WorkloadSummary]:
        """The versions of a workload, the latest first."""
        return self._send(calls.versions(id))

    def explain(self, id: str, version: int | None = None) -> ExplainOut:
        """Normal forms, what queries have in common, and what keeps them from sharing it."""
        return self._send(calls.explain(id, version))

    # Plans

    def plan(self, workload: str, **wanted: Any) -> Plan:
        """Plan a workload: `solver`, `model`, `sharing`, `device`, `version`, `statistics`,
        `sample`, and how that is read (`on_error`, `disorder`), as in the API."""
        return self._send(calls.post_plan(workload, wanted))

    def begin_plan(self, workload: str, **wanted: Any) -> TaskOut:
        """Begin what `plan` does, and do not wait for it."""
        return self._send(calls.begin_plan(workload, wanted))

    def task(self, id: str) -> TaskOut:
        """What a plan in the making is at."""
        return self._send(calls.task(id))

    def cancel_task(self, id: str) -> TaskOut:
        return self._send(calls.cancel_task(id))

    def plans(
        self, workload: str | None = None, order: tables.Order = "desc"
    ) -> Iterator[PlanSummary]:
        """All plans, or those of one workload, the newest first."""
        return self._pages(calls.plans(workload, order))

    def get_plan(self, id: str) -> Plan:
        return self._send(calls.plan(id))

    def delete_plan(self, id: str) -> None:
        """Delete a plan; refused while jobs need it."""
        self._send(calls.delete_plan(id))

    def what_if(
        self, id: str, without: Sequence[str] = (), windows: Mapping[str, str] | None = None
    ) -> WhatIfOut:
        """What a plan would cost without some queries, or with other windows, such as `5 min`."""
        return self._send(calls.what_if(id, without, windows or {}))

    def windows(self, id: str, query: str) -> list[OtherWindow]:
        """What it would cost if a query had the window of another, the cheapest first."""
        return self._send(calls.windows(id, query))

    # Jobs

    def launch(
        self,
        plan: str,
        source: str | PathLike[str] | Mapping[str, str],
        sink: str | PathLike[str] | None = None,
        *,
        on_error: OnError | None = None,
        disorder: str | None = None,
        slice: int | None = None,
        partial_limit: int | None = None,
        on_limit: OnLimit | None = None,
        row_limit: int | None = None,
        threads: int | None = None,
        match: MatchFormat | None = None,
        access: Access | None = None,
        tables: bool = False,
        **wanted: Any,
    ) -> JobOut:
        """Run a plan over events: `mode`, `engine`, `device`, `master`, `stream` as in the API.

        The options are those of `sheaf run`; one that the engine cannot honour is refused, with the
        reason. Paths are as the service sees them. A request that is sent again because nobody
        answered launches nothing twice.
        """
        options = {
            "on_error": on_error,
            "disorder": disorder,
            "slice": slice,
            "partial_limit": partial_limit,
            "on_limit": on_limit,
            "row_limit": row_limit,
            "threads": threads,
            "match": match,
            "access": access,
            "tables": tables or None,
        }
        call = calls.launch(plan, source, sink, {**options, **wanted}, secrets.token_hex(16))
        return self._send(call, again=True)

    def jobs(self, status: str | None = None, order: tables.Order = "desc") -> Iterator[JobOut]:
        """All jobs, or those of one status, the newest first."""
        return self._pages(calls.jobs(status, order))

    def job(self, id: str) -> JobOut:
        return self._send(calls.job(id))

    def operators(self, id: str) -> OperatorsOut:
        """The operators of a job's plan, with rows in and out and state so far."""
        return self._send(calls.operators(id))

    def alerts(self, id: str) -> AlertsOut:
        """How many rows each query of a job gave, by day, the noisiest query first."""
        return self._send(calls.alerts(id))

    def log(self, id: str) -> str:
        """What the job's process printed."""
        return self._send(calls.log(id))

    def cancel(self, id: str) -> JobOut:
        """End a job that waits or runs; one that is over stays as it is."""
        return self._send(calls.cancel(id))

    def delete_job(self, id: str) -> None:
        """Delete a job that is over, with its results."""
        self._send(calls.delete_job(id))

    def change_plan(self, id: str, plan: str) -> JobChanged:
        """Have a stream go on with another plan, from the end of its batch."""
        return self._send(calls.change_plan(id, plan))

    def wait(
        self,
        id: str,
        seconds: float | None = None,
        progress: Callable[[JobOut], None] = lambda job: None,
    ) -> JobOut:
        """The job when it has succeeded; raises `JobError` if it does not, or not in time."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            job = self.job(id)
            progress(job)
            if tables.is_over(job):
                return tables.succeeded(job)
            if end is not None and time.monotonic() > end:
                raise JobError(f"{id} is still {job.status} after {seconds:g} s")
            time.sleep(calls.RETRY_SECONDS)

    def follow(self, id: str, rows: bool = True, last: str | None = None) -> Iterator[Event]:
        """The job as it happens, up to its end; goes on by itself where the connection breaks."""
        tries = 0
        while True:
            try:
                for event in self._events(id, last, rows):
                    tries = 0
                    last = event.id or last
                    yield event
                    if event.name == "end":
                        return
            except UnreachableError:
                if tries == calls.MAX_TRIES:
                    raise
            tries += 1
            if tries > calls.MAX_TRIES:
                raise UnreachableError(f"{self.address} ends the stream of {id} again and again")
            time.sleep(calls.RETRY_SECONDS * tries)

    # Results

    def results(
        self,
        id: str,
        query: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        key: str | None = None,
        sort: tables.Sort | None = None,
        order: tables.Order | None = None,
    ) -> ResultsOut:
        """A page of what a job found; `key`, `sort` and `order` as in the API."""
        return self._send(calls.results(id, query, offset, limit, key, sort, order))

    def rows(
        self,
        id: str,
        kind: tables.Kind,
        query: str | None = None,
        page: int = 10_000,
        key: str | None = None,
    ) -> Iterator[Mapping[str, Any]]:
        """The rows of a kind, page by page."""
        offset = 0
        while found := tables.page_of(self.results(id, query, offset, page, key), kind):
            yield from found
            offset += len(found)

    def table(
        self,
        id: str,
        kind: tables.Kind | None = None,
        query: str | None = None,
        key: str | None = None,
    ) -> pa.Table:
        """The rows of a kind as an Arrow table; the kind can be left out where there is one."""
        return tables.from_arrow(self._send(calls.results_as(id, "arrow", kind, query, key)))

    def download(
        self,
        id: str,
        path: str | Path,
        kind: tables.Kind | None = None,
        query: str | None = None,
        key: str | None = None,
    ) -> int:
        """The rows of a kind in a file, `.csv`, `.parquet` or `.arrow`; gives its size in bytes."""
        path = Path(path)
        call = calls.results_as(id, tables.format_of(path), kind, query, key)
        size = 0
        with tables.whole(path) as file, self._stream(call) as response:
            for piece in response.iter_bytes():
                size += file.write(piece)
        return size

    def is_ready(self) -> bool:
        """Whether the service takes jobs."""
        try:
            self._send(calls.ready())
        except UnreachableError:
            return False
        return True

    # How

    def _send(self, call: calls.Call[T], again: bool = False) -> T:
        return call.read(self._answer(call.arguments(), again))

    def _answer(self, arguments: dict[str, Any], again: bool = False) -> httpx.Response:
        for left in (*((True, True) if again else ()), False):
            try:
                return calls.answered(self._http.request(**arguments))
            except httpx.TransportError as error:
                if not left:
                    raise calls.unreachable(self.address, error) from error
                time.sleep(calls.RETRY_SECONDS)
        raise AssertionError

    def _pages(self, call: calls.Call[list[T]]) -> Iterator[T]:
        arguments: dict[str, Any] | None = call.arguments()
        while arguments is not None:
            response = self._answer(arguments)
            yield from call.read(response)
            following = calls.next_page(response)
            arguments = {"method": "GET", "url": following} if following else None

    @contextmanager
    def _stream(
        self, call: calls.Call[Any], quiet: float | None = None
    ) -> Iterator[httpx.Response]:
        try:
            timeout = (
                self._http.timeout if quiet is None else httpx.Timeout(calls.TIMEOUT, read=quiet)
            )
            with self._http.stream(**call.arguments(), timeout=timeout) as response:
                if response.is_error:
                    response.read()
                yield calls.answered(response)
        except httpx.TransportError as error:
            raise calls.unreachable(self.address, error) from error

    def _events(self, id: str, last: str | None, rows: bool) -> Iterator[Event]:
        reader = Reader()
        with self._stream(calls.events(id, last, rows), tables.READ_TIMEOUT_SECONDS) as response:
            for line in response.iter_lines():
                yield from reader.line(line)
