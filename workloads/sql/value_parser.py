"""Values and conditions of SQL from tokens, by precedence."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from workloads.errors import QueryError, Span
from workloads.limits import MAX_BRACKETS
from workloads.sql import expressions as ex
from workloads.sql.functions import KEEPS_NULLS, SAME
from workloads.sql.lexer import Token, tokens

_UNITS = {
    "SECOND": 10**9,
    "MINUTE": 60 * 10**9,
    "HOUR": 3600 * 10**9,
    "DAY": 86400 * 10**9,
    "WEEK": 7 * 86400 * 10**9,
    "MILLISECOND": 10**6,
    "MICROSECOND": 10**3,
}
_TYPES = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT"), "int"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC"), "float"),
    **dict.fromkeys(("VARCHAR", "CHAR", "TEXT", "STRING"), "string"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "bool"),
    "TIMESTAMP": "time",
    "DATE": "date",
}
# Words that end a value, and are no names where they are not quoted.
RESERVED = frozenset(
    (
        *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT"),
        *("INTERSECT", "JOIN", "ON", "AS", "AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE"),
        *("BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "MATCH_RECOGNIZE", "BY", "DISTINCT"),
        *("FETCH", "OFFSET", "FILTER", "OVER"),
    )
)


class ValueParser:
    """Reads values from the tokens of a text, from `at` on."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, tokens(text)
        self.at = 0
        self._depth = 0

    # --- tokens ----------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, number: int) -> Token:
        return self.tokens[min(self.at + number, len(self.tokens) - 1)]

    def is_mark(self, *marks: str) -> bool:
        return self.token.kind == "mark" and self.token.text in marks

    def is_word(self, *words: str) -> bool:
        """Do these words come next, one behind the other?"""
        return all(self.ahead(i).upper == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take words, or a mark, if they come next."""
        if len(words) == 1 and self.is_mark(words[0]):
            self.at += 1
            return True
        if self.is_word(*words):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> Token:
        """Take words, or a mark, which must come next."""
        found = self.token
        if not self.accept(*words):
            raise self.unexpected(f"'{' '.join(words)}'")
        return found

    def unexpected(self, expected: str) -> QueryError:
        token = self.token
        if token.kind == "end":
            return QueryError(f"the statement ends here; expected {expected}", token.span)
        return QueryError(
            f"unexpected '{self.written(token)[:40]}'; expected {expected}", token.span
        )

    def written(self, token: Token) -> str:
        return self.text[token.span.start : token.span.end]

    def name(self, what: str) -> Token:
        """Take a name, quoted or not."""
        token = self.token
        if not token.is_name or token.upper in RESERVED:
            raise self.unexpected(what)
        self.at += 1
        return token

    def since(self, start: Token) -> Span:
        return Span(start.span.start, self.tokens[self.at - 1].span.end)

    # --- values, loosest first -------------------------------------------------------------------

    def value(self) -> ex.Expression:
        """A value or a condition."""
        self._depth += 1
        if self._depth > MAX_BRACKETS:
            raise QueryError("brackets are nested too deeply", self.token.span, "write it flatter")
        found = self._conjunction()
        while self.is_word("OR"):
            found = self._binary("OR", found, self._conjunction)
        self._depth -= 1
        return found

    def _binary(self, operator: str, left: ex.Expression, right: object) -> ex.Expression:
        self.at += 1
        assert callable(right)
        second: ex.Expression = right()
        return ex.Binary(operator, left, second, Span(left.span.start, second.span.end))

    def _conjunction(self) -> ex.Expression:
        found = self._negation()
        while self.is_word("AND"):
            found = self._binary("AND", found, self._negation)
        return found

    def _negation(self) -> ex.Expression:
        start = self.token
        if self.accept("NOT"):
            return ex.Unary("NOT", self._negation(), self.since(start))
        return self._predicate()

    def _predicate(self) -> ex.Expression:
        start = self.token
        found = self._concatenation()
        while True:
            if self.is_mark("=", "<>", "!=", "<", "<=", ">", ">="):
                operator = self.token.text.replace("!=", "<>")
                found = self._binary(operator, found, self._concatenation)
                continue
            if self.accept("IS"):
                found = self._is(found, start)
                continue
            negated = self.is_word("NOT") and self.ahead(1).upper in (
                *("IN", "LIKE", "ILIKE", "BETWEEN"),
            )
            if negated:
                self.at += 1
            elif self.token.upper not in ("IN", "LIKE", "ILIKE", "BETWEEN"):
                return found
            found = self._tested(found, start)
            if negated:
                found = ex.Unary("NOT", found, self.since(start))

    def _is(self, operand: ex.Expression, start: Token) -> ex.Expression:
        negated = self.accept("NOT")
        found: ex.Expression
        if self.accept("NULL") or self.accept("UNKNOWN"):
            found = ex.IsNull(operand, self.since(start))
        elif self.is_word("TRUE") or self.is_word("FALSE"):
            wanted = self.token.upper == "TRUE"
            self.at += 1
            same = ex.Binary("=", operand, ex.Literal(wanted), self.since(start))
            known = ex.Unary("NOT", ex.IsNull(operand, self.since(start)), self.since(start))
            found = ex.Binary("AND", known, same, self.since(start))
        elif self.accept("DISTINCT", "FROM"):
            other = self._concatenation()
            span = self.since(start)
            nulls = (ex.IsNull(operand, span), ex.IsNull(other, span))
            both = ex.Binary("AND", *nulls, span)
            none = ex.Unary("NOT", ex.Binary("OR", *nulls, span), span)
            equal = ex.Binary("AND", none, ex.Binary("=", operand, other, span), span)
            found = ex.Unary("NOT", ex.Binary("OR", both, equal, span), span)
        else:
            raise self.unexpected("NULL, NOT NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return ex.Unary("NOT", found, self.since(start)) if negated else found

    def _tested(self, operand: ex.Expression, start: Token) -> ex.Expression:
        word = self.token.upper
        self.at += 1
        if word == "IN":
            self.expect("(")
            if self.is_word("SELECT"):
                raise QueryError("a subquery is not taken here", self.token.span, "list the values")
            items = self.values()
            self.expect(")")
            return ex.InList(operand, items, self.since(start))
        if word == "BETWEEN":
            low = self._concatenation()
            self.expect("AND")
            high = self._concatenation()
            span = self.since(start)
            above = ex.Binary(">=", operand, low, span)
            return ex.Binary("AND", above, ex.Binary("<=", operand, high, span), span)
        pattern, escape = self._string(), ""
        if self.accept("ESCAPE"):
            escape = self._string()
            if len(escape) != 1:
                raise QueryError("ESCAPE takes one character", self.since(start))
        return ex.Like(operand, pattern, word == "ILIKE", escape, self.since(start))

    def _string(self) -> str:
        token = self.token
        if token.kind != "string":
            raise self.unexpected("a text in single quotes")
        self.at += 1
        return token.text

    def values(self) -> tuple[ex.Expression, ...]:
        """Values between commas."""
        found = [self.value()]
        while self.accept(","):
            found.append(self.value())
        return tuple(found)

    def _concatenation(self) -> ex.Expression:
        found = self._sum()
        while self.is_mark("||"):
            found = self._binary("||", found, self._sum)
        return found

    def _sum(self) -> ex.Expression:
        found = self._product()
        while self.is_mark("+", "-"):
            found = self._binary(self.token.text, found, self._product)
        return found

    def _product(self) -> ex.Expression:
        found = self._signed()
        while self.is_mark("*", "/", "%"):
            found = self._binary(self.token.text, found, self._signed)
        return found

    def _signed(self) -> ex.Expression:
        start = self.token
        if self.accept("-"):
            return ex.Unary("-", self._signed(), self.since(start))
        if self.accept("+"):
            return self._signed()
        found = self._primary()
        while self.accept("::"):
            found = ex.Cast(found, self._type(), self.since(start))
        return found

    # --- the innermost ---------------------------------------------------------------------------

    def _primary(self) -> ex.Expression:
        token = self.token
        match token.kind:
            case "number":
                self.at += 1
                whole = token.text.isdigit()
                return ex.Literal(int(token.text) if whole else float(token.text), token.span)
            case "string":
                self.at += 1
                return ex.Literal(token.text, token.span)
        if self.accept("("):
            if self.is_word("SELECT"):
                raise QueryError("a subquery is not taken here", self.token.span)
            found = self.value()
            self.expect(")")
            return found
        if self.is_mark("*"):
            self.at += 1
            return ex.AllColumns(None, False, token.span)
        if not token.is_name or (token.upper in RESERVED and token.upper != "CASE"):
            raise self.unexpected("a value")
        return self._worded(token)

    def _worded(self, token: Token) -> ex.Expression:
        word, after = token.upper, self.ahead(1)
        if word in ("TRUE", "FALSE", "NULL"):
            self.at += 1
            return ex.Literal({"TRUE": True, "FALSE": False, "NULL": None}[word], token.span)
        if word == "CASE":
            return self._case()
        if word == "EXISTS" and after.text == "(":
            raise QueryError("a subquery is not taken here", token.span)
        if word == "CAST" and after.text == "(":
            self.at += 2
            operand = self.value()
            self.expect("AS")
            found = ex.Cast(operand, self._type())
            self.expect(")")
            return ex.Cast(found.operand, found.type, self.since(token))
        if word == "ARRAY" and after.text == "[":
            return self._array()
        if word == "INTERVAL" and after.kind in ("string", "number"):
            return self.interval()
        if word in ("TIMESTAMP", "DATE") and after.kind == "string":
            self.at += 2
            return ex.Moment(after.text, word == "DATE", self.since(token))
        mode = ""
        if word in ("RUNNING", "FINAL") and after.is_name and self.ahead(2).text == "(":
            mode = word
            self.at += 1
        if self.token.is_name and self.ahead(1).kind == "mark" and self.ahead(1).text == "(":
            return self._call(mode, token)
        return self._column()

    def _array(self) -> ex.Expression:
        start = self.expect("ARRAY")
        self.expect("[")
        items = () if self.is_mark("]") else self.values()
        self.expect("]")
        return ex.Call("ARRAY", items, span=self.since(start))

    def _case(self) -> ex.Expression:
        start = self.expect("CASE")
        operand = None if self.is_word("WHEN") else self.value()
        conditions: list[ex.Expression] = []
        results: list[ex.Expression] = []
        while self.accept("WHEN"):
            asked = self.value()
            if operand is not None:
                asked = ex.Binary("=", operand, asked, asked.span)
            conditions.append(asked)
            self.expect("THEN")
            results.append(self.value())
        default = self.value() if self.accept("ELSE") else ex.Literal(None)
        self.expect("END")
        if not conditions:
            raise QueryError("CASE without WHEN", self.since(start))
        return ex.Case(tuple(conditions), tuple(results), default, self.since(start))

    def _type(self) -> str:
        token = self.name("a type")
        found = _TYPES.get(token.text.upper())
        if found is None:
            raise QueryError(
                f"no conversion to the type {token.text}",
                token.span,
                "there are BIGINT, DOUBLE, VARCHAR, BOOLEAN, TIMESTAMP and DATE",
            )
        self.accept("PRECISION")
        if self.accept("("):
            while not self.accept(")"):
                if self.token.kind == "end":
                    raise self.unexpected("')'")
                self.at += 1
        return found

    def interval(self) -> ex.Interval:
        """`INTERVAL '10' MINUTE`"""
        start = self.expect("INTERVAL")
        amount = self.token
        self.at += 1
        words = amount.text.split()
        unit = self.token
        if len(words) == 2:  # INTERVAL '10 minutes'
            name = words[1].upper()
        else:
            self.at += 1
            name = unit.upper
        name = name.removesuffix("S")
        self._skip_precision()
        try:
            size = Decimal(words[0]) * _UNITS[name]
        except (IndexError, InvalidOperation, KeyError):
            raise QueryError(
                "this is no length of time",
                self.since(start),
                "write it such as INTERVAL '10' MINUTE, with SECOND to DAY",
            ) from None
        if self.is_word("TO"):
            raise QueryError("intervals of two units are not taken", self.token.span)
        return ex.Interval(int(size), self.since(start))

    def _skip_precision(self) -> None:
        if self.is_mark("(") and self.ahead(1).kind == "number" and self.ahead(2).text == ")":
            self.at += 3

    def _call(self, mode: str, start: Token) -> ex.Expression:
        name = self.name("the name of a function")
        self.expect("(")
        distinct = self.accept("DISTINCT")
        arguments = () if self.is_mark(")") else self._arguments(name.text.upper())
        if self.is_word("ORDER"):
            raise QueryError("ORDER BY inside of an aggregate is not taken", self.token.span)
        self.expect(")")
        called = SAME.get(name.text.upper(), name.text.upper())
        filtered = self.is_word("FILTER")
        if filtered:
            arguments = self._filtered(called, arguments)
        if self.is_word("OVER"):
            raise QueryError("OVER is not taken", self.token.span)
        return ex.Call(called, arguments, distinct, mode, filtered, self.since(start))

    def _arguments(self, called: str) -> tuple[ex.Expression, ...]:
        """Values between commas, or with the words that some functions have in their place."""
        if called == "POSITION":
            part = self._concatenation()
            self.expect("IN")
            return self._concatenation(), part
        found = self.values()
        if called in ("SUBSTRING", "SUBSTR"):
            for word in ("FROM", "FOR"):
                if self.accept(word):
                    found = (*found, self.value())
        return found

    def _filtered(
        self, called: str, arguments: tuple[ex.Expression, ...]
    ) -> tuple[ex.Expression, ...]:
        """The arguments of an aggregate with FILTER: null where its condition does not hold."""
        start = self.expect("FILTER")
        self.expect("(")
        self.expect("WHERE")
        condition = self.value()
        self.expect(")")
        span = self.since(start)
        value = arguments[-1] if arguments else ex.AllColumns()
        if isinstance(value, ex.AllColumns) and value.qualifier is None:
            value = ex.Literal(1, span)
        elif isinstance(value, ex.AllColumns) or called in KEEPS_NULLS:
            raise QueryError(f"FILTER with this {called} is not taken", span)
        chosen = ex.Case((condition,), (value,), ex.Literal(None, span), span)
        return (*arguments[:-1], chosen)

    def _column(self) -> ex.Expression:
        start = self.name("a value")
        parts = [start]
        while self.is_mark("."):
            self.at += 1
            if self.is_mark("*"):
                self.at += 1
                if len(parts) > 1:
                    raise QueryError("'*' behind more than one name", self.since(start))
                return ex.AllColumns(start.text, start.kind == "quoted", self.since(start))
            token = self.token
            if not token.is_name:
                raise self.unexpected("a name")
            self.at += 1
            parts.append(token)
        return ex.Column(
            tuple(part.text for part in parts),
            tuple(part.kind == "quoted" for part in parts),
            self.since(start),
        )
