"""Words that begin a clause where one can begin, and are names everywhere else.

The lexer knows them as names. A word of `CLAUSE_WORDS` becomes a terminal of its own outside
brackets, behind what can end a clause, and before a word that no alias could stand before.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from workloads.text_words import text_words

# By the word in capitals: its terminal, and the kinds of tokens, or words, that may come behind it.
CLAUSE_WORDS: dict[str, tuple[str, frozenset[str]]] = {
    "STRATEGY": ("STRATEGY", frozenset({"NAME"})),
    "UNTIL": ("UNTIL", frozenset({"NAME"})),
    "SUPPRESS": ("SUPPRESS", frozenset({"NUMBER", "MINUS"})),
    "KEEP": ("KEEP", frozenset({"NAME"})),
    "INTO": ("INTO", frozenset({"NAME"})),
    "OF": ("OF", frozenset({"LPAR"})),
    "AFTER": ("AFTER", frozenset({"MATCH"})),
}
# Words that begin a clause of two words or more, by the one that has to come behind.
PHRASES = {"WINDOWS": "FROM", "EMPTY": "ROWS", "GROUP": "BY"}

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
        "GREATER",
        "COLON",
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
        "UNTIL",
        "SUPPRESS",
        "KEEP",
        "INTO",
        "AFTER",
        "FUNNEL",
        "EXCLUDE",
        "BETWEEN",
    ]
)
_PATTERNS = ("SEQ", "AND", "OR", "ALL", "LPAR", "NAME")  # what a pattern begins with
_OPENING, _CLOSING = ("LPAR", "LSQB"), ("RPAR", "RSQB")
_BEFORE_NAMES = ("DOT", "STRATEGY", "INTO")


class ClauseWords(PostLex):
    """The tokens of a query, with words of the language told apart from names.

    After a dot only a name can stand, so that a word of the language is one there: `a.seq`.
    """

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return text_words(self._clauses(stream))

    def _clauses(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        before: Token | None = None
        given = list(stream)
        funnel = _FunnelWords(given)
        tokens = iter(given)
        token, after = next(tokens, None), next(tokens, None)
        while token is not None:
            later = next(tokens, None)
            if before is not None and before.type in _BEFORE_NAMES and token.isalpha():
                token = Token.new_borrow_pos("NAME", str(token), token)
            elif depth == 0 and token.type == "STAR" and before is not None:
                token = _every_item(before, token)
            elif depth == 0:
                token = _clause_word(before, token, after)
                token = funnel.word(before, token, after, later)
            if before is not None and before.type == "LPAR" and token.upper() == "DISTINCT":
                token = _distinct_word(token, after)
            if token.type == "NAME" and str(token).upper() in ("JOIN", "LEFT"):
                token = _join_word(token, after, later)
            depth += (token.type in _OPENING) - (token.type in _CLOSING)
            yield token
            before, token, after = token, after, later


class _FunnelWords:
    """Words of a funnel's clauses: `FUNNEL` in the place of PATTERN, and the others beside it."""

    def __init__(self, tokens: list[Token]) -> None:
        self._is_funnel = _is_funnel(tokens)
        self._begun = self._excludes = False

    def word(
        self, before: Token | None, token: Token, after: Token | None, later: Token | None
    ) -> Token:
        """The token, under a terminal of its own if it is one of those words."""
        ends = before is None or before.type not in _OPEN
        if token.type != "NAME" or not ends or not self._is_funnel:
            return token
        match str(token).upper():
            case "FUNNEL" if not self._begun and after is not None and after.type in _PATTERNS:
                self._begun = True
            case "STRICT":
                pass
            case "EXCLUDE" if after is not None and after.type == "NAME":
                self._excludes = True
            case "BETWEEN" if self._excludes and later is not None and later.type == "AND":
                self._excludes = False
            case _:
                return token
        return Token.new_borrow_pos(str(token).upper(), str(token), token)


def _is_funnel(tokens: list[Token]) -> bool:
    """Does FUNNEL stand where a clause can begin, with no PATTERN before it?"""
    depth = 0
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        if token.type == "PATTERN":
            return False
        ends = before is None or before.type not in _OPEN
        begins = depth == 0 and ends and after.type in _PATTERNS
        if begins and token.type == "NAME" and token.upper() == "FUNNEL":
            return True
        depth += (token.type in _OPENING) - (token.type in _CLOSING)
    return False


def _every_item(before: Token, token: Token) -> Token:
    """A star: an item of RETURN, which a clause may follow, or one that multiplies."""
    is_item = before.type in ("RETURN", "COMMA")
    return Token.new_borrow_pos("EVERY", str(token), token) if is_item else token


def _clause_word(before: Token | None, token: Token, after: Token | None) -> Token:
    """The token, under the terminal of the clause that it begins if it begins one."""
    if token.type != "NAME" or (before is not None and before.type in _OPEN) or after is None:
        return token
    if PHRASES.get(str(token).upper()) == str(after).upper():
        return Token.new_borrow_pos(str(token).upper(), str(token), token)
    terminal, followers = CLAUSE_WORDS.get(str(token).upper(), ("", frozenset()))
    word = after.isalpha() and "NAME" in followers
    if not followers.isdisjoint((after.type, after.upper())) or (word and after.type not in _OPEN):
        return Token.new_borrow_pos(terminal, str(token), token)
    return token


def _distinct_word(token: Token, after: Token | None) -> Token:
    """`DISTINCT` before a value, as in `COUNT(DISTINCT a.x)`."""
    begins = after is not None and after.type in ("NAME", "NUMBER", "STRING", "LPAR")
    return Token.new_borrow_pos("DISTINCT", str(token), token) if begins else token


def _join_word(token: Token, after: Token | None, later: Token | None) -> Token:
    """`JOIN` before a bracket, and `LEFT` before that, under their own terminals."""
    word = str(token).upper()
    behind = after if word == "JOIN" else later
    joins = word == "JOIN" or (after is not None and str(after).upper() == "JOIN")
    if joins and behind is not None and behind.type == "LPAR":
        return Token.new_borrow_pos(word, str(token), token)
    return token
