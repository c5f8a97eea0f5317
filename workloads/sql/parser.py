"""A SQL text to a `Statement`: the SELECT, and the clause MATCH_RECOGNIZE in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workloads.errors import QueryError, Span
from workloads.limits import MAX_QUERY_CHARACTERS
from workloads.sql import expressions as ex
from workloads.sql.nesting import Around, joint_condition, joint_statement
from workloads.sql.projection import over_projection, projected
from workloads.sql.rowpattern import PatternReader, RowPattern, canonical_name
from workloads.sql.statement import (
    Definition,
    Named,
    Order,
    Skip,
    Source,
    Statement,
    Unmapped,
)
from workloads.sql.value_parser import RESERVED, ValueParser

_CLAUSES = (
    *("PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "INITIAL", "SEEK", "PATTERN"),
    *("WITHIN", "SUBSET", "DEFINE"),
)


def parse_statement(text: str) -> Statement:
    """The statement of a text; raises `QueryError` with the place of the first mistake."""
    if len(text) > MAX_QUERY_CHARACTERS:
        raise QueryError(
            f"the statement is {len(text):,} characters long; at most {MAX_QUERY_CHARACTERS:,} are "
            "taken",
            Span(0, 0),
            "split it into several",
        )
    return _StatementParser(text).statement()


class _StatementParser(ValueParser):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._tables: dict[str, Source | Statement] = {}  # that WITH gives

    def statement(self) -> Statement:
        if self.accept("WITH"):
            self._named_selects()
        start = self.token
        found = self._select()
        self.accept(";")
        if self.token.upper in ("UNION", "EXCEPT", "INTERSECT"):
            raise QueryError(
                f"{self.token.upper} of SELECTs is not taken",
                self.token.span,
                "make a query of each: a workload runs them together",
            )
        if self.token.kind != "end":
            raise self.unexpected("the end of the statement")
        if isinstance(found, Source):
            raise _no_clause(self.since(start))
        return found

    def _named_selects(self) -> None:
        """`name AS (SELECT …), …`, behind WITH."""
        while True:
            name = self.name("a name, as in WITH name AS (SELECT …)")
            if name.upper == "RECURSIVE":
                raise QueryError("WITH RECURSIVE is not taken", name.span)
            self.expect("AS")
            self.expect("(")
            self._tables[name.text.lower()] = self._select()
            self.expect(")")
            if not self.accept(","):
                return

    def _select(self) -> Statement | Source:
        """A SELECT: with MATCH_RECOGNIZE, around one that has it, or of some rows of the stream."""
        start = self.expect("SELECT")
        distinct = self.accept("DISTINCT")
        if not distinct:
            self.accept("ALL")
        select = self._items()
        self.expect("FROM")
        origin, alias = self._source()
        clause: dict[str, Any] | None = None
        if isinstance(origin, Source) and self.is_word("MATCH_RECOGNIZE"):
            clause = self._recognition(origin)
        elif isinstance(origin, Source) and not self._nested:
            raise _no_clause(self.token.span)
        if self.is_mark(",") or self.is_word("JOIN") or self.ahead(1).upper == "JOIN":
            raise QueryError("a join around MATCH_RECOGNIZE is not taken", self.token.span)
        around = self._around(select, distinct)
        if clause is not None:
            return Statement(
                **over_projection(clause),
                select=around.select,
                distinct=around.distinct,
                where=around.where,
                group_by=around.group_by,
                having=around.having,
                order=around.order,
                limit=around.limit,
                offset=around.offset,
            )
        if isinstance(origin, Statement):
            return joint_statement(origin, alias, around, self.since(start))
        if around != Around(select, where=around.where) or origin.items:
            raise QueryError(
                "of subqueries without MATCH_RECOGNIZE only SELECT … FROM name WHERE … is taken",
                self.since(start),
                "name the stream itself",
            )
        span = self.since(start)
        where = joint_condition(origin.where, around.where)
        return replace(projected(origin, select, span), where=where)

    @property
    def _nested(self) -> bool:
        """Is the SELECT one inside of brackets?"""
        before = self.tokens[: self.at]
        marks = [token.text for token in before if token.kind == "mark"]
        return marks.count("(") > marks.count(")")

    def _around(self, select: tuple[Named, ...], distinct: bool) -> Around:
        where = self.value() if self.accept("WHERE") else None
        group = self.values() if self.accept("GROUP", "BY") else ()
        having = self.value() if self.accept("HAVING") else None
        order = self._order() if self.accept("ORDER", "BY") else ()
        offset = self._offset()
        limit = self._limit()
        return Around(
            select, distinct, where, group, having, order, limit, offset or self._offset()
        )

    def _offset(self) -> int:
        if not self.accept("OFFSET"):
            return 0
        found = self._whole("a number of rows")
        if not self.accept("ROWS"):
            self.accept("ROW")
        return found

    def _limit(self) -> int | None:
        if self.accept("LIMIT"):
            return None if self.accept("ALL") else self._whole("a number of rows")
        if not (self.accept("FETCH", "FIRST") or self.accept("FETCH", "NEXT")):
            return None
        is_one = self.is_word("ROW") or self.is_word("ROWS")
        found = 1 if is_one else self._whole("a number of rows")
        if not (self.accept("ROWS", "ONLY") or self.accept("ROW", "ONLY")):
            raise self.unexpected("ROWS ONLY")
        return found

    def _items(self) -> tuple[Named, ...]:
        found = [self._item()]
        while self.accept(","):
            found.append(self._item())
        return tuple(found)

    def _item(self) -> Named:
        start = self.token
        value = self.value()
        span = self.since(start)
        name = None
        if self.accept("AS") or (self.token.is_name and self.token.upper not in RESERVED):
            name = self.name("a name").text
        return Named(value, name, self.text[span.start : span.end], span)

    def _whole(self, what: str) -> int:
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            raise self.unexpected(what)
        self.at += 1
        return int(token.text[:30])

    def _order(self) -> tuple[Order, ...]:
        found = []
        while True:
            value = self.value()
            descending = self.accept("DESC")
            if not descending:
                self.accept("ASC")
            nulls_first = False
            if self.accept("NULLS", "FIRST"):
                nulls_first = True
            else:
                self.accept("NULLS", "LAST")
            found.append(Order(value, descending, nulls_first))
            if not self.accept(","):
                return tuple(found)

    # --- FROM ------------------------------------------------------------------------------------

    def _source(self) -> tuple[Source | Statement, str | None]:
        """What stands behind FROM, and the name that it is given."""
        start = self.token
        source: Source | Statement
        if self.accept("("):
            if self.accept("VALUES"):
                source = self._rows()
            elif self.is_word("SELECT"):
                source = self._select()
            else:
                source, _ = self._source()
            self.expect(")")
        else:
            name = self._table()
            source = self._tables.get(name.lower(), Source(name))
            if name.lower() in self._tables and isinstance(source, Source):
                source = replace(source, alias=name)
        alias, names = self._alias()
        if isinstance(source, Statement):
            if names:
                raise QueryError("names of columns go with VALUES", self.since(start))
            return source, alias or self.written(start)
        if names and not source.rows:
            raise QueryError("names of columns go with VALUES", self.since(start), "leave them out")
        if names and any(len(row) != len(names) for row in source.rows):
            raise QueryError("as many names as a row has values are needed", self.since(start))
        return replace(
            source,
            alias=alias or source.alias,
            columns=names or source.columns,
            span=self.since(start),
        ), alias

    def _table(self) -> str:
        parts = [self.name("the name of the stream").text]
        while self.accept("."):
            parts.append(self.name("a name").text)
        return ".".join(parts)

    def _rows(self) -> Source:
        rows: list[tuple[ex.Literal, ...]] = []
        while True:
            start = self.token
            self.accept("ROW")
            if self.accept("("):
                values = self.values()
                self.expect(")")
            else:
                values = (self.value(),)
            rows.append(self._literals(values, start.span))
            if not self.accept(","):
                return Source(None, rows=tuple(rows))

    def _literals(self, values: tuple[ex.Expression, ...], span: Span) -> tuple[ex.Literal, ...]:
        found = []
        for value in values:
            if isinstance(value, ex.Cast):
                value = value.operand
            if isinstance(value, ex.Unary) and isinstance(value.operand, ex.Literal):
                number = value.operand.value
                if value.operator == "-" and isinstance(number, int | float):
                    value = ex.Literal(-number)
            if isinstance(value, ex.Moment):
                value = ex.Literal(value.text)
            if not isinstance(value, ex.Literal):
                raise QueryError("VALUES takes constants", span)
            found.append(value)
        return tuple(found)

    def _alias(self) -> tuple[str | None, tuple[str, ...]]:
        if not (self.accept("AS") or (self.token.is_name and self.token.upper not in RESERVED)):
            return None, ()
        name = self.name("a name").text
        names: list[str] = []
        if self.accept("("):
            names.append(self.name("a name").text)
            while self.accept(","):
                names.append(self.name("a name").text)
            self.expect(")")
        return name, tuple(names)

    # --- MATCH_RECOGNIZE -------------------------------------------------------------------------

    def _recognition(self, source: Source) -> dict[str, Any]:
        self.expect("MATCH_RECOGNIZE")
        opened = self.expect("(")
        found: dict[str, Any] = {"source": source}
        while not self.is_mark(")"):
            self._clause(found)
        self.expect(")")
        if "pattern" not in found:
            raise QueryError("MATCH_RECOGNIZE without PATTERN", opened.span, "add PATTERN (…)")
        found["alias"], found["names"] = self._alias()
        return found

    def _clause(self, found: dict[str, Any]) -> None:
        start = self.token
        added: dict[str, Any] = {}
        word = start.upper
        if word not in _CLAUSES:
            raise self.unexpected("a clause (" + ", ".join(_CLAUSES) + ") or ')'")
        match word:
            case "PARTITION":
                self.expect("PARTITION", "BY")
                added["partition_by"] = self._columns()
            case "ORDER":
                self.expect("ORDER", "BY")
                added["order_by"] = self._order()
            case "MEASURES":
                self.expect("MEASURES")
                added["measures"] = self._measures()
            case "ONE":
                self.expect("ONE", "ROW", "PER", "MATCH")
                added["all_rows"] = False
            case "ALL":
                self.expect("ALL", "ROWS", "PER", "MATCH")
                added["all_rows"] = True
                found["unmapped"] = self._unmapped()
            case "AFTER":
                added["skip"] = self._skip()
            case "INITIAL" | "SEEK":
                raise QueryError(f"{word} is for windows, not for MATCH_RECOGNIZE", start.span)
            case "PATTERN":
                added["pattern"] = self._pattern()
                found["pattern_span"] = self.since(start)
            case "WITHIN":
                self.expect("WITHIN")
                length = self.interval()
                if length.nanoseconds <= 0:
                    raise QueryError("a window that holds nothing", length.span, "make it longer")
                added["within"] = length.nanoseconds
            case "SUBSET":
                self.expect("SUBSET")
                added["subsets"] = self._subsets()
            case _:
                self.expect("DEFINE")
                added["definitions"] = self._definitions()
        for name, value in added.items():
            if name in found:
                raise QueryError(f"{word} stands twice", start.span, "leave one out")
            found[name] = value

    def _columns(self) -> tuple[ex.Column, ...]:
        found = []
        for value in self.values():
            if not isinstance(value, ex.Column):
                raise QueryError("PARTITION BY takes columns", value.span)
            found.append(value)
        return tuple(found)

    def _measures(self) -> tuple[Named, ...]:
        found: list[Named] = []
        while True:
            start = self.token
            value = self.value()
            self.expect("AS")
            name = self.name("a name")
            if any((m.name or "").lower() == name.text.lower() for m in found):
                raise QueryError(f"two measures are called {name.text}", name.span, "rename one")
            found.append(Named(value, name.text, "", self.since(start)))
            if not self.accept(","):
                return tuple(found)

    def _unmapped(self) -> Unmapped:
        if self.accept("SHOW", "EMPTY", "MATCHES"):
            return "show"
        if self.accept("OMIT", "EMPTY", "MATCHES"):
            return "omit"
        if self.accept("WITH", "UNMATCHED", "ROWS"):
            return "unmatched"
        return "show"

    def _skip(self) -> Skip:
        start = self.expect("AFTER", "MATCH")
        self.accept("SKIP")
        if self.accept("PAST", "LAST", "ROW"):
            return Skip("past", None, self.since(start))
        if self.accept("TO", "NEXT", "ROW"):
            return Skip("next", None, self.since(start))
        self.expect("TO")
        for word in ("FIRST", "LAST"):
            if self.is_word(word) and self.ahead(1).is_name and not self._at_clause(1):
                self.at += 1
                name = canonical_name(self.name("a variable"))
                return Skip("first" if word == "FIRST" else "last", name, self.since(start))
        name = canonical_name(self.name("a variable, NEXT ROW, FIRST or LAST"))
        return Skip("last", name, self.since(start))

    def _at_clause(self, ahead: int) -> bool:
        """Does a clause begin so many tokens ahead, and not a name?"""
        token, after = self.ahead(ahead), self.ahead(ahead + 1)
        return token.upper in _CLAUSES and (after.text == "(" or after.is_name)

    def _pattern(self) -> RowPattern:
        self.expect("PATTERN")
        self.expect("(")
        reader = PatternReader(self.tokens, self.at)
        found = reader.read()
        self.at = reader.at
        self.expect(")")
        return found

    def _subsets(self) -> tuple[Definition, ...]:
        found = []
        while True:
            name = self.name("a name")
            self.expect("=")
            self.expect("(")
            parts = [canonical_name(self.name("a variable"))]
            while self.accept(","):
                parts.append(canonical_name(self.name("a variable")))
            self.expect(")")
            found.append(Definition(canonical_name(name), None, tuple(parts), name.span))
            if not self.accept(","):
                return tuple(found)

    def _definitions(self) -> tuple[Definition, ...]:
        found = []
        while True:
            name = self.name("a variable")
            self.expect("AS")
            found.append(Definition(canonical_name(name), self.value(), (), name.span))
            if not self.accept(","):
                return tuple(found)


def _no_clause(span: Span) -> QueryError:
    return QueryError(
        "a SELECT without MATCH_RECOGNIZE",
        span,
        "SQL is taken as SELECT … FROM stream MATCH_RECOGNIZE (…); for filters, windows and joins "
        "see docs/language.md",
    )
