"""Workload files and documents to `Workload`, every mistake of theirs reported together.

`read_workload` gives what could be read and all findings, so that a later pass can add its own
before anything is raised; `load_workload` raises at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from workloads import document as doc
from workloads.archives import ArchivedFile, ArchiveError, read_archive, workload_file
from workloads.document import DocumentError
from workloads.errors import (
    Diagnostic,
    Place,
    QueryError,
    WorkloadError,
    did_you_mean,
    in_file,
    opening_remedy,
    short,
    shown,
)
from workloads.imported_rules import ImportedRules, unique_name
from workloads.limits import MAX_DOCUMENT_CHARACTERS, MAX_QUERIES
from workloads.notations import NOTATIONS, notation_of
from workloads.parser import know_printed, query_of
from workloads.printing import print_query
from workloads.rule_files import (
    RulesError,
    imported_rules,
    is_single_rule,
    single_rules,
)
from workloads.rule_tests import RuleTest, read_tests
from workloads.sql.document import sql_document
from workloads.stream_document import (
    QUOTE,
    StreamReader,
    misspelled,
    rule_setting,
    with_words,
)
from workloads.suppression import (
    REMEDY,
    SuppressionError,
    read_suppression,
    with_suppression,
)
from workloads.syntax import Duration, Query
from workloads.workload import (
    OnLimit,
    PartialLimit,
    Statistics,
    Workload,
)

_KEYS = (
    *("name", "stream", "streams", "statistics", "limits", "suppress", "queries", "rules"),
    *("optional", "tests"),
)


def load_workload(source: str | Path | Mapping[str, Any]) -> Workload:
    """A workload from a file's path or a document; raises `WorkloadError` with all findings."""
    workload, findings = read_workload(source)
    if findings or workload is None:
        raise WorkloadError(findings)
    return workload


def read_workload(
    source: str | Path | Mapping[str, Any],
) -> tuple[Workload | None, list[Diagnostic]]:
    """What can be read of a workload, and everything that is wrong with it."""
    if isinstance(source, Mapping):
        return _Reader(None).read(source)
    path = Path(source)
    reader = _Reader(str(path))
    try:
        with path.open("rb") as file:
            found = file.read(4 * MAX_DOCUMENT_CHARACTERS + 1)  # a character has up to four bytes
        if len(found) > 4 * MAX_DOCUMENT_CHARACTERS:
            reader.report(doc.too_long().message, doc.too_long().hint)
            return None, reader.findings
        text = found.decode()
    except OSError as error:
        reader.report(f"cannot read the workload: {error.strerror}", opening_remedy(error))
        return None, reader.findings
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        reader.report(
            f"not a text file in UTF-8: byte {error.start:,}, in line {line:,}, does not decode",
            "save it as UTF-8, or check the path: is it a workload?",
        )
        return None, reader.findings
    return reader.read_text(text, is_json=path.suffix.lower() == ".json", stem=path.stem)


def parse_document(
    text: str, file: str | None = None, name: str = "workload"
) -> tuple[Workload | None, list[Diagnostic]]:
    """A workload given as YAML, JSON or SQL text, which need not be what its file has.

    It has the name of its file, or that which is given, unless it says another.
    """
    stem = name if file is None else Path(file).stem
    return _Reader(file).read_text(text, is_json=False, stem=stem)


def parse_archive(body: bytes) -> tuple[Workload | None, list[Diagnostic]]:
    """A workload with the files of its rules; raises `ArchiveError` where it is no such archive."""
    written, files = workload_file(read_archive(body))
    reader = _Reader(None)
    reader.files = files
    try:
        text = written.read_text()
    except UnicodeDecodeError as error:
        raise ArchiveError(f"'{written}' is not a text in UTF-8; save it as UTF-8") from error
    return reader.read_text(text, is_json=written.suffix.lower() == ".json", stem=written.stem)


def load_statistics(document: Any) -> Statistics:
    """What a document says of a stream, in the form that a workload has under `statistics`.

    Raises `WorkloadError` with everything that is wrong with it.
    """
    reader = _Reader(None)
    found = reader.statistics(document, ())
    if reader.findings:
        raise WorkloadError(reader.findings)
    return found


