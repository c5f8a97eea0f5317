"""`rules:` of a workload: rules of other systems from files, or written there, as queries.

Another format is a function and a line in `FORMATS`.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from workloads.archives import ArchivedFile, matching
from workloads.document import DocumentError, read_document
from workloads.errors import SheafError, did_you_mean, opening_remedy, shown
from workloads.imported_rules import ImportedRules
from workloads.suppression import (
    REMEDY,
    SuppressionError,
    read_suppression,
    suppressed_rules,
)
from workloads.syntax import Duration

YAML_ENDINGS = (".yml", ".yaml")
MAX_RULES = 10_000
_NEXT_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, much faster


class RulesError(SheafError):
    """What is wrong with an entry of `rules`, and what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class RuleSetting:
    """Where rules are read: paths are relative to `folder`, and there are none without one.

    `sequence` is the stream's column of sequence numbers, which alerts return. `suppress` is the
    default of the workload. Of a workload in an archive, `files` are those beside it.
    """

    folder: Path | None
    sequence: str | None = None
    time: str = "time"
    type: str | None = None
    suppress: Duration | None = None
    files: tuple[ArchivedFile, ...] | None = None


RuleFormat = Callable[[Mapping[str, Any], RuleSetting], ImportedRules]


def imported_rules(entry: Any, setting: RuleSetting) -> ImportedRules:
    """The rules of one entry, such as `{sigma: rules/**, logsources: logsources.yaml}`.

    Raises `RulesError` where the entry is wrong; single rules that are refused are listed in what
    it gives.
    """
    if not isinstance(entry, Mapping):
        raise RulesError(
            f"an entry of 'rules' is {shown(entry)}, not a map",
            "write such as {sigma: rules/windows/**, logsources: logsources.yaml}",
        )
    named = [key for key in entry if key in FORMATS]
    if len(named) != 1:
        other = next((str(key) for key in entry), "")
        raise RulesError(
            f"an entry of 'rules' names one format of {', '.join(FORMATS)}",
            did_you_mean(other, FORMATS) or "write such as {sigma: rules/windows/**}",
        )
    try:
        suppress = read_suppression(entry.get("suppress"), setting.suppress)
    except SuppressionError as error:
        raise RulesError(str(error), REMEDY) from error
    return suppressed_rules(FORMATS[named[0]](entry, setting), named[0], suppress)


def is_single_rule(query: Any) -> bool:
    """Is it a rule that stands among queries, such as `{sigma: {title: …}}`?"""
    if not isinstance(query, Mapping):
        return False
    return isinstance(query.get("sigma"), Mapping) or isinstance(query.get("eql"), str)


def single_rules(queries: Any) -> list[dict[str, Any]]:
    """Rules that stand among queries, as entries of `rules`: one for those of one setting."""
    found: list[dict[str, Any]] = []
    for number, query in enumerate(queries if isinstance(queries, list) else (), 1):
        if is_single_rule(query) and "eql" in query:
            others = {key: value for key, value in query.items() if key not in ("eql", "name")}
            named = {"name": f"q{number}", **query}
            found.append({**others, "eql": [named], "strict": True})
        elif is_single_rule(query):
            others = {key: value for key, value in query.items() if key != "sigma"}
            same = [e for e in found if {k: v for k, v in e.items() if k != "sigma"} == others]
            if same:
                same[0]["sigma"].append(query["sigma"])
            else:
                found.append({**others, "sigma": [query["sigma"]]})
    return found


RuleFile = Path | ArchivedFile
FileReader = Callable[[RuleFile], Iterator[Any]]


def yaml_documents(file: RuleFile) -> Iterator[Any]:
    """The documents of a file; a text that says what is wrong with it."""
    try:
        documents = _loaded(file)
    except DocumentError as error:
        yield f"no YAML: {error.message}"
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        yield f"no YAML: {' '.join(str(error).split())[:200]}"
    else:
        yield from (document for document in documents if document is not None)


def _loaded(file: RuleFile) -> list[Any]:
    """The documents of a file; one that somebody sends is read within the limits of workloads."""
    if isinstance(file, Path):
        return list(yaml.load_all(file.read_text(), LOADER))
    parts = _NEXT_DOCUMENT.split(file.read_text())
    return [read_document(part, is_json=False).value for part in parts if part.strip()]


