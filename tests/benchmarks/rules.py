"""Rules for single events, as detection engineers have them: Sigma rules over texts."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa

from tests.benchmarks.found import Found
from tests.benchmarks.measuring import Clock, Measured, Row, Said, Size, Variant, measure

if TYPE_CHECKING:
    from engines.execution import RunReport
    from engines.results.tables import Results
    from optimizer.ir.query import BoundWorkload

NAME = "rules"
CATEGORIES = ("process", "file", "registry", "network")
FIELDS = ("Image", "Parent", "Line", "Target", "User")
_WORDS = tuple(f"{a}{b}" for a in ("ser", "win", "net", "pol", "dat", "run") for b in range(60))
# Most rules look for what no event has: of 1,426 of Sigma's, 87 match one of 336,005 events.
_RARE = tuple(f"{a}{b}" for a in ("mal", "hack", "dump", "enc") for b in range(1_000))


def by_rules(size: Size) -> Iterator[Row]:
    """24, 240 and 2,400 rules like those of Sigma over one stream, together and one by one.

    Rules look for words in texts, begin, end or equal them, and leave some out. Times are the
    thread's own, from events in memory to tables of alerts; planning is left out.
    """
    numbers = (24, 240, 2_400) if size == "full" else (8, 40)
    table = drawn_events(200_000 if size == "full" else 2_000)

    def variant(some: dict[str, Any], sharing: bool) -> Variant:
        return _variant(some, table, sharing)

    rules = drawn_rules(max(numbers))
    yield from _by_number(rules, numbers, table.num_rows, size, variant, time.thread_time)


def by_own_rules(rules: str, events: str, logsources: str | None, size: Size) -> Iterator[Row]:
    """Your rules over your events: a tenth of them and all, from the file to a file of alerts.

    The processor's time of one thread; planning is told apart.
    """
    from engines.input.batches import FileSource
    from engines.input.event_table import Faults
    from workloads.loading import load_workload
    from workloads.workload import to_document

    entry = {"sigma": str(Path(rules).absolute())}
    if logsources is not None:
        entry["logsources"] = str(Path(logsources).absolute())
    stream = {"time": "time", "sequence": "seq"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rules.json"  # paths of rules are read where a workload is a file
        file.write_text(json.dumps({"name": NAME, "stream": stream, "rules": [entry]}))
        workload = load_workload(file)
        number = len(workload.queries)
        planning: dict[str, float] = {}

        def variant(some: dict[str, Any], sharing: bool) -> Variant:
            began = time.process_time()
            made = _from_file(some, events, f"{folder}/alerts.parquet", sharing)
            if sharing:
                planned = f"planning of {len(some['queries']):,} rules"
                planning[planned] = time.process_time() - began
            return made

        numbers = sorted({max(1, number // 10), number})
        source = FileSource(events, workload.stream, Faults("stop"))
        rows = sum(len(batch) for batch in source.batches(list(stream.values())))
        document = to_document(workload)
        yield from _by_number(document, numbers, rows, size, variant, time.process_time)
    text = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in planning.items())
    yield Said(NAME, f"Of the processor's time besides: {text}.", planning)


def _by_number(
    workload: dict[str, Any],
    numbers: Sequence[int],
    events: int,
    size: Size,
    variant: Callable[[dict[str, Any], bool], Variant],
    clock: Clock,
) -> Iterator[Row]:
    speeds: dict[str, float] = {}
    for number in numbers:
        queries = workload["queries"][:: max(1, len(workload["queries"]) // number)][:number]
        some = {**workload, "queries": queries}
        variants = {"together": variant(some, True)}
        skipped = {}
        if number <= 240:
            variants["one by one"] = variant(some, False)
        else:
            skipped["one by one"] = "takes as long as there are rules"
        seconds = measure(variants, size, clock)
        case = f"{number:,} rules, {events:,} events"
        row = Measured(NAME, "by rules", case, events, seconds, skipped)
        speeds[f"{number:,}"] = row.events_per_second["together"]
        yield row
    text = ", ".join(f"with {number} rules {speed:,.0f}" for number, speed in speeds.items())
    yield Said(NAME, f"Events in a second of one core: {text}.", speeds)


def _from_file(workload: dict[str, Any], events: str, alerts: str, sharing: bool) -> Variant:
    """A run in one thread, as `sheaf run` does it, from the file of events to one of alerts."""
    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, Execution, RowSink
    from engines.program import RunOptions
    from engines.run import run
    from workloads.loading import load_workload

    plan = plan_on_events(load_workload(workload), events, sharing)
    execution = Execution(options=RunOptions(threads=1))

    def found(report: RunReport) -> Found:
        mixed = sum(crc32(name.encode()) * number for name, number in report.rows.items())
        return Found(sum(report.rows.values()), 0, mixed)

    return Variant(lambda: run(plan, EventSource(events), RowSink(alerts), execution), found)


def _variant(workload: dict[str, Any], table: pa.Table, sharing: bool) -> Variant:
    from engines.input.event_table import column_kinds, from_table
    from engines.local.run import run_events
    from engines.program import RunContext
    from optimizer.bind.binder import bind
    from tests.running import How
    from workloads.loading import load_workload

    bound: BoundWorkload = bind(load_workload(workload), column_kinds(table.schema))
    program = How(sharing=sharing).program(bound)

    def run() -> Results:
        return run_events(program, from_table(table, bound.stream), RunContext())

    return Variant(run, _found)


def _found(results: Results) -> Found:
    matches = results.matches
    return Found(matches.num_rows, 0, int(matches.column("end").to_numpy().astype(int).sum()))


# --- look-alikes ----------------------------------------------------------------------------------


def drawn_rules(number: int) -> dict[str, Any]:
    """A workload of rules, as a document with their queries."""
    from workloads.loading import load_workload
    from workloads.workload import to_document

    draw = random.Random(number)
    routes = {name: [{"category": name}] for name in CATEGORIES}
    rules = [_rule(draw, place) for place in range(number)]
    entry = {"sigma": rules, "logsources": {"categories": routes}}
    stream = {"time": "time", "unit": "ms", "sequence": "seq"}
    return to_document(load_workload({"name": NAME, "stream": stream, "rules": [entry]}))


def _rule(draw: random.Random, place: int) -> dict[str, Any]:
    sought = _RARE if draw.random() < 0.9 else _WORDS

    def selection(words: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in draw.sample(FIELDS, draw.randint(1, 3)):
            how = draw.choice(["|contains", "|contains", "|endswith", "|startswith", "", "|re"])
            texts = [_text(draw, words) for _ in range(draw.randint(1, 8))]
            if how == "|endswith":
                texts = [f"\\{text}.exe" for text in texts]
            elif how == "|re":
                texts = [f"{draw.choice(words)}[0-9]*.*exe$"]
            found[name + how] = texts
        return found

    return {
        "title": f"rule {place}",
        "logsource": {"category": draw.choice(CATEGORIES)},
        "detection": {
            "selection": selection(sought),
            "filter": selection(_WORDS),
            "condition": draw.choice(["selection", "selection and not filter"]),
        },
    }


def _text(draw: random.Random, words: Sequence[str]) -> str:
    return "\\".join(draw.choice(words) for _ in range(draw.randint(1, 2)))


def drawn_events(number: int) -> pa.Table:
    """Events whose texts repeat, as those of real hosts do."""
    draw = random.Random(1)
    columns: dict[str, Any] = {
        "time": list(range(number)),
        "seq": list(range(number)),
        "category": draw.choices(CATEGORIES, (5, 30, 40, 25), k=number),
    }
    for name in FIELDS:
        distinct = [
            "c:\\" + "\\".join(draw.choices(_WORDS, k=draw.randint(2, 6))) + ".exe"
            for _ in range(max(10, number // (20 if name == "Line" else 200)))
        ]
        texts = draw.choices([*distinct, None], k=number)
        columns[name] = texts
    return pa.table(columns)
