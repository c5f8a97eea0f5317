"""The clauses of a query, as the grammar recognizes them one by one, put together."""

from __future__ import annotations

from typing import Any

from lark import Token

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.builder import (
    Path,
    check_depth,
    check_listed,
    limit_of,
    name_of,
    shortened,
    token_span,
)
from workloads.errors import QueryError, Span, did_you_mean
from workloads.funnel_clauses import REPEATED, funnel_of
from workloads.window_clauses import window_of


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


def _is_only(parts: list[Any]) -> bool:
    """Is it `INTO Name ONLY`?"""
    word = parts[2] if len(parts) > 2 else None
    if word is not None and str(word).upper() != "ONLY":
        raise QueryError(
            f"unexpected '{shortened(str(word))}' behind INTO",
            token_span(word),
            "INTO Name ONLY makes events of rows that are no results",
        )
    return word is not None


def _with_until(pattern: sx.Pattern, span: Span, parts: list[Any]) -> sx.Operation:
    """A pattern that ends with what ends its partial matches."""
    until = sx.Negation(parts[1], span, until=True)
    if isinstance(pattern, sx.Operation) and pattern.operator == "SEQ":
        return sx.Operation("SEQ", (*pattern.parts, until), pattern.span)
    return sx.Operation("SEQ", (pattern, until), pattern.span)


_SKIPS: dict[str, sx.Skip] = {
    "MATCH SKIP TO NEXT EVENT": "to next event",
    "MATCH SKIP PAST LAST EVENT": "past last event",
}


def _skip(tokens: list[Token], span: Span) -> sx.Skip:
    words = " ".join(str(token).upper() for token in tokens[1:])
    if words in _SKIPS:
        return _SKIPS[words]
    known = [f"AFTER {name}" for name in _SKIPS]
    raise QueryError(
        f"unknown 'AFTER {shortened(words)}'; known are {' and '.join(known)}",
        span,
        did_you_mean(f"AFTER {words}", known),
    )


def _all_hold(conditions: list[ex.Expression]) -> ex.Expression:
    """What several clauses WHERE say together."""
    if len(conditions) == 1:
        return conditions[0]
    span = Span(conditions[0].span.start, conditions[-1].span.end)
    return ex.Logical("AND", tuple(c for each in conditions for c in ex.conjuncts(each)), span)


def _groups(
    found: dict[str, tuple[Span, list[Any]]], having: ex.Expression | None
) -> tuple[tuple[sx.Grouping, ...], ex.Expression | None]:
    """What aggregates are split by, and HAVING, which may stand behind either clause."""
    if "GROUP BY" not in found:
        return (), having
    span, (_, *groups, behind) = found["GROUP BY"]
    check_listed("attributes in GROUP BY", groups, span)
    if having is not None and behind is not None:
        raise QueryError("HAVING is given twice", behind.span, "join the conditions with AND")
    return tuple(groups), behind if having is None else having


