"""`FROM (SELECT x, y * 2 AS z FROM t)`: names of the clause stand for what the SELECT computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from workloads.errors import QueryError, Span, did_you_mean
from workloads.sql import expressions as ex
from workloads.sql.rowpattern import variables
from workloads.sql.statement import Named, Source


def projected(source: Source, select: tuple[Named, ...], span: Span) -> Source:
    """The stream with the columns that a SELECT of rows gives."""
    if len(select) == 1 and isinstance(select[0].value, ex.AllColumns):
        return source
    if source.items or source.rows:
        raise QueryError(
            "a SELECT that computes columns goes around the stream's name", span, "join the two"
        )
    items: list[Named] = []
    for item in select:
        value = item.value
        if not isinstance(value, ex.AllColumns):
            value = _plain(value, source)
            if not any(isinstance(node, ex.Column) for node in ex.walk(value)):
                raise QueryError("a value without a column", item.span, "write it where it is read")
            if any(isinstance(node, ex.AllColumns) for node in ex.walk(value)):
                raise QueryError("an aggregate of rows is not taken here", item.span)
        name = item.name or (value.path[-1] if isinstance(value, ex.Column) else None)
        if name is None and not isinstance(value, ex.AllColumns):
            raise QueryError("this value has no name", item.span, "add one: AS name")
        items.append(replace(item, value=value, name=name))
    return replace(source, items=tuple(items))


def over_projection(clause: Mapping[str, Any]) -> dict[str, Any]:
    """A clause over such rows as one over the stream: what it reads is written out."""
    source: Source = clause["source"]
    if not source.items:
        return dict(clause)
    if clause.get("all_rows"):
        raise QueryError(
            "ALL ROWS PER MATCH over a SELECT that names columns is not taken",
            source.span,
            "name the stream itself, and compute values in MEASURES",
        )
    unions = {*variables(clause["pattern"]), *(one.name for one in clause.get("subsets", ()))}
    names = _ProjectedNames(source, unions)
    found = dict(clause)
    found["partition_by"] = tuple(map(names.kept, clause.get("partition_by", ())))
    found["order_by"] = tuple(
        replace(item, value=names.meant(item.value)) for item in clause.get("order_by", ())
    )
    found["measures"] = tuple(
        replace(item, value=names.meant(item.value)) for item in clause.get("measures", ())
    )
    found["definitions"] = tuple(
        replace(item, condition=names.meant(item.condition))
        for item in clause.get("definitions", ())
    )
    return found


def _plain(value: ex.Expression, source: Source) -> ex.Expression:
    """The value without the stream's name before columns."""
    if not isinstance(value, ex.Column):
        return ex.rebuilt(value, lambda part: _plain(part, source))
    own = {name.lower() for name in (source.name, source.alias) if name is not None}
    if len(value.path) > 1 and value.path[0].lower() in own:
        return replace(value, path=value.path[1:], quoted=value.quoted[1:])
    return value


class _ProjectedNames:
    """What the columns of the SELECT stand for, also behind a variable."""

    def __init__(self, source: Source, unions: Iterable[str]) -> None:
        self._alias = (source.alias or "").lower()
        self._unions = set(unions)
        self._open = any(isinstance(item.value, ex.AllColumns) for item in source.items)
        self._items = {
            (item.name or "").lower(): item.value
            for item in source.items
            if not isinstance(item.value, ex.AllColumns)
        }

    def meant(self, node: ex.Expression) -> ex.Expression:
        """A value of the clause, read from the stream."""
        if isinstance(node, ex.Call) and node.name == "CLASSIFIER":
            return node
        if not isinstance(node, ex.Column):
            return ex.rebuilt(node, self.meant)
        path, quoted = node.path, node.quoted
        if len(path) > 1 and path[0].lower() == self._alias:
            path, quoted = path[1:], quoted[1:]
        variable = path[0] if quoted[0] else path[0].upper()
        behind = len(path) > 1 and variable in self._unions
        name, *fields = path[1:] if behind else path
        value = self._items.get(name.lower())
        if value is None:
            if self._open:
                return ex.Column(path, quoted, node.span)
            raise QueryError(
                f"the SELECT inside gives no '{name}'",
                node.span,
                did_you_mean(name, self._items) or f"it gives {', '.join(self._items)}",
            )
        if fields and not isinstance(value, ex.Column):
            raise QueryError(f"'{name}' has no fields", node.span)
        before = (path[:1], quoted[:1]) if behind else ((), ())
        return _behind(value, before, tuple(fields), node.span)

    def kept(self, column: ex.Column) -> ex.Column:
        """A column that the SELECT gives as it is."""
        found = self.meant(column)
        if not isinstance(found, ex.Column) or found.path[-1].lower() != column.path[-1].lower():
            raise QueryError(
                "PARTITION BY a column that the SELECT inside renames or computes is not taken",
                column.span,
                "partition by columns of the stream, under their names",
            )
        return found


def _behind(
    value: ex.Expression,
    before: tuple[tuple[str, ...], tuple[bool, ...]],
    fields: tuple[str, ...],
    span: Span,
) -> ex.Expression:
    """The value with all its columns behind a variable, and where it was written."""
    if isinstance(value, ex.Column):
        path = (*before[0], *value.path, *fields)
        return ex.Column(path, (*before[1], *value.quoted, *(False for _ in fields)), span)
    return ex.rebuilt(value, lambda part: _behind(part, before, fields, span))
