"""A SELECT around a SELECT that has MATCH_RECOGNIZE, as one: names stand for what they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.errors import QueryError, Span
from workloads.sql import expressions as ex
from workloads.sql.functions import AGGREGATES
from workloads.sql.statement import Named, Order, Statement


@dataclass(frozen=True)
class Around:
    """What stands around a nested SELECT."""

    select: tuple[Named, ...]
    distinct: bool = False
    where: ex.Expression | None = None
    group_by: tuple[ex.Expression, ...] = ()
    having: ex.Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


def joint_condition(
    first: ex.Expression | None, second: ex.Expression | None
) -> ex.Expression | None:
    """Both conditions, of which either may be missing."""
    if first is None or second is None:
        return first or second
    return ex.Binary("AND", first, second, second.span)


def joint_statement(inner: Statement, alias: str | None, around: Around, span: Span) -> Statement:
    """One statement for a SELECT around another; refuses what is not row by row inside."""
    aggregated = any(
        isinstance(node, ex.Call) and node.name in AGGREGATES
        for item in inner.select
        for node in ex.walk(item.value)
    )
    together = inner.distinct or inner.group_by or inner.having is not None
    if aggregated or together or inner.limit is not None or inner.offset:
        raise QueryError(
            "a SELECT around one that aggregates, or has DISTINCT or LIMIT, is not taken",
            span,
            "write the inner one by itself",
        )
    names = _Names(inner, alias)
    select: list[Named] = []
    for item in around.select:
        if isinstance(item.value, ex.AllColumns):
            select += inner.select
        else:
            name = item.name or (
                item.value.path[-1] if isinstance(item.value, ex.Column) else item.text
            )
            select.append(replace(item, value=names.meant(item.value), name=name))
    return replace(
        inner,
        select=tuple(select),
        distinct=around.distinct,
        where=joint_condition(inner.where, _changed(names, around.where)),
        group_by=tuple(names.meant(value) for value in around.group_by),
        having=_changed(names, around.having),
        order=tuple(replace(item, value=names.meant(item.value)) for item in around.order),
        limit=around.limit,
        offset=around.offset,
    )


def _changed(names: _Names, value: ex.Expression | None) -> ex.Expression | None:
    return None if value is None else names.meant(value)


class _Names:
    """What names stand for outside of a SELECT: its items, and with `*` all else."""

    def __init__(self, inner: Statement, alias: str | None) -> None:
        self._alias = None if alias is None else alias.lower()
        self._open = any(isinstance(item.value, ex.AllColumns) for item in inner.select)
        self._items = {
            (item.name or _own_name(item)).lower(): item.value
            for item in inner.select
            if not isinstance(item.value, ex.AllColumns)
        }

    def meant(self, node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.Column):
            return ex.rebuilt(node, self.meant)
        path, quoted = node.path, node.quoted
        if len(path) > 1 and path[0].lower() == self._alias:
            path, quoted = path[1:], quoted[1:]
        found = self._items.get(path[0].lower()) if len(path) == 1 else None
        if found is not None:
            return found
        if not self._open:
            raise QueryError(
                f"the SELECT inside gives no '{'.'.join(path)}'",
                node.span,
                f"it gives {', '.join(self._items)}",
            )
        return ex.Column(path, quoted, node.span)


def _own_name(item: Named) -> str:
    return item.value.path[-1] if isinstance(item.value, ex.Column) else item.text
