"""Matches in SQL: self-joins in DuckDB and Spark beside the tree engine; and a query of reference.

Where an engine is helped, as where they count (`sql.py`), statements join on the number of the
first event's window besides times, which spares it to compare every pair of rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.benchmarks.found import Found, found_matches
from tests.benchmarks.matching import sought, stocks, warm_up_matching
from tests.benchmarks.measuring import Measured, Row, Said, Size, Variant, measure
from tests.benchmarks.real import real_path
from tests.benchmarks.streams import STREAM, TYPES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from engines.input.event_table import Events
    from engines.program import Program
    from optimizer.ir.query import BoundWorkload
    from optimizer.plan.plan import Plan

ALIASES = "abcdefgh"
REFERENCE = "wpi_trades_2004.parquet"
MATCHES = 3_013  # of the query of reference, by a brute force


class Pattern(NamedTuple):
    """A sequence of types; the price of the first is below that of the last, or users are equal."""

    parts: tuple[str, ...]
    width: int
    keyed: bool = False

    @property
    def text(self) -> str:
        parts = ", ".join(f"{p} {a}" for p, a in zip(self.parts, ALIASES, strict=False))
        last = ALIASES[len(self.parts) - 1]
        asked = "[user]" if self.keyed else f"a.price < {last}.price"
        returned = ", ".join(f"{a}.ts" for a in ALIASES[: len(self.parts)])
        return (
            f"QUERY q PATTERN SEQ({parts}) WHERE {asked} RETURN {returned} WITHIN {self.width} ms"
        )

    def statement(self, helped: bool) -> str:
        """The same as a self-join that gives the time of each event; helped or as one writes it."""
        last = len(self.parts) - 1
        joins = ""
        for j in range(1, len(self.parts)):
            near = f" AND e{j}.bucket = e0.bucket" if helped else ""
            joins += (
                f" JOIN {'later' if helped else 'starts'} e{j} ON e{j}.type = '{self.parts[j]}'"
                f"{near} AND e{j}.ts > e{j - 1}.ts AND e{j}.ts < e0.ts + {self.width}"
            )
            if self.keyed:
                joins += f" AND e{j}.user = e0.user"
        asked = "" if self.keyed else f" AND e0.price < e{last}.price"
        times = ", ".join(f"e{j}.ts AS t{j}" for j in range(len(self.parts)))
        return f"SELECT {times} FROM starts e0{joins} WHERE e0.type = '{self.parts[0]}'{asked}"


_CASES = (
    ("3 types, window of 100", Pattern(TYPES[:3], 100), 50_000),
    ("3 types, window of 1,000", Pattern(TYPES[:3], 1_000), 20_000),
    ("5 types, window of 100", Pattern(TYPES[:5], 100), 50_000),
    ("one user, window of 10,000", Pattern(TYPES[:3], 10_000, True), 50_000),
)
HELPED = "DuckDB, helped"
_PLAIN = 3  # types up to which the join as one writes it finishes


def matches_in_sql(size: Size, spark: SparkSession | None) -> Iterator[Row]:
    """The tree engine and self-joins on the same events, and then the query of reference."""
    warm_up_matching()
    cases = _CASES if size == "full" else [(*_CASES[0][:2], 1_000)]
    least: dict[str, float] = {}
    most: dict[str, float] = {}
    for name, pattern, events in cases:
        row = _row(name, pattern, events, spark, size)
        yield row
        for other in ("DuckDB", HELPED, "Spark, helped"):
            if other in row.ratios:
                least[other] = min(least.get(other, float("inf")), row.ratios[other])
                most[other] = max(most.get(other, 0.0), row.ratios[other])
    if least:
        times = [f"{least[n]:.2g} to {most[n]:.2g} times as fast as {n}" for n in least]
        yield Said("sql", f"Finding matches, trees are {'; '.join(times)}.", least)
    yield from _reference(size)


def users_and_prices(events: int) -> pa.Table:
    """Twenty types drawn alike, a hundred users, and prices."""
    from workloads.generators import Attribute, Integers, Uniform

    attributes = {"price": Attribute(Uniform(0, 1)), "user": Attribute(Integers(0, 100))}
    return stocks(dict.fromkeys(TYPES, 1.0), events, attributes)


def _row(
    name: str, pattern: Pattern, events: int, spark: SparkSession | None, size: Size
) -> Measured:
    from tests.benchmarks.sql import in_duckdb, in_spark

    stream = users_and_prices(events)
    variants = {"trees": by_trees(pattern, stream), "to result rows": to_rows(pattern, stream)}
    skipped = {}
    for column, helped in (("DuckDB", False), (HELPED, True)):
        if not helped and len(pattern.parts) > _PLAIN:
            skipped[column] = "takes minutes"
            continue
        try:
            found = in_duckdb(pattern.statement(helped), stream, pattern.width)
            variants[column] = Variant(found.run, found_times)
        except ModuleNotFoundError:
            skipped[column] = "duckdb is not installed"
    if spark is not None:
        found = in_spark(spark, pattern.statement(True), stream, pattern.width)
        variants["Spark, helped"] = Variant(found.run, found_times)
    else:
        skipped["Spark, helped"] = "starting Spark takes longer than all the rest of this size"
    return Measured(
        "sql",
        "finding matches, the same events for all",
        f"{name}, {events:,} events",
        events,
        measure(variants, size),
        skipped,
    )


def by_trees(pattern: Pattern, stream: pa.Table) -> Variant:
    """The tree engine from events in memory to a table of the times of each match's events."""
    program, events = _program(pattern.text, stream, STREAM)
    return Variant(lambda: times_of_matches(program, events), found_times)


