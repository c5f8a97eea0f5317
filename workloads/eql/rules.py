"""Queries in EQL from files: lists of rules in YAML, rules in TOML, and texts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from workloads.eql.queries import CATEGORY, EqlImporter, EqlStream
from workloads.errors import shown
from workloads.imported_rules import ImportedRules, RefusedRule
from workloads.rule_files import (
    YAML_ENDINGS,
    RuleFile,
    RulesError,
    RuleSetting,
    rule_documents,
    yaml_documents,
)

EQL_KEYS = ("eql", "category", "strict", "suppress")
_TEXT = ".eql"
_ENDINGS = (*YAML_ENDINGS, ".toml", _TEXT)


def eql_rules(entry: Mapping[str, Any], setting: RuleSetting) -> ImportedRules:
    """The queries of an entry of `rules`: of files, or such as stand there.

    A rule has its query under `query` or `eql`; it is called by its `key`, its `id` or its `name`.
    """
    category = entry.get("category") or setting.type or CATEGORY
    if not isinstance(category, str):
        raise RulesError(f"'category' is {shown(category)}, not a column", "name a column")
    importer = EqlImporter(EqlStream(setting.time, setting.type, category))
    for document, place in rule_documents(entry["eql"], setting, _read, _ENDINGS):
        rule = document.get("rule", document) if isinstance(document, Mapping) else document
        text = (rule.get("query") or rule.get("eql")) if isinstance(rule, Mapping) else None
        if not isinstance(rule, Mapping) or not isinstance(text, str):
            reason = rule if isinstance(rule, str) else "it has no text under 'query'"
            importer.refused.append(RefusedRule("eql", "", place, reason))
        elif str(rule.get("language", "eql")).lower() != "eql":
            name = str(rule.get("name", ""))
            reason = f"it is written in {rule['language']}"
            importer.refused.append(RefusedRule("eql", name, place, reason))
        else:
            importer.take(text, _name(rule, place), _about(rule), place, rule.get("suppress"))
    return importer.imported()


def _read(file: RuleFile) -> Iterator[Any]:
    """The rules of a file; a text that says what is wrong with it."""
    ending = file.suffix.lower()
    if ending in YAML_ENDINGS:
        for document in yaml_documents(file):
            yield from document if isinstance(document, list) else [document]
        return
    try:
        text = file.read_text(encoding="utf-8")
        yield {"name": file.stem, "query": text} if ending == _TEXT else tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        yield f"it cannot be read: {' '.join(str(error).split())[:200]}"


def _name(rule: Mapping[str, Any], place: str) -> str:
    known = (rule.get(key) for key in ("key", "id", "rule_id", "name"))
    return str(next((name for name in known if name), place or "rule"))


def _about(rule: Mapping[str, Any]) -> dict[str, Any]:
    identity = rule.get("id") or rule.get("rule_id")
    if identity is None:
        return {}
    return {
        "id": identity,
        "title": rule.get("name"),
        "level": rule.get("severity"),
        "tags": rule.get("tags"),
    }
