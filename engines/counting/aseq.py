"""A-Seq (Qi's thesis, chapter 3): each query counts its prefixes for every active START."""

from __future__ import annotations

from engines.columns.instances import Columns
from engines.columns.layout import Layout
from engines.counting.plan import Plan
from engines.counting.prepare import Counted
from engines.counting.pretree import count_trees, refusal

__all__ = ["count", "refusal"]


def count(
    plan: Plan, columns: Columns, layout: Layout, width: int, slide: int, is_count: bool
) -> Counted | None:
    """Count the plan's queries one by one. As `product.count`.

    The rows come query by query, those of each in order.
    """
    return count_trees(plan, columns, layout, width, slide, is_count, together=None)
