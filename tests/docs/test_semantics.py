"""The examples of docs: semantics.md, stream-sql.md and language.md give the rows they show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from engines.input.event_table import Events, from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.ir.query import BoundWorkload
from tests.oracle.notation import rows, workload
from tests.running import How, run_local

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, SQL_PAGE = DOCS / "semantics.md", DOCS / "stream-sql.md"
LANGUAGE = DOCS / "language.md"

ENGINES: dict[str, Callable[[BoundWorkload, Events], Results]] = {
    "reference": run_oracle,
    "local": run_local,
    "local, every match constructed": lambda w, e: run_local(w, e, how=How(counting=False)),
}


@dataclass(frozen=True)
class Example:
    """One query over a stream, and the rows that the page has for it."""

    line: int
    stream: str
    query: str = ""
    others: tuple[str, ...] = ()  # whose rows it reads
    declared: dict[str, Any] = field(default_factory=dict)
    engines: tuple[str, ...] = tuple(ENGINES)
    rows: tuple[str, ...] = ()


def examples(page: str) -> Iterator[Example]:
    """The queries of all blocks marked `example`, in order."""
    for block in re.finditer(r"^```example\n(.*?)^```$", page, re.M | re.S):
        first = page.count("\n", 0, block.start()) + 2
        current = Example(first, "")
        for line, text in enumerate(block[1].splitlines(), first):
            word, _, rest = text.partition(" ")
            match word:
                case "declare":
                    current = replace(current, declared=yaml.safe_load(rest))
                case "engines":
                    current = replace(current, engines=tuple(rest.split(", ")))
                case "stream":
                    if current.query:
                        yield current
                    current = replace(current, stream=rest.strip(), query="", others=())
                case "with":
                    current = replace(current, others=(*current.others, rest.strip()))
                case "query":
                    if current.query:
                        yield current
                    current = replace(current, line=line, query=rest.strip(), rows=())
                case "row":
                    current = replace(current, rows=(*current.rows, rest.strip()))
                case _:
                    raise AssertionError(f"line {line}: {text}")
        yield current


def events_of(stream: str, bound: BoundWorkload) -> Events:
    """A stream in notation; `a1 … a64` are events with all numbers from the one to the other."""

    def counted(span: re.Match[str]) -> str:
        letter, low, high = span[1], int(span[2]), int(span[3])
        return " ".join(f"{letter}{number}" for number in range(low, high + 1))

    found = rows(re.sub(r"([a-z])(\d+) … \1(\d+)", counted, stream))
    types = {"type": pa.string(), "name": pa.string()}
    schema = pa.schema({name: types.get(name, pa.int64()) for name in found[0]})
    return from_table(pa.Table.from_pylist(found, schema), bound.stream)


def printed(results: Results) -> Counter[str]:
    """Result rows as the page writes them."""
    lines: Counter[str] = Counter()
    moments: dict[tuple[Any, ...], list[str]] = {}
    for row in results.aggregates.to_pylist():
        place = [*key_of(row), f"time={row['time']}"]
        place += [] if row["seq"] is None else [f"seq={row['seq']}"]
        shown = row["value"] if row["count"] is None else row["count"]
        moments.setdefault(tuple(place), []).append(
            f"{row['aggregate']}={value(shown)}" + ("" if row["exact"] else " exact=false")
        )
    lines.update(" ".join((*place, *found)) for place, found in moments.items())
    for row in results.matches.to_pylist():
        times = [f"{name}={row[name]}" for name in ("start", "end", "time")]
        bound = [text for item in json.loads(row["match"]).items() for text in returned(*item)]
        lines[" ".join([*key_of(row), *times, *bound])] += 1
    return lines


def of_query(results: Results, name: str) -> Results:
    """The rows of one query."""
    kept = [
        table.filter(pc.equal(table.column("query").cast(pa.string()), name))
        for table in (results.aggregates, results.matches)
    ]
    return Results(*kept)


def key_of(row: dict[str, Any]) -> list[str]:
    return [f"{name}={value(v)}" for name, v in json.loads(row["key"] or "{}").items()]


def returned(name: str, found: Any) -> Iterator[str]:
    """What stands under a name in a match: an event by its name, or by the fields that it has."""
    if found == []:
        yield f"{name}=[]"
        return
    sample = found[0] if isinstance(found, list) else found
    if not isinstance(sample, dict):
        yield f"{name}={value(found)}"
        return
    for attribute in ["name"] if "name" in sample else sample:
        values = [event[attribute] for event in found] if isinstance(found, list) else None
        shown = value(found[attribute]) if values is None else f"[{' '.join(map(value, values))}]"
        yield f"{name if attribute == 'name' else f'{name}.{attribute}'}={shown}"


def value(found: Any) -> str:
    if found is None:
        return "null"
    if isinstance(found, float) and found.is_integer() and abs(found) < 2**53:
        return str(int(found))
    return str(found)


ALL = list(examples(PAGE.read_text(encoding="utf-8")))
SQL = list(examples(SQL_PAGE.read_text(encoding="utf-8")))
OTHERS = list(examples(LANGUAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("example", [*ALL, *SQL, *OTHERS], ids=lambda e: f"line {e.line}")
def test_an_example_gives_the_rows_of_the_page(example: Example) -> None:
    expected = Counter(row for row in example.rows if row != "none")
    assert example.rows, "a query without rows says 'none'"
    for name in example.engines:
        bound = workload(example.query, *example.others, **example.declared)
        results = ENGINES[name](bound, events_of(example.stream, bound))
        found = printed(of_query(results, bound.queries[0].name))
        assert found == expected, name


def test_only_the_count_beyond_64_bits_is_left_to_the_local_engine() -> None:
    (example,) = [e for e in ALL if set(e.engines) != ENGINES.keys()]
    assert example.stream == "a1 … a64"
    assert [row.split("=", 2)[2] for row in example.rows] == [
        str(2**63 - 1),
        f"{float(2**64 - 1)} exact=false",
    ]
    assert PAGE.read_text(encoding="utf-8").count("\nquery ") == len(ALL)
    assert SQL_PAGE.read_text(encoding="utf-8").count("\nquery ") == len(SQL)
