"""The text of a workload as an editor has it: what is in it, and where.

Places are offsets of characters in the text. A query may stand in it in any style of YAML; its
characters are found again by going through both texts together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from engines.input.batches import FileSource
from engines.input.event_table import Faults
from optimizer.bind.binder import bind
from workloads.document import Document, DocumentError, read_document
from workloads.errors import Diagnostic, Place, SheafError, WorkloadError
from workloads.loading import parse_document
from workloads.notations import NOTATIONS
from workloads.workload import AttributeKind, Stream, Workload

_PLAIN = re.compile(r"\s+")
_SPACE = re.compile(r"(\s|\\[nrt \n])+")  # in double quotes


@dataclass(frozen=True)
class Finding:
    """What is wrong with characters of the text, and what to do about it."""

    start: int
    end: int
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class QueryText:
    """A query's text, and the characters of the document from its first to its last."""

    number: int  # among the others, from 0 on
    text: str
    start: int
    end: int
    notation: str | None = None
    is_literal: bool = False
    quote: str = ""

    def offset(self, document: str, within: int) -> int | None:
        """Where a character of the query is in the document; None where that cannot be told."""
        return _aligned(document, self.start, self.text, within, self.quote)


@dataclass(frozen=True)
class WorkloadText:
    """A workload's text; `file` is its path, by which it finds the files of its rules.

    It is checked against the columns of `events`, where their path is given.
    """

    text: str
    file: str | None = None
    events: str | None = None

    @cached_property
    def document(self) -> Document | None:
        """Its values with their places, unless it is no YAML."""
        try:
            return read_document(self.text, is_json=False)
        except DocumentError:
            return None

    @cached_property
    def loaded(self) -> tuple[Workload | None, tuple[Diagnostic, ...]]:
        """What can be read of it, and everything that is wrong."""
        workload, found = parse_document(self.text, self.file)
        if workload is not None:
            try:
                bind(workload, self._columns_of(workload) or None, found)
            except WorkloadError as error:
                found = list(error.diagnostics)
        return workload, tuple(found)

    @property
    def columns(self) -> Mapping[str, AttributeKind]:
        """The columns of the events, and what they hold, as far as they are known."""
        workload, _ = self.loaded
        return {} if workload is None else self._columns_of(workload)

    def _columns_of(self, workload: Workload) -> dict[str, AttributeKind]:
        if self.events is None:
            return {}
        return _columns(self.events, workload.stream.time, workload.stream.delimiter)

    @cached_property
    def queries(self) -> tuple[QueryText, ...]:
        return tuple(self._queries())

    @property
    def findings(self) -> list[Finding]:
        """Everything that is wrong, at its place."""
        return [self._finding(found) for found in self.loaded[1]]

    def values(self, *path: str) -> Mapping[str, Any]:
        """The map at a path of the document, or an empty one."""
        value = None if self.document is None else self.document.value
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def query_at(self, offset: int) -> QueryText | None:
        """The query that a place is in, or whose last line it could go on."""
        best = None
        for query in self.queries:
            if query.start <= offset:
                best = query
        if best is None or not self._goes_on(best, offset):
            return None
        return best

    def _goes_on(self, query: QueryText, offset: int) -> bool:
        if offset <= query.end:
            return True
        between = self.text[query.end : offset]
        if "\n" not in between:
            return not between.strip()
        # A line below a block is part of it as long as it is indented as the block is.
        own = self.text.rfind("\n", 0, query.start) + 1
        depth = query.start - own if query.is_literal else 10**9
        begun = between.rpartition("\n")[2]
        return query.is_literal and not between.strip() and len(begun) >= depth

    def _queries(self) -> Iterator[QueryText]:
        listed = None if self.document is None else self.document.value
        listed = listed.get("queries") if isinstance(listed, Mapping) else None
        if self.document is None or not isinstance(listed, list):
            return
        for number, query in enumerate(listed):
            path: tuple[str | int, ...] = ("queries", number)
            notation = None
            if isinstance(query, Mapping):
                notation = next((name for name in NOTATIONS if name in query), None)
                if notation is None or not isinstance(query[notation], str):
                    continue
                path, query = (*path, notation), query[notation]
            place = self.document.places.get(path)
            if isinstance(query, str) and place is not None:
                yield self._placed(number, query, place, notation)

    def _placed(self, number: int, query: str, place: Place, notation: str | None) -> QueryText:
        start = self._offset(place.line, place.column)
        is_block = place.literal or place.column == 1
        line_end = self._line_end(start)
        quote = "" if is_block else self.text[start : start + 1]
        quote = quote if quote in ("'", '"') else ""
        start += len(quote)
        length = len(query.rstrip())
        last = _aligned(self.text, start, query, length - 1, quote) if length else None
        if is_block:
            start += len(self.text[start:]) - len(self.text[start:].lstrip(" "))
        end = line_end if last is None else last + 1
        end = max(start, end)
        return QueryText(number, query, start, end, notation, place.literal, quote)

    def _finding(self, found: Diagnostic) -> Finding:
        query = None
        if found.query is not None and found.file_line is not None:  # not from a file of rules
            query = next((q for q in self.queries if q.number == found.query_number - 1), None)
        if query is not None and found.line is not None:
            lines = query.text.split("\n")[: found.line - 1]
            within = sum(len(line) + 1 for line in lines) + (found.column or 1) - 1
            start = query.offset(self.text, within)
            if start is not None:
                last = query.offset(self.text, within + found.width - 1)
                end = start + 1 if last is None else last + 1
                return Finding(start, end, found.message, found.hint)
        if query is not None:
            end = min(query.end, self._line_end(query.start))
            return Finding(query.start, end, found.message, found.hint)
        return self._at_line(found)

    def _at_line(self, found: Diagnostic) -> Finding:
        """A finding about the document itself, or about a file that it names."""
        if found.file_line is None:
            place = None if self.document is None else self.document.place(("rules",), key=True)
            start = 0 if place is None else self._offset(place.line, place.column)
        else:
            start = self._offset(found.file_line, found.column or 1)
        end = self._line_end(start)
        if found.line == found.file_line and found.line is not None:
            end = min(end, start + found.width)
        return Finding(start, max(start, end), found.message, found.hint)

    def _offset(self, line: int, column: int) -> int:
        """The offset of a line and a column that count from 1."""
        start = 0
        for _ in range(line - 1):
            start = self.text.find("\n", start) + 1
            if not start:
                return len(self.text)
        return min(start + column - 1, len(self.text))

    def _line_end(self, start: int) -> int:
        end = self.text.find("\n", start)
        return len(self.text) if end < 0 else end


@lru_cache(16)
def _columns(events: str, time: str, delimiter: str | None) -> dict[str, AttributeKind]:
    """The columns of events, and what they hold; none where they cannot be read."""
    try:
        source = FileSource(events, Stream(time, delimiter=delimiter), Faults("skip"))
    except (SheafError, OSError):
        return {}
    return source.kinds or {}


def _aligned(document: str, start: int, query: str, within: int, quote: str) -> int | None:
    """Where character `within` of a query is in a document that has the query from `start` on.

    White space may differ, and in `quote`s they are doubled or escaped.
    """
    place = start
    for number, character in enumerate(query[: within + 1]):
        if character.isspace():
            continue
        if space := (_SPACE if quote == '"' else _PLAIN).match(document, place):
            place = space.end()
        if (quote == "'" and character == "'") or (
            quote == '"' and document[place : place + 1] == "\\"
        ):
            place += 1
        if document[place : place + 1] != character:
            return None
        if number == within:
            return place
        place += 1
    return place
