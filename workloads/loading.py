"""Workload files and documents to `Workload`, every mistake of theirs reported together.

`read_workload` gives what could be read and all findings, so that a later pass can add its own
before anything is raised; `load_workload` raises at once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import yaml

from workloads import syntax as ex
from workloads.errors import Diagnostic, QueryError, WorkloadError, did_you_mean
from workloads.parser import parse_condition, parse_query
from workloads.syntax import UNITS, Query
from workloads.time_format import DIRECTIVES, TimeFormatError, time_format
from workloads.workload import (
    NANOSECONDS,
    AttributeKind,
    KeyStatistics,
    OnLimit,
    PartialLimit,
    Statistics,
    Stream,
    Workload,
)

MAX_QUERIES = 10_000
_KEYS = ("name", "stream", "statistics", "limits", "queries")
# What statistics are made of; `source` and `sample` say where they came from, for people.
_NUMBERS = ("rates", "selectivities", "keys", "ties", "events", "span")

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
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reader.report(f"cannot read the workload: {error.strerror}", _remedy(error))
        return None, reader.findings
    except UnicodeDecodeError as error:
        reader.report(f"not a text file in UTF-8: byte {error.start} does not decode")
        return None, reader.findings
    return reader.read_text(text, is_json=path.suffix.lower() == ".json", stem=path.stem)


def parse_document(text: str) -> tuple[Workload | None, list[Diagnostic]]:
    """A workload given as YAML or JSON text, without a file."""
    return _Reader(None).read_text(text, is_json=False, stem="workload")


def load_statistics(document: Any) -> Statistics:
    """What a document says of a stream, in the form that a workload has under `statistics`.

    Raises `WorkloadError` with everything that is wrong with it.
    """
    reader = _Reader(None)
    found = reader._statistics(document)
    if reader.findings:
        raise WorkloadError(reader.findings)
    return found


@dataclass
class _Reader:
    """Collects findings while a document is taken apart."""

    file: str | None
    findings: list[Diagnostic] = field(default_factory=list)

    def report(self, message: str, hint: str | None = None, line: int | None = None) -> None:
        self.findings.append(Diagnostic(message, hint, file=self.file, file_line=line))

    def read_text(
        self, text: str, is_json: bool, stem: str
    ) -> tuple[Workload | None, list[Diagnostic]]:
        try:
            document, lines = self._json(text) if is_json else self._yaml(text)
        except json.JSONDecodeError as error:
            self.report(f"not valid JSON: {error.msg}", line=error.lineno)
            return None, self.findings
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "it does not parse"
            self.report(f"not valid YAML: {problem}", line=mark.line + 1 if mark else None)
            return None, self.findings
        except RecursionError:
            self.report("the document is nested too deep")
            return None, self.findings
        if not isinstance(document, Mapping):
            self.report(
                "a workload is a document with the keys name, stream and queries",
                "see the example in the README",
            )
            return None, self.findings
        return self.read({"name": stem, **document}, lines)

    def _json(self, text: str) -> tuple[Any, list[int | None]]:
        def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            for name, number in Counter(name for name, _ in pairs).items():
                if number > 1:
                    self._repeated(name, None)
            return dict(pairs)

        return json.loads(text, object_pairs_hook=once), []

    def _yaml(self, text: str) -> tuple[Any, list[int | None]]:
        """The document, and the file's line on which each query in block style begins."""
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        for mapping in _mappings(root):
            seen = set()
            for key, _ in mapping.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    self._repeated(key.value, key.start_mark.line + 1)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return yaml.load(text, Loader=yaml.CSafeLoader), _block_lines(root)

    def _repeated(self, key: str, line: int | None) -> None:
        self.report(
            f"the key {key!r} stands twice in one map", "only one can hold: leave one out", line
        )

    def read(
        self, document: Mapping[str, Any], lines: Iterable[int | None] = ()
    ) -> tuple[Workload | None, list[Diagnostic]]:
        self._known_keys(document, _KEYS, "the workload")
        stream = self._stream(document.get("stream"))
        statistics = self._statistics(document.get("statistics"))
        queries, first_lines = self._queries(document.get("queries"), list(lines))
        name = document.get("name", "workload")
        if not isinstance(name, str):
            self.report(f"the workload's name is {name!r}, not a string")
        if stream is None:
            return None, self.findings
        partial = self._partial_limit(document.get("limits"))
        workload = Workload(str(name), stream, queries, statistics, self.file, first_lines, partial)
        return workload, self.findings

    def _partial_limit(self, document: Any) -> PartialLimit | None:
        if document is None:
            return None
        if not isinstance(document, Mapping):
            self.report("'limits' is not a map", "write partial_matches and a number")
            return None
        self._known_keys(document, ("partial_matches", "on_limit"), "'limits'")
        most, on_limit = document.get("partial_matches"), document.get("on_limit", "stop")
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            self.report(
                f"limits.partial_matches is {most!r}, not a number from 1 on",
                "it is how many partial matches of one key an operator of a query may hold",
            )
            return None
        for known in get_args(OnLimit):
            if on_limit == known:
                return PartialLimit(most, known)
        self.report(f"limits.on_limit is {on_limit!r}", f"write {' or '.join(get_args(OnLimit))}")
        return None

    def _known_keys(self, document: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
        for key in document:
            if key not in keys:
                self.report(
                    f"{where} has no key '{key}'; known are {', '.join(keys)}",
                    did_you_mean(str(key), keys),
                )

    def _stream(self, document: Any) -> Stream | None:
        if not isinstance(document, Mapping):
            self.report("'stream' is missing", "add 'stream: {time: ts, type: kind}'")
            return None
        columns = ("time", "unit", "format", "type", "sequence", "types", "attributes")
        keys = (*columns, "lateness", "delimiter")
        self._known_keys(document, keys, "'stream'")
        for key in ("time", "type", "sequence"):
            value = document.get(key)
            if value is not None and not isinstance(value, str):
                self.report(f"stream.{key} is {value!r}, not the name of a column")
                return None
        if not document.get("time"):
            self.report("stream.time is missing", "name the column that holds an event's time")
            return None
        if not document.get("type") and not document.get("types"):
            self.report(
                "stream has neither 'type' nor 'types'",
                "name the column that holds an event's type, or give types by conditions",
            )
        unit = document.get("unit", "ms")
        if str(unit) not in NANOSECONDS:
            self.report(
                f"stream.unit is {unit!r}; known are {', '.join(NANOSECONDS)}",
                did_you_mean(str(unit), NANOSECONDS),
            )
            unit = "ms"
        return Stream(
            time=document["time"],
            type=document.get("type"),
            unit=unit,
            sequence=document.get("sequence"),
            types=self._types(document.get("types")),
            attributes=self._attributes(document.get("attributes")),
            lateness=self._lateness(document.get("lateness")),
            format=self._format(document.get("format")),
            delimiter=self._delimiter(document.get("delimiter")),
        )

    def _format(self, text: Any) -> str | None:
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
                f"stream.format is {text!r}: {error}", "write it such as '%d/%m/%Y %H:%M:%S'"
            )
        return None

    def _delimiter(self, mark: Any) -> str | None:
        """What is between the columns of a line."""
        if mark is None:
            return None
        named = {"tab": "\t", "\\t": "\t"}.get(str(mark), mark)
        is_mark = isinstance(named, str) and len(named) == 1 and named.isascii()
        if is_mark and named not in '"\r\n\0' and not named.isalnum():
            return str(named)
        self.report(
            f"stream.delimiter is {mark!r}",
            "write one character that is no letter, digit or quote, such as ';' or '|', or tab",
        )
        return None

    def _types(self, document: Any) -> dict[str, ex.Expression | None]:
        if document is None:
            return {}
        if isinstance(document, list) and all(isinstance(t, str) for t in document):
            return dict.fromkeys(document)
        if not isinstance(document, Mapping):
            self.report("stream.types is neither a list of types nor a map of type to condition")
            return {}
        types: dict[str, ex.Expression | None] = {}
        for name, text in document.items():
            if text is None:
                types[str(name)] = None
                continue
            try:
                types[str(name)] = _event_condition(str(text))
            except QueryError as error:
                found = error.diagnostic(str(text), None)
                self.findings.append(
                    replace(found, message=f"type {name}: {found.message}", file=self.file)
                )
        return types

    def _attributes(self, document: Any) -> dict[str, AttributeKind]:
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report("stream.attributes is not a map of column to type")
            return {}
        kinds: dict[str, AttributeKind] = {}
        for name, word in document.items():
            kind = _KINDS.get(str(word).lower())
            if kind is None:
                self.report(
                    f"stream.attributes: {name} has the unknown type {word!r}; known are "
                    "int, float, string, bool, time",
                    did_you_mean(str(word), _KINDS),
                )
            else:
                kinds[str(name)] = kind
        return kinds

    def _lateness(self, value: Any) -> int | None:
        if value is None:
            return None
        words = str(value).split()
        try:
            amount = float(words[0])
            if len(words) == 2 and words[1] in UNITS and amount >= 0 and math.isfinite(amount):
                return round(amount * UNITS[words[1]])
        except (ValueError, IndexError, OverflowError):
            pass
        self.report(f"stream.lateness is {value!r}", "write an amount and a unit, such as 10 s")
        return None

    def _statistics(self, document: Any) -> Statistics:
        if document is None:
            return Statistics()
        if not isinstance(document, Mapping):
            self.report("'statistics' is not a map")
            return Statistics()
        known = (*_NUMBERS, "source", "sample")
        self._known_keys(document, known, "'statistics'")
        rates = self._numbers(document.get("rates"), "rates", lambda v: v >= 0, "at least 0")
        selectivities = self._numbers(
            document.get("selectivities"), "selectivities", lambda v: 0 <= v <= 1, "from 0 to 1"
        )
        shares = {"ties": document["ties"]} if document.get("ties") is not None else {}
        ties = self._numbers(shares, "ties", lambda v: 0 <= v <= 1, "from 0 to 1").get("ties")
        sizes = {k: document[k] for k in ("events", "span") if document.get(k) is not None}
        found = self._numbers(sizes, "events and span", lambda v: v > 0, "above 0")
        if len(sizes) == 1:
            self.report(
                "statistics has only one of events and span",
                "give both: so many events in so many seconds",
            )
        events = int(found["events"]) if "events" in found else None
        keys = self._keys(document.get("keys"))
        return Statistics(rates, selectivities, keys, ties, events, found.get("span"))

    def _keys(self, document: Any) -> dict[str, KeyStatistics]:
        """Partition keys: how many values each has, and the heaviest one's share of the events."""
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report("statistics.keys is not a map of key to its cardinality and heaviest")
            return {}
        keys: dict[str, KeyStatistics] = {}
        for name, given in document.items():
            what = f"keys.{name}"
            self._known_keys(
                given if isinstance(given, Mapping) else {},
                ("cardinality", "heaviest"),
                f"statistics.{what}",
            )
            number = {"cardinality": given} if not isinstance(given, Mapping) else given
            values = self._numbers(
                {k: v for k, v in number.items() if k == "cardinality"},
                what,
                lambda v: v >= 1,
                "at least 1",
            )
            if "cardinality" not in values:
                if "cardinality" not in number:
                    self.report(f"statistics.{what} has no cardinality", "say how many values")
                continue
            even = 1 / values["cardinality"]
            shares = self._numbers(
                {k: v for k, v in number.items() if k == "heaviest"},
                what,
                lambda v: 0 < v <= 1,
                "above 0 and up to 1",
            )
            attributes = ", ".join(part.strip() for part in str(name).split(","))
            heaviest = shares.get("heaviest", even)
            keys[attributes] = KeyStatistics(values["cardinality"], heaviest)
        return keys

    def _numbers(
        self, document: Any, key: str, accept: Callable[[float], bool], range_text: str
    ) -> dict[str, float]:
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report(f"statistics.{key} is not a map of name to number")
            return {}
        numbers: dict[str, float] = {}
        for name, value in document.items():
            number = _finite(value)
            if number is not None and accept(number):
                numbers[str(name)] = number
            else:
                self.report(f"statistics.{key}: {name} is {value!r}, not a number {range_text}")
        return numbers

    def _queries(
        self, document: Any, lines: list[int | None]
    ) -> tuple[tuple[Query, ...], tuple[int | None, ...]]:
        if not isinstance(document, list) or not document:
            self.report("the workload has no queries", "add at least one under 'queries'")
            return (), ()
        if len(document) > MAX_QUERIES:
            self.report(
                f"the workload has {len(document):,} queries; at most {MAX_QUERIES:,} are taken",
                "split it into several workloads",
            )
            return (), ()
        queries: list[Query] = []
        first_lines: list[int | None] = []
        places: dict[str, int] = {}
        for index, text in enumerate(document):
            line = lines[index] if index < len(lines) else None
            if not isinstance(text, str):
                self.report(f"query {index + 1} is {type(text).__name__}, not a text")
                continue
            try:
                query = parse_query(text)
            except QueryError as error:
                name = _probable_name(text) or f"#{index + 1}"
                self.findings.append(in_file(error.diagnostic(text, name), self.file, line))
                continue
            query = query if query.name is not None else replace(query, name=f"q{index + 1}")
            assert query.name is not None
            if query.name in places:
                twice = QueryError(
                    f"query {index + 1} has the name of query {places[query.name]}: {query.name}",
                    query.span,
                    "give each query a name of its own",
                )
                self.findings.append(in_file(twice.diagnostic(text, query.name), self.file, line))
                continue
            places[query.name] = index + 1
            queries.append(query)
            first_lines.append(line)
        return tuple(queries), tuple(first_lines)


