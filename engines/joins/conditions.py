"""Conditions over partial matches."""

from __future__ import annotations

import numpy as np

from engines.columns.evaluate import evaluate
from engines.columns.layout import Rows
from engines.columns.over_groups import aggregate
from engines.columns.vectors import Mask, Vector, truth
from engines.joins.frame import Frame
from engines.joins.scan import Scan
from workloads import expressions as ex


def value(expression: ex.Expression, scan: Scan, frame: Frame) -> Vector:
    """The value of an expression for each partial match."""

    def attribute(node: ex.Attribute) -> Vector:
        return scan.arranged.vector(node.name).take(frame.first(node.alias))

    def call(node: ex.Call) -> Vector:
        assert isinstance(node.argument, ex.Attribute)
        group = frame.group(node.argument.alias)
        values = scan.arranged.vector(node.argument.name).take(group.rows)
        return aggregate(node.function, values, group)

    return evaluate(expression, attribute, scan.columns.text_code, call)


def holds(condition: ex.Expression, scan: Scan, frame: Frame) -> Mask:
    """Where a condition holds; for each event of a group that it speaks of event by event."""
    if ex.has_group_call(condition):
        return _tested(condition, scan, frame)
    owner: Rows | None = None
    each = frame
    for alias in sorted(ex.aliases(condition)):
        if each.is_group(alias):
            group = each.group(alias)
            owner = group.owner if owner is None else owner[group.owner]
            each = each.extended(group.owner, {alias: group.rows})
    found = _tested(condition, scan, each)
    if owner is None:
        return found
    everywhere = np.ones(frame.size, bool)
    everywhere[owner[~found]] = False
    return everywhere


def _tested(condition: ex.Expression, scan: Scan, frame: Frame) -> Mask:
    found: Mask = np.broadcast_to(truth(value(condition, scan, frame)), frame.size)
    return found
