"""How many events a component takes, as it is written behind its type."""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from workloads import syntax as sx
from workloads.errors import QueryError, Span
from workloads.limits import MAX_GROUP


class ParsedQuantifier(NamedTuple):
    """A quantifier, and whether the component may be bound to nothing."""

    quantifier: sx.Quantifier
    optional: bool = False


ONCE = ParsedQuantifier(sx.ONE)


@v_args(meta=True)
class QuantifierBuilder(Transformer_NonRecursive[Token, Any]):
    """Builds what stands behind a component's type."""

    def plus(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return ParsedQuantifier(sx.Plus())

    def consecutive_plus(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return ParsedQuantifier(sx.ConsecutivePlus())

    def optional(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return ParsedQuantifier(sx.ONE, optional=True)

    def star(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return ParsedQuantifier(sx.Plus(), optional=True)

    def consecutive_star(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return ParsedQuantifier(sx.ConsecutivePlus(), optional=True)

    def chosen(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return _chosen(parts[-1], parts[-1], len(parts) > 1, _at(meta))

    def chosen_between(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return _chosen(parts[-2], parts[-1], len(parts) > 2, _at(meta))

    def exactly(self, meta: Meta, parts: list[Any]) -> ParsedQuantifier:
        return _exactly(parts[0])


def _exactly(token: Token) -> ParsedQuantifier:
    """`^n`"""
    text = str(token)
    if text.isdigit() and len(text) <= len(str(MAX_GROUP)) and 1 <= int(text) <= MAX_GROUP:
        return ParsedQuantifier(sx.Exactly(int(text)))
    shown = _shortened(text)
    raise QueryError(
        f"'^{shown}' asks for a group of {shown}; a whole number from 1 to {MAX_GROUP} is taken",
        _span(token),
        "'+' takes groups of any size",
    )


def _chosen(least: Token, most: Token | None, consecutive: bool, span: Span) -> ParsedQuantifier:
    """`{n,m}`, or `{n,}` where there is no `most`; `{0,m}` is an optional `{1,m}`."""
    fewest = _number(least)
    largest = None if most is None else _number(most)
    if largest == 0:
        raise QueryError(
            "a group of no event at all", span, "leave the component out, or negate it: '!E'"
        )
    if largest is not None and largest < fewest:
        raise QueryError(
            f"a group of at least {fewest} and at most {largest} events",
            span,
            f"write the smaller number first: {{{largest},{fewest}}}",
        )
    if fewest <= 1 and largest is None:
        every = sx.ConsecutivePlus() if consecutive else sx.Plus()
        return ParsedQuantifier(every, fewest == 0)
    return ParsedQuantifier(sx.Between(max(fewest, 1), largest, consecutive), fewest == 0)


def _number(token: Token) -> int:
    text = str(token)
    if text.isdigit() and len(text) <= len(str(MAX_GROUP)) and int(text) <= MAX_GROUP:
        return int(text)
    raise QueryError(
        f"'{_shortened(text)}' is no size of a group; a whole number up to {MAX_GROUP} is taken",
        _span(token),
        "'{n,}' takes groups of n events or more",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


def _at(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos)


def _span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))
