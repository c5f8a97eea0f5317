"""The text of a document, YAML or JSON, as plain values, and where in the text each of them is.

YAML is built here from the parser's events, without recursion and within `limits`. A workload is
what JSON can hold: keys and dates are texts, and of YAML's tags only those of texts, numbers, truth
values, null, lists and maps are taken.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import yaml

from workloads.errors import Place
from workloads.limits import (
    MAX_DOCUMENT_CHARACTERS,
    MAX_DOCUMENT_DEPTH,
    MAX_DOCUMENT_VALUES,
    MAX_NUMBER_CHARACTERS,
)

Path = tuple[str | int, ...]  # keys of maps and positions in lists, from the top

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_TRUTH = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_TAKEN = "a workload holds texts, numbers, true and false, null, lists and maps"


class DocumentError(Exception):
    """Internal: a text that is no document, on its way to a finding."""

    def __init__(self, message: str, hint: str | None, place: Place | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place


@dataclass(frozen=True)
class Document:
    """A document's values; `places` of its values and `keys`, by their paths, as far as known.

    `repeated` are keys that stand twice in one map, of which the last holds.
    """

    value: Any
    places: Mapping[Path, Place] = field(default_factory=dict)
    keys: Mapping[Path, Place] = field(default_factory=dict)
    repeated: tuple[tuple[str, Place | None], ...] = ()

    def place(self, path: Path, key: bool = False) -> Place | None:
        """Where the value is, or its key, or else the innermost known thing that it would be in."""
        for end in range(len(path), -1, -1):
            here = path[:end]
            found = (key and self.keys.get(here)) or self.places.get(here) or self.keys.get(here)
            if found:
                return found
            key = True  # of what it would be in
        return None


def read_document(text: str, is_json: bool) -> Document:
    """The document; raises `DocumentError`."""
    if len(text) > MAX_DOCUMENT_CHARACTERS:
        raise too_long()
    text = text.removeprefix("\ufeff")
    lines = _Lines(text)
    document = _json(text, lines) if is_json else _yaml(text, lines)
    check_values(document.value, document)
    return document


def too_long() -> DocumentError:
    return DocumentError(
        f"the document is longer than {MAX_DOCUMENT_CHARACTERS:,} characters",
        "split it into several workloads, or check the path: is it a workload?",
    )


def check_values(value: Any, document: Document | None = None) -> None:
    """Refuse what no text could have said, or not within the limits; raises `DocumentError`."""
    known = document or Document(value)
    waiting: list[tuple[Any, Path]] = [(value, ())]
    seen = 0
    while waiting:
        inner, path = waiting.pop()
        if len(path) > MAX_DOCUMENT_DEPTH:
            raise _too_deep(known.place(path))
        seen += 1
        if seen > MAX_DOCUMENT_VALUES:
            raise _too_many(known.place(path))
        if isinstance(inner, Mapping):
            for key, part in inner.items():
                _check_scalar(key, path, known)
                waiting.append((part, (*path, key)))
        elif isinstance(inner, (list, tuple)):
            waiting += [(part, (*path, number)) for number, part in enumerate(inner)]
        else:
            _check_scalar(inner, path, known)


def _check_scalar(value: Any, path: Path, document: Document) -> None:
    if isinstance(value, str):
        found = _SURROGATE.search(value)
        if found is not None:
            where = ".".join(str(part)[:40] for part in path) or "the document"
            raise DocumentError(
                f"{where} has half a character: the surrogate {found.group()!r} alone",
                "write the character itself, in UTF-8",
                document.place(path),
            )
    elif isinstance(value, int) and value.bit_length() > 4 * MAX_NUMBER_CHARACTERS:
        raise _long_number(document.place(path))


def _too_deep(place: Place | None) -> DocumentError:
    return DocumentError(
        f"lists and maps are nested deeper than {MAX_DOCUMENT_DEPTH} levels",
        "a workload needs four: write it flat",
        place,
    )


def _too_many(place: Place | None) -> DocumentError:
    return DocumentError(
        f"the document has more than {MAX_DOCUMENT_VALUES:,} values, each alias of YAML counted as "
        "all that it stands for",
        "split it into several workloads, or write fewer aliases (*name)",
        place,
    )


def _long_number(place: Place | None) -> DocumentError:
    return DocumentError(
        f"a number of more than {MAX_NUMBER_CHARACTERS:,} characters",
        "write a shorter one, such as 1.5e+300, or put it in quotes if it is a text",
        place,
    )


class _Lines:
    """The lines of a text, and places in them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] | None = None

    def at(self, line: int, column: int, width: int = 1, literal: bool = False) -> Place:
        """The place at a line and a column that count from 0."""
        starts = self._found()
        line = min(line, len(starts) - 1)
        start = starts[line]
        end = starts[line + 1] if line + 1 < len(starts) else len(self._text)
        source = self._text[start:end].rstrip("\r\n\x85\u2028\u2029")
        return Place(line + 1, column + 1, max(1, width), source, literal)

    def at_offset(self, offset: int, width: int = 1) -> Place:
        starts = self._found()
        line = bisect_right(starts, offset) - 1
        return self.at(line, offset - starts[line], width)

    def _found(self) -> list[int]:
        if self._starts is None:
            self._starts = [0, *(found.end() for found in _BREAK.finditer(self._text))]
        return self._starts


