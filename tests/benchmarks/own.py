"""A user's own workload over a user's own events."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from tests.benchmarks.measuring import Measured, Row, Said, Size, Variant, measure
from tests.benchmarks.queries import called

if TYPE_CHECKING:
    from engines.input.event_table import Events
    from optimizer.ir.query import BoundWorkload, Query


def by_stream(events_path: str, workload_path: str, size: Size) -> Iterator[Row]:
    """Your workload over your events: shared, and each query by itself; then each way to count.

    Ways that cannot count a group of queries are left out of its line.
    """
    from api.cli.workload_files import open_workload
    from engines.input.batches import read_events
    from engines.input.event_table import column_kinds
    from optimizer.bind.binder import bind
    from tests.benchmarks.planned import planned, stored
    from tests.benchmarks.ways import warm_up
    from workloads.workload import to_document

    parsed, _ = open_workload(workload_path)
    events = read_events(events_path, parsed.stream)
    workload = bind(parsed, column_kinds(events.table.schema))
    warm_up()
    document = to_document(parsed)
    with stored(events_path) as there:
        variants = {
            "shared": there.running(planned(workload, document, events)),
            "one by one": there.running(planned(workload, document, events, sharing=False)),
        }
        seconds = measure(variants, size)
        found = variants["shared"].found(variants["shared"].run())
    name = called(len(workload.queries))
    yield Measured("stream", f"whole runs, {len(events):,} events", name, len(events), seconds)
    yield Said("stream", f"Both found {found.rows:,} rows.", {"rows": float(found.rows)})
    for title, queries in _groups(workload).items():
        yield _ways(title, queries, workload, events, size)


def _groups(workload: BoundWorkload) -> dict[str, list[Query]]:
    """The countable queries of each key, window and slide, by what to call them."""
    from optimizer.ir.automaton import countable

    groups: dict[Hashable, list[Query]] = {}
    for query in workload.queries:
        if countable(query) is None:
            groups.setdefault((query.key, query.window, query.slide), []).append(query)
    return {f"group {i}": queries for i, queries in enumerate(groups.values(), 1)}


def _ways(
    title: str, queries: list[Query], workload: BoundWorkload, events: Events, size: Size
) -> Measured:
    from engines.counting import aseq, pretree, product
    from tests.benchmarks.ways import case_of, counting, counting_alone

    case = case_of(workload, queries, events)
    variants: dict[str, Variant] = {}
    skipped = {}
    if counting(product, case).run() is None:
        skipped["product"] = "this stream's simultaneous events do not allow it"
    else:
        variants["product"] = counting(product, case)
        variants["product one by one"] = counting_alone(product, case)
    ways: dict[str, Any] = {"A-Seq": aseq, "PreTree": pretree}
    for name, way in ways.items():
        refusals = [(q.name, why) for q in queries if (why := way.refusal(q)) is not None]
        if refusals:
            skipped[name] = "{}: {}".format(*refusals[0])
        else:
            variants[name] = counting(way, case)
    return Measured(
        "stream",
        "counting alone, by key, window and slide",
        f"{title}: {called(len(queries))} from {queries[0].name}",
        len(events),
        measure(variants, size),
        skipped,
    )
