"""A-Seq (Qi's thesis, chapter 3): each query counts its prefixes for every active START."""

from __future__ import annotations

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.letters import CountingPlan, CountResult
from engines.counting.pretree import count_trees, refusal
from kernels.groups import Spans

__all__ = ["count", "refusal"]


def count(
    plan: CountingPlan, columns: Columns, layout: Layout, spans: Spans, is_count: bool
) -> CountResult | None:
    """Count the plan's queries one by one. As `product.count`.

    The rows come query by query, those of each in order.
    """
    return count_trees(plan, columns, layout, spans, is_count, together=None)