def rule_documents(
    given: Any,
    setting: RuleSetting,
    read: FileReader = yaml_documents,
    endings: Collection[str] = YAML_ENDINGS,
) -> Iterator[tuple[Any, str]]:
    """Rules as documents, each with its place: those of files, or such as stand there."""
    parts = given if isinstance(given, list) else [given]
    number = 0
    for part in parts:
        if isinstance(part, Mapping):
            found: Iterator[tuple[Any, str]] = iter([(part, "")])
        elif isinstance(part, str):
            found = _of_files(part, setting, read, endings)
        else:
            raise RulesError(f"{shown(part)} is neither a path nor a rule", "name a file or folder")
        for document in found:
            number += 1
            if number > MAX_RULES:
                raise RulesError(f"more than {MAX_RULES:,} rules", "split them over workloads")
            yield document


def rule_files(
    pattern: str, setting: RuleSetting, endings: Collection[str] = YAML_ENDINGS
) -> Sequence[RuleFile]:
    """The files that a path, a folder or a glob names, in the order of their names."""
    if setting.files is not None:
        named, is_exact = matching(setting.files, pattern)
        return [f for f in named if is_exact or f.suffix.lower() in endings]
    if setting.folder is None:
        raise RulesError(
            f"{shown(pattern)} is a path, and a workload that is no file names none",
            "give the rules themselves, as a list of maps, or post an archive",
        )
    path = setting.folder / pattern
    if path.is_dir():
        path = path / "**"
    if path.is_file():
        return [path]
    # A pattern may be absolute, which `Path.glob` does not take.
    found = [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207
    return sorted(f for f in found if f.suffix.lower() in endings and f.is_file())


def _of_files(
    pattern: str, setting: RuleSetting, read: FileReader, endings: Collection[str]
) -> Iterator[tuple[Any, str]]:
    files = rule_files(pattern, setting, endings)
    if not files:
        raise RulesError(f"no file of rules is at {shown(pattern)}", "check the path")
    for file in files:
        try:
            yield from ((document, str(file)) for document in read(file))
        except OSError as error:
            raise RulesError(
                f"cannot read '{file}': {error.strerror}", opening_remedy(error)
            ) from error


def document_at(given: Any, setting: RuleSetting, what: str) -> Any:
    """A map that stands in an entry, or the document of the file that it names."""
    if given is None or isinstance(given, Mapping):
        return given
    if not isinstance(given, str):
        raise RulesError(f"'{what}' is {shown(given)}, neither a path nor a map", "name a file")
    files = rule_files(given, setting)
    if len(files) != 1:
        raise RulesError(f"'{what}' names no file: {shown(given)}", "check the path")
    try:
        documents = _loaded(files[0])
    except DocumentError as error:
        raise RulesError(f"cannot read '{files[0]}': {error.message}", error.hint) from error
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise RulesError(f"cannot read '{files[0]}': {' '.join(str(error).split())}") from error
    if len(documents) > 1:
        raise RulesError(f"'{files[0]}' has several documents", "leave one")
    return documents[0] if documents else None


def _sigma(entry: Mapping[str, Any], setting: RuleSetting) -> ImportedRules:
    unknown = [str(key) for key in entry if key not in _SIGMA_KEYS]
    if unknown:
        raise RulesError(
            f"'{unknown[0]}' is no key of an entry of Sigma rules; known are "
            + ", ".join(_SIGMA_KEYS),
            did_you_mean(unknown[0], _SIGMA_KEYS),
        )
    # pySigma takes a while to import, and most workloads have no such rules.
    from workloads.sigma.logsources import RouteError, read_logsources
    from workloads.sigma.rules import PipelineError, load_pipelines, sigma_queries

    listed = entry.get("pipelines") or []
    named = listed if isinstance(listed, list) else [listed]
    pipelines = [document_at(name, setting, "pipelines") for name in named]
    try:
        sources = read_logsources(document_at(entry.get("logsources"), setting, "logsources"))
        pipeline = load_pipelines(pipelines)
    except (RouteError, PipelineError) as error:
        raise RulesError(str(error), "see docs/detection.md, which has an example") from error
    return sigma_queries(
        rule_documents(entry["sigma"], setting), sources, setting.sequence, pipeline
    )


def _eql(entry: Mapping[str, Any], setting: RuleSetting) -> ImportedRules:
    from workloads.eql.rules import EQL_KEYS, eql_rules

    unknown = [str(key) for key in entry if key not in EQL_KEYS]
    if unknown:
        raise RulesError(
            f"'{unknown[0]}' is no key of an entry of EQL queries; known are category, suppress",
            did_you_mean(unknown[0], EQL_KEYS),
        )
    found = eql_rules(entry, setting)
    if entry.get("strict") and found.refused:
        refused = found.refused[0]
        raise RulesError(f"query {refused.name}: {refused.reason}", "see docs/eql.md")
    return found


_SIGMA_KEYS = ("sigma", "logsources", "pipelines", "suppress")
FORMATS: dict[str, RuleFormat] = {"sigma": _sigma, "eql": _eql}
