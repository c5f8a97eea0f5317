"""The clauses that say in which windows a query looks: `WITHIN` in its forms, `WINDOWS FROM FIRST`
and `EMPTY ROWS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from lark import Token

from workloads import syntax as sx
from workloads.errors import QueryError, Span, did_you_mean

_FORMS = ("WITHIN", "WITHIN SESSION", "WITHIN EVENTS OF")
Clauses = Mapping[str, tuple[Span, list[Any]]]


class WindowClauses(NamedTuple):
    """What a query's clauses say of its windows; `counted` are names of types."""

    within: sx.Duration | None
    session: bool = False
    counted: tuple[Token, ...] = ()
    from_first: bool = False
    empty_rows: bool = False


def window_of(text: str, found: Clauses, is_needed: bool) -> WindowClauses:
    """The window of a query, of whichever form; that of a join is its wider one."""
    given = [form for form in _FORMS if form in found]
    pattern = found["PATTERN"][1][0]
    if len(given) > 1:
        raise QueryError("WITHIN is given twice", found[given[1]][0], "leave one of the two out")
    if isinstance(pattern, sx.Join):
        if given:
            raise QueryError(
                "a JOIN has a window for each side, and no further WITHIN",
                found[given[0]][0],
                "leave it out",
            )
        window = WindowClauses(_wider(pattern))
    elif not given and not is_needed:
        window = WindowClauses(None)
    elif not given:
        raise QueryError("WITHIN is missing", Span(0, len(text)), "add 'WITHIN 10 min'")
    else:
        window = _window(given[0], found[given[0]][1])
    return window._replace(
        from_first=_phrase(found, "WINDOWS FROM FIRST"), empty_rows=_phrase(found, "EMPTY ROWS")
    )


def _window(form: str, parts: list[Any]) -> WindowClauses:
    match form:
        case "WITHIN SESSION":
            word, gap = parts
            if str(word).upper() != "SESSION":
                raise QueryError(
                    f"WITHIN takes an amount, or SESSION and the gap that ends one, not '{word}'",
                    _span(word),
                    did_you_mean(str(word).upper(), ["SESSION"]) or "as in 'WITHIN SESSION 5 min'",
                )
            return WindowClauses(gap, session=True)
        case "WITHIN EVENTS OF":
            duration, of, *types = parts
            if not duration.is_count:
                raise QueryError(
                    "OF names the types of the events that a window counts, and this window is "
                    "one of time",
                    _span(of),
                    "write 'WITHIN 10 EVENTS OF (A, B)', or leave OF out",
                )
            return WindowClauses(duration, counted=tuple(types))
        case _:
            return WindowClauses(_within(*parts))


def _within(duration: sx.Duration, word: Token | None = None) -> sx.Duration:
    if word is None:
        return duration
    if str(word).upper() != "INCLUSIVE" or duration.is_count:
        raise QueryError(
            f"unexpected '{str(word)[:40]}' behind the window",
            _span(word),
            "a window in time may be INCLUSIVE: events just that far apart are in it too",
        )
    return replace(duration, inclusive=True)


def _phrase(found: Clauses, clause: str) -> bool:
    """Is the clause there? Raises where its words are others."""
    if clause not in found:
        return False
    words = found[clause][1]
    for word, expected in zip(words, clause.split(), strict=True):
        if str(word).upper() != expected:
            raise QueryError(
                f"'{word}' stands where {expected} does", _span(word), f"write '{clause}'"
            )
    return True


def _wider(join: sx.Join) -> sx.Duration:
    one, other = join.left.within, join.right.within
    if one.is_count != other.is_count:
        return one if one.is_count else other
    return max(one, other, key=lambda duration: duration.size)


def _span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))
