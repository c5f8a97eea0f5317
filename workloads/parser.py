"""Text to syntax: `parse_query` and `parse_condition`.

The grammar is `grammar.lark`; this file turns what lark recognizes into the frozen values of
`syntax.py` and what it rejects into an error with a place, what was found and what may stand there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.lexer import BasicLexer

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.assembly import assemble
from workloads.builder import SyntaxBuilder, check_depth, shortened, token_span
from workloads.clause_words import ClauseWords
from workloads.errors import QueryError, Span, did_you_mean
from workloads.foreign_notation import foreign_notation
from workloads.limits import (
    MAX_BRACKETS,
    MAX_QUERY_CHARACTERS,
)
from workloads.printing import print_expression, print_query

# What each terminal is called in an error message.
_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string in single quotes",
    "COMPARATOR": "a comparison (=, !=, <, <=, >, >=)",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "GREATER": "'>'",
    "RUN": "':+'",
    "RUN_STAR": "':*'",
    "RUN_BRACE": "':{'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "QMARK": "'?'",
    "DOT": "'.'",
    "VBAR": "'|'",
    "AMPERSAND": "'&'",
    "BANG": "'!'",
    "CIRCUMFLEX": "'^'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "EVERY": "'*'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "TEXT_OPERATOR": "LIKE, ILIKE, CONTAINS, STARTS WITH, ENDS WITH, MATCHES",
    "$END": "the end of the query",
}
_VALUE_STARTS = {"NUMBER", "STRING", "NAME", "TRUE", "FALSE", "NULL", "LPAR", "MINUS", "LSQB"}
_ARITHMETIC = {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}
_KEPT_PRINTED = 20_000
_KEPT = 4096  # texts whose syntax, which never changes, is kept: a run reads its workload twice
_CLAUSES = (
    *("QUERY", "PATTERN", "WHERE", "PARTITION", "AGG", "RETURN", "LIMIT", "WITHIN", "SLIDE"),
    *("SUPPRESS", "KEEP", "STRATEGY", "UNTIL", "AFTER", "WINDOWS", "EMPTY", "INTO", "GROUP"),
    *("FUNNEL", "STRICT", "EXCLUDE", "BY"),
)


# Rules that queries about situations, which have a grammar of their own, take over.
CLAUSE_RULES = ("duration", "where_clause", "partition_clause", "return_clause")


# Queries that were made without a text, and the text that was then printed: plans keep it.
_PRINTED: dict[str, sx.Query] = {}


def know_printed(query: sx.Query) -> None:
    """Remember of what query a text was printed, so that it need not be parsed."""
    if len(_PRINTED) >= _KEPT_PRINTED:
        _PRINTED.clear()
    _PRINTED[query.text] = query


def query_of(text: str) -> sx.Query:
    """The query of a text: the one that it was printed of, or else what it says."""
    return _PRINTED.get(text) or parse_query(text)


def parse_query(text: str) -> sx.Query:
    """Parse one query; raises `QueryError` with the place of the first mistake."""
    if "define" in text.lower() and is_about_situations(text):
        return _parse_situations(text)
    query: sx.Query = _parse(text, "query")
    return query


def parse_part(text: str, start: str, begin: int, end: int) -> Any:
    """What a rule of the grammar makes of a part of a query; places are those in the query."""
    padded = " " * begin + text[begin:end]
    built = _built(padded, start)
    return built.children[0] if start == "condition" else built


def tokens_of(text: str) -> list[Token]:
    """The tokens of a query."""
    try:
        return list(_lark().lex(text))
    except UnexpectedCharacters as error:
        raise _bad_character(text, error.pos_in_stream or 0) from None


@lru_cache(_KEPT)
def is_about_situations(text: str) -> bool:
    """Has it a clause DEFINE? The word is a name everywhere else."""
    from workloads.situations.parsing import begins_definitions

    try:
        tokens = tokens_of(text)
    except QueryError:
        return False
    return any(begins_definitions(tokens, place) for place in range(len(tokens)))


@lru_cache(_KEPT)
def _parse_situations(text: str) -> sx.Query:
    from workloads.situations.parsing import SituationParser

    _check_length(text, "the query")
    _check_nesting(text)
    made = SituationParser(text, tokens_of(text), parse_part).query()
    if len(text) > MAX_QUERY_CHARACTERS // 10:
        _check_length(print_query(made), "the query, with all its spaces and brackets,")
    return made


def parse_condition(text: str) -> ex.Expression:
    """Parse a condition over one event's attributes, as `stream.types` has them."""
    condition: ex.Expression = _parse(text, "condition")
    return condition


@lru_cache(_KEPT)
def _parse(text: str, start: str) -> Any:
    _check_length(text, f"the {start}")
    _check_nesting(text)
    built = _built(text, start)
    made: Any
    if start == "query":
        made = assemble(text, built.children)
    else:
        made = built.children[0]
        check_depth(made)
    # Plans keep the printed form, which is longer than one without spaces, and read it again.
    if len(text) > MAX_QUERY_CHARACTERS // 10:
        printed = print_query(made) if start == "query" else print_expression(made)
        _check_length(printed, f"the {start}, with all its spaces and brackets,")
    return made


