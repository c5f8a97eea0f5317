"""What lark recognizes, turned into the frozen values of `syntax.py` and `expressions.py`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any, NamedTuple

from lark import Token, v_args
from lark.tree import Meta

from workloads import expressions as ex
from workloads import syntax as sx
from workloads import texts
from workloads.errors import QueryError, Span, did_you_mean
from workloads.limits import (
    MAX_CHAINED,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_LIMIT,
    MAX_LISTED,
    MAX_NUMBER_CHARACTERS,
    MAX_PARTS,
)
from workloads.quantifiers import ONCE, QuantifierBuilder

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


_UNITS_OF_TIME = "ms, s, min, hour, day, us, ns"


def shortened(text: str) -> str:
    """A piece of the query as a message quotes it: in one line, and not too long."""
    text = " ".join(text[:100].split())
    return text if len(text) <= 30 else text[:27] + "..."


def _at(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos) if not meta.empty else Span(0, 0)


def name_of(token: Token) -> str:
    """A name's spelling: quoted names may hold any character."""
    text = str(token)
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def token_span(token: Token) -> Span:
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
            token_span(token),
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
        f"'{shortened(str(token))}' is beyond what a window or slide can be",
        token_span(token),
        "write an amount between a nanosecond and a hundred years, or a number of events",
    )


def _unit(word: Token, known: str) -> str:
    unit = _UNIT_WORDS.get(str(word).lower())
    if unit is None:
        raise QueryError(
            f"unknown unit '{shortened(str(word))}'; known are {known}",
            token_span(word),
            did_you_mean(str(word), _UNIT_WORDS),
        )
    return unit


class Path(str):
    """The name of a column or of a field of a struct, and where it stands."""

    span: Span

    def __new__(cls, text: str, span: Span) -> Path:
        found = super().__new__(cls, text)
        found.span = span
        return found


def _operation(operator: sx.Operator) -> Callable[..., sx.Operation]:
    def build(_self: object, meta: Meta, given: list[Any]) -> sx.Operation:
        marks, parts = _marked_parts(given)
        if len(parts) > MAX_PARTS:
            raise QueryError(
                f"{operator} with more than {MAX_PARTS:,} parts",
                _at(meta),
                "split it into several queries; Sheaf shares what they have in common",
            )
        return sx.Operation(operator, tuple(parts), _at(meta), marks if any(marks) else ())

    return build


_MARKS: dict[str, sx.Mark] = {"COLON": "strict", "GREATER": "next"}


def _marked_parts(given: list[Any]) -> tuple[tuple[sx.Mark | None, ...], list[sx.Pattern]]:
    """The parts of an operation, and the mark that stands before each."""
    marks: list[sx.Mark | None] = []
    parts: list[sx.Pattern] = []
    mark: sx.Mark | None = None
    for one in given:
        if isinstance(one, Token):
            mark = _MARKS.get(one.type)
            continue
        if isinstance(one, _MarkedPart):
            mark, one = one
        marks.append(mark)
        parts.append(one)
        mark = None
    return tuple(marks), parts


class _Edge(NamedTuple):
    """`start(Speeding)` in the place of a type."""

    edge: sx.Edge
    situation: str


class _OfSource(NamedTuple):
    """`orders.View` in the place of a type."""

    source: str
    type: str


def _component(
    kind: Token | _Edge | _OfSource,
    alias: Token | None,
    quantifier: sx.Quantifier,
    span: Span,
    optional: bool = False,
) -> sx.Component:
    name = name_of(alias) if alias else None
    if isinstance(kind, _Edge):
        return sx.Component(kind.situation, name, quantifier, span, optional, kind.edge)
    if isinstance(kind, _OfSource):
        return sx.Component(kind.type, name, quantifier, span, optional, source=kind.source)
    return sx.Component(name_of(kind), name, quantifier, span, optional)


class _MarkedPart(NamedTuple):
    """A part of a SEQ with the mark before it."""

    mark: sx.Mark
    part: sx.Pattern