def assemble(text: str, clauses: list[tuple[str, Span, list[Any]]]) -> sx.Query:
    """Put the clauses together, in whatever order they came; each but WHERE at most once."""
    found: dict[str, tuple[Span, list[Any]]] = {}
    for kind, span, parts in clauses:
        if kind in REPEATED:
            found.setdefault(kind, (span, []))[1].append((span, parts))
            continue
        if kind == "WHERE" and kind in found:
            found[kind][1].extend(parts)
            continue
        if kind in found:
            raise QueryError(f"{kind} is given twice", span, "leave one of the two out")
        found[kind] = (span, parts)
    funnel = funnel_of(found)
    if funnel is not None:
        span, parts = found["FUNNEL"]
        found["PATTERN"] = (span, parts[1:])
    strategy = _strategy(found["STRATEGY"][1][1]) if "STRATEGY" in found else "any"
    if "PATTERN" not in found:
        raise QueryError("PATTERN is missing", Span(0, len(text)), "add 'PATTERN SEQ(A a, B b)'")
    window = window_of(text, found, is_needed=strategy != "latest")
    if "AGG" in found and "RETURN" in found:
        raise QueryError(
            "AGG and RETURN stand in one query",
            found["RETURN"][0],
            "an aggregate query never constructs its matches: write two queries",
        )
    if funnel is None and "AGG" not in found and "RETURN" not in found:
        raise QueryError(
            "neither AGG nor RETURN is given",
            Span(0, len(text)),
            "add 'AGG COUNT(*)' to count matches, or 'RETURN a, b' to get them",
        )
    if "GROUP BY" in found and "AGG" not in found:
        raise QueryError(
            "GROUP BY goes with AGG: it says by what aggregates are split",
            found["GROUP BY"][0],
            "RETURN the attribute, and group the matches afterwards",
        )
    output: sx.Aggregates | sx.Return | sx.Funnel
    for clause in ("SUPPRESS", "KEEP"):
        if "AGG" in found and clause in found:
            raise QueryError(
                f"{clause} goes with RETURN: it says which matches are given",
                found[clause][0],
                "leave it out",
            )
    if funnel is not None:
        output = funnel
    elif "AGG" in found:
        if "LIMIT" in found:
            raise QueryError(
                "LIMIT goes with RETURN: it says how many matches are returned of those that end "
                "at one event",
                found["LIMIT"][0],
                "leave LIMIT out",
            )
        span, parts = found["AGG"]
        items = tuple(parts[:-1])
        check_listed("aggregates", list(items), span)
        groups, having = _groups(found, parts[-1])
        for value in (*items, having):
            if value is not None:
                check_depth(value)
        texts = tuple(text[i.span.start : i.span.end] for i in items)
        output = sx.Aggregates(items, having, texts, span, groups)
    else:
        span, parts = found["RETURN"]
        check_listed("items in RETURN", parts, span)
        for item in parts:
            if item.value is not None and not isinstance(item.value, str):
                check_depth(item.value)
        limit = limit_of(found["LIMIT"][1][0]) if "LIMIT" in found else None
        suppress = found["SUPPRESS"][1][1] if "SUPPRESS" in found else None
        keep = tuple(found["KEEP"][1][1:]) if "KEEP" in found else ()
        output = sx.Return(tuple(parts), limit, span, suppress, keep)
    where = _all_hold(found["WHERE"][1]) if "WHERE" in found else None
    if where is not None:
        check_depth(where)
    span, named = found.get("PARTITION BY", (Span(0, 0), []))
    check_listed("attributes in PARTITION BY", named, span)
    keys = [key for key in named if isinstance(key, Path)]
    pattern = found["PATTERN"][1][0]
    if "UNTIL" in found:
        pattern = _with_until(pattern, *found["UNTIL"])
    return sx.Query(
        name=name_of(found["QUERY"][1][0]) if "QUERY" in found else None,
        pattern=pattern,
        within=window.within,
        output=output,
        where=where,
        partition_by=tuple(map(str, keys)),
        slide=found["SLIDE"][1][0] if "SLIDE" in found else None,
        strategy=strategy,
        tied_keys=tuple(key for key in named if isinstance(key, sx.TiedKey)),
        key_labels=tuple(key for key in named if isinstance(key, sx.KeyLabel)),
        session=window.session,
        counted_types=tuple(map(name_of, window.counted)),
        from_first=window.from_first,
        empty_rows=window.empty_rows,
        into=name_of(found["INTO"][1][1]) if "INTO" in found else None,
        into_only="INTO" in found and _is_only(found["INTO"][1]),
        clause_spans=tuple((kind, span) for kind, (span, _) in found.items()),
        skip=_skip(found["AFTER MATCH"][1], found["AFTER MATCH"][0])
        if "AFTER MATCH" in found
        else None,
        text=text,
        span=found["QUERY"][0] if "QUERY" in found else Span(0, 0),
        partition_spans=tuple(key.span for key in keys),
        strategy_span=found["STRATEGY"][0] if "STRATEGY" in found else Span(0, 0),
        skip_span=found["AFTER MATCH"][0] if "AFTER MATCH" in found else Span(0, 0),
    )
