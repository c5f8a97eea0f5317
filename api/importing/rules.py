"""Files of rules that a workload can name under `rules`, as queries of Sheaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from api.importing.imported import ImportedWorkload, ImportOptions, Refused
from workloads.errors import SheafError
from workloads.rule_files import RulesError, RuleSetting, imported_rules
from workloads.workload import Stream, Workload, to_document

_UNROUTED = (
    "each rule sees every event; --config LOGSOURCES.yaml says which events are of which log source"
)
_ENDINGS = {"sigma": (".yml", ".yaml"), "eql": (".yml", ".yaml", ".toml", ".eql")}


def read_sigma(paths: Sequence[Path], options: ImportOptions) -> ImportedWorkload:
    """A query for each Sigma rule that is taken; `config` is a file of log sources."""
    settings = {} if options.config is None else {"logsources": str(options.config)}
    found = _read("sigma", paths, options, settings)
    return found if settings else replace(found, notes=(*found.notes, _UNROUTED))


def read_eql(paths: Sequence[Path], options: ImportOptions) -> ImportedWorkload:
    """A query for each query in EQL that is taken."""
    if options.config is not None:
        raise SheafError("EQL has no settings of its own; leave --config out")
    return _read("eql", paths, options, {})


def _read(
    format: str, paths: Sequence[Path], options: ImportOptions, settings: dict[str, Any]
) -> ImportedWorkload:
    files = [str(path) for path in paths if path.suffix.lower() in _ENDINGS[format]]
    if not files:
        raise SheafError(
            f"no file ends with {' or '.join(_ENDINGS[format])}; name a file or a folder of rules"
        )
    setting = RuleSetting(Path(), options.sequence, options.time)
    try:
        found = imported_rules({format: files, **settings}, setting)
    except RulesError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise SheafError(error.message + hint) from None
    stream = Stream(
        options.time,
        unit=options.unit,
        format=options.format,
        sequence=options.sequence,
        types=dict(found.types),
        missing_columns="ignore",
    )
    queries = tuple(rule.query for rule in found.rules)
    optional = {str(query.name): "" for query in queries}
    name = options.name or paths[0].stem
    workload = Workload(name, stream, queries, optional=optional)
    refused = tuple(
        Refused(", ".join(filter(None, (rule.place, rule.name))), rule.reason)
        for rule in found.refused
    )
    return ImportedWorkload(to_document(workload), len(queries) + len(refused), refused)
