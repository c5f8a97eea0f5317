"""NEEL's experiments (Liu et al. 2011, section VI): nested negations, flat and one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.benchmarks.matching import all_sought, sought, stocks, warm_up_matching
from tests.benchmarks.measuring import Measured, Row, Said, Size, measure
from tests.benchmarks.streams import TICKERS

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.benchmarks.rivals import Way

NAME = "neel"
_EVENTS = 10_000  # as in the paper
_NESTED: dict[str, Way] = {"nested": "nested", "nested, first": "nested first"}
# The paper's queries; where in them a child stands is ours to say, for its pictures are lost.
CHILDREN = {
    "1 child": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX, INTC)",
    "2 children": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !SEQ(YHOO, DELL), IPIX, INTC)",
    "3 children": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !SEQ(YHOO, DELL), IPIX,"
    " !SEQ(CSCO, QQQ), INTC)",
}
LENGTHS = {
    "length 2": "SEQ(MSFT, ORCL, !SEQ(RIMM, AMAT), INTC)",
    "length 3": "SEQ(MSFT, ORCL, !SEQ(RIMM, AMAT, YHOO), INTC)",
    "length 4": "SEQ(MSFT, ORCL, !SEQ(RIMM, AMAT, YHOO, DELL), INTC)",
}
LEVELS = {
    "2 levels": "SEQ(MSFT, ORCL, !SEQ(IPIX, QQQ), INTC)",
    "3 levels": "SEQ(MSFT, ORCL, !SEQ(IPIX, !SEQ(RIMM, AMAT), QQQ), INTC)",
    "4 levels": "SEQ(MSFT, ORCL, !SEQ(IPIX, !SEQ(RIMM, !SEQ(YHOO, DELL), AMAT), QQQ), INTC)",
}
# The disjuncts of figure 19's query, of which E6 and E7 come from one negated sequence.
MIXED = (
    "SEQ(MSFT, !IPIX, ORCL, INTC)",
    "SEQ(MSFT, !QQQ, ORCL, INTC)",
    "SEQ(MSFT, !RIMM, ORCL, INTC)",
    "SEQ(RIMM, DELL, AMAT, MSFT, ORCL)",
    "SEQ(IPIX, DELL, AMAT, MSFT, ORCL)",
    "SEQ(CSCO, !SEQ(IPIX, RIMM), YHOO, QQQ)",
)


def by_nesting(size: Size) -> Iterator[Row]:
    """NEEL's figures 20 to 27: nested negations as trees of joins, and by nested execution.

    From events in memory to columns of matches, in the thread's own processor time. Trees need no
    flat form: one pass finds for each end of a negated sequence the latest start that it has, and a
    match is looked up there. "nested" is the paper's iterative nested execution, which finds all
    results of a negated sequence for every match of the outer one; "nested, first" stops at one.
    Ten stocks drawn alike, an event a millisecond.
    """
    warm_up_matching()
    table = stocks(dict.fromkeys(TICKERS, 1.0), _EVENTS if size == "full" else 250)
    figures = (
        ("figures 20 to 23: more negated sequences", CHILDREN, 100, "5 times on average"),
        ("figures 24 to 26: longer ones", LENGTHS, 200, "several hundred times"),
        ("figures 16 to 18: one in another", LEVELS, 200, ""),
    )
    for title, patterns, width, paper in figures:
        rows = []
        for case, pattern in patterns.items():
            row = _compared(f"{title}, window of {width} events", case, pattern, width, table, size)
            rows.append(row)
            yield row
        yield _against(title.partition(":")[0].capitalize(), rows, paper)
    yield from _mixed(table, size)


def _compared(
    title: str, case: str, pattern: str, width: int, table: pa.Table, size: Size
) -> Measured:
    asked = sought(_text("q", pattern, width), table)
    variants = {"trees": asked.by_tree(asked.chosen)}
    variants |= {name: asked.by_baseline(way) for name, way in _NESTED.items()}
    seconds = measure(variants, size, time.thread_time)
    return Measured(NAME, title, case, len(asked.events), seconds)


def _mixed(table: pa.Table, size: Size) -> Iterator[Row]:
    """Figure 27."""
    width = 100
    texts = [_text(f"e{i}", pattern, width) for i, pattern in enumerate(MIXED)]
    asked = all_sought(texts, table)
    variants = {
        "shared trees": asked.by_plan(asked.plan()),
        "separate trees": asked.by_plan(asked.plan(sharing=False)),
    } | {name: asked.by_baseline(way) for name, way in _NESTED.items()}
    seconds = measure(variants, size, time.thread_time)
    title = f"figure 27: the mixed workload, window of {width} events"
    yield Measured(NAME, title, f"{len(MIXED)} sequences", len(asked.events), seconds)


def _text(name: str, pattern: str, width: int) -> str:
    last = pattern.rstrip(")").rpartition(" ")[2]
    return f"QUERY {name} PATTERN {pattern} RETURN {last}.ts WITHIN {width} ms"


def _against(figures: str, rows: list[Measured], paper: str) -> Said:
    nested = [row.ratios["nested"] for row in rows]
    first = [row.ratios["nested, first"] for row in rows]
    mean = sum(nested) / len(nested)
    said = f" (the paper: {paper})" if paper else ""
    return Said(
        NAME,
        f"{figures}: trees are {min(nested):.2g} to {max(nested):.2g} times as fast as nested "
        f"execution, {mean:.2g} times on average{said}; {min(first):.2g} to {max(first):.2g} times "
        "as fast as one that stops at the first negated result.",
        {"least": min(nested), "most": max(nested), "mean": mean, "first": max(first)},
    )