class _Reader(StreamReader):
    """Takes a whole workload apart."""

    files: tuple[ArchivedFile, ...] | None = None  # beside it, where it came in an archive

    def read_text(
        self, text: str, is_json: bool, stem: str
    ) -> tuple[Workload | None, list[Diagnostic]]:
        if not is_json and notation_of(text) == "sql":
            return self._read_sql(text, stem)
        try:
            self.document = doc.read_document(text, is_json)
        except DocumentError as error:
            self.report_at(error.message, error.hint, error.place)
            return None, self.findings
        for key, place in self.document.repeated:
            self.report_at(
                f"the key {shown(key)} stands twice in one map",
                "only one can hold: leave one out",
                place,
            )
        value = self.document.value
        if not isinstance(value, Mapping):
            self.report(
                "a workload is a document with the keys name, stream and queries",
                "see the example in the README",
            )
            return None, self.findings
        return self._read({"name": stem, **value})

    def _read_sql(self, text: str, stem: str) -> tuple[Workload | None, list[Diagnostic]]:
        try:
            if len(text) > MAX_DOCUMENT_CHARACTERS:
                raise doc.too_long()
            document = sql_document(text, stem)
        except (DocumentError, QueryError) as error:
            self.report(error.message, error.hint)
            return None, self.findings
        return self.read(document)

    def read(self, document: Mapping[str, Any]) -> tuple[Workload | None, list[Diagnostic]]:
        """The same for a document that has been parsed."""
        try:
            doc.check_values(document)
        except DocumentError as error:
            self.report_at(error.message, error.hint, error.place)
            return None, self.findings
        return self._read(document)

    def _read(self, document: Mapping[str, Any]) -> tuple[Workload | None, list[Diagnostic]]:
        self.known_keys(document, _KEYS, "the workload", ())
        suppress = self._suppress(document.get("suppress"))
        imported = self._rules(document, suppress)
        stream = self.stream_of(document, imported)
        statistics = self.statistics(document.get("statistics"), ("statistics",))
        queries, places, rule_places = self._queries(document, imported, suppress)
        name = document.get("name", "workload")
        if not isinstance(name, str):
            self.report(f"the workload's name is {shown(name)}, not a text", QUOTE, ("name",))
        if stream is None:
            return None, self.findings
        partial = self._partial_limit(document.get("limits"))
        refused = tuple(rule for rules in imported for rule in rules.refused)
        # Queries with a mistake have no name here, and a test of theirs is not to blame.
        known = {query.name or "" for query in queries}
        given, tests = document.get("tests"), tuple[RuleTest, ...]()
        if given is not None and not self.findings:
            tests = read_tests(given, known, self, self._key)
        stream = with_words(stream, queries)
        optional = {**self._optional(document.get("optional"), known), **rule_places}
        workload = Workload(
            *(str(name), stream, queries, statistics, self.file, places, partial, refused, tests),
            optional,
        )
        return workload, self.findings

    def _optional(self, given: Any, known: Collection[str]) -> dict[str, str]:
        """The queries that need not fit the events: their names, or these with a word of each."""
        given = known if given is True else given or {}
        listed = given if isinstance(given, Mapping | str) else dict.fromkeys(given, "")
        if not isinstance(listed, Mapping):
            remedy = "list names of queries, or write true for all"
            self.report("'optional' is not a list", remedy, ("optional",))
            return {}
        for name in listed:
            if name not in known and not self.findings:
                hint = did_you_mean(str(name), known) or "list names of queries"
                self.report(f"'optional' names no query: {shown(name)}", hint, ("optional",))
        return {str(name): str(place) for name, place in listed.items()}

    def _key(self, at: doc.Path) -> Place | None:
        return self.document.place(at, key=True)

    def _suppress(self, given: Any) -> Duration | None:
        """The default of queries that return matches."""
        if given is None:
            return None
        try:
            return read_suppression(given)
        except SuppressionError as error:
            self.report(str(error), REMEDY, ("suppress",))
            return None

    def _rules(self, whole: Mapping[str, Any], suppress: Duration | None) -> list[ImportedRules]:
        """The rules of other systems, each entry's on its own."""
        given = whole.get("rules")
        listed = given if isinstance(given, list) else [] if given is None else [given]
        entries: list[tuple[Any, doc.Path]] = [
            (entry, ("rules", number)) for number, entry in enumerate(listed)
        ]
        entries += [(entry, ("queries",)) for entry in single_rules(whole.get("queries"))]
        folder = None if self.file is None else Path(self.file).parent
        setting = replace(rule_setting(whole, folder), suppress=suppress, files=self.files)
        found = []
        for entry, at in entries:
            try:
                rules = imported_rules(entry, setting)
                found.append(replace(rules, is_strict=at == ("queries",)))
            except RulesError as error:
                self.report(error.message, error.hint, at)
        return found

    def _partial_limit(self, document: Any) -> PartialLimit | None:
        if document is None:
            return None
        if not isinstance(document, Mapping):
            self.report("'limits' is not a map", "write partial_matches and a number", ("limits",))
            return None
        self.known_keys(document, ("partial_matches", "on_limit"), "'limits'", ("limits",))
        most, on_limit = document.get("partial_matches"), document.get("on_limit", "stop")
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            self.report(
                f"limits.partial_matches is {shown(most)}, not a number from 1 on",
                "it is how many partial matches of one key an operator of a query may hold",
                ("limits", "partial_matches"),
            )
            return None
        for known in get_args(OnLimit):
            if on_limit == known:
                return PartialLimit(most, known)
        self.report(
            f"limits.on_limit is {shown(on_limit)}",
            f"write {' or '.join(get_args(OnLimit))}",
            ("limits", "on_limit"),
        )
        return None

    def _queries(
        self, whole: Mapping[str, Any], imported: list[ImportedRules], suppress: Duration | None
    ) -> tuple[tuple[Query, ...], tuple[Place | None, ...], dict[str, str]]:
        """The queries, where each is written, and where the rules are that some of them are."""
        document, at = whole.get("queries"), ("queries",)
        if document is None and whole.get("rules") is not None:
            if not self.findings and not any(rules.rules for rules in imported):
                self.report(
                    "the workload has no queries: none of its rules was taken",
                    next((r.render() for rules in imported for r in rules.refused), None),
                    ("rules",),
                )
            document = []
        elif not isinstance(document, list) or not document:
            if not misspelled("queries", whole, _KEYS):
                self.report(
                    "the workload has no queries", "add at least one under 'queries'", at, True
                )
            return (), (), {}
        if len(document) > MAX_QUERIES:
            self.report(
                f"the workload has {len(document):,} queries; at most {MAX_QUERIES:,} are taken",
                "split it into several workloads",
                at,
            )
            return (), (), {}
        queries: list[Query] = []
        places: list[Place | None] = []
        numbers: dict[str, int] = {}
        for number, text in enumerate(document, 1):
            if is_single_rule(text):
                continue
            path: doc.Path = (*at, number - 1)
            written = self._written(text, number, path)
            if written is None:
                continue
            notation, given, text = written
            place = self.document.places.get(path if notation is None else (*path, notation))
            place = place or self.document.places.get(path)
            try:
                query = query_of(text) if notation is None else NOTATIONS[notation](text)
                if suppress is not None:
                    query = with_suppression(query, suppress)
                query = query if given is None else replace(query, name=given)
            except QueryError as error:
                name = given or _probable_name(text) or f"#{number}"
                found = error.diagnostic(text, name, number)
                self.findings.append(in_file(found, self.file, place))
                continue
            query = replace(query, name=query.name or f"q{number}", number=number)
            assert query.name is not None
            if query.name in numbers:
                twice = QueryError(
                    f"query {number} has the name of query {numbers[query.name]}: "
                    f"{short(query.name)}",
                    query.span,
                    "give each query a name of its own",
                )
                found = twice.diagnostic(text, query.name, number)
                self.findings.append(in_file(found, self.file, place))
                continue
            numbers[query.name] = number
            queries.append(query)
            places.append(place)
        names, rule_places = set(numbers), dict[str, str]()
        for rule, is_strict in ((rule, each.is_strict) for each in imported for rule in each.rules):
            name = unique_name(str(rule.query.name), names)
            query = replace(rule.query, name=name, number=len(queries) + 1)
            if name != rule.query.name:
                query = replace(query, text=print_query(query))
            know_printed(query)
            queries.append(query)
            places.append(None)
            if not is_strict:
                rule_places[name] = rule.place
        return tuple(queries), tuple(places), rule_places

    def _written(
        self, query: Any, number: int, at: doc.Path
    ) -> tuple[str | None, str | None, str] | None:
        """The notation of a query, the name that it is given, and its text; None with a finding."""
        if isinstance(query, str):
            return notation_of(query), None, query
        if isinstance(query, Mapping):
            found = [key for key in NOTATIONS if key in query]
            name = query.get("name")
            if len(found) == 1 and isinstance(query[found[0]], str):
                self.known_keys(query, ("name", found[0]), f"query {number}", at)
                if name is not None and not isinstance(name, str):
                    self.report(f"query {number} has the name {shown(name)}", QUOTE, at)
                    return None
                return found[0], name, query[found[0]]
            self.report(
                f"query {number} is a map without the text of a query",
                f"write 'name' and one of {', '.join(NOTATIONS)} with a text",
                at,
            )
            return None
        self.report(
            f"query {number} is {shown(query)}, not a text",
            "write it as a block: '- |', and its lines below, indented",
            at,
        )
        return None


def _probable_name(text: str) -> str | None:
    """The name of a query that did not parse, from its first words."""
    words = text[:200].split(None, 2)
    return words[1][:60] if len(words) > 1 and words[0].upper() == "QUERY" else None
