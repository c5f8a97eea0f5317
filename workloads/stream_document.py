"""What a workload says of its stream or streams, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from workloads import document as doc
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import Diagnostic, QueryError, did_you_mean, shown
from workloads.imported_rules import ImportedRules
from workloads.notations import is_only_sql, speaks_of_any
from workloads.parser import parse_condition
from workloads.rule_files import RuleSetting
from workloads.sources import SEQUENCE, TIME, TYPE, joined
from workloads.statistics_document import StatisticsReader
from workloads.syntax import UNITS, Query
from workloads.time_format import DIRECTIVES, TimeFormatError, time_format
from workloads.workload import (
    NANOSECONDS,
    AttributeKind,
    DefinedSituation,
    MissingColumns,
    Source,
    Stream,
)

QUOTE = "a text that looks like a number, a truth value or null needs quotes"
_KINDS: dict[str, AttributeKind] = {
    **dict.fromkeys(("int", "integer", "long", "bigint"), "int"),
    **dict.fromkeys(("float", "double", "number", "real"), "float"),
    **dict.fromkeys(("string", "str", "text"), "string"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **dict.fromkeys(("time", "timestamp", "date"), "time"),
}
_STREAM_KEYS = (
    *("time", "unit", "format", "type", "sequence", "types", "attributes"),
    *("lateness", "delimiter", "missing_columns", "situations"),
)


class StreamReader(StatisticsReader):
    """Reads `stream`, or `streams`."""

    def stream_of(self, whole: Mapping[str, Any], imported: list[ImportedRules]) -> Stream | None:
        """The stream of a workload; None where there is none to be had."""
        if whole.get("streams") is not None:
            return self._joined(whole, imported)
        document, at = whole.get("stream"), ("stream",)
        if not isinstance(document, Mapping):
            if not misspelled("stream", whole, ("stream",)):
                wrong = "is missing" if document is None else f"is {shown(document)}, not a map"
                self.report(f"'stream' {wrong}", "add 'stream: {time: ts, type: kind}'", at)
            return None
        self.known_keys(document, _STREAM_KEYS, "'stream'", at)
        stream = self._stream(document, at, bool(imported))
        if stream is None:
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
        return replace(stream, types=self._with_rules(dict(stream.types), imported))

    def _joined(self, whole: Mapping[str, Any], imported: list[ImportedRules]) -> Stream | None:
        """The stream that the sources under `streams` make together."""
        document, at = whole["streams"], ("streams",)
        hint = "write 'streams: {orders: {time: ts, type: kind}, payments: {time: paid_at}}'"
        if whole.get("stream") is not None:
            self.report(
                "the workload has both 'stream' and 'streams'",
                "name the one stream under 'streams' too, or leave one of them out",
                at,
                key=True,
            )
            return None
        if not isinstance(document, Mapping) or not document:
            self.report("'streams' is no map of names to streams", hint, at)
            return None
        sources: dict[str, Source] = {}
        for name, given in document.items():
            here = (*at, str(name))
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name)) or str(name).upper() == "ANY":
                self.report(
                    f"the source {shown(name)} has a name that queries cannot write",
                    "begin with a letter, then letters, digits and '_'; ANY is taken",
                    here,
                    key=True,
                )
            elif not isinstance(given, Mapping):
                self.report(f"streams.{name} is {shown(given)}, not a map", hint, here)
            else:
                self.known_keys(given, (*_STREAM_KEYS, "rename"), f"'streams.{name}'", here)
                stream = self._stream(given, here, bool(imported))
                if stream is not None:
                    sources[str(name)] = Source(stream, self._rename(given.get("rename"), here))
        if len(sources) < len(document):
            return None
        stream, clashes = joined(sources)
        for clash in clashes:
            self.report(clash.message, clash.hint, clash.at, key=True)
        return replace(stream, types=self._with_rules(dict(stream.types), imported))

    def _rename(self, document: Any, at: doc.Path) -> dict[str, str]:
        if document is None:
            return {}
        if isinstance(document, Mapping) and all(
            isinstance(new, str) and new for new in document.values()
        ):
            return {str(own): str(new) for own, new in document.items()}
        self.report(
            f"{_said(at)}.rename is no map of columns to names",
            "write 'rename: {cust: customer}': the column first, then what queries call it",
            (*at, "rename"),
        )
        return {}

    def _stream(self, document: Mapping[str, Any], at: doc.Path, imported: bool) -> Stream | None:
        said = _said(at)
        for key in ("time", "type", "sequence"):
            value = document.get(key)
            if value is not None and not isinstance(value, str):
                self.report(
                    f"{said}.{key} is {shown(value)}, not the name of a column",
                    QUOTE,
                    (*at, key),
                )
                return None
        if not document.get("time"):
            self.report(
                f"{said}.time is missing", "name the column that holds an event's time", at, True
            )
            return None
        unit = document.get("unit", "ms")
        if str(unit) not in NANOSECONDS:
            self.report(
                f"{said}.unit is {shown(unit)}; known are {', '.join(NANOSECONDS)}",
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
            types=self._types(document.get("types"), (*at, "types")),
            attributes=self._attributes(document.get("attributes"), (*at, "attributes")),
            lateness=self._length(document.get("lateness"), (*at, "lateness")),
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
                f"{_said(at)} is {shown(text)}: {error}",
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
                f"{_said(at)} is {shown(word)}",
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
            f"{_said(at)} is {shown(mark)}",
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
                f"{_said(at)} is neither a list of types nor a map of type to condition",
                f"write '[A, B]' or '{{A: \"x > 5\"}}'; {QUOTE}",
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
            self.report(f"{_said(at)} is no map of names to definitions", hint, at)
            return {}
        found: dict[str, DefinedSituation] = {}
        for name, given in document.items():
            here = (*at, name)
            about = {"when": given} if isinstance(given, str) else given
            if not isinstance(about, Mapping) or not isinstance(about.get("when"), str):
                self.report(f"{_said(here)} has no condition 'when'", hint, here)
                continue
            self.known_keys(about, ("of", "when", "gap"), f"situation {shown(name)}", here)
            of = about.get("of")
            if of is not None and not isinstance(of, str):
                self.report(f"situation {shown(name)} is of {shown(of)}, no type", hint, here)
                of = None
            place = (*here, "when") if about is given else here
            condition = self._condition(about["when"], f"situation {shown(name)}", place)
            gap = self._length(about.get("gap"), (*here, "gap"))
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
                f"{_said(at)} is not a map of column to type", "such as '{price: float}'", at
            )
            return {}
        kinds: dict[str, AttributeKind] = {}
        for name, word in document.items():
            kind = _KINDS.get(str(word).lower())
            if kind is None:
                self.report(
                    f"{_said(at)}: {shown(name)} has the unknown type {shown(word)}; known "
                    "are int, float, string, bool, time",
                    did_you_mean(str(word), _KINDS) or "write one of these",
                    (*at, name),
                )
            else:
                kinds[str(name)] = kind
        return kinds

    def _length(self, value: Any, at: doc.Path) -> int | None:
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
            f"{_said(at)} is {shown(value)}", "write an amount and a unit, such as 10 s", at
        )
        return None


def rule_setting(whole: Mapping[str, Any], folder: Path | None) -> RuleSetting:
    """What rules are read with: the columns that events have for their time, type and sequence."""
    streams, stream = whole.get("streams"), whole.get("stream")
    if isinstance(streams, Mapping):
        each = [given for given in streams.values() if isinstance(given, Mapping)]
        is_ordered = all(given.get("sequence") for given in each)
        typed = any(given.get("type") for given in each)
        return RuleSetting(folder, SEQUENCE if is_ordered else None, TIME, TYPE if typed else None)
    of = stream if isinstance(stream, Mapping) else {}
    names = [of.get(key) for key in ("sequence", "time", "type")]
    sequence, time, type_ = (name if isinstance(name, str) else None for name in names)
    return RuleSetting(folder, sequence, time or "time", type_)


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


def _said(at: doc.Path) -> str:
    """A place as people write it: `streams.orders.unit`."""
    return ".".join(map(str, at))


def misspelled(key: str, document: Mapping[str, Any], known: Iterable[str]) -> bool:
    """Is the key missing because another spelling of it is there, which has its own finding?"""
    meant = f"'{key}'"
    return document.get(key) is None and any(
        meant in (did_you_mean(str(other), known) or "") for other in document if other not in known
    )


# --- the words of queries, by which fields are looked for that most events do not have ---

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_PATH = re.compile(r"[\w@$-]+(?:\.[\w@$-]+)*")


def with_words(stream: Stream, queries: Iterable[Query]) -> Stream:
    """The stream, and each of its sources, with the words of the queries over it."""
    queries = list(queries)
    if any(map(_returns_events, queries)):
        return _told(stream, None)
    found = {word for query in queries for word in _words(query.text)}
    for condition in stream.types.values():
        if condition is None:
            continue
        names = (node.name for node in ex.walk(condition) if isinstance(node, ex.Attribute))
        found |= {word for name in names for word in (name, *name.split("."))}
    return _told(stream, frozenset(found))


def _told(stream: Stream, words: frozenset[str] | None) -> Stream:
    sources = {
        name: replace(
            source,
            stream=_told(source.stream, None if words is None else words | source.rename.keys()),
        )
        for name, source in stream.sources.items()
    }
    return replace(stream, words=words, sources=sources)


def _returns_events(query: Query) -> bool:
    output = query.output
    if not isinstance(output, sx.Return):
        return False
    return any(not isinstance(i.value, ex.Attribute | ex.Literal) for i in output.items)


def _words(text: str) -> Iterator[str]:
    for quoted in _QUOTED.findall(text):
        yield quoted.replace('""', '"')
    for path in _PATH.findall(text):
        steps = path.split(".")
        yield from steps
        yield path
        yield ".".join(steps[1:])