def _remedy(error: OSError) -> str:
    """What to do about a file that cannot be opened."""
    if isinstance(error, PermissionError):
        return "allow the user who runs this to read it"
    return "check the path"


def in_file(finding: Diagnostic, file: str | None, first_line: int | None) -> Diagnostic:
    """The finding with its line in the workload's file, where that is known."""
    line = None
    if first_line is not None and finding.line is not None:
        line = first_line + finding.line - 1
    return replace(finding, file=file, file_line=line)


def _event_condition(text: str) -> ex.Expression:
    condition = parse_condition(text)
    for node in ex.walk(condition):
        if isinstance(node, ex.Attribute) and node.alias:
            raise QueryError(
                f"'{node.alias}.{node.name}' in the condition of a type",
                node.span,
                f"it speaks of one event: write '{node.name}'",
            )
        if isinstance(node, (ex.Call, ex.Equivalence)):
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


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """All maps of a document, each once, however often an alias names it."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting += [part for pair in node.value for part in pair]
        else:
            waiting += node.value


def _block_lines(root: yaml.Node | None) -> list[int | None]:
    """The file's line on which each query's text begins, for queries in block style."""
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "queries" and isinstance(value, yaml.SequenceNode):
            return [
                node.start_mark.line + 2
                if isinstance(node, yaml.ScalarNode) and node.style == "|"
                else None
                for node in value.value
            ]
    return []


def _finite(value: Any) -> float | None:
    """A number that a double can hold, or None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
