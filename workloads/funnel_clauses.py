"""The clauses of a funnel: `FUNNEL`, `STRICT`, `EXCLUDE` and `BY`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lark import Token

from workloads import syntax as sx
from workloads.errors import QueryError, Span, did_you_mean
from workloads.limits import MAX_LISTED

Clauses = Mapping[str, tuple[Span, list[Any]]]

_WORDS: dict[str, sx.Strictness] = {
    "DEDUPLICATION": "deduplication",
    "ORDER": "order",
    "INCREASE": "increase",
}
_FOREIGN = (
    *("PATTERN", "AGG", "LIMIT", "SLIDE", "STRATEGY", "UNTIL", "SUPPRESS", "KEEP"),
    *("AFTER MATCH", "WINDOWS FROM FIRST", "EMPTY ROWS", "INTO", "GROUP BY"),
)
_OWN = ("STRICT", "EXCLUDE", "BY")
REPEATED = ("STRICT", "EXCLUDE")  # clauses that may come more than once


def funnel_of(found: Clauses) -> sx.Funnel | None:
    """What a query's clauses say of its funnel; None where it has none."""
    if "FUNNEL" not in found:
        for clause in _OWN:
            if clause in found:
                raise QueryError(
                    f"{clause} goes with FUNNEL",
                    found[clause][0],
                    "write FUNNEL SEQ(A a, B b) in place of PATTERN, or leave it out",
                )
        return None
    for clause in _FOREIGN:
        if clause in found:
            raise QueryError(
                f"{clause} does not go with FUNNEL, which gives the level of each key and what "
                "its steps come to",
                found[clause][0],
                "leave it out, or write another query with PATTERN",
            )
    strict = tuple(dict.fromkeys(_strictness(parts) for _, parts in _repeated(found, "STRICT")))
    exclusions = [_exclusion(span, parts) for span, parts in _repeated(found, "EXCLUDE")]
    if len(exclusions) > MAX_LISTED:
        raise QueryError(f"more than {MAX_LISTED:,} EXCLUDE", found["EXCLUDE"][0], "leave some out")
    by = tuple(found["BY"][1]) if "BY" in found else ()
    return sx.Funnel(strict, tuple(exclusions), by, _given(found), found["FUNNEL"][0])


def _repeated(found: Clauses, clause: str) -> list[tuple[Span, list[Any]]]:
    return found[clause][1] if clause in found else []


def _strictness(parts: list[Any]) -> sx.Strictness:
    _, word = parts
    if word is None:
        return "deduplication"
    known = _WORDS.get(str(word).upper())
    if known is None:
        raise QueryError(
            f"unknown 'STRICT {word}'; known are STRICT, STRICT ORDER and STRICT INCREASE",
            _span(word),
            did_you_mean(str(word).upper(), _WORDS),
        )
    return known


def _exclusion(span: Span, parts: list[Any]) -> sx.Exclusion:
    _, component, _, first, last = parts
    return sx.Exclusion(component, _name(first), _name(last), span)


def _given(found: Clauses) -> tuple[sx.FunnelRows, ...]:
    """What RETURN names of a funnel's rows; all without one."""
    if "RETURN" not in found:
        return sx.FUNNEL_ROWS
    given: list[sx.FunnelRows] = []
    for item in found["RETURN"][1]:
        word = item.value.lower() if isinstance(item.value, str) and item.name is None else ""
        rows = next((rows for rows in sx.FUNNEL_ROWS if rows == word), None)
        if rows is None:
            raise QueryError(
                "RETURN of a FUNNEL takes STEPS, LEVELS or both",
                item.span,
                "without RETURN it gives both",
            )
        given.append(rows)
    return tuple(rows for rows in sx.FUNNEL_ROWS if rows in given)


def _name(token: Token) -> str:
    text = str(token)
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))
