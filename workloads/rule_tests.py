"""`tests:` of a workload: events, and the rows that queries must give of them, or must not."""

from __future__ import annotations

import glob
import pathlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from workloads.document import Path
from workloads.errors import Place, did_you_mean, shown

TEST_KEYS = ("name", "events", "expect", "only")
EXPECTATION_KEYS = ("count", "rows", "includes", "excludes")
NONE = "none"
SOME = "some"
_EVENTS_HINT = "write '- {ts: 0, kind: Login}' for each event, or the name of a file"
_EXPECT_HINT = "write 'none', or for each query a number of rows, 'none', 'some', or a list of rows"
_ROW_HINT = "write what a row has, such as '- {key: {card: c7}, time: 60}'"

RowFields = Mapping[str, Any]


@dataclass(frozen=True)
class Expectation:
    """What a query must give: so many rows, these and no others, some of them, none like these.

    A row is described by some of its fields. `least` is a number that there must be at least.
    """

    query: str
    count: int | None = None
    least: int = 0
    rows: tuple[RowFields, ...] | None = None
    includes: tuple[RowFields, ...] = ()
    excludes: tuple[RowFields, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def described(self) -> tuple[RowFields, ...]:
        """All rows that it speaks of."""
        return (*(self.rows or ()), *self.includes, *self.excludes)


@dataclass(frozen=True)
class RuleTest:
    """Events, in the document or in a file, and what queries must give of them.

    With `only`, queries that are not named must give nothing. `document` is how it was written.
    """

    name: str
    events: tuple[Mapping[str, Any], ...] | str
    expected: tuple[Expectation, ...]
    only: bool = False
    document: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = field(default=None, compare=False, repr=False)


def files_at(workload: str, path: str) -> list[str]:
    """What is at the path, or the glob, of a test's events, relative to the workload's file."""
    return glob.glob(str(pathlib.Path(workload).parent / path), recursive=True)  # noqa: PTH207


class Findings(Protocol):
    """What collects mistakes while a document is read."""

    file: str | None

    def report(
        self, message: str, hint: str | None = None, at: Path = (), key: bool = False
    ) -> None: ...

    def known_keys(
        self, document: Mapping[str, Any], keys: tuple[str, ...], where: str, path: Path
    ) -> None: ...


def read_tests(
    given: Any,
    queries: Collection[str],
    findings: Findings,
    place_of: Callable[[Path], Place | None],
) -> tuple[RuleTest, ...]:
    """The tests of a workload that has queries of these names; mistakes go to the findings."""
    if not isinstance(given, list):
        findings.report("'tests' is not a list", "begin each test with '- name: …'", ("tests",))
        return ()
    reader = _TestReader(queries, findings, place_of)
    read = [reader.test(test, number) for number, test in enumerate(given, 1)]
    names: dict[str, int] = {}
    for number, test in enumerate(read, 1):
        if test is not None and names.setdefault(test.name, number) != number:
            findings.report(
                f"test {number} has the name of test {names[test.name]}: {shown(test.name)}",
                "give each test a name of its own",
                ("tests", number - 1, "name"),
            )
    return tuple(test for test in read if test is not None)


@dataclass
class _TestReader:
    queries: Collection[str]
    findings: Findings
    place_of: Callable[[Path], Place | None]

    def test(self, given: Any, number: int) -> RuleTest | None:
        at: Path = ("tests", number - 1)
        if not isinstance(given, Mapping):
            self.findings.report(
                f"test {number} is {shown(given)}, not a map",
                "a test has 'name', 'events' and 'expect'",
                at,
            )
            return None
        self.findings.known_keys(given, TEST_KEYS, f"test {number}", at)
        name, only = given.get("name", f"test {number}"), given.get("only", False)
        if not isinstance(name, str) or not name.strip():
            hint = "a text that looks like a number, a truth value or null needs quotes"
            self.findings.report(f"test {number} has the name {shown(name)}", hint, (*at, "name"))
            return None
        if not isinstance(only, bool):
            self.findings.report(
                f"test {number}: 'only' is {shown(only)}",
                "write 'only: true' where no other query may give a row",
                (*at, "only"),
            )
            return None
        events = self._events(given, number, at)
        expected = self._expected(given, number, at)
        if events is None or expected is None:
            return None
        only = only or given.get("expect") == NONE
        return RuleTest(name, events, expected, only, dict(given), self.place_of(at))

    def _events(
        self, given: Mapping[str, Any], number: int, at: Path
    ) -> tuple[Mapping[str, Any], ...] | str | None:
        found, here = given.get("events"), (*at, "events")
        if isinstance(found, str) and found:
            if self.findings.file is not None:
                if not files_at(self.findings.file, found):
                    self.findings.report(
                        f"test {number}: there is no file {shown(found)}",
                        "paths are relative to the workload's file",
                        here,
                    )
                return found
            self.findings.report(
                f"test {number}: {shown(found)} is a path, and a workload that is no file names "
                "none",
                "give the events themselves, as a list of maps",
                here,
            )
            return None
        if not isinstance(found, list):
            wrong = "has no events" if found is None else f"has the events {shown(found)}"
            self.findings.report(f"test {number} {wrong}", _EVENTS_HINT, here, True)
            return None
        for place, event in enumerate(found):
            if not isinstance(event, Mapping):
                self.findings.report(
                    f"test {number}: event {place + 1} is {shown(event)}, not a map",
                    _EVENTS_HINT,
                    (*here, place),
                )
                return None
        return tuple(found)

    def _expected(
        self, given: Mapping[str, Any], number: int, at: Path
    ) -> tuple[Expectation, ...] | None:
        found, here = given.get("expect"), (*at, "expect")
        if found == NONE:
            return ()
        if not isinstance(found, Mapping) or not found:
            wrong = "expects nothing" if not found else f"expects {shown(found)}"
            self.findings.report(f"test {number} {wrong}", _EXPECT_HINT, here, True)
            return None
        expected = [
            self._expectation(str(query), wanted, number, (*here, query))
            for query, wanted in found.items()
        ]
        if None in expected:
            return None
        return tuple(one for one in expected if one is not None)

    def _expectation(self, query: str, wanted: Any, number: int, at: Path) -> Expectation | None:
        place = self.place_of(at)
        if query not in self.queries:
            hint = did_you_mean(query, self.queries)
            if hint is None:
                names = list(self.queries)
                more = ", …" if len(names) > 12 else ""
                hint = f"it has {', '.join(names[:12])}{more}"
            self.findings.report(
                f"test {number} expects rows of {shown(query)}, which the workload does not have",
                hint,
                at,
                True,
            )
            return None
        if isinstance(wanted, Mapping):
            return self._by_parts(query, wanted, number, at)
        if isinstance(wanted, list):
            rows = self._rows(wanted, number, at)
            return None if rows is None else Expectation(query, rows=rows, place=place)
        if wanted == NONE:
            return Expectation(query, 0, place=place)
        if wanted == SOME:
            return Expectation(query, least=1, place=place)
        count = self._count(wanted, number, at)
        return None if count is None else Expectation(query, count, place=place)

    def _by_parts(
        self, query: str, wanted: Mapping[str, Any], number: int, at: Path
    ) -> Expectation | None:
        what = f"test {number}, {shown(query)}"
        if not wanted:
            self.findings.report(f"{what}: nothing is expected", _EXPECT_HINT, at)
            return None
        self.findings.known_keys(wanted, EXPECTATION_KEYS, what, at)
        count = None
        if "count" in wanted:
            count = self._count(wanted["count"], number, (*at, "count"))
            if count is None:
                return None
        lists: dict[str, tuple[RowFields, ...] | None] = {}
        for part in EXPECTATION_KEYS[1:]:
            lists[part] = () if part != "rows" else None
            if part not in wanted:
                continue
            if (rows := self._rows(wanted[part], number, (*at, part))) is None:
                return None
            lists[part] = rows
        return Expectation(
            query,
            count,
            0,
            lists["rows"],
            lists["includes"] or (),
            lists["excludes"] or (),
            self.place_of(at),
        )

    def _count(self, wanted: Any, number: int, at: Path) -> int | None:
        if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0:
            return wanted
        self.findings.report(
            f"test {number} expects {shown(wanted)}, no number of rows", _EXPECT_HINT, at
        )
        return None

    def _rows(self, wanted: Any, number: int, at: Path) -> tuple[RowFields, ...] | None:
        if not isinstance(wanted, list):
            self.findings.report(f"test {number}: {shown(wanted)} is no list", _ROW_HINT, at)
            return None
        for place, row in enumerate(wanted):
            if not isinstance(row, Mapping):
                self.findings.report(
                    f"test {number}: row {place + 1} is {shown(row)}, not a map",
                    _ROW_HINT,
                    (*at, place),
                )
                return None
        return tuple(wanted)