def to_rows(pattern: Pattern, stream: pa.Table) -> Variant:
    """The local engine from events in memory to result rows, in which matches are JSON texts."""
    from engines.local.run import run_events
    from engines.program import RunContext

    program, events = _program(pattern.text, stream, STREAM)

    def found(table: pa.Table) -> Found:
        import pyarrow as pa
        import pyarrow.compute as pc

        names = ALIASES[: len(pattern.parts)]
        shape = ",".join(f'"{a}":\\{{"ts":(?P<{a}>\\d+)\\}}' for a in names)
        parts = pc.extract_regex(table.column("match").combine_chunks(), f"^\\{{{shape}\\}}$")
        return found_times(pa.table({a: pc.struct_field(parts, a).cast("int64") for a in names}))

    return Variant(lambda: run_events(program, events, RunContext()).matches, found)


def _planned(
    text: str, table: pa.Table, stream: dict[str, str]
) -> tuple[Plan, BoundWorkload, Events]:
    """The plan of a query for the events of a table."""
    from engines.input.event_table import from_table
    from optimizer.bind.binder import load_bound
    from tests.benchmarks.planned import planned

    document = {"stream": stream, "queries": [text]}
    workload = load_bound(document)
    events = from_table(table, workload.stream)
    return planned(workload, document, events), workload, events


def _program(text: str, table: pa.Table, stream: dict[str, str]) -> tuple[Program, Events]:
    """The same as a program."""
    from engines.program import bound_program

    plan, workload, events = _planned(text, table, stream)
    return bound_program(plan, workload), events


def times_of_matches(program: Program, events: Events) -> pa.Table:
    """The times of the events of each match of a query without ORs, which trees find."""
    import pyarrow as pa

    from engines.columns.columns import Columns
    from engines.matching.trees.evaluation import TreeEvaluation
    from engines.program import TreeUnit
    from tests.benchmarks.matching import unlimited
    from tests.benchmarks.rivals.rows import picked_for

    (query,), (unit,) = program.workload.queries, program.units
    assert isinstance(unit, TreeUnit)
    assert unit.trees is not None
    (tree,) = unit.trees[query.name]
    picked, width = picked_for(query, Columns(program.workload, events))
    times = events.ticks[picked.row]
    evaluation = TreeEvaluation(picked, width, query.name, unlimited())
    schema = pa.schema([(name, pa.int64()) for name in tree.compiled.aliases])
    tables = [
        pa.Table.from_arrays([pa.array(times[column]) for column in part.columns], schema=schema)  # type: ignore[index]
        for part in evaluation.matches(tree.compiled.operator)
    ]
    return pa.concat_tables([schema.empty_table(), *tables])


def found_times(table: pa.Table) -> Found:
    """What a table of the times of each match's events says."""
    import numpy as np

    return found_matches([np.asarray(column, np.int64) for column in table.columns])


# --- the query of reference ----------------------------------------------------------------------


def _reference(size: Size) -> Iterator[Row]:
    """`SEQ(S1, B2, B3) WITHIN 1 s` over two days of trades, which others were measured on."""
    title = "SEQ(S1, B2, B3) WITHIN 1 s over recorded trades, in processor time"
    path, why = real_path(REFERENCE)
    case = "224,473 trades of 2004"
    if path is None:
        yield Measured("sql", title, case, 1, {}, {"finding": why})
        return
    from engines.program import bound_program
    from tests.benchmarks.real import read_recorded

    stream = {"time": "ts_ms", "unit": "ms", "type": "type", "sequence": "row"}
    text = "QUERY q PATTERN SEQ(S1 a, B2 b, B3 c) RETURN a.row, b.row, c.row WITHIN 1 s"
    table = read_recorded(path)
    asked = sought(text, table, stream)
    plan, workload, events = _planned(text, table, stream)
    program = bound_program(plan, workload)
    variants = {
        "finding": asked.by_tree(asked.chosen).about("places"),
        "from memory": Variant(lambda: times_of_matches(program, events), _number),
        "with reading": Variant(lambda: _with_reading(plan, str(path)), _number),
        "NFA stacks": asked.by_baseline("stacks").about("places"),
        "NFA configurations": asked.by_baseline("configurations").about("places"),
    }
    seconds = measure(variants, size, time.process_time)
    yield Measured("sql", title, case, len(events), seconds)
    found = variants["finding"].found(variants["finding"].run()).rows
    yield Said(
        "sql",
        f"All find {found:,} matches ({MATCHES:,} by a brute force). Reported by others on a "
        "machine of this kind: Flink CEP 20 k and OpenCEP 97 k events a second.",
        {"matches": found},
    )


def _number(found: Any) -> Found:
    rows = found if isinstance(found, int) else found.num_rows
    return Found(rows, rows, 0)


def _with_reading(plan: Plan, path: str) -> int:
    """As `sheaf run` does it, up to result rows; how many there are."""
    from engines.execution import EventSource, RowSink
    from engines.run import run

    return run(plan, EventSource(path), RowSink(shown=10)).numbers[1]
