"""What people of other languages write, and how it is written here."""

from __future__ import annotations

import re

from workloads.errors import QueryError, Span

_ARROW = re.compile(r"->>?|=>|~>|→|⇒")
_GROUP_BY = re.compile(r"GROUP\s+BY\b", re.IGNORECASE)
_BEFORE = re.compile(r"([A-Za-z_]\w*)\s*$")
_AFTER = re.compile(r"\s*([A-Za-z_]\w*)")
# What a plain name can have grown to: `add-to-cart`, `payment.fail`, `session#`, `País`.
_WORD = re.compile(r"[^\s,;()\[\]{}'\"!&|<>=+*^]+")
_THREE_NAMES = re.compile(r"([A-Za-z_]\w*)[ \t]+([A-Za-z_]\w*)[ \t]+$")
_REPETITION = re.compile(r":?\s*[+*?^{]")
_THEN = ("then", "followed", "before", "next")


def foreign_notation(text: str, offset: int, in_pattern: bool) -> QueryError | None:
    """The error for what stands where the parser stopped, at an offset; None for anything else.

    `in_pattern`: a pattern could go on there.
    """
    return (
        _sql(text, offset)
        or _group_by(text, offset)
        or _arrow(text, offset)
        or (_several_words(text, offset) or _repeated(text, offset) if in_pattern else None)
        or _odd_name(text, offset)
    )


def _sql(text: str, offset: int) -> QueryError | None:
    word = text[offset : offset + 6]
    if word.upper() != "SELECT" or not text[offset + 6 : offset + 7].isspace():
        return None
    kind = "SQL's MATCH_RECOGNIZE" if "MATCH_RECOGNIZE" in text.upper() else "SQL"
    return QueryError(
        f"this is {kind}, and queries have a language of their own here",
        Span(offset, offset + 6),
        "a text that begins with SELECT is SQL; its name goes beside it: "
        "{name: …, sql: 'SELECT … MATCH_RECOGNIZE (…)'}; see docs/sql.md",
    )


def _group_by(text: str, offset: int) -> QueryError | None:
    words = _GROUP_BY.match(text, offset)
    if words is None:
        return None
    return QueryError(
        "GROUP BY is no clause here",
        Span(offset, words.end()),
        "PARTITION BY x, of all components alike, gives rows for each value of x",
    )


def _arrow(text: str, offset: int) -> QueryError | None:
    arrow = _ARROW.match(text, offset)
    if arrow is None:
        return None
    before = _BEFORE.search(text[max(0, offset - 100) : offset])
    after = _AFTER.match(text, arrow.end())
    names = f"{before.group(1)}, {after.group(1)}" if before and after else "A, B"
    return QueryError(
        f"'{arrow.group()}' is no operator; one after the other is SEQ",
        Span(offset, arrow.end()),
        f"write SEQ({names})",
    )


def _repeated(text: str, offset: int) -> QueryError | None:
    """`SEQ(B b, C c)+`: what is repeated needs brackets of its own."""
    mark = _REPETITION.match(text, offset)
    if mark is None or not text[:offset].rstrip().endswith(")"):
        return None
    return QueryError(
        f"'{mark.group()}' stands behind the bracket of an operator",
        Span(offset, mark.end()),
        "for a chain of matches, each wholly before the next, put brackets around all that is "
        "repeated: (SEQ(B b, C c))+ g",
    )


def _several_words(text: str, offset: int) -> QueryError | None:
    """`page view v`: a type, an alias, and one name too many."""
    last = _AFTER.match(text, offset)
    two = _THREE_NAMES.search(text[max(0, offset - 200) : offset])
    if last is None or last.start(1) != offset or two is None:
        return None
    first, second, third = two.group(1), two.group(2), last.group(1)
    if second.lower() in _THEN:
        hint = f"one after the other is SEQ: write SEQ({first}, {third})"
    else:
        hint = f'put double quotes around a name of several words: "{first} {second}" {third}'
    return QueryError(
        f"unexpected '{third[:30]}': a type and its alias are one name each",
        Span(offset, offset + len(third)),
        hint,
    )


def _odd_name(text: str, offset: int) -> QueryError | None:
    """`add-to-cart`: a name that only double quotes can hold."""
    start = offset
    while start > 0 and offset - start < 60 and _WORD.fullmatch(text[start - 1 : offset + 1]):
        if text[start - 1] == "." != text[offset]:
            break  # the alias before an attribute
        start -= 1
    word = _WORD.match(text, start)
    if word is None or start == offset or word.end() == offset or not text[start].isalpha():
        return None
    found = word.group()
    plain = found.isascii() and found.replace("_", "a").isalnum()
    if len(found) > 60 or "--" in found or plain:
        return None
    return QueryError(
        f"unexpected '{text[offset]}' in '{found}'",
        Span(offset, offset + 1),
        f'put double quotes around a name with such a character: "{found}"',
    )
