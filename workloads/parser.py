"""Text to syntax: `parse_query` and `parse_condition`.

The grammar is `grammar.lark`; this file turns what lark recognizes into the frozen values of
`syntax.py` and what it rejects into an error with a place, what was found and what may stand there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, DecimalException
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.lark import PostLex
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from workloads import syntax as ex
from workloads import syntax as sx
from workloads.errors import QueryError, Span, did_you_mean
from workloads.foreign_notation import foreign_notation
from workloads.limits import (
    MAX_BRACKETS,
    MAX_CHAINED,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_GROUP,
    MAX_LIMIT,
    MAX_LISTED,
    MAX_NUMBER_CHARACTERS,
    MAX_PARTS,
    MAX_QUERY_CHARACTERS,
)

_UNIT_WORDS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("us", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "msec", "msecs"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "m"), "min"),
    **dict.fromkeys(("hour", "hours", "h", "hr", "hrs"), "hour"),
    **dict.fromkeys(("day", "days", "d"), "day"),
    **dict.fromkeys(("events", "event"), "EVENTS"),
}

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
    "DOT": "'.'",
    "VBAR": "'|'",
    "AMPERSAND": "'&'",
    "BANG": "'!'",
    "CIRCUMFLEX": "'^'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "$END": "the end of the query",
}
_VALUE_STARTS = {"NUMBER", "STRING", "NAME", "TRUE", "FALSE", "NULL", "LPAR", "MINUS", "LSQB"}
_ARITHMETIC = {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}
_KEPT = 4096  # texts whose syntax, which never changes, is kept: a run reads its workload twice
_CLAUSES = ("QUERY", "PATTERN", "WHERE", "PARTITION", "AGG", "RETURN", "LIMIT", "WITHIN", "SLIDE")


def parse_query(text: str) -> sx.Query:
    """Parse one query; raises `QueryError` with the place of the first mistake."""
    query: sx.Query = _parse(text, "query")
    return query


def parse_condition(text: str) -> ex.Expression:
    """Parse a condition over one event's attributes, as `stream.types` has them."""
    condition: ex.Expression = _parse(text, "condition")
    return condition


@lru_cache(_KEPT)
def _parse(text: str, start: str) -> Any:
    _check_length(text, f"the {start}")
    _check_nesting(text)
    try:
        tree = _lark().parse(text, start=start)
    except UnexpectedToken as error:
        raise _unexpected(text, error.token, error.accepts or error.expected) from None
    except UnexpectedEOF as error:
        raise _unexpected(text, None, error.expected) from None
    except UnexpectedCharacters as error:
        raise _bad_character(text, error.pos_in_stream or 0) from None
    try:
        built = _Builder().transform(tree)
    except VisitError as error:
        raise error.orig_exc from None
    made: Any
    if start == "query":
        made = _assemble(text, built.children)
    else:
        made = built.children[0]
        _check_depth(made)
    # Plans keep the printed form, which is longer than one without spaces, and read it again.
    if len(text) > MAX_QUERY_CHARACTERS // 10:
        printed = sx.print_query(made) if start == "query" else sx.print_expression(made)
        _check_length(printed, f"the {start}, with all its spaces and brackets,")
    return made


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
    return Lark(
        grammar,
        parser="lalr",
        lexer="basic",  # keywords are reserved everywhere: an error names the word that is missing
        postlex=_Fields(),
        start=["query", "condition"],
        propagate_positions=True,
        maybe_placeholders=True,
        cache=str(kept) if os.access(kept.parent, os.W_OK) or kept.exists() else False,
    )


class _Fields(PostLex):
    """After a dot only a name can stand, so that a word of the language is one there: `a.seq`."""

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        after_dot = False
        for token in stream:
            if after_dot and token.isalpha():
                token = Token.new_borrow_pos("NAME", str(token), token)
            after_dot = token.type == "DOT"
            yield token


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
        f"unexpected '{_short(str(token))}'; expected {_expectation(wanted)}",
        _token_span(token),
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
    clauses = [clause for clause in _CLAUSES if clause in rest]
    if len(clauses) == len(_CLAUSES):
        rest -= set(_CLAUSES)
        words.append("a clause (" + ", ".join(_CLAUSES) + ")")
    words += sorted(_WORDS.get(terminal, terminal) for terminal in rest)
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


