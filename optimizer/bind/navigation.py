"""What a value in MATCH_RECOGNIZE reads: FIRST, LAST, PREV, NEXT, CLASSIFIER, aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from workloads.errors import QueryError, Span, did_you_mean
from workloads.sql import expressions as ex
from workloads.sql.functions import AGGREGATES, FUNCTIONS, NAVIGATION

MAX_OFFSET = 2**31


class RowMeaning:
    """Turns what was written into leaves that each say by themselves what they read.

    `unions` are the names of variables, `plain` takes the table's name off a column, and `find`
    gives the column that a name stands for; `time` is the stream's. FINAL is for `measures` only.
    """

    def __init__(
        self,
        unions: Mapping[str, tuple[str, ...]],
        plain: Callable[[ex.Column], str],
        find: Callable[[str, Span], str],
        time: str,
        measures: bool,
    ) -> None:
        self._unions, self._plain, self._find = unions, plain, find
        self._time, self._measures = time, measures

    def meant(self, node: ex.Expression) -> ex.Expression:
        """The meaning of a condition or a measure."""
        return self._at(node, ex.Pointer(), [])

    def own(self, node: ex.Expression) -> ex.Expression:
        """The meaning of a condition on each row by itself."""
        return self._inside(node, [])

    # --- values of a match -----------------------------------------------------------------------

    def _at(
        self, node: ex.Expression, pointer: ex.Pointer, named: list[str | None], around: str = ""
    ) -> ex.Expression:
        """A value read where the pointer leads; `named` collects the variables that it names."""
        match node:
            case ex.Column():
                variable, column = self._split(node)
                named.append(variable)
                return ex.RowValue(replace(pointer, variable=variable), column, node.span)
            case ex.AllColumns():
                raise QueryError("'*' is no value", node.span, "count it: COUNT(*)")
            case ex.Call(name) if name in NAVIGATION:
                return self._navigated(node, pointer, named, around)
            case ex.Call("CLASSIFIER"):
                check_plain(node)
                variable = self._argument(node)
                named.append(variable)
                return ex.Classifier(replace(pointer, variable=variable), node.span)
            case ex.Call("MATCH_NUMBER"):
                check_plain(node)
                if node.arguments:
                    raise QueryError("MATCH_NUMBER takes nothing", node.span)
                return ex.MatchNumber(node.span)
            case ex.Call("MATCH_ROWTIME", arguments):
                check_plain(node)
                if around or len(arguments) > 1:
                    raise QueryError(
                        "MATCH_ROWTIME takes a column of times, or nothing",
                        node.span,
                        "write it outside of other functions",
                    )
                if not arguments:
                    return ex.RowValue(ex.Pointer(), self._time, node.span)
                return self._at(arguments[0], ex.Pointer(), named, node.name)
            case ex.Call(name) if name in AGGREGATES:
                if around:
                    raise QueryError(f"an aggregate inside of {around}", node.span, "turn it round")
                return self._aggregated(node)
            case ex.Call():
                check_function(node)
                return ex.rebuilt(node, lambda part: self._at(part, pointer, named, around))
            case _:
                return ex.rebuilt(node, lambda part: self._at(part, pointer, named, around))

    def _split(self, column: ex.Column) -> tuple[str | None, str]:
        path, quoted = column.path, column.quoted
        if len(path) > 1:
            variable = path[0] if quoted[0] else path[0].upper()
            if variable in self._unions:
                return variable, self._find(".".join(path[1:]), column.span)
            self._check_qualifier(column, variable)
        return None, self._find(self._plain(column), column.span)

    def _check_qualifier(self, column: ex.Column, variable: str) -> None:
        """Refuse `C.x` where C is no variable, and the events have no column `C` or `C.x`."""
        plain = self._plain(column)
        if "." not in plain:
            return
        try:
            self._find(plain, column.span)
        except QueryError:
            raise QueryError(
                f"{variable} is no variable of the pattern",
                column.span,
                did_you_mean(variable, self._unions) or f"it has {', '.join(self._unions)}",
            ) from None

    def _argument(self, node: ex.Call) -> str | None:
        """The variable that CLASSIFIER is asked about."""
        if not node.arguments:
            return None
        (given,) = node.arguments if len(node.arguments) == 1 else (None,)
        if not isinstance(given, ex.Column) or len(given.path) != 1:
            raise QueryError("CLASSIFIER takes a variable", node.span)
        name = given.path[0] if given.quoted[0] else given.path[0].upper()
        if name not in self._unions:
            raise QueryError(
                f"{name} is no variable of the pattern",
                given.span,
                did_you_mean(name, self._unions),
            )
        return name

    def _navigated(
        self, node: ex.Call, pointer: ex.Pointer, named: list[str | None], around: str
    ) -> ex.Expression:
        name, is_physical = node.name, node.name in ("PREV", "NEXT")
        check_plain(replace(node, mode=""))
        if around and (is_physical or around not in ("PREV", "NEXT")):
            raise QueryError(
                f"{name} inside of {around}",
                node.span,
                "only FIRST and LAST may stand in PREV and NEXT, as PREV(LAST(A.x), 2)",
            )
        if node.mode == "FINAL" and not self._measures:
            raise QueryError("FINAL in DEFINE: the match is not found yet", node.span)
        if is_physical and node.mode:
            raise QueryError(f"{node.mode} before {name}", node.span, "leave it out")
        if not 1 <= len(node.arguments) <= 2:
            raise QueryError(f"{name} takes a value and perhaps an offset", node.span)
        offset = self._offset(node, 1 if is_physical else 0)
        if is_physical:
            moved = replace(pointer, physical=-offset if name == "PREV" else offset)
            inner = node.arguments[0]
            if not (isinstance(inner, ex.Call) and inner.name in ("FIRST", "LAST")):
                for part in ex.walk(inner):
                    if isinstance(part, ex.Call) and part.name in ("FIRST", "LAST"):
                        raise QueryError(
                            f"{part.name} is not directly in {name}", part.span, "split the value"
                        )
        else:
            moved = replace(
                pointer, from_first=name == "FIRST", final=node.mode == "FINAL", logical=offset
            )
        inside: list[str | None] = []
        found = self._at(node.arguments[0], moved, inside, name)
        if not inside:
            raise QueryError(
                f"{name} of a value without a column", node.span, "read a column, or CLASSIFIER()"
            )
        if len(set(inside)) > 1:
            raise QueryError(
                f"{name} of columns of several variables", node.span, "take each by itself"
            )
        named += inside
        return found

    def _offset(self, node: ex.Call, default: int) -> int:
        if len(node.arguments) < 2:
            return default
        given = node.arguments[1]
        value = given.value if isinstance(given, ex.Literal) else None
        if not isinstance(value, int) or isinstance(value, bool):
            raise QueryError("an offset is a whole number from 0 on", given.span)
        if value >= MAX_OFFSET:
            raise QueryError(f"an offset beyond {MAX_OFFSET - 1:,}", given.span, "make it smaller")
        return value

    # --- aggregates ------------------------------------------------------------------------------

    def _aggregated(self, node: ex.Call) -> ex.Expression:
        if node.mode == "FINAL" and not self._measures:
            raise QueryError("FINAL in DEFINE: the match is not found yet", node.span)
        final = node.mode == "FINAL"
        first = node.arguments[0] if node.arguments else ex.AllColumns()
        if isinstance(first, ex.AllColumns):
            if node.name != "COUNT" or len(node.arguments) > 1:
                raise QueryError(f"{node.name} needs a value", node.span)
            return ex.Aggregated(
                "COUNT", None, self._qualifier(first), final, False, None, node.span
            )
        named: list[str | None] = []
        arguments = [self._inside(argument, named) for argument in node.arguments]
        if len(set(named)) > 1:
            raise QueryError(
                f"{node.name} of columns of several variables", node.span, "take each by itself"
            )
        check_arguments(node)
        return ex.Aggregated(
            node.name,
            arguments[0],
            named[0] if named else None,
            final,
            node.distinct,
            arguments[1] if len(arguments) > 1 else None,
            node.span,
        )

    def _qualifier(self, star: ex.AllColumns) -> str | None:
        if star.qualifier is None:
            return None
        name = star.qualifier if star.quoted else star.qualifier.upper()
        if name not in self._unions:
            raise QueryError(
                f"{name} is no variable of the pattern", star.span, did_you_mean(name, self._unions)
            )
        return name

    def _inside(self, node: ex.Expression, named: list[str | None]) -> ex.Expression:
        """A value of each row that an aggregate goes over."""
        match node:
            case ex.Column():
                variable, column = self._split(node)
                named.append(variable)
                return ex.Own(column, node.span)
            case ex.Call("CLASSIFIER"):
                check_plain(node)
                named.append(self._argument(node))
                return ex.Own(None, node.span)
            case ex.Call("MATCH_NUMBER"):
                return ex.MatchNumber(node.span)
            case ex.Call(name) if name in (*NAVIGATION, *AGGREGATES):
                raise QueryError(f"{name} inside of an aggregate", node.span, "turn it round")
            case ex.Call():
                check_function(node)
        return ex.rebuilt(node, lambda part: self._inside(part, named))


def check_function(call: ex.Call) -> None:
    """Refuse what is no function of plain values."""
    if call.name not in FUNCTIONS:
        known = (*FUNCTIONS, *AGGREGATES, *NAVIGATION, "CLASSIFIER", "MATCH_NUMBER")
        raise QueryError(
            f"there is no function {call.name}",
            call.span,
            did_you_mean(call.name, known) or "docs/sql.md lists those that are taken",
        )
    check_plain(call)


def check_arguments(aggregate: ex.Call) -> None:
    """Refuse an aggregate with too many values, or too few."""
    least = 2 if aggregate.name in ("MAX_BY", "MIN_BY") else 1
    most = 2 if aggregate.name in ("MAX_BY", "MIN_BY", "STRING_AGG", "LISTAGG") else 1
    if not least <= len(aggregate.arguments) <= most:
        raise QueryError(f"{aggregate.name} takes {most} value{'s'[: most - 1]}", aggregate.span)


def check_plain(call: ex.Call) -> None:
    """Refuse words that go only with aggregates."""
    if call.mode:
        raise QueryError(f"{call.mode} before {call.name}", call.span, "leave it out")
    if call.distinct or call.filtered:
        word = "DISTINCT" if call.distinct else "FILTER"
        raise QueryError(f"{word} with {call.name}, which is no aggregate", call.span)