# --- JSON --------------------------------------------------------------------------------------


def _json(text: str, lines: _Lines) -> Document:
    _check_json_depth(text, lines)
    names: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names.extend(name for name, many in Counter(n for n, _ in pairs).items() if many > 1)
        return dict(pairs)

    def whole(digits: str) -> int:
        if len(digits) > MAX_NUMBER_CHARACTERS:
            raise _long_number(lines.at_offset(text.find(digits)))
        return int(digits)

    try:
        value = json.loads(text, object_pairs_hook=once, parse_int=whole)
    except json.JSONDecodeError as error:
        place = lines.at_offset(error.pos)
        hint = "for YAML, let the file's name end in .yaml"
        raise DocumentError(f"not valid JSON: {error.msg}", hint, place) from None
    try:
        # Nearly all JSON is YAML, whose parser says where things are.
        placed = _yaml(text, lines)
    except DocumentError:
        return Document(value, repeated=tuple((name, None) for name in names))
    repeated = placed.repeated if len(placed.repeated) == len(names) else ()
    return Document(
        value, placed.places, placed.keys, repeated or tuple((name, None) for name in names)
    )


def _check_json_depth(text: str, lines: _Lines) -> None:
    """Refuse deep nesting before the parser recurses into it."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', text, re.DOTALL):
        if found.group() in ("[", "{"):
            depth += 1
            if depth > MAX_DOCUMENT_DEPTH:
                raise _too_deep(lines.at_offset(found.start()))
        elif found.group() in ("]", "}"):
            depth -= 1


# --- YAML --------------------------------------------------------------------------------------


def _yaml(text: str, lines: _Lines) -> Document:
    odd = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if odd is not None:
        raise DocumentError(
            f"not valid YAML: the character U+{ord(odd.group()):04X} may not stand in it",
            'leave it out, or write it as an escape in double quotes, such as "\\x1b"',
            lines.at_offset(odd.start()),
        )
    builder = _Builder(lines)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.YAMLError as error:
        raise _not_yaml(error, lines) from None
    return Document(builder.value, builder.places, builder.keys, tuple(builder.repeated))


def _not_yaml(error: yaml.YAMLError, lines: _Lines) -> DocumentError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it does not parse"
    if mark is None:
        return DocumentError(f"not valid YAML: {problem}", "see docs/language.md")
    place = lines.at(mark.line, mark.column)
    before = place.source[: place.column]
    if "\t" in before and not before.strip():
        tab = lines.at(mark.line, before.index("\t"))
        return DocumentError(
            "not valid YAML: a tab at the beginning of a line", "indent with spaces", tab
        )
    hint = "check the indentation and the quotes here and in the line before"
    if problem.startswith("mapping values are not allowed"):
        hint = "a text with ': ' in it needs quotes; else check the indentation"
    elif "cannot start any token" in problem:
        hint = (
            f"a text that begins with {place.source[place.column - 1 : place.column]} needs quotes"
        )
    return DocumentError(f"not valid YAML: {problem}", hint, place)


@dataclass(slots=True)
class _Open:
    """A list or map whose end has not come."""

    value: Any
    path: Path
    anchor: str | None
    key: str | None = None  # of a map, the key whose value comes next
    merging: bool = False  # the next value is that of `<<`
    merged: list[Mapping[str, Any]] = field(default_factory=list)
    before: int = 0  # values of the document before this one

    @property
    def next_path(self) -> Path:
        if isinstance(self.value, list):
            return (*self.path, len(self.value))
        return (*self.path, "<<" if self.merging else self.key or "")

    @property
    def wants_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None and not self.merging


class _Builder:
    """Builds the value of a document from the parser's events."""

    def __init__(self, lines: _Lines) -> None:
        self.value: Any = None
        self.places: dict[Path, Place] = {}
        self.keys: dict[Path, Place] = {}
        self.repeated: list[tuple[str, Place | None]] = []
        self._lines = lines
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # with how many values each stands for
        self._values = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._refuse(event, "a second document begins here", "leave '---' out")
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.SequenceStartEvent():
                self._begin(event, [])
            case yaml.MappingStartEvent():
                self._begin(event, {})
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end(event)
            case _:
                pass

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        inside = self._open[-1] if self._open else None
        if inside is not None and inside.wants_key:
            self._key(event, inside)
            return
        self._place(event)
        self._count(event, 1)
        value = self._scalar_value(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._put(event, value)

    def _key(self, event: yaml.ScalarEvent, inside: _Open) -> None:
        if event.implicit[0] and event.value == "<<":
            inside.merging = True
            return
        inside.key = event.value
        place = self._place_of(event)
        if event.value in inside.value:
            self.repeated.append((event.value, place))
        self.keys[*inside.path, event.value] = place

    def _alias(self, event: yaml.AliasEvent) -> None:
        self._refuse_key(event)
        if event.anchor not in self._anchors:
            inside = any(part.anchor == event.anchor for part in self._open)
            self._refuse(
                event,
                f"not valid YAML: *{event.anchor} "
                + ("stands inside of what it names" if inside else "has no anchor before it"),
                "write out what it stands for, or put it in quotes if it is a text",
            )
        value, size = self._anchors[event.anchor]
        self._place(event)
        self._count(event, size)
        self._put(event, value)

    def _begin(self, event: yaml.CollectionStartEvent, value: Any) -> None:
        if len(self._open) >= MAX_DOCUMENT_DEPTH:
            raise _too_deep(self._place_of(event))
        self._refuse_key(event)
        usual = _TAG + ("seq" if isinstance(value, list) else "map")
        if event.tag is not None and event.tag not in ("!", usual):
            self._refuse_tag(event)
        self._place(event)
        path = self._open[-1].next_path if self._open else ()
        self._open.append(_Open(value, path, event.anchor, before=self._values))
        self._count(event, 1)

    def _end(self, event: yaml.CollectionEndEvent) -> None:
        ended = self._open.pop()
        if ended.merged:
            merged: dict[str, Any] = {}
            for further in reversed(ended.merged):
                merged.update(further)
            own = dict(ended.value)
            ended.value.clear()
            ended.value.update({**merged, **own})
        if ended.anchor is not None:
            self._anchors[ended.anchor] = (ended.value, self._values - ended.before)
        self._put(event, ended.value)

    def _put(self, event: yaml.Event, value: Any) -> None:
        if not self._open:
            self.value = value
            return
        inside = self._open[-1]
        if isinstance(inside.value, list):
            inside.value.append(value)
        elif inside.merging:
            maps = value if isinstance(value, list) else [value]
            if not all(isinstance(part, dict) for part in maps):
                self._refuse(
                    event, "'<<' takes a map or a list of maps", "such as '<<: *name', or quote it"
                )
            inside.merged += maps
            inside.merging = False
        else:
            assert inside.key is not None
            inside.value[inside.key] = value
            inside.key = None

    def _scalar_value(self, event: yaml.ScalarEvent) -> Any:
        tag, text = event.tag, event.value
        if tag is None and event.implicit[0]:
            tag = _implicit_tag(text)
            if tag in (_TAG + "timestamp", _TAG + "merge", _TAG + "value"):
                return text
        if tag in (None, "!", _TAG + "str"):
            return text
        kind = str(tag).removeprefix(_TAG)
        if kind in ("int", "float") and len(text) > MAX_NUMBER_CHARACTERS:
            raise _long_number(self._place_of(event))
        read = _READ.get(kind)
        if read is None:
            self._refuse_tag(event)
        try:
            return read(text)
        except (ValueError, LookupError):
            self._refuse(event, f"not valid YAML: {text[:40]!r} is no {kind}", "put it in quotes")

    def _count(self, event: yaml.Event, values: int) -> None:
        self._values += values
        if self._values > MAX_DOCUMENT_VALUES:
            raise _too_many(self._place_of(event))

    def _place(self, event: yaml.Event) -> None:
        path = self._open[-1].next_path if self._open else ()
        self.places[path] = self._place_of(event)

    def _place_of(self, event: yaml.Event) -> Place:
        start: Any = event.start_mark
        end: Any = event.end_mark
        style = getattr(event, "style", None)
        width = end.column - start.column if end.line == start.line else 10**9
        if style in ("|", ">"):
            return self._lines.at(start.line + 1, 0, 1, style == "|")
        place = self._lines.at(start.line, start.column, width)
        return replace(place, width=max(1, min(width, len(place.source) - start.column)))

    def _refuse_key(self, event: yaml.Event) -> None:
        if self._open and self._open[-1].wants_key:
            self._refuse(event, "a key of a map is no text", "write a name before the ':'")

    def _refuse_tag(self, event: yaml.Event) -> NoReturn:
        tag = str(getattr(event, "tag", "")).replace(_TAG, "!!")
        self._refuse(event, f"the tag {tag[:60]!r} is not taken", f"leave it out: {_TAKEN}")

    def _refuse(self, event: yaml.Event, message: str, hint: str) -> NoReturn:
        raise DocumentError(message, hint, self._place_of(event))


def _implicit_tag(text: str) -> str:
    """What a scalar without quotes is taken for, by YAML 1.1."""
    resolver: Any = _RESOLVER  # its methods have no types
    return str(resolver.resolve(yaml.ScalarNode, text, (True, False)))


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


def _null(text: str) -> None:
    if text not in _NULLS:
        raise ValueError(text)


def _whole(text: str) -> int:
    return int(_CONSTRUCTOR.construct_yaml_int(yaml.ScalarNode(_TAG + "int", text)))


def _real(text: str) -> float:
    return float(_CONSTRUCTOR.construct_yaml_float(yaml.ScalarNode(_TAG + "float", text)))


_RESOLVER = yaml.resolver.Resolver()
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_READ: dict[str, Callable[[str], Any]] = {
    "int": _whole,
    "float": _real,
    "bool": _truth,
    "null": _null,
}
