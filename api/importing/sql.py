"""Files of SQL statements, which `;` separates, as a workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from api.importing.imported import ImportedWorkload, ImportOptions, Refused
from workloads.errors import QueryError
from workloads.sql.document import named_statements
from workloads.sql.parser import parse_statement


def read_sql(paths: Sequence[Path], options: ImportOptions) -> ImportedWorkload:
    """A query for each statement that is taken; the stream's columns are to be filled in."""
    queries: list[dict[str, Any]] = []
    refused: list[Refused] = []
    read = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        try:
            named = named_statements(text, path.stem)
        except QueryError as error:
            refused.append(_refused(path, error, text))
            read += 1
            continue
        for name, statement in named.items():
            read += 1
            try:
                parse_statement(statement)
            except QueryError as error:
                refused.append(_refused(path, error, statement))
                continue
            taken = {query["name"] for query in queries}
            while name in taken:
                name += "_"
            queries.append({"name": name, "sql": statement})
    document = {
        "name": options.name or (paths[0].stem if paths else "sql"),
        "stream": {
            "time": options.time,
            "unit": options.unit,
            **({} if options.format is None else {"format": options.format}),
        },
        "queries": queries,
    }
    return ImportedWorkload(document, read, tuple(refused))


def _refused(path: Path, error: QueryError, text: str) -> Refused:
    found = error.diagnostic(text, None)
    hint = f"; {error.hint}" if error.hint else ""
    return Refused(
        f"{path}, line {found.line}, column {found.column} of its statement", error.message + hint
    )
