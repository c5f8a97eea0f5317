"""What lark recognizes, turned into the frozen values of `syntax.py` and `expressions.py`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from workloads import expressions as ex
from workloads import syntax as sx
from workloads import texts
from workloads.errors import QueryError, Span, did_you_mean
from workloads.limits import (
    MAX_CHAINED,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_GROUP,
    MAX_LIMIT,
    MAX_LISTED,
    MAX_NUMBER_CHARACTERS,
    MAX_PARTS,
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


def shortened(text: str) -> str:
    """A piece of the query as a message quotes it: in one line, and not too long."""
    text = " ".join(text[:100].split())
    return text if len(text) <= 30 else text[:27] + "..."


def _at(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos) if not meta.empty else Span(0, 0)


def _name(token: Token) -> str:
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


class Path(str):
    """The name of a column or of a field of a struct, and where it stands."""

    span: Span

    def __new__(cls, text: str, span: Span) -> Path:
        found = super().__new__(cls, text)
        found.span = span
        return found


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
class SyntaxBuilder(Transformer_NonRecursive[Token, Any]):
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
    strategy_clause = _clause("STRATEGY")

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
                f"'^{shortened(text)}' asks for a group of {shortened(text)}; a whole number "
                f"from 1 to {MAX_GROUP} is taken",
                token_span(parts[0]),
                "'+' takes groups of any size",
            )
        return sx.Exactly(int(text))

    def duration(self, meta: Meta, parts: list[Any]) -> sx.Duration:
        minus, amount, word = parts
        unit = _UNIT_WORDS.get(str(word).lower())
        if unit is None:
            raise QueryError(
                f"unknown unit '{shortened(str(word))}'; known are ms, s, min, hour, day, us, ns "
                "and EVENTS",
                token_span(word),
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
        return ex.Attribute(_name(parts[0]), str(parts[1]), _at(meta))

    def path(self, meta: Meta, parts: list[Any]) -> Path:
        return Path(".".join(map(_name, parts)), _at(meta))

    def bare_name(self, meta: Meta, parts: list[Any]) -> ex.Attribute:
        return ex.Attribute("", _name(parts[0]), _at(meta))

    def call(self, meta: Meta, parts: list[Any]) -> ex.Call | ex.Function:
        name, *arguments = parts
        function = _name(name).lower()
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
        return ex.Call(_name(parts[0]).lower(), None, _at(meta))

    def equivalence(self, meta: Meta, parts: list[Any]) -> ex.Equivalence:
        _check_listed("attributes", parts, _at(meta))
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


def _limit(token: Token) -> int:
    _check_number(token)
    text = str(token)
    if not text.isdigit() or not 1 <= int(text) <= MAX_LIMIT:
        raise QueryError(
            f"LIMIT takes a whole number from 1 to {MAX_LIMIT:,}", token_span(token), "such as 1"
        )
    return int(text)


def _strategy(token: Token) -> sx.Strategy:
    word = str(token).lower()
    for strategy in sx.STRATEGIES:
        if word == strategy:
            return strategy
    raise QueryError(
        f"unknown strategy '{shortened(str(token))}'; known are ANY, NEXT, STRICT and LATEST",
        token_span(token),
        did_you_mean(str(token).upper(), [strategy.upper() for strategy in sx.STRATEGIES]),
    )


_SIMPLER = "simplify it, or write a column with that value into the events"


def assemble(text: str, clauses: list[tuple[str, Span, list[Any]]]) -> sx.Query:
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
                check_depth(value)
        texts = tuple(text[i.span.start : i.span.end] for i in items)
        output = sx.Aggregates(items, parts[-1], texts, span)
    else:
        span, parts = found["RETURN"]
        _check_listed("items in RETURN", parts, span)
        for item in parts:
            if not isinstance(item.value, str):
                check_depth(item.value)
        limit = _limit(found["LIMIT"][1][0]) if "LIMIT" in found else None
        output = sx.Return(tuple(parts), limit, span)
    if "WHERE" in found:
        check_depth(found["WHERE"][1][0])
    span, keys = found.get("PARTITION BY", (Span(0, 0), []))
    _check_listed("attributes in PARTITION BY", keys, span)
    return sx.Query(
        name=_name(found["QUERY"][1][0]) if "QUERY" in found else None,
        pattern=found["PATTERN"][1][0],
        within=found["WITHIN"][1][0],
        output=output,
        where=found["WHERE"][1][0] if "WHERE" in found else None,
        partition_by=tuple(map(str, keys)),
        slide=found["SLIDE"][1][0] if "SLIDE" in found else None,
        strategy=_strategy(found["STRATEGY"][1][1]) if "STRATEGY" in found else "any",
        text=text,
        span=found["QUERY"][0] if "QUERY" in found else Span(0, 0),
        partition_spans=tuple(key.span for key in keys),
        strategy_span=found["STRATEGY"][0] if "STRATEGY" in found else Span(0, 0),
    )
