"""SQL statements bound: names resolved to columns and variables, navigation to pointers."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.bind.navigation import RowMeaning, check_arguments, check_function
from optimizer.bind.table_columns import TableColumns
from optimizer.ir.pattern import Event, Symbol
from optimizer.ir.query import (
    ENDLESS,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnItem,
    RowPattern,
    Window,
)
from optimizer.ir.recognition import OrderColumn, Recognition, Selection
from workloads import syntax as sx
from workloads.errors import QueryError, Span, did_you_mean
from workloads.sql import expressions as ex
from workloads.sql.functions import AGGREGATES, NAVIGATION
from workloads.sql.query import ANY_ROW
from workloads.sql.rowpattern import Excluded, variables, walk
from workloads.sql.statement import Definition, Statement
from workloads.workload import AttributeKind, Stream

_AS_MEASURE = "make it a measure, and name that"


def bound_statement(
    query: sx.Query, stream: Stream, columns: Mapping[str, AttributeKind] | None
) -> Query:
    """The query that a statement stands for; raises `QueryError`."""
    statement = query.output
    assert isinstance(statement, Statement)
    assert query.name is not None
    found = _Binding(statement, TableColumns(stream, columns, statement.source.columns)).bound()
    items: list[ReturnItem] = [ReturnAttribute("row", name) for name in found.columns]
    if found.all_rows and any(isinstance(v, ex.AllColumns) for _, v in found.selection.items):
        items.append(ReturnAlias("row"))
    return Query(
        name=query.name,
        pattern=Event(Symbol(ANY_ROW), "row"),
        conditions=(),
        key=found.partition if found.selection.is_by_row else (),
        window=Window(ENDLESS),
        output=RowPattern(tuple(items), clause=found),
    )


class _Binding:
    def __init__(self, statement: Statement, table: TableColumns) -> None:
        self._statement, self._table = statement, table
        self._variables = variables(statement.pattern)
        self._unions = self._named_unions()
        self._read: dict[str, None] = {}

    def bound(self) -> Recognition:
        statement = self._statement
        partition = tuple(
            dict.fromkeys(self._column(self._plain(c), c.span) for c in statement.partition_by)
        )
        order = tuple(self._order_column(item.value, item) for item in statement.order_by)
        self._check_pattern()
        conditions = self._conditions()
        measures = self._measures()
        where = None
        if statement.source.where is not None:
            where = self._meaning(False).own(statement.source.where)
            self._note(where)
        source = statement.source
        row_columns = tuple(self._column(name, source.span) for name in source.columns)
        selection = self._selection(partition, order, tuple(name for name, _ in measures))
        return Recognition(
            pattern=statement.pattern,
            partition=partition,
            order=order,
            conditions=conditions,
            unions=tuple(self._unions.items()),
            measures=measures,
            all_rows=statement.all_rows,
            show_empty=statement.unmapped != "omit",
            show_unmatched=statement.unmapped == "unmatched",
            skip=statement.skip,
            within=statement.within,
            filter=where,
            rows=tuple(tuple(cell.value for cell in row) for row in source.rows),
            row_columns=row_columns,
            selection=selection,
            columns=tuple(self._read),
        )

    # --- names -----------------------------------------------------------------------------------

    def _column(self, name: str, span: Span) -> str:
        found = self._table.find(name, span)
        self._read[found] = None
        return found

    def _plain(self, column: ex.Column) -> str:
        """The column's name without that of the table."""
        source = self._statement.source
        tables = {name.lower() for name in (source.name, source.alias) if name is not None}
        path = column.path
        if len(path) > 1 and path[0].lower() in tables:
            path = path[1:]
        return ".".join(path)

    def _named_unions(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {name: (name,) for name in self._variables}
        for subset in self._statement.subsets:
            if subset.name in found:
                raise QueryError(
                    f"the variable {subset.name} is there already", subset.span, "rename the subset"
                )
            for part in subset.parts:
                if part not in self._variables:
                    raise self._no_variable(part, subset)
            found[subset.name] = subset.parts
        return found

    def _no_variable(self, name: str, where: Definition) -> QueryError:
        hint = did_you_mean(name, self._variables)
        listed = ", ".join(self._variables) or "none"
        return QueryError(
            f"{name} is no variable of the pattern",
            where.span,
            hint or f"the pattern has {listed}",
        )

    def _order_column(self, value: ex.Expression, item: object) -> OrderColumn:
        if not isinstance(value, ex.Column):
            raise QueryError("ORDER BY takes columns here", value.span)
        return OrderColumn(
            self._column(self._plain(value), value.span),
            bool(getattr(item, "descending", False)),
            bool(getattr(item, "nulls_first", False)),
        )

    # --- the clause ------------------------------------------------------------------------------

    def _check_pattern(self) -> None:
        statement = self._statement
        if statement.unmapped == "unmatched" and any(
            isinstance(part, Excluded) for part in walk(statement.pattern)
        ):
            raise QueryError(
                "rows that are left out of a match, and WITH UNMATCHED ROWS",
                statement.pattern_span,
                "leave out '{-' and '-}', or WITH UNMATCHED ROWS",
            )
        name = statement.skip.variable
        if name is not None and name not in self._unions:
            raise self._no_variable(name, Definition(name, span=statement.skip.span))

    def _meaning(self, measures: bool) -> RowMeaning:
        return RowMeaning(self._unions, self._plain, self._table.find, self._table.time, measures)

    def _note(self, expression: ex.Expression) -> ex.Expression:
        """Remember the columns that an expression reads."""
        for node in ex.walk(expression):
            if isinstance(node, ex.RowValue | ex.Own) and node.column is not None:
                self._read[node.column] = None
        return expression

    def _conditions(self) -> tuple[tuple[str, ex.Expression], ...]:
        found: dict[str, ex.Expression] = {}
        for definition in self._statement.definitions:
            if definition.name not in self._variables:
                raise self._no_variable(definition.name, definition)
            if definition.name in found:
                raise QueryError(f"{definition.name} is defined twice", definition.span)
            assert definition.condition is not None
            meant = self._meaning(False).meant(definition.condition)
            found[definition.name] = self._note(meant)
        return tuple(found.items())

    def _measures(self) -> tuple[tuple[str, ex.Expression], ...]:
        meaning = self._meaning(True)
        return tuple(
            (measure.name or "", self._note(meaning.meant(measure.value)))
            for measure in self._statement.measures
        )

    # --- the SELECT around it --------------------------------------------------------------------

    def _selection(
        self,
        partition: tuple[str, ...],
        order: tuple[OrderColumn, ...],
        measures: tuple[str, ...],
    ) -> Selection:
        statement = self._statement
        given = _GivenColumns(self, partition, measures)
        items: list[tuple[str, ex.Expression]] = []
        for item in statement.select:
            value = given.meant(item.value)
            name = item.name
            if name is None:
                name = item.text
                if isinstance(item.value, ex.Column):
                    name = item.value.path[-1]
            items.append((name, value))
        names = {name.lower(): value for name, value in items}
        places: list[ex.Expression] = []
        for _, value in items:
            if isinstance(value, ex.AllColumns):  # those after these may be any, with ALL ROWS
                given_first = [*partition, *(o.column for o in order if statement.all_rows)]
                first = [name for name in dict.fromkeys(given_first) if name not in measures]
                places += [ex.Given(name) for name in (*first, *measures)]
            else:
                places.append(value)

        def ordered(value: ex.Expression) -> ex.Expression:
            # ORDER BY may call an item by its name or its number.
            if isinstance(value, ex.Column) and len(value.path) == 1:
                known = names.get(value.path[0].lower())
                if known is not None and not isinstance(known, ex.AllColumns):
                    return known
            if isinstance(value, ex.Literal) and isinstance(value.value, int):
                if 1 <= value.value <= len(places):
                    return places[value.value - 1]
                raise QueryError("no item of SELECT has that number", value.span)
            return given.meant(value)

        found = Selection(
            tuple(items),
            statement.distinct,
            _no_aggregate(given.meant(statement.where), "WHERE") if statement.where else None,
            tuple(_no_aggregate(ordered(value), "GROUP BY") for value in statement.group_by),
            None if statement.having is None else given.meant(statement.having),
            tuple((ordered(o.value), o.descending, o.nulls_first) for o in statement.order),
            statement.limit,
            statement.offset,
        )
        self._check_grouped(found)
        return found

    def _check_grouped(self, selection: Selection) -> None:
        if not selection.is_grouped:
            if selection.having is not None:
                raise QueryError("HAVING without GROUP BY", selection.having.span)
            return
        for name, value in selection.items:
            if isinstance(value, ex.AllColumns) or not _is_settled(value, selection.groups):
                raise QueryError(
                    f"'{name}' is neither an aggregate nor in GROUP BY",
                    value.span,
                    "add it to GROUP BY, or aggregate it",
                )

    def find_given(self, column: ex.Column, partition: tuple[str, ...]) -> str:
        """The input's column that a name in SELECT stands for."""
        statement = self._statement
        alias = {name.lower() for name in (statement.alias,) if name is not None}
        path = column.path
        if len(path) > 1 and path[0].lower() in alias:
            path = path[1:]
        name = self._table.find(self._plain(ex.Column(path, column.quoted)), column.span)
        if not statement.all_rows and name not in partition:
            raise QueryError(
                f"'{name}' is neither a measure nor a column of PARTITION BY",
                column.span,
                "with ONE ROW PER MATCH a row has nothing else: add a measure",
            )
        self._read[name] = None
        return name

    @property
    def alias(self) -> str | None:
        return self._statement.alias

    @property
    def renamed(self) -> tuple[str, ...]:
        return self._statement.names


class _GivenColumns:
    """What names stand for in the SELECT around the clause."""

    def __init__(
        self, binding: _Binding, partition: tuple[str, ...], measures: tuple[str, ...]
    ) -> None:
        self._binding, self._partition = binding, partition
        self._measures = {name.lower(): name for name in measures}
        for new, old in zip(binding.renamed, (*partition, *measures), strict=False):
            self._measures[new.lower()] = old

    def meant(self, node: ex.Expression) -> ex.Expression:
        match node:
            case ex.Column(path):
                last = path[-1].lower()
                qualified = (
                    len(path) == 2 and path[0].lower() == (self._binding.alias or "").lower()
                )
                if last in self._measures and (len(path) == 1 or qualified):
                    return ex.Given(self._measures[last], node.span)
                return ex.Given(self._binding.find_given(node, self._partition), node.span)
            case ex.AllColumns():
                return ex.AllColumns(None, False, node.span)
            case ex.Call(name) if name in AGGREGATES:
                return self._aggregated(node)
            case ex.Call(name) if name in (*NAVIGATION, "CLASSIFIER", "MATCH_NUMBER"):
                raise QueryError(f"{name} outside of MATCH_RECOGNIZE", node.span, _AS_MEASURE)
            case ex.Call():
                check_function(node)
                return ex.rebuilt(node, self.meant)
            case _:
                return ex.rebuilt(node, self.meant)

    def _aggregated(self, node: ex.Call) -> ex.Aggregated:
        first = node.arguments[0] if node.arguments else ex.AllColumns()
        if node.mode:
            raise QueryError(f"{node.mode} outside of MATCH_RECOGNIZE", node.span, _AS_MEASURE)
        if isinstance(first, ex.AllColumns):
            if node.name != "COUNT":
                raise QueryError(f"{node.name} needs a value", node.span)
            return ex.Aggregated("COUNT", None, None, True, node.distinct, None, node.span)
        argument, *others = map(self.meant, node.arguments)
        check_arguments(node)
        second = others[0] if others else None
        return ex.Aggregated(node.name, argument, None, True, node.distinct, second, node.span)


def _no_aggregate(value: ex.Expression, where: str) -> ex.Expression:
    for node in ex.walk(value):
        if isinstance(node, ex.Aggregated):
            hint = "ask it in HAVING, of groups" if where == "WHERE" else None
            raise QueryError(f"{node.function} in {where}", node.span, hint)
    return value


def _is_settled(value: ex.Expression, groups: tuple[ex.Expression, ...]) -> bool:
    """Does it have one value in a group of rows?"""
    if value in groups or isinstance(value, ex.Aggregated):
        return True
    if isinstance(value, ex.Given):
        return False
    return all(_is_settled(part, groups) for part in ex.children(value))
