"""What goes wrong with a workload, said so that its author can mend it.

SheafError
├── WorkloadError      one or more diagnostics, all of them at once
├── NoQueryError       a name that no query has
└── UnsupportedError   a construct that the chosen engine cannot do
    └── TooLargeError  input beyond what an engine takes on
(engines and api add their own below SheafError)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any


class SheafError(Exception):
    """Any error whose message is meant for the user."""


class NoQueryError(SheafError, KeyError):
    """A name that none of the queries there are has."""

    __str__ = SheafError.__str__

    def __init__(self, name: str, known: Iterable[str]) -> None:
        hint = did_you_mean(name, known)
        super().__init__(f"there is no query '{name}'" + (f"; {hint}" if hint else ""))


class UnsupportedError(SheafError):
    """A query asks for something that the chosen engine does not do."""


class TooLargeError(UnsupportedError):
    """The input is beyond what the chosen engine takes on."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character offsets in a query's text."""

    start: int
    end: int


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a document's text; lines and columns count from 1.

    `literal`: a text in block style (`|`), whose lines are those of the document from `line` on.
    """

    line: int
    column: int = 1
    width: int = 1
    source: str = ""
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: what is wrong, where, and what to do about it.

    `line` and `column` are those in the query's text, and where there is no query those in the
    document; `query_number` is the place of the query among the others, from 1 on.
    """

    message: str
    hint: str | None = None
    query: str | None = None
    line: int | None = None
    column: int | None = None
    width: int = 1
    source: str | None = None
    file: str | None = None
    file_line: int | None = None
    query_number: int = 0

    def located(self, text: str, span: Span, query: str | None) -> Diagnostic:
        """The same finding with line, column and source line taken from `text`."""
        start = min(span.start, len(text))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        if line_end < 0:
            line_end = len(text)
        return replace(
            self,
            query=query,
            line=text.count("\n", 0, start) + 1,
            column=start - line_start + 1,
            width=max(1, min(span.end, line_end) - start),
            source=text[line_start:line_end],
        )

    def render(self) -> str:
        """The finding as people read it: message, place, line with caret, remedy."""
        lines = [f"error: {self.message}"]
        place = []
        in_document = self.query is None and self.file_line is not None
        if self.file is not None:
            place.append(self.file if self.file_line is None else f"{self.file}:{self.file_line}")
        if self.query is not None:
            place.append(f"query {self.query}")
        if in_document and self.file is not None and self.column is not None:
            place.append(f"column {self.column}")
        elif self.line is not None:
            place.append(f"line {self.line}, column {self.column}")
        if place:
            lines.append("  --> " + ", ".join(place))
        if self.source is not None and self.line is not None and self.column is not None:
            lines += _excerpt(self.source, self.line, self.column, self.width)
        if self.hint is not None:
            lines.append(f"  help: {self.hint}")
        return "\n".join(map(_printable, lines))


def _printable(line: str) -> str:
    """The line without characters that a terminal or an encoder would act on."""
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


_EXCERPT_WIDTH = 100


def _excerpt(source: str, line: int, column: int, width: int) -> list[str]:
    """The source line with a caret under the place, cut to a readable width."""
    start = max(0, column - 1 - _EXCERPT_WIDTH // 2) if len(source) > _EXCERPT_WIDTH else 0
    shown = source[start : start + _EXCERPT_WIDTH].replace("\t", " ")
    offset = column - 1 - start
    carets = "^" * max(1, min(width, len(shown) - offset))
    number = str(line)
    return [f"  {number} | {shown}", f"  {' ' * len(number)} | {' ' * offset}{carets}"]


class WorkloadError(SheafError):
    """A workload that cannot be used; carries every finding, in the order of their places."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=_order))
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[type[WorkloadError], tuple[tuple[Diagnostic, ...]]]:
        return WorkloadError, (self.diagnostics,)


def _order(found: Diagnostic) -> tuple[int, int, int, int]:
    return found.file_line or 0, found.query_number, found.line or 0, found.column or 0


class QueryError(Exception):
    """Internal: one finding at a place in a query, on its way to a `WorkloadError`."""

    def __init__(self, message: str, span: Span = NOWHERE, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def diagnostic(self, text: str, query: str | None, number: int = 0) -> Diagnostic:
        found = Diagnostic(self.message, self.hint, query_number=number)
        return found.located(text, self.span, query)


_MAX_COMPARED_CHARACTERS, _MAX_COMPARED = 100, 2_000


def did_you_mean(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """A hint naming the closest known word, if one is close enough to be a slip.

    Words that are too long for comparing are left out, and so are those that would be too many.
    """
    if len(name) > _MAX_COMPARED_CHARACTERS:
        return None
    close_in_length = (k for k in known if abs(len(k) - len(name)) <= max(2, len(name) // 2))
    by_lower = {k.lower(): k for k in islice(close_in_length, _MAX_COMPARED)}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=alike)
    return f"did you mean '{by_lower[close[0]]}'?" if close else None


def in_file(finding: Diagnostic, file: str | None, place: Place | None) -> Diagnostic:
    """The finding about a query with its line in the workload's file, where that is known.

    Of a text in quotes, or folded, it is the line on which the query begins.
    """
    if place is None or finding.line is None:
        return replace(finding, file=file)
    line = place.line + finding.line - 1 if place.literal else place.line
    return replace(finding, file=file, file_line=line)


def at_place(finding: Diagnostic, file: str | None, place: Place | None) -> Diagnostic:
    """The finding about something in a document, with its place where that is known."""
    if place is None:
        return replace(finding, file=file)
    return replace(
        finding,
        file=file,
        line=place.line,
        column=place.column,
        width=place.width,
        source=place.source,
        file_line=place.line,
    )


def shown(value: Any) -> str:
    """A value as an error message has it: in quotes where it is a text, and not too long."""
    return short(repr(value))


def short(text: str) -> str:
    """The text, cut where it is too long for a message."""
    return text if len(text) <= 60 else text[:57] + "..."


def opening_remedy(error: OSError) -> str:
    """What to do about a file that cannot be opened."""
    if isinstance(error, PermissionError):
        return "allow the user who runs this to read it"
    return "check the path"