def _short(text: str) -> str:
    """A piece of the query as a message quotes it: in one line, and not too long."""
    text = " ".join(text[:100].split())
    return text if len(text) <= 30 else text[:27] + "..."


def _at(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos) if not meta.empty else Span(0, 0)


def _name(token: Token) -> str:
    """A name's spelling: quoted names may hold any character."""
    text = str(token)
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _token_span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))


def _number(token: Token) -> int | float:
    _check_number(token)
    text = str(token)
    return int(text) if text.isdigit() else float(text)


def _check_number(token: Token) -> None:
    if len(token) > MAX_NUMBER_CHARACTERS:
        raise QueryError(
            f"a number of {len(token):,} characters; at most {MAX_NUMBER_CHARACTERS:,} are taken",
            _token_span(token),
            "write a shorter one, such as 1.5e300",
        )


def _amount(token: Token) -> Decimal:
    """The amount of a window or slide."""
    _check_number(token)
    try:
        amount = Decimal(str(token))
        if not amount or abs(amount.adjusted()) <= MAX_EXPONENT:
            return amount
    except DecimalException:  # an exponent that not even a Decimal can have
        pass
    raise QueryError(
        f"'{_short(str(token))}' is beyond what a window or slide can be",
        _token_span(token),
        "write an amount between a nanosecond and a hundred years, or a number of events",
    )


def _operation(operator: sx.Operator) -> Callable[..., sx.Operation]:
    def build(_self: object, meta: Meta, parts: list[sx.Pattern]) -> sx.Operation:
        if len(parts) > MAX_PARTS:
            raise QueryError(
                f"{operator} with more than {MAX_PARTS:,} parts",
                _at(meta),
                "split it into several queries; Sheaf shares what they have in common",
            )
        return sx.Operation(operator, tuple(parts), _at(meta))

    return build


def _clause(kind: str) -> Callable[..., tuple[str, Span, list[Any]]]:
    def build(_self: object, meta: Meta, parts: list[Any]) -> tuple[str, Span, list[Any]]:
        return kind, _at(meta), parts

    return build


