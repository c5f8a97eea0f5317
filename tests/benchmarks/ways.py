"""The ways to count, each called alike: on events in memory whose types are known already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from engines.counting import aseq, chopconnect, pretree, product
from tests.benchmarks.found import Found, found_rows
from tests.benchmarks.measuring import Variant
from tests.benchmarks.planned import in_memory, planned
from tests.benchmarks.rivals import twostep
from tests.benchmarks.streams import STREAM, TYPES, sequence, uniform

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.columns.columns import Columns
    from engines.columns.layout import Layout
    from engines.counting.letters import CountingPlan, CountResult
    from engines.input.event_table import Events
    from optimizer.ir.query import BoundWorkload, Query


@dataclass(frozen=True, eq=False)
class Case:
    """Queries of one key, window and slide over a stream; `first` is the number of the first."""

    workload: BoundWorkload
    events: Events
    plan: CountingPlan
    columns: Columns
    layout: Layout
    width: int
    slide: int
    is_count: bool
    first: int = 0
    document: Mapping[str, Any] = field(default_factory=dict)  # of the workload

    def one_by_one(self) -> list[Case]:
        """A case for each query."""
        from engines.counting.letters import CountingPlan

        return [
            replace(self, plan=CountingPlan([query]), first=self.first + i)
            for i, query in enumerate(self.plan.queries)
        ]

    def found(self, counted: CountResult) -> Found:
        """What a way to count found."""
        time = counted.boundary if self.slide else self.layout.ticks[counted.row]
        return found_rows(counted.query + self.first, time, counted.counts, counted.exact)


def make_case(queries: Sequence[str], table: pa.Table) -> Case:
    """Queries over a table of events of the benchmarks' own stream."""
    from engines.input.event_table import from_table
    from optimizer.bind.binder import load_bound

    document = {"stream": STREAM, "queries": list(queries)}
    workload = load_bound(document)
    case = case_of(workload, workload.queries, from_table(table, workload.stream))
    return replace(case, document=document)


def case_of(workload: BoundWorkload, queries: Sequence[Query], events: Events) -> Case:
    """Queries of one key, window and slide over events."""
    from engines.columns.columns import Columns
    from engines.columns.layout import arrange
    from engines.counting.letters import CountingPlan
    from optimizer.ir.query import whole_ticks

    window, slide = queries[0].window, queries[0].slide or 0
    if slide and not window.is_count:
        slide = whole_ticks(slide, events.tick, "slide")
    columns = Columns(workload, events)
    layout = arrange(events, queries[0].key, window.is_count, False)
    width = window.ticks(events.tick)
    return Case(
        workload, events, CountingPlan(queries), columns, layout, width, slide, window.is_count
    )


def counted_by(way: Any, case: Case, **more: Any) -> CountResult:
    """What a module that counts, such as `engines.counting.product`, finds."""
    from engines.counting.letters import spans_of

    spans = spans_of(case.plan.queries, case.events.tick)
    found: CountResult = way.count(
        case.plan, case.columns, case.layout, spans, case.is_count, **more
    )
    return found


def counting(way: Any, case: Case, question: str = "", **more: Any) -> Variant:
    """A way to count all queries of a case in one call."""
    return Variant(partial(counted_by, way, case, **more), case.found, question)


def counting_alone(way: Any, case: Case, question: str = "") -> Variant:
    """A way to count, called for one query after the other."""
    cases = case.one_by_one()

    def found(results: list[CountResult]) -> Found:
        parts = [each.found(result) for each, result in zip(cases, results, strict=True)]
        return sum(parts[1:], parts[0])

    return Variant(lambda: [counted_by(way, each) for each in cases], found, question)


def _joins(case: Case) -> Variant:
    plan = planned(case.workload, case.document, case.events, counting=False)
    return in_memory(plan, case.workload, case.events)


# By the name that tables give it. "joins" is the engine that returns matches: it constructs them
# by joining columns, and aggregates them chunk by chunk.
WAYS: dict[str, Callable[[Case], Variant]] = {
    "product": partial(counting, product),
    "A-Seq": partial(counting, aseq),
    "PreTree": partial(counting, pretree),
    "Chop-Connect": partial(counting, chopconnect),  # every query whole
    "two-step": partial(counting, twostep),
    "joins": _joins,
}


@cache
def warm_up() -> None:
    """Compile the kernels, or load what was compiled before: no benchmark measures that."""
    table = uniform(TYPES, 2_000)
    queries = [sequence("a", [TYPES[0], f"!{TYPES[1]}", TYPES[2]], 100)]
    case = make_case([*queries, sequence("b", TYPES[:3], 100)], table)
    for way in WAYS.values():
        way(case).run()
