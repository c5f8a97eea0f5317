"""Text of a query about situations to its syntax.

Clauses are told apart by their words, which are names everywhere else; conditions, durations,
items and keys are read by the grammar of all queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lark import Token

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.builder import check_depth, shortened, token_span
from workloads.errors import QueryError, Span, did_you_mean
from workloads.limits import MAX_LISTED
from workloads.situations.relations import WORDS
from workloads.situations.syntax import EMITS, Constraint, Definition, Emit, Situations

ANY_TYPE = "*"  # every event is of this type; no query can write it
_CLAUSES = (
    *("QUERY", "FROM", "DEFINE", "PATTERN", "WHERE", "PARTITION", "RETURN", "WITHIN", "EMIT"),
    "INTO",
)
_ELSEWHERE = ("AGG", "SLIDE", "HAVING", "LIMIT", "STRATEGY")
_NAMES_ELSEWHERE = (
    "FROM",
    "DEFINE",
    "EMIT",
    "INTO",
    "STRATEGY",
)  # the others are reserved everywhere
_OPENING, _CLOSING = ("(", "["), (")", "]")
_BEHIND_NAME = ("AS", "OF")
_NOT_AN_END = (",", ";", "|", "&", "!", ".", "=", "<", ">", "+", "-", "*", "/", "%")
_WANTING_MORE = ("NOT", "AND", "OR", "ALL", "AS", "BY", "OF", "IN", "IS", *_CLAUSES, *_ELSEWHERE)
_COMPARING = ("LIKE", "ILIKE", "CONTAINS", "MATCHES", "WITH", "BETWEEN", "ANY")
Read = Callable[[str, str, int, int], Any]


def begins_definitions(tokens: Sequence[Token], place: int) -> bool:
    """Is this the word DEFINE of the clause, `DEFINE name AS …`, and no name?"""
    if _word(tokens[place]) != "DEFINE":
        return False
    if place == 0 or (place == 2 and _word(tokens[0]) in ("QUERY", "FROM")):
        return True  # a clause of other queries stands there, and this is none of them
    if place + 2 >= len(tokens):
        return False
    if _word(tokens[place + 2]) not in _BEHIND_NAME or not _is_name(tokens[place + 1]):
        return False
    before = tokens[place - 1]
    if _word(before) in _WANTING_MORE:  # `QUERY from`, and nothing but a name may follow it
        return place > 1 and _word(tokens[place - 2]) in ("QUERY", "FROM")
    return str(before)[-1] not in _NOT_AN_END


def _word(token: Token) -> str:
    return str(token).upper()


def _is_name(token: Token) -> bool:
    return token.type not in ("NUMBER", "STRING") and (
        str(token)[0].isalpha() or str(token)[0] in '_"'
    )


def _name(token: Token) -> str:
    text = str(token)
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _check_number(what: str, listed: Sequence[Any], span: Span) -> None:
    if len(listed) > MAX_LISTED:
        raise QueryError(f"more than {MAX_LISTED:,} {what}", span, "split it into several queries")


class SituationParser:
    """Reads the clauses of one query; `read` is what parses a part of it by a rule."""

    def __init__(self, text: str, tokens: Sequence[Token], read: Read) -> None:
        self._text, self._tokens, self._read = text, tokens, read
        self._place = 0

    def query(self) -> sx.Query:
        """The query; raises `QueryError` with the place of the first mistake."""
        clauses = self._clauses()
        for kind, example in (
            ("DEFINE", "DEFINE A AS speed > 70"),
            ("PATTERN", "PATTERN A before B"),
            ("RETURN", "RETURN A, B"),
            ("WITHIN", "WITHIN 10 min"),
        ):
            if kind not in clauses:
                raise QueryError(f"{kind} is missing", Span(0, len(self._text)), f"add '{example}'")
        name, name_span = self._named(clauses, "QUERY")
        source, source_span = self._named(clauses, "FROM")
        into, into_span = self._named(clauses, "INTO")
        definitions = self._definitions(*clauses["DEFINE"])
        constraints, single = self._pattern(*clauses["PATTERN"])
        _, span, items = self._rule("return_clause", *clauses["RETURN"])
        _check_number("items in RETURN", items, span)
        for item in items:
            if item.value is not None and not isinstance(item.value, str):
                check_depth(item.value)
        where = None
        if "WHERE" in clauses:
            where = self._rule("where_clause", *clauses["WHERE"])[2][0]
            check_depth(where)
        keys: list[Any] = []
        if "PARTITION" in clauses:
            _, key_span, keys = self._rule("partition_clause", *clauses["PARTITION"])
            _check_number("attributes in PARTITION BY", keys, key_span)
        begin, end = clauses["WITHIN"]
        found = Situations(
            definitions,
            constraints,
            tuple(items),
            self._emit(clauses),
            single,
            source,
            self._span(*clauses["DEFINE"]),
            self._span(*clauses["PATTERN"]),
            source_span,
        )
        return sx.Query(
            name=name,
            pattern=sx.Operation(
                "AND",
                tuple(
                    sx.Component(d.type or ANY_TYPE, d.name, sx.Plus(), d.span) for d in definitions
                ),
            ),
            within=self._rule("duration", begin + 1, end),
            output=found,
            where=where,
            partition_by=tuple(map(str, keys)),
            text=self._text,
            span=name_span,
            partition_spans=tuple(key.span for key in keys),
            into=into,
            clause_spans=(("INTO", into_span),) if into is not None else (),
        )

    # --- clauses -------------------------------------------------------------------------------

    def _clauses(self) -> dict[str, tuple[int, int]]:
        """The tokens of each clause, from its word to before the next one's."""
        starts: list[tuple[str, int]] = []
        depth = 0
        for place, token in enumerate(self._tokens):
            depth += (str(token) in _OPENING) - (str(token) in _CLOSING)
            if depth == 0 and self._begins_clause(place, starts):
                word = _word(token)
                if word in _ELSEWHERE:
                    raise QueryError(
                        f"{word} is no clause of a query about situations",
                        token_span(token),
                        f"its clauses are {', '.join(_CLAUSES)}",
                    )
                if any(word == other for other, _ in starts):
                    raise QueryError(
                        f"{word} is given twice", token_span(token), "leave one of the two out"
                    )
                starts.append((word, place))
        if not starts or starts[0][1] > 0:
            raise self._unexpected(0, "a clause (" + ", ".join(_CLAUSES) + ")")
        ends = [place for _, place in starts[1:]] + [len(self._tokens)]
        return {word: (place, end) for (word, place), end in zip(starts, ends, strict=True)}

    def _begins_clause(self, place: int, starts: Sequence[tuple[str, int]]) -> bool:
        word = _word(self._tokens[place])
        if word not in _CLAUSES and word not in _ELSEWHERE:
            return False
        if place == 0:
            return True
        if starts and starts[-1][1] == place - 1:  # the name behind QUERY, FROM, EMIT
            return False
        before = self._tokens[place - 1]
        if word not in _NAMES_ELSEWHERE:
            return str(before) != "."
        if str(before)[-1] in _NOT_AN_END or _word(before) in ("AS", "OF", "NOT", "AND", "OR"):
            return False
        behind = self._tokens[place + 1] if place + 1 < len(self._tokens) else None
        match word:
            case "DEFINE":
                return begins_definitions(self._tokens, place)
            case _:
                return behind is not None and _is_name(behind)

    def _named(self, clauses: dict[str, tuple[int, int]], word: str) -> tuple[str | None, Span]:
        if word not in clauses:
            return None, Span(0, 0)
        place, end = clauses[word]
        if end - place < 2 or not _is_name(self._tokens[place + 1]):
            raise self._unexpected(place + 1, "a name")
        if end - place > 2:
            raise self._unexpected(place + 2, "a clause (" + ", ".join(_CLAUSES) + ")")
        return _name(self._tokens[place + 1]), self._span(place, end)

    def _emit(self, clauses: dict[str, tuple[int, int]]) -> Emit:
        word, _ = self._named(clauses, "EMIT")
        if word is None:
            return "early"
        for emit in EMITS:
            if word.lower() == emit:
                return emit
        raise QueryError(
            f"EMIT takes EARLY or COMPLETE, not '{shortened(word)}'",
            token_span(self._tokens[clauses["EMIT"][0] + 1]),
            did_you_mean(word.upper(), ["EARLY", "COMPLETE"])
            or "EARLY gives a match when it is certain, COMPLETE when all its situations ended",
        )

    def _rule(self, rule: str, begin: int, end: int) -> Any:
        if begin >= end:
            raise self._unexpected(end, "a value")
        span = self._span(begin, end)
        return self._read(self._text, rule, span.start, span.end)

    # --- DEFINE --------------------------------------------------------------------------------

    def _definitions(self, begin: int, end: int) -> tuple[Definition, ...]:
        found: list[Definition] = []
        place = begin + 1
        while True:
            stop = self._until(place, end, lambda at: str(self._tokens[at]) == ",")
            found.append(self._definition(place, stop))
            if stop == end:
                break
            place = stop + 1
        _check_number("situations in DEFINE", found, self._span(begin, end))
        return tuple(found)

    def _definition(self, begin: int, end: int) -> Definition:
        if begin >= end or not _is_name(self._tokens[begin]):
            raise self._unexpected(begin, "the name of a situation")
        place, kind, kind_span = begin + 1, None, Span(0, 0)
        if place + 1 < end and _word(self._tokens[place]) == "OF":
            kind_token = self._tokens[place + 1]
            if not _is_name(kind_token):
                raise self._unexpected(place + 1, "a type of events")
            kind, kind_span, place = _name(kind_token), token_span(kind_token), place + 2
        if place >= end or _word(self._tokens[place]) != "AS":
            raise self._unexpected(place, "AS" if kind is not None else "OF or AS")
        stop = self._until(place + 1, end, lambda at: self._begins_duration(at, end))
        condition: ex.Expression = self._rule("condition", place + 1, stop)
        check_depth(condition)
        at_least = at_most = gap = None
        place = stop
        while place < end:
            word = _word(self._tokens[place])
            if word == "GAP" and gap is None:
                gap, place = self._duration(place + 1, end)
            elif word == "BETWEEN" and at_least is None and at_most is None:
                at_least, place = self._duration(place + 1, end)
                if place >= end or _word(self._tokens[place]) != "AND":
                    raise self._unexpected(place, "AND")
                at_most, place = self._duration(place + 1, end)
            elif word == "AT" and at_least is None and at_most is None:
                least = self._bound_word(place + 1, end) == "LEAST"
                bound, place = self._duration(place + 2, end)
                at_least, at_most = (bound, None) if least else (None, bound)
            else:
                raise self._unexpected(place, "',', GAP or the next clause")
        return Definition(
            _name(self._tokens[begin]),
            kind,
            ex.without_aliases(condition),
            at_least,
            at_most,
            gap,
            token_span(self._tokens[begin]),
            kind_span,
        )

    def _bound_word(self, place: int, end: int) -> str:
        """LEAST or MOST."""
        if place >= end:
            raise self._unexpected(place, "LEAST or MOST")
        word = _word(self._tokens[place])
        if word not in ("LEAST", "MOST"):
            raise QueryError(
                f"AT is followed by LEAST or MOST, not by '{shortened(str(self._tokens[place]))}'",
                token_span(self._tokens[place]),
                did_you_mean(word, ["LEAST", "MOST"]) or "such as AT LEAST 5 s",
            )
        return word

    def _begins_duration(self, place: int, end: int) -> bool:
        """`AT LEAST 5 s`, `GAP 5 s`, or `BETWEEN 4 s AND 30 s`, and no condition."""
        word = _word(self._tokens[place])
        if word in ("AT", "GAP"):  # behind a value no name can stand
            return self._ends_value(place - 1)
        if word != "BETWEEN" or place + 3 >= end:
            return False
        first, second, both = self._tokens[place + 1 : place + 4]
        return first.type == "NUMBER" and _is_name(second) and _word(both) == "AND"

    def _ends_value(self, place: int) -> bool:
        token = self._tokens[place]
        if token.type in ("NUMBER", "STRING") or str(token) in _CLOSING:
            return True
        return _is_name(token) and _word(token) not in _WANTING_MORE + _COMPARING

    def _duration(self, place: int, end: int) -> tuple[sx.Duration, int]:
        """An amount and its unit, and the place behind them."""
        size = 3 if place < end and str(self._tokens[place]) == "-" else 2
        if place + size > end:
            raise self._unexpected(min(place + size - 1, end), "an amount of time, such as 5 s")
        return self._rule("duration", place, place + size), place + size

    # --- PATTERN -------------------------------------------------------------------------------

    def _pattern(self, begin: int, end: int) -> tuple[tuple[Constraint, ...], str | None]:
        if end - begin == 2 and _is_name(self._tokens[begin + 1]):
            return (), _name(self._tokens[begin + 1])
        found: list[Constraint] = []
        self._place = begin + 1
        while True:
            found.append(self._constraint(end))
            if self._place == end:
                break
            word = _word(self._tokens[self._place])
            if word == "OR":
                raise QueryError(
                    "constraints hold together, and OR is between the relations of one",
                    token_span(self._tokens[self._place]),
                    "write the relations of two situations with ';': A before;after B",
                )
            if word != "AND":
                raise self._unexpected(self._place, "AND, ';' or the next clause")
            self._place += 1
        _check_number("constraints in PATTERN", found, self._span(begin, end))
        return tuple(found), None

    def _constraint(self, end: int) -> Constraint:
        first = self._place
        if first + 1 < end and _word(self._tokens[first]) == "NOT":
            raise QueryError(
                "a constraint says which relations hold, and cannot be negated",
                token_span(self._tokens[first]),
                "write the other ones: for NOT A before B, 'A meets;intersects;met by;after B'",
            )
        left = self._name_in_pattern(end)
        mask = self._relation(end)
        while self._place < end and str(self._tokens[self._place]) in (";", "|"):
            self._place += 1
            mask |= self._relation(end)
        right = self._name_in_pattern(end)
        return Constraint(
            _name(left),
            _name(right),
            mask,
            self._span(first, self._place),
            token_span(left),
            token_span(right),
        )

    def _name_in_pattern(self, end: int) -> Token:
        if self._place >= end or not _is_name(self._tokens[self._place]):
            raise self._unexpected(self._place, "the name of a situation")
        self._place += 1
        return self._tokens[self._place - 1]

    def _relation(self, end: int) -> int:
        """The bits of a relation, which may be of two words."""
        if self._place >= end:
            raise self._unexpected(self._place, "a relation, such as before or overlaps")
        token = self._tokens[self._place]
        word = str(token).lower()
        if self._place + 1 < end and _word(self._tokens[self._place + 1]) == "BY":
            both = f"{word} by"
            if both in WORDS:
                self._place += 2
                return WORDS[both]
        if word not in WORDS:
            known = ", ".join(name.upper() for name in WORDS)
            raise QueryError(
                f"'{shortened(str(token))}' is no relation of two situations",
                token_span(token),
                did_you_mean(word, WORDS) or f"the relations are {known}",
            )
        self._place += 1
        return WORDS[word]

    # --- tokens --------------------------------------------------------------------------------

    def _until(self, begin: int, end: int, stops: Callable[[int], bool]) -> int:
        """The first place outside of brackets that stops; `end` where none does."""
        depth = 0
        for place in range(begin, end):
            depth += (str(self._tokens[place]) in _OPENING) - (str(self._tokens[place]) in _CLOSING)
            if depth == 0 and stops(place):
                return place
        return end

    def _span(self, begin: int, end: int) -> Span:
        first, last = self._tokens[begin], self._tokens[max(begin, end - 1)]
        return Span(token_span(first).start, token_span(last).end)

    def _unexpected(self, place: int, wanted: str) -> QueryError:
        if place >= len(self._tokens):
            end = len(self._text.rstrip())
            return QueryError(f"the query ends here; expected {wanted}", Span(end, end + 1))
        token = self._tokens[place]
        return QueryError(
            f"unexpected '{shortened(str(token))}'; expected {wanted}", token_span(token)
        )
