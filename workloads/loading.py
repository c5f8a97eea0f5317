"""Workload files and documents to `Workload`, every mistake of theirs reported together.

`read_workload` gives what could be read and all findings, so that a later pass can add its own
before anything is raised; `load_workload` raises at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from workloads import document as doc
from workloads import expressions as ex
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
from workloads.notations import NOTATIONS, is_only_sql, notation_of, speaks_of_any
from workloads.parser import know_printed, parse_condition, query_of
from workloads.printing import print_query
from workloads.rule_files import (
    RulesError,
    RuleSetting,
    imported_rules,
    is_single_rule,
    single_rules,
)
from workloads.rule_tests import RuleTest, read_tests
from workloads.statistics_document import StatisticsReader
from workloads.syntax import UNITS, Query
from workloads.time_format import DIRECTIVES, TimeFormatError, time_format
from workloads.workload import (
    NANOSECONDS,
    AttributeKind,
    DefinedSituation,
    MissingColumns,
    OnLimit,
    PartialLimit,
    Statistics,
    Stream,
    Workload,
)

_KEYS = ("name", "stream", "statistics", "limits", "queries", "rules", "tests")

_KINDS: dict[str, AttributeKind] = {
    **dict.fromkeys(("int", "integer", "long", "bigint"), "int"),
    **dict.fromkeys(("float", "double", "number", "real"), "float"),
    **dict.fromkeys(("string", "str", "text"), "string"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **dict.fromkeys(("time", "timestamp", "date"), "time"),
}


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


def parse_document(text: str, file: str | None = None) -> tuple[Workload | None, list[Diagnostic]]:
    """A workload given as YAML or JSON text, which need not be what its file has."""
    stem = "workload" if file is None else Path(file).stem
    return _Reader(file).read_text(text, is_json=False, stem=stem)


def load_statistics(document: Any) -> Statistics:
    """What a document says of a stream, in the form that a workload has under `statistics`.

    Raises `WorkloadError` with everything that is wrong with it.
    """
    reader = _Reader(None)
    found = reader.statistics(document, ())
    if reader.findings:
        raise WorkloadError(reader.findings)
    return found


class _Reader(StatisticsReader):
    """Takes a whole workload apart."""

    def read_text(
        self, text: str, is_json: bool, stem: str
    ) -> tuple[Workload | None, list[Diagnostic]]:
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
        imported = self._rules(document)
        stream = self._stream(document, imported)
        statistics = self.statistics(document.get("statistics"), ("statistics",))
        queries, places = self._queries(document, imported)
        name = document.get("name", "workload")
        if not isinstance(name, str):
            self.report(f"the workload's name is {shown(name)}, not a text", _QUOTE, ("name",))
        if stream is None:
            return None, self.findings
        partial = self._partial_limit(document.get("limits"))
        refused = tuple(rule for rules in imported for rule in rules.refused)
        # Queries with a mistake have no name here, and a test of theirs is not to blame.
        known = {query.name or "" for query in queries}
        given, tests = document.get("tests"), tuple[RuleTest, ...]()
        if given is not None and not self.findings:
            tests = read_tests(given, known, self, self._key)
        workload = Workload(
            str(name), stream, queries, statistics, self.file, places, partial, refused, tests
        )
        return workload, self.findings

    def _key(self, at: doc.Path) -> Place | None:
        return self.document.place(at, key=True)

    def _rules(self, whole: Mapping[str, Any]) -> list[ImportedRules]:
        """The rules of other systems, each entry's on its own."""
        given = whole.get("rules")
        listed = given if isinstance(given, list) else [] if given is None else [given]
        entries: list[tuple[Any, doc.Path]] = [
            (entry, ("rules", number)) for number, entry in enumerate(listed)
        ]
        entries += [(entry, ("queries",)) for entry in single_rules(whole.get("queries"))]
        stream = whole.get("stream")
        sequence = stream.get("sequence") if isinstance(stream, Mapping) else None
        folder = None if self.file is None else Path(self.file).parent
        of = stream if isinstance(stream, Mapping) else {}
        time, type_ = of.get("time"), of.get("type")
        setting = RuleSetting(
            folder,
            sequence if isinstance(sequence, str) else None,
            time if isinstance(time, str) else "time",
            type_ if isinstance(type_, str) else None,
        )
        found = []
        for entry, at in entries:
            try:
                found.append(imported_rules(entry, setting))
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

    def _stream(self, whole: Mapping[str, Any], imported: list[ImportedRules]) -> Stream | None:
        document, at = whole.get("stream"), ("stream",)
        if not isinstance(document, Mapping):
            if not _misspelled("stream", whole):
                wrong = "is missing" if document is None else f"is {shown(document)}, not a map"
                self.report(f"'stream' {wrong}", "add 'stream: {time: ts, type: kind}'", at)
            return None
        columns = ("time", "unit", "format", "type", "sequence", "types", "attributes")
        keys = (*columns, "lateness", "delimiter", "missing_columns", "situations")
        self.known_keys(document, keys, "'stream'", at)
        for key in ("time", "type", "sequence"):
            value = document.get(key)
            if value is not None and not isinstance(value, str):
                self.report(
                    f"stream.{key} is {shown(value)}, not the name of a column",
                    _QUOTE,
                    (*at, key),
                )
                return None
        if not document.get("time"):
            self.report(
                "stream.time is missing", "name the column that holds an event's time", at, True
            )
            return None
        typed = document.get("type") or document.get("types")
        if not (typed or imported or is_only_sql(whole) or speaks_of_any(whole)):
            self.report(
                "stream has neither 'type' nor 'types'",
                "name the column that holds an event's type, give types by conditions, or ask for "
                "ANY event",
                at,
                key=True,
            )
        unit = document.get("unit", "ms")
        if str(unit) not in NANOSECONDS:
            self.report(
                f"stream.unit is {shown(unit)}; known are {', '.join(NANOSECONDS)}",
                did_you_mean(str(unit), NANOSECONDS)
                or "it is the unit of integers in the time column",
                (*at, "unit"),
            )
            unit = "ms"
        return Stream(
            time=document["time"],
            type=document.get("type"),
            unit=unit,
            sequence=document.get("sequence"),
            types=self._with_rules(self._types(document.get("types"), (*at, "types")), imported),
            attributes=self._attributes(document.get("attributes"), (*at, "attributes")),
            lateness=self._length(document.get("lateness"), "lateness", (*at, "lateness")),
            format=self._format(document.get("format"), (*at, "format")),
            delimiter=self._delimiter(document.get("delimiter"), (*at, "delimiter")),
            missing_columns=self._missing(
                document.get("missing_columns") or ("ignore" if imported else None),
                (*at, "missing_columns"),
            ),
            situations=self._situations(document.get("situations"), (*at, "situations")),
        )

    def _with_rules(
        self, types: dict[str, ex.Expression | None], imported: list[ImportedRules]
    ) -> dict[str, ex.Expression | None]:
        """The types of a stream and those that rules read."""
        for rules in imported:
            for name, condition in rules.types.items():
                if types.setdefault(name, condition) != condition:
                    self.report(
                        f"the rules read events of type {shown(name)}, which the stream or other "
                        "rules have by another condition",
                        "give the other type another name, or put rules of one log source into "
                        "one entry",
                        ("rules",),
                    )
        return types

    def _format(self, text: Any, at: doc.Path) -> str | None:
        """How times are written."""
        if text is None:
            return None
        try:
            if not isinstance(text, str):
                raise TimeFormatError(f"known directives are {DIRECTIVES}")
            time_format(text)
            return text
        except TimeFormatError as error:
            self.report(
                f"stream.format is {shown(text)}: {error}",
                "write it such as '%d/%m/%Y %H:%M:%S'",
                at,
            )
        return None

    def _missing(self, word: Any, at: doc.Path) -> MissingColumns:
        for known in get_args(MissingColumns):
            if word == known:
                return known  # type: ignore[no-any-return]
        if word is not None:
            self.report(
                f"stream.missing_columns is {shown(word)}",
                "write error, or ignore: an attribute that no column has is null then",
                at,
            )
        return "error"

    def _delimiter(self, mark: Any, at: doc.Path) -> str | None:
        """What is between the columns of a line."""
        if mark is None:
            return None
        named = {"tab": "\t", "\\t": "\t"}.get(str(mark), mark)
        is_mark = isinstance(named, str) and len(named) == 1 and named.isascii()
        if is_mark and named not in '"\r\n\0' and not named.isalnum():
            return str(named)
        self.report(
            f"stream.delimiter is {shown(mark)}",
            "write one character that is no letter, digit or quote, such as ';' or '|', or tab",
            at,
        )
        return None

    def _types(self, document: Any, at: doc.Path) -> dict[str, ex.Expression | None]:
        if document is None:
            return {}
        if isinstance(document, list) and all(isinstance(t, str) for t in document):
            return dict.fromkeys(document)
        if not isinstance(document, Mapping):
            self.report(
                "stream.types is neither a list of types nor a map of type to condition",
                f"write '[A, B]' or '{{A: \"x > 5\"}}'; {_QUOTE}",
                at,
            )
            return {}
        types: dict[str, ex.Expression | None] = {}
        for name, text in document.items():
            if text is None:
                types[str(name)] = None
                continue
            types[str(name)] = self._condition(str(text), f"type {shown(name)}", (*at, name))
        return types

    def _condition(self, text: str, of: str, at: doc.Path) -> ex.Expression:
        """What is asked of an event; never true, where the text has a mistake."""
        try:
            return _event_condition(text)
        except QueryError as error:
            found = error.diagnostic(text, None)
            found = replace(found, message=f"{of}: {found.message}")
            self.findings.append(self._in_value(found, at))
            return ex.Literal(False)  # queries that use it are not to blame

    def _situations(self, document: Any, at: doc.Path) -> dict[str, DefinedSituation]:
        """Situations that queries use by their names."""
        hint = "write 'Speeding: {of: Car, when: \"speed > 70\", gap: 30 s}'"
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report("stream.situations is no map of names to definitions", hint, at)
            return {}
        found: dict[str, DefinedSituation] = {}
        for name, given in document.items():
            here = (*at, name)
            about = {"when": given} if isinstance(given, str) else given
            if not isinstance(about, Mapping) or not isinstance(about.get("when"), str):
                self.report(f"stream.situations.{name} has no condition 'when'", hint, here)
                continue
            self.known_keys(about, ("of", "when", "gap"), f"situation {shown(name)}", here)
            of = about.get("of")
            if of is not None and not isinstance(of, str):
                self.report(f"situation {shown(name)} is of {shown(of)}, no type", hint, here)
                of = None
            place = (*here, "when") if about is given else here
            condition = self._condition(about["when"], f"situation {shown(name)}", place)
            gap = self._length(about.get("gap"), f"situations.{name}.gap", (*here, "gap"))
            found[str(name)] = DefinedSituation(condition, of, gap)
        return found

    def _in_value(self, finding: Diagnostic, at: doc.Path) -> Diagnostic:
        """A finding about the text of a value, at its place in the document where that is known."""
        finding = replace(finding, file=self.file)
        place = self.document.places.get(at)
        if place is None or finding.source is None:
            return finding
        start = place.source.find(finding.source)
        if start < 0 or finding.line != 1 or place.literal:
            return replace(finding, file_line=place.line)
        return replace(
            finding,
            line=place.line,
            column=start + (finding.column or 1),
            source=place.source,
            file_line=place.line,
        )

    def _attributes(self, document: Any, at: doc.Path) -> dict[str, AttributeKind]:
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report(
                "stream.attributes is not a map of column to type", "such as '{price: float}'", at
            )
            return {}
        kinds: dict[str, AttributeKind] = {}
        for name, word in document.items():
            kind = _KINDS.get(str(word).lower())
            if kind is None:
                self.report(
                    f"stream.attributes: {shown(name)} has the unknown type {shown(word)}; known "
                    "are int, float, string, bool, time",
                    did_you_mean(str(word), _KINDS) or "write one of these",
                    (*at, name),
                )
            else:
                kinds[str(name)] = kind
        return kinds

    def _length(self, value: Any, what: str, at: doc.Path) -> int | None:
        """An amount of time in nanoseconds."""
        if value is None:
            return None
        words = str(value).split()
        try:
            amount = float(words[0])
            if len(words) == 2 and words[1] in UNITS and 0 <= amount * UNITS[words[1]] < 2**62:
                return round(amount * UNITS[words[1]])
        except (ValueError, IndexError, OverflowError):
            pass
        self.report(
            f"stream.{what} is {shown(value)}", "write an amount and a unit, such as 10 s", at
        )
        return None

    def _queries(
        self, whole: Mapping[str, Any], imported: list[ImportedRules]
    ) -> tuple[tuple[Query, ...], tuple[Place | None, ...]]:
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
            if not _misspelled("queries", whole):
                self.report(
                    "the workload has no queries", "add at least one under 'queries'", at, True
                )
            return (), ()
        if len(document) > MAX_QUERIES:
            self.report(
                f"the workload has {len(document):,} queries; at most {MAX_QUERIES:,} are taken",
                "split it into several workloads",
                at,
            )
            return (), ()
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
        names = set(numbers)
        for rule in (rule for rules in imported for rule in rules.rules):
            name = unique_name(str(rule.query.name), names)
            query = replace(rule.query, name=name, number=len(queries) + 1)
            if name != rule.query.name:
                query = replace(query, text=print_query(query))
            know_printed(query)
            queries.append(query)
            places.append(None)
        return tuple(queries), tuple(places)

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
                    self.report(f"query {number} has the name {shown(name)}", _QUOTE, at)
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


def _event_condition(text: str) -> ex.Expression:
    condition = ex.without_aliases(parse_condition(text))
    for node in ex.walk(condition):
        if isinstance(node, (ex.Call, ex.Equivalence, ex.DurationLiteral)):
            raise QueryError(
                "a type's condition takes comparisons of the event's own attributes", node.span
            )
    if not isinstance(condition, ex.CONDITIONS):
        raise QueryError("this is a value, not a condition", condition.span, "compare it")
    return condition


def _probable_name(text: str) -> str | None:
    """The name of a query that did not parse, from its first words."""
    words = text[:200].split(None, 2)
    return words[1][:60] if len(words) > 1 and words[0].upper() == "QUERY" else None


def _misspelled(key: str, document: Mapping[str, Any]) -> bool:
    """Is the key missing because another spelling of it is there, which has its own finding?"""
    meant = f"'{key}'"
    return document.get(key) is None and any(
        meant in (did_you_mean(str(other), _KEYS) or "") for other in document if other not in _KEYS
    )


_QUOTE = "a text that looks like a number, a truth value or null needs quotes"