def _built(text: str, start: str) -> Any:
    """What a rule of the grammar makes of a text."""
    try:
        tree = _lark().parse(text, start=start)
    except UnexpectedToken as error:
        raise _unexpected(text, error.token, error.accepts or error.expected) from None
    except UnexpectedEOF as error:
        raise _unexpected(text, None, error.expected) from None
    except UnexpectedCharacters as error:
        raise _bad_character(text, error.pos_in_stream or 0) from None
    try:
        return SyntaxBuilder().transform(tree)
    except VisitError as error:
        raise error.orig_exc from None


def _check_length(text: str, what: str) -> None:
    if len(text) > MAX_QUERY_CHARACTERS:
        raise QueryError(
            f"{what} is {len(text):,} characters long; at most {MAX_QUERY_CHARACTERS:,} are taken",
            Span(0, 0),
            "split it into several queries; Sheaf shares what they have in common",
        )


@cache
def _lark() -> Lark:
    source = Path(__file__)
    grammar = source.with_name("grammar.lark").read_text(encoding="utf-8")
    # The tables of the parser are kept beside compiled modules, where these can be: making them
    # takes longer than most commands. lark knows them by the grammar, its own version and Python's.
    kept = source.parent / "__pycache__" / "grammar.tables"
    lark = Lark(
        grammar,
        parser="lalr",
        lexer="basic",  # keywords are reserved everywhere: an error names the word that is missing
        postlex=ClauseWords(),
        start=["query", "condition", *CLAUSE_RULES],
        propagate_positions=True,
        maybe_placeholders=True,
        cache=str(kept) if os.access(kept.parent, os.W_OK) or kept.exists() else False,
    )
    lark.lexer = BasicLexer(lark.lexer_conf)  # what `lex` would make anew for each text
    return lark


def _check_nesting(text: str) -> None:
    """Refuse deep nesting before parsing, so that no later pass meets the recursion limit."""
    depth = 0
    quote = ""
    comment = False
    for offset, character in enumerate(text):
        if comment:
            comment = character != "\n"
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "-" and text.startswith("--", offset):
            comment = True
        elif character in "([":
            depth += 1
            if depth > MAX_BRACKETS:
                raise QueryError(
                    f"brackets are nested deeper than {MAX_BRACKETS} levels",
                    Span(offset, offset + 1),
                    "a SEQ directly inside a SEQ may be written flat, and so may an AND in an AND",
                )
        elif character in ")]":
            depth = max(0, depth - 1)


def _unexpected(text: str, token: Token | None, accepted: Iterable[str]) -> QueryError:
    wanted = set(accepted)
    if token is None or token.type == "$END":
        end = len(text.rstrip())
        return QueryError(
            f"the query ends here; expected {_expectation(wanted)}", Span(end, end + 1)
        )
    hint = None
    if token.type == "NAME" and not str(token).startswith('"'):
        hint = did_you_mean(str(token), [w for w in wanted if w.isalpha() and w not in _WORDS])
    elif "NAME" in wanted and str(token).isalpha():
        hint = f'{token} is a word of the language; as a name, write "{token}" in double quotes'
    if hint is None:
        known = foreign_notation(text, token.start_pos or 0, in_pattern="SEMICOLON" in wanted)
        if known is not None:
            return known
    return QueryError(
        f"unexpected '{shortened(str(token))}'; expected {_expectation(wanted)}",
        token_span(token),
        hint,
    )


def _expectation(wanted: set[str]) -> str:
    words: list[str] = []
    rest = set(wanted)
    if rest >= {"NUMBER", "STRING", "LPAR"}:
        rest -= _VALUE_STARTS
        words.append("a value")
    if rest >= _ARITHMETIC:
        rest -= _ARITHMETIC
        words.append("an operator")
    if "COMPARATOR" in rest:
        rest.discard("GREATER")  # one of the comparisons there
    clauses = [clause for clause in _CLAUSES if clause in rest]
    if len(clauses) == len(_CLAUSES):
        rest -= set(_CLAUSES)
        words.append("a clause (" + ", ".join(_CLAUSES) + ")")
    words += sorted(_WORDS.get(terminal, terminal) for terminal in rest)
    if not words:
        return "another clause"
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _bad_character(text: str, offset: int) -> QueryError:
    character = text[offset]
    hint = None
    if character == "'":
        hint = "a string ends with a single quote; write '' for a quote inside it"
    elif character == '"':
        hint = "strings take single quotes; double quotes are for names"
    else:
        known = foreign_notation(text, offset, in_pattern=False)
        if known is not None:
            return known
    return QueryError(f"unexpected character {character!r}", Span(offset, offset + 1), hint)
