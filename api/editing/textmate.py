"""The colours of queries: a TextMate grammar, made from the words of the language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from workloads import vocabulary

QUERIES = "source.sheaf"


def query_grammar() -> dict[str, Any]:
    """The grammar of a query's text."""
    relations = (word for word in vocabulary.RELATIONS if word.upper() not in vocabulary.WORDS)
    patterns = [
        ("comment.line.double-dash.sheaf", r"--.*$"),
        ("string.quoted.single.sheaf", r"'(?:''|[^'])*'"),
        ("variable.other.quoted.sheaf", r'"(?:""|[^"\n])+"'),
        ("variable.other.member.sheaf", r"(?<=\.)[A-Za-z_][A-Za-z0-9_]*"),
        ("constant.numeric.sheaf", r"(?i)\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b"),
        ("entity.name.function.sheaf", r"(?i)(?<=\bQUERY )[a-z_][a-z0-9_]*"),
        ("keyword.control.sheaf", _any_of(vocabulary.CLAUSES)),
        ("support.function.sheaf", _any_of(vocabulary.FUNCTIONS) + r"(?=\s*\()"),
        ("keyword.other.sheaf", _any_of(vocabulary.WORDS)),
        ("keyword.operator.relation.sheaf", _any_of(relations)),
        ("keyword.other.unit.sheaf", r"(?<=\d )" + _any_of(vocabulary.UNITS).removeprefix("(?i)")),
        ("keyword.operator.sheaf", r"<=|>=|!=|<>|==|[=<>!+*/%|&;:^?-]"),
    ]
    return {
        "name": "Sheaf query",
        "scopeName": QUERIES,
        "patterns": [{"name": name, "match": match} for name, match in patterns],
    }


def yaml_injection() -> dict[str, Any]:
    """The grammar that colours queries in the blocks of YAML."""
    return {
        "name": "Sheaf queries in YAML",
        "scopeName": "yaml.injection.sheaf",
        "injectionSelector": "L:string.unquoted.block.yaml",
        "patterns": [{"include": QUERIES}],
    }


def _any_of(words: Iterable[str]) -> str:
    """Any of these words, in any case; of two that begin alike the longer one first."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return rf"(?i)\b(?:{'|'.join(map(re.escape, longest_first))})\b"
