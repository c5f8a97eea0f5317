"""Each test of a workload run over its own events, by the engine that runs jobs too."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from api.cli.workload_files import only_queries
from api.rule_tests.compare import differences
from engines.input.event_paths import EventPath, each_path
from workloads.errors import SheafError
from workloads.rule_tests import Expectation, RuleTest
from workloads.sources import without_missing
from workloads.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

    from optimizer.plan.plan import Plan

Status = OneOf["passed", "failed", "error"]


@dataclass(frozen=True)
class TestOutcome:
    """What came of a test; `reasons` say why it failed, or why it could not be run."""

    __test__ = False  # no test of pytest's

    name: str
    status: Status
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    line: int | None = None  # of the workload's file


def run_tests(
    workload: Workload, engine: OneOf["local", "oracle"] = "local"
) -> Iterator[TestOutcome]:
    """The outcome of each test, in their order; one that cannot be run does not keep others."""
    run = _TestRun(workload, engine)
    for test in workload.tests:
        began = time.perf_counter()
        status: Status = "passed"
        try:
            reasons = run.reasons(test)
            status = "failed" if reasons else "passed"
        except SheafError as error:
            reasons, status = [str(error)], "error"
        line = None if test.place is None else test.place.line
        yield TestOutcome(test.name, status, tuple(reasons), time.perf_counter() - began, line)


class _TestRun:
    def __init__(self, workload: Workload, engine: OneOf["local", "oracle"]) -> None:
        # A test names what matters to it: what no event of it has is null.
        stream = without_missing(workload.stream)
        self._workload, self._engine = replace(workload, stream=stream, tests=()), engine
        self._tested = workload
        self._plans: dict[tuple[str, ...], Plan] = {}

    def reasons(self, test: RuleTest) -> list[str]:
        """Why a test fails; nothing where it passes."""
        with tempfile.TemporaryDirectory(prefix="sheaf-test-") as folder:
            path = self._path(test, Path(folder))
            rows = self._rows(test, path)
            found: list[str] = []
            for expected in self._expected(test):
                given = rows.get(expected.query, ())
                wrong = differences(expected, given)
                found += wrong
                if wrong and not given and test.events:
                    found += self._nearest_miss(expected.query, path)
        return found

    def _nearest_miss(self, query: str, path: EventPath) -> list[str]:
        """Why a query gives no row of a test's events."""
        from api.explaining.why import why
        from engines.why.text import render_miss

        return ["\n".join(render_miss(why(self._workload, query, path)))]

    def _expected(self, test: RuleTest) -> list[Expectation]:
        named = {expected.query for expected in test.expected}
        names = [query.name or "" for query in self._workload.queries] if test.only else []
        others = [Expectation(name, 0) for name in names if name not in named]
        return [*test.expected, *others]

    def _path(self, test: RuleTest, folder: Path) -> EventPath:
        """The file of a test's events, which is written where they stand in the workload.

        Of several sources there is one for each: an event names its own under `source`.
        """
        if self._workload.stream.sources:
            return self._paths(test, folder)
        if isinstance(test.events, str):
            assert self._tested.file is not None
            return str(Path(self._tested.file).parent / test.events)
        return _written(test.events, folder / "events.jsonl")

    def _paths(self, test: RuleTest, folder: Path) -> dict[str, str]:
        names = list(self._workload.stream.sources)
        if isinstance(test.events, str):
            raise SheafError(
                "the events of a test are in a file, and those of a workload with several sources "
                "have to stand in the test, each with its 'source'"
            )
        found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
        for number, event in enumerate(test.events, 1):
            if event.get("source") not in found:
                raise SheafError(
                    f"event {number} has no 'source' that is one of {', '.join(names)}"
                )
            own = {column: value for column, value in event.items() if column != "source"}
            found[event["source"]].append(own)
        return {name: _written(events, folder / f"{name}.jsonl") for name, events in found.items()}

    def _rows(self, test: RuleTest, path: EventPath) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        from engines.execution import EventSource, Execution, RowSink
        from engines.limits import BadRowError
        from engines.run import run

        if test.events == ():
            return {}
        plan = self._plan(test)
        try:
            report = run(
                plan, EventSource(path), RowSink(None, shown=None), Execution(self._engine)
            )
        except BadRowError as error:
            raise SheafError(_without(str(error), path)) from error
        found: dict[str, list[Mapping[str, Any]]] = {}
        for table in (
            () if report.first is None else (report.first.aggregates, report.first.matches)
        ):
            for row in _plain_rows(table):
                found.setdefault(row["query"], []).append(row)
        if report.ledger.stopped:
            raise SheafError("; ".join(report.ledger.stopped.values()))
        return found

    def _plan(self, test: RuleTest) -> Plan:
        from api.planning.plan_on_events import plan_on_events

        # Where queries read rows of others, none is left out.
        is_whole = test.only or any(query.into for query in self._workload.queries)
        names = () if is_whole else tuple(expected.query for expected in test.expected)
        if names not in self._plans:
            self._plans[names] = plan_on_events(only_queries(self._workload, names))
        return self._plans[names]


def _plain_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for row in table.to_pylist():
        for name in ("key", "match"):
            if isinstance(row.get(name), str):
                row[name] = json.loads(row[name])
        yield row


def _written(events: Sequence[Mapping[str, Any]], path: Path) -> str:
    try:
        lines = [json.dumps(event, allow_nan=False) + "\n" for event in events]
    except ValueError as error:
        raise SheafError(f"an event has a number that JSON does not have: {error}") from error
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def _without(text: str, path: EventPath) -> str:
    """A message about events that are in no file of the user's."""
    for one in each_path(path):
        text = text.replace(one, "its events")
    return text
