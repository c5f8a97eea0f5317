"""Words of conditions on texts, such as LIKE and NOCASE, told apart from names.

They are such only behind a value, where no name can stand: a type, an alias or an attribute may
have their names.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

# Where conditions stand; in other clauses one name may follow another.
_CONDITION_CLAUSES = ("", "WHERE", "AGG", "RETURN")
_CLAUSES = ("QUERY", "PATTERN", "WHERE", "PARTITION", "AGG", "RETURN", "LIMIT", "WITHIN", "SLIDE")
_VALUE_ENDS = {"NAME", "NUMBER", "STRING", "TRUE", "FALSE", "NULL", "RPAR"}
_TEXT_OPERATORS = {"LIKE", "ILIKE", "CONTAINS", "STARTS", "ENDS", "MATCHES"}


def text_words(stream: Iterator[Token]) -> Iterator[Token]:
    """The tokens of a query or of a condition, these words under terminals of their own."""
    before = last = clause = ""  # the two tokens before, and the clause
    for token in stream:
        if token.type == "NAME" and last != "DOT" and clause in _CONDITION_CLAUSES:
            kind = _terminal(str(token).upper(), before, last)
            if kind is not None:
                token = Token.new_borrow_pos(kind, str(token), token)
        elif token.type in _CLAUSES:
            clause = token.type
        before, last = last, token.type
        yield token


def _terminal(word: str, before: str, last: str) -> str | None:
    behind_value = last in _VALUE_ENDS or (last == "NOT" and before in _VALUE_ENDS)
    if word in _TEXT_OPERATORS and behind_value:
        return "TEXT_OPERATOR"
    if word == "NOCASE" and last in _VALUE_ENDS:
        return "NOCASE"
    if word == "WITH" and last == "TEXT_OPERATOR":
        return "WITH"
    if word == "ANY" and last in ("TEXT_OPERATOR", "WITH"):
        return "ANY"
    return "CIDR" if word == "CIDR" and last == "IN" else None
