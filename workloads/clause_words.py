"""Words that begin a clause where one can begin, and are names everywhere else.

The lexer knows them as names. A word of `CLAUSE_WORDS` becomes a terminal of its own outside
brackets, behind what can end a clause, and before a word that no alias could stand before.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from workloads.text_words import text_words

# By the word in capitals: its terminal, and the kinds of tokens that may come behind it.
CLAUSE_WORDS: dict[str, tuple[str, frozenset[str]]] = {
    "STRATEGY": ("STRATEGY", frozenset({"NAME"})),
}

# What the end of a clause cannot be: a name still has to come.
_OPEN = frozenset(
    [
        "COMMA",
        "SEMICOLON",
        "VBAR",
        "AMPERSAND",
        "BANG",
        "DOT",
        "COMPARATOR",
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "PERCENT",
        "NOT",
        "AND",
        "OR",
        "ALL",
        "AS",
        "BY",
        "QUERY",
        "PATTERN",
        "WHERE",
        "AGG",
        "HAVING",
        "RETURN",
        "LIMIT",
        "WITHIN",
        "SLIDE",
        "STRATEGY",
    ]
)
_OPENING, _CLOSING = ("LPAR", "LSQB"), ("RPAR", "RSQB")


class ClauseWords(PostLex):
    """The tokens of a query, with words of the language told apart from names.

    After a dot only a name can stand, so that a word of the language is one there: `a.seq`.
    """

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return text_words(self._clauses(stream))

    def _clauses(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        before: Token | None = None
        tokens = iter(stream)
        token = next(tokens, None)
        while token is not None:
            after = next(tokens, None)
            if before is not None and before.type in ("DOT", "STRATEGY") and token.isalpha():
                token = Token.new_borrow_pos("NAME", str(token), token)
            elif depth == 0:
                token = _clause_word(before, token, after)
            depth += (token.type in _OPENING) - (token.type in _CLOSING)
            yield token
            before, token = token, after


def _clause_word(before: Token | None, token: Token, after: Token | None) -> Token:
    """The token, under the terminal of the clause that it begins if it begins one."""
    if token.type != "NAME" or (before is not None and before.type in _OPEN) or after is None:
        return token
    terminal, followers = CLAUSE_WORDS.get(str(token).upper(), ("", frozenset()))
    word = after.isalpha() and "NAME" in followers
    if after.type in followers or (word and after.type not in _OPEN):
        return Token.new_borrow_pos(terminal, str(token), token)
    return token
