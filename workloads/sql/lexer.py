"""The words of a SQL text, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workloads.errors import QueryError, Span

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
  | (?P<word>[^\W\d]\w*)
  | (?P<mark>\{-|-\}|<>|!=|<=|>=|\|\||::|->|[-+*/%=<>(){}\[\],.;|?^$:@])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted name, a string, a number or a mark; `text` is without quotes."""

    kind: str  # word, quoted, string, number, mark or end
    text: str
    span: Span

    @property
    def upper(self) -> str:
        """The word as keywords are compared; empty for anything else."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


def tokens(text: str) -> list[Token]:
    """The tokens of a text, and one for its end."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            hint = "a string ends with a single quote, a name with a double one"
            raise QueryError(
                f"unexpected character {text[at]!r}",
                Span(at, at + 1),
                hint if text[at] in "'\"`" else None,
            )
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, _inner(kind, match.group()), Span(at, match.end())))
        at = match.end()
    end = len(text.rstrip())
    found.append(Token("end", "", Span(end, end + 1)))
    return found


def _inner(kind: str, text: str) -> str:
    if kind in ("string", "quoted"):
        quote = text[0]
        return text[1:-1].replace(quote * 2, quote)
    return text


def statements(text: str) -> list[str]:
    """The statements of a text, which `;` separates."""
    found: list[str] = []
    begin: int | None = None
    end = 0
    for token in tokens(text):
        if token.kind == "end" or (token.kind == "mark" and token.text == ";"):
            if begin is not None:
                found.append(text[begin:end])
            begin = None
        else:
            begin = token.span.start if begin is None else begin
            end = token.span.end
    return found