@v_args(meta=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """Builds syntax bottom-up; without recursion, so that no input meets Python's limit."""

    query_clause = _clause("QUERY")
    pattern_clause = _clause("PATTERN")
    where_clause = _clause("WHERE")
    partition_clause = _clause("PARTITION BY")
    agg_clause = _clause("AGG")
    return_clause = _clause("RETURN")
    limit_clause = _clause("LIMIT")
    within_clause = _clause("WITHIN")
    slide_clause = _clause("SLIDE")

    seq = infix_seq = _operation("SEQ")
    and_ = infix_and = _operation("AND")
    or_ = infix_or = _operation("OR")

    def negation(self, meta: Meta, parts: list[Any]) -> sx.Negation:
        return sx.Negation(parts[0], _at(meta))

    def component(self, meta: Meta, parts: list[Any]) -> sx.Component:
        kind, quantifier, alias = parts
        return sx.Component(
            _name(kind), _name(alias) if alias else None, quantifier or sx.One(), _at(meta)
        )

    def all_component(self, meta: Meta, parts: list[Any]) -> sx.Component:
        kind, alias = parts
        return sx.Component(_name(kind), _name(alias) if alias else None, sx.All(), _at(meta))

    def plus(self, meta: Meta, parts: list[Any]) -> sx.Plus:
        return sx.Plus()

    def exactly(self, meta: Meta, parts: list[Any]) -> sx.Exactly:
        _check_number(parts[0])
        text = str(parts[0])
        if not text.isdigit() or not 1 <= int(text) <= MAX_GROUP:
            raise QueryError(
                f"'^{_short(text)}' asks for a group of {_short(text)}; a whole number from 1 to "
                f"{MAX_GROUP} is taken",
                _token_span(parts[0]),
                "'+' takes groups of any size",
            )
        return sx.Exactly(int(text))

    def duration(self, meta: Meta, parts: list[Any]) -> sx.Duration:
        minus, amount, word = parts
        unit = _UNIT_WORDS.get(str(word).lower())
        if unit is None:
            raise QueryError(
                f"unknown unit '{_short(str(word))}'; known are ms, s, min, hour, day, us, ns "
                "and EVENTS",
                _token_span(word),
                did_you_mean(str(word), _UNIT_WORDS),
            )
        size = _amount(amount)
        # Below zero is refused when bound, with a better message than here.
        return sx.Duration(size.copy_negate() if minus else size, unit, _at(meta))

    def item(self, meta: Meta, parts: list[Any]) -> sx.Item:
        value, name = parts
        if isinstance(value, ex.Attribute) and value.alias == "":
            value = value.name
        return sx.Item(value, _name(name) if name else None, _at(meta))

    def any_of(self, meta: Meta, parts: list[Any]) -> ex.Logical:
        return ex.Logical("OR", tuple(parts), _at(meta))

    def all_of(self, meta: Meta, parts: list[Any]) -> ex.Logical:
        return ex.Logical("AND", tuple(parts), _at(meta))

    def not_(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        _check_chain(len(parts) - 1, MAX_DEPTH, meta)
        result: ex.Expression = parts[-1]
        for _ in parts[:-1]:
            result = ex.Not(result, _at(meta))
        return result

    def compare(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        """`a = b = c` means `a = b AND b = c`."""
        _check_chain(len(parts) // 2, MAX_CHAINED, meta)
        spelling = {"==": "=", "<>": "!="}
        links: list[ex.Expression] = [
            ex.Comparison(
                spelling.get(str(parts[i]), str(parts[i])),  # type: ignore[arg-type]
                parts[i - 1],
                parts[i + 1],
                _at(meta),
            )
            for i in range(1, len(parts), 2)
        ]
        return links[0] if len(links) == 1 else ex.Logical("AND", tuple(links), _at(meta))

    def in_(self, meta: Meta, parts: list[Any]) -> ex.Membership:
        return ex.Membership(parts[0], tuple(parts[1:]), False, _at(meta))

    def not_in(self, meta: Meta, parts: list[Any]) -> ex.Membership:
        return ex.Membership(parts[0], tuple(parts[2:]), True, _at(meta))

    def is_null(self, meta: Meta, parts: list[Any]) -> ex.IsNull:
        return ex.IsNull(parts[0], False, _at(meta))

    def is_not_null(self, meta: Meta, parts: list[Any]) -> ex.IsNull:
        return ex.IsNull(parts[0], True, _at(meta))

    def arithmetic(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        _check_chain(len(parts) // 2, MAX_DEPTH, meta)
        result: ex.Expression = parts[0]
        for i in range(1, len(parts), 2):
            operator: Any = str(parts[i])
            result = ex.Arithmetic(operator, result, parts[i + 1], _at(meta))
        return result

    def negative(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        _check_chain(len(parts) - 1, MAX_DEPTH, meta)
        result: ex.Expression = parts[-1]
        for _ in parts[:-1]:
            if isinstance(result, ex.Literal) and type(result.value) in (int, float):
                result = ex.Literal(-result.value, _at(meta))  # type: ignore[operator]
            else:
                result = ex.Negative(result, _at(meta))
        return result

    def attribute(self, meta: Meta, parts: list[Any]) -> ex.Attribute:
        return ex.Attribute(_name(parts[0]), _name(parts[1]), _at(meta))

    def bare_name(self, meta: Meta, parts: list[Any]) -> ex.Attribute:
        return ex.Attribute("", _name(parts[0]), _at(meta))

    def call(self, meta: Meta, parts: list[Any]) -> ex.Call:
        return ex.Call(_name(parts[0]).lower(), parts[1], _at(meta))

    def call_star(self, meta: Meta, parts: list[Any]) -> ex.Call:
        return ex.Call(_name(parts[0]).lower(), None, _at(meta))

    def equivalence(self, meta: Meta, parts: list[Any]) -> ex.Equivalence:
        _check_listed("attributes", parts, _at(meta))
        return ex.Equivalence(tuple(_name(part) for part in parts), _at(meta))

    def number(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        return ex.Literal(_number(parts[0]), _at(meta))

    def negative_literal(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        return ex.Literal(-_number(parts[1]), _at(meta))

    def string(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        return ex.Literal(str(parts[0])[1:-1].replace("''", "'"), _at(meta))

    def true(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        return ex.Literal(True, _at(meta))

    def false(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        return ex.Literal(False, _at(meta))

    def null(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        return ex.Literal(None, _at(meta))

    def literal(self, meta: Meta, parts: list[Any]) -> ex.Literal:
        value: ex.Literal = parts[0]
        return value


def _check_chain(operators: int, limit: int, meta: Meta) -> None:
    if operators > limit:
        raise QueryError(
            f"an expression of more than {limit} operators in a row", _at(meta), _SIMPLER
        )


def _check_listed(what: str, listed: list[Any], span: Span) -> None:
    if len(listed) > MAX_LISTED:
        raise QueryError(
            f"more than {MAX_LISTED:,} {what}",
            span,
            "leave some out, or split it into several queries",
        )


def _check_depth(expression: ex.Expression) -> None:
    """Refuse operators that are deep in each other, so that no later pass recurses too far."""
    waiting = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise QueryError(
                f"operators are nested deeper than {MAX_DEPTH} levels", node.span, _SIMPLER
            )
        waiting += [(part, depth + 1) for part in ex.children(node)]


def _limit(token: Token) -> int:
    _check_number(token)
    text = str(token)
    if not text.isdigit() or not 1 <= int(text) <= MAX_LIMIT:
        raise QueryError(
            f"LIMIT takes a whole number from 1 to {MAX_LIMIT:,}", _token_span(token), "such as 1"
        )
    return int(text)


_SIMPLER = "simplify it, or write a column with that value into the events"


def _assemble(text: str, clauses: list[tuple[str, Span, list[Any]]]) -> sx.Query:
    """Put the clauses together, each at most once, in whatever order they came."""
    found: dict[str, tuple[Span, list[Any]]] = {}
    for kind, span, parts in clauses:
        if kind in found:
            raise QueryError(f"{kind} is given twice", span, "leave one of the two out")
        found[kind] = (span, parts)
    for kind, example in (("PATTERN", "PATTERN SEQ(A a, B b)"), ("WITHIN", "WITHIN 10 min")):
        if kind not in found:
            raise QueryError(f"{kind} is missing", Span(0, len(text)), f"add '{example}'")
    if "AGG" in found and "RETURN" in found:
        raise QueryError(
            "AGG and RETURN stand in one query",
            found["RETURN"][0],
            "an aggregate query never constructs its matches: write two queries",
        )
    if "AGG" not in found and "RETURN" not in found:
        raise QueryError(
            "neither AGG nor RETURN is given",
            Span(0, len(text)),
            "add 'AGG COUNT(*)' to count matches, or 'RETURN a, b' to get them",
        )
    output: sx.Aggregates | sx.Return
    if "AGG" in found:
        if "LIMIT" in found:
            raise QueryError(
                "LIMIT goes with RETURN: it says how many matches are returned of those that end "
                "at one event",
                found["LIMIT"][0],
                "leave LIMIT out",
            )
        span, parts = found["AGG"]
        items = tuple(parts[:-1])
        _check_listed("aggregates", list(items), span)
        for value in (*items, *parts[-1:]):
            if value is not None:
                _check_depth(value)
        texts = tuple(text[i.span.start : i.span.end] for i in items)
        output = sx.Aggregates(items, parts[-1], texts, span)
    else:
        span, parts = found["RETURN"]
        _check_listed("items in RETURN", parts, span)
        for item in parts:
            if not isinstance(item.value, str):
                _check_depth(item.value)
        limit = _limit(found["LIMIT"][1][0]) if "LIMIT" in found else None
        output = sx.Return(tuple(parts), limit, span)
    if "WHERE" in found:
        _check_depth(found["WHERE"][1][0])
    span, keys = found.get("PARTITION BY", (Span(0, 0), []))
    _check_listed("attributes in PARTITION BY", keys, span)
    return sx.Query(
        name=_name(found["QUERY"][1][0]) if "QUERY" in found else None,
        pattern=found["PATTERN"][1][0],
        within=found["WITHIN"][1][0],
        output=output,
        where=found["WHERE"][1][0] if "WHERE" in found else None,
        partition_by=tuple(map(_name, keys)),
        slide=found["SLIDE"][1][0] if "SLIDE" in found else None,
        text=text,
        span=found["QUERY"][0] if "QUERY" in found else Span(0, 0),
        partition_spans=tuple(map(_token_span, keys)),
    )