def _clause(kind: str) -> Callable[..., tuple[str, Span, list[Any]]]:
    def build(_self: object, meta: Meta, parts: list[Any]) -> tuple[str, Span, list[Any]]:
        return kind, _at(meta), parts

    return build


@v_args(meta=True)
class SyntaxBuilder(QuantifierBuilder):
    """Builds syntax bottom-up; without recursion, so that no input meets Python's limit."""

    query_clause = _clause("QUERY")
    pattern_clause = _clause("PATTERN")
    where_clause = _clause("WHERE")
    partition_clause = _clause("PARTITION BY")
    agg_clause = _clause("AGG")
    group_clause = _clause("GROUP BY")
    return_clause = _clause("RETURN")
    limit_clause = _clause("LIMIT")
    within_clause = _clause("WITHIN")
    slide_clause = _clause("SLIDE")
    strategy_clause = _clause("STRATEGY")
    until_clause = _clause("UNTIL")
    suppress_clause = _clause("SUPPRESS")
    keep_clause = _clause("KEEP")

    def kept(self, meta: Meta, parts: list[Any]) -> sx.Kept:
        return _kept(*parts)

    session_clause = _clause("WITHIN SESSION")
    counted_clause = _clause("WITHIN EVENTS OF")
    windows_clause = _clause("WINDOWS FROM FIRST")
    empty_clause = _clause("EMPTY ROWS")
    into_clause = _clause("INTO")
    funnel_clause = _clause("FUNNEL")
    strict_clause = _clause("STRICT")
    exclude_clause = _clause("EXCLUDE")
    by_clause = _clause("BY")
    skip_clause = _clause("AFTER MATCH")

    seq = infix_seq = _operation("SEQ")
    and_ = infix_and = _operation("AND")
    or_ = infix_or = _operation("OR")

    def side(self, meta: Meta, parts: list[Any]) -> sx.JoinSide:
        return sx.JoinSide(*parts)

    def join(self, meta: Meta, parts: list[Any]) -> sx.Join:
        return sx.Join(parts[-2], parts[-1], span=_at(meta))

    def left_join(self, meta: Meta, parts: list[Any]) -> sx.Join:
        return sx.Join(parts[-2], parts[-1], outer=True, span=_at(meta))

    def marked(self, meta: Meta, parts: list[Any]) -> _MarkedPart:
        return _MarkedPart(_MARKS[parts[0].type], parts[1])

    def negation(self, meta: Meta, parts: list[Any]) -> sx.Negation:
        return sx.Negation(parts[0], _at(meta))

    def component(self, meta: Meta, parts: list[Any]) -> sx.Component:
        kind, parsed, alias = parts
        quantifier, optional = parsed or ONCE
        return _component(kind, alias, quantifier, _at(meta), optional)

    def repeated(self, meta: Meta, parts: list[Any]) -> sx.Component:
        pattern, (quantifier, optional), alias = parts
        name = name_of(alias) if alias else None
        return sx.Component("", name, quantifier, _at(meta), optional, repeated=pattern)

    def all_component(self, meta: Meta, parts: list[Any]) -> sx.Component:
        kind, alias = parts
        return _component(kind, alias, sx.All(), _at(meta))

    def of_source(self, meta: Meta, parts: list[Any]) -> _OfSource:
        source, kind = parts
        return _OfSource(name_of(source), name_of(kind))

    def edge(self, meta: Meta, parts: list[Any]) -> _Edge:
        word, situation = parts
        for edge in sx.EDGES:
            if str(word).lower() == edge:
                return _Edge(edge, name_of(situation))
        known = ("SEQ", "AND", "OR", "JOIN", *sx.EDGES)
        raise QueryError(
            f"'{shortened(str(word))}(…)' is nothing that a pattern has",
            _at(meta),
            did_you_mean(str(word).upper(), known)
            or "SEQ, AND and OR combine parts; start(…) and end(…) are events of a situation",
        )

    def key_part(self, meta: Meta, parts: list[Any]) -> ex.Attribute:
        return ex.Attribute(name_of(parts[0]), str(parts[1]), _at(meta))

    def group_item(self, meta: Meta, parts: list[Any]) -> sx.Grouping:
        alias, path, name = parts
        attribute = ex.Attribute(name_of(alias), str(path), _at(meta))
        if path is None:
            attribute = ex.Attribute("", name_of(alias), _at(meta))
        return sx.Grouping(attribute, name_of(name) if name else attribute.name, _at(meta))

    def key_label(self, meta: Meta, parts: list[Any]) -> sx.KeyLabel:
        value, name = parts
        text = str(value)[1:-1].replace("''", "'")
        return sx.KeyLabel(text, name_of(name), _at(meta))

    def tied_key(self, meta: Meta, parts: list[Any]) -> sx.TiedKey:
        *columns, name, word = parts
        if word is not None and str(word).upper() != "OPTIONAL":
            raise QueryError(
                f"unexpected '{shortened(str(word))}' behind a key",
                token_span(word),
                "a key by component may be OPTIONAL: null is a value of it",
            )
        return sx.TiedKey(tuple(columns), name_of(name), _at(meta), word is not None)

    def duration(self, meta: Meta, parts: list[Any]) -> sx.Duration:
        minus, amount, word = parts
        unit = _unit(word, f"{_UNITS_OF_TIME} and EVENTS")
        size = _amount(amount)
        # Below zero is refused when bound, with a better message than here.
        return sx.Duration(size.copy_negate() if minus else size, unit, _at(meta))

    def duration_value(self, meta: Meta, parts: list[Any]) -> ex.DurationLiteral:
        amount, word = parts
        unit = _unit(word, _UNITS_OF_TIME)
        if unit == "EVENTS":
            raise QueryError(
                "a duration in a condition is an amount of time",
                token_span(word),
                f"known are {_UNITS_OF_TIME}",
            )
        return ex.DurationLiteral(_amount(amount), unit, _at(meta))

    def item(self, meta: Meta, parts: list[Any]) -> sx.Item:
        value, name = parts
        if isinstance(value, ex.Attribute) and value.alias == "":
            value = value.name
        return sx.Item(value, name_of(name) if name else None, _at(meta))

    def every_item(self, meta: Meta, parts: list[Any]) -> sx.Item:
        return sx.Item(None, None, _at(meta))

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
        nocase = parts.pop()
        if nocase:
            parts = [p if isinstance(p, Token) else texts.lowered(p) for p in parts]
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
        operand, *values, nocase = parts
        found = ex.Membership(operand, tuple(values), False, _at(meta))
        return texts.membership_without_case(found) if nocase else found

    def not_in(self, meta: Meta, parts: list[Any]) -> ex.Membership:
        operand, _, *values, nocase = parts
        found = ex.Membership(operand, tuple(values), True, _at(meta))
        return texts.membership_without_case(found) if nocase else found

    def in_cidr(self, meta: Meta, parts: list[Any]) -> ex.TextTest:
        return ex.TextTest("IN CIDR", parts[0], tuple(parts[2:]), False, False, _at(meta))

    def not_in_cidr(self, meta: Meta, parts: list[Any]) -> ex.TextTest:
        return ex.TextTest("IN CIDR", parts[0], tuple(parts[3:]), False, True, _at(meta))

    def one_pattern(self, meta: Meta, parts: list[Any]) -> tuple[bool, list[Any]]:
        return False, parts

    def any_pattern(self, meta: Meta, parts: list[Any]) -> tuple[bool, list[Any]]:
        return False, parts[1:]

    def all_patterns(self, meta: Meta, parts: list[Any]) -> tuple[bool, list[Any]]:
        return True, parts

    def text_test(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        operand, word, with_, (every, patterns), nocase = parts
        return texts.text_test(
            operand, word, with_, every, patterns, False, nocase is not None, _at(meta)
        )

    def not_text_test(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        operand, _, word, with_, (every, patterns), nocase = parts
        return texts.text_test(
            operand, word, with_, every, patterns, True, nocase is not None, _at(meta)
        )

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
        return ex.Attribute(name_of(parts[0]), str(parts[1]), _at(meta))

    def path(self, meta: Meta, parts: list[Any]) -> Path:
        return Path(".".join(map(name_of, parts)), _at(meta))

    def bare_name(self, meta: Meta, parts: list[Any]) -> ex.Attribute:
        return ex.Attribute("", name_of(parts[0]), _at(meta))

    def call(self, meta: Meta, parts: list[Any]) -> ex.Expression:
        name, *arguments = parts
        function = name_of(name).lower()
        if function == "nanoseconds" and len(arguments) == 2:
            return _nanoseconds(arguments, _at(meta))
        if function == ex.ANY_ENTRY:
            return texts.entry_test(arguments, _at(meta))
        if function in ex.JOINT_FUNCTIONS and not texts.of_one_value(function, arguments):
            return texts.joint_function(function, arguments, _at(meta))
        if function in ex.VALUE_FUNCTIONS:
            return texts.function(function, arguments, _at(meta))
        if len(arguments) > 1:
            raise QueryError(
                f"{function} takes one value, not {len(arguments)}",
                arguments[1].span,
                "leave it out",
            )
        return ex.Call(function, arguments[0], _at(meta))

    def call_star(self, meta: Meta, parts: list[Any]) -> ex.Call:
        return ex.Call(name_of(parts[0]).lower(), None, _at(meta))

    def call_distinct(self, meta: Meta, parts: list[Any]) -> ex.Call:
        name, _, argument = parts
        if name_of(name).lower() != "count":
            raise QueryError(
                f"DISTINCT goes with COUNT, not with {shortened(name_of(name))}",
                token_span(name),
                "write COUNT(DISTINCT a.x)",
            )
        return ex.Call("count distinct", argument, _at(meta))

    def equivalence(self, meta: Meta, parts: list[Any]) -> ex.Equivalence:
        check_listed("attributes", parts, _at(meta))
        return ex.Equivalence(tuple(map(str, parts)), _at(meta))

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


def _nanoseconds(arguments: list[ex.Expression], span: Span) -> ex.Nanoseconds:
    """A time as a plan writes it."""
    operand, tick = arguments
    if not (isinstance(tick, ex.Literal) and type(tick.value) is int and 0 < tick.value < 2**62):
        raise QueryError(
            "nanoseconds takes a time and the nanoseconds of its tick",
            tick.span,
            "write a duration instead, such as b.time - a.time < 5 s",
        )
    return ex.Nanoseconds(operand, tick.value, span)


def _check_chain(operators: int, limit: int, meta: Meta) -> None:
    if operators > limit:
        raise QueryError(
            f"an expression of more than {limit} operators in a row", _at(meta), _SIMPLER
        )


def check_listed(what: str, listed: list[Any], span: Span) -> None:
    if len(listed) > MAX_LISTED:
        raise QueryError(
            f"more than {MAX_LISTED:,} {what}",
            span,
            "leave some out, or split it into several queries",
        )


def check_depth(expression: ex.Expression) -> None:
    """Refuse operators that are deep in each other, so that no later pass recurses too far."""
    waiting = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise QueryError(
                f"operators are nested deeper than {MAX_DEPTH} levels", node.span, _SIMPLER
            )
        waiting += [(part, depth + 1) for part in ex.children(node)]


def limit_of(token: Token, clause: str = "LIMIT") -> int:
    _check_number(token)
    text = str(token)
    if not text.isdigit() or not 1 <= int(text) <= MAX_LIMIT:
        raise QueryError(
            f"{clause} takes a whole number from 1 to {MAX_LIMIT:,}", token_span(token), "such as 1"
        )
    return int(text)


def _kept(word: Token, number: Token) -> sx.Kept:
    match str(word).lower():
        case ("first" | "last") as end:
            return sx.Kept(end, limit_of(number, "KEEP"))
        case _:
            raise QueryError(
                f"KEEP takes FIRST or LAST, not '{shortened(str(word))}'",
                token_span(word),
                "such as KEEP FIRST 10",
            )


_SIMPLER = "simplify it, or write a column with that value into the events"
