"""What may be written at a place of a workload, and what stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal as OneOf

from api.editing.workload_text import QueryText, WorkloadText
from workloads import vocabulary
from workloads.builder import name_of
from workloads.errors import QueryError
from workloads.parser import tokens_of
from workloads.printing import print_expression, print_name

Kind = OneOf["keyword", "function", "type", "alias", "attribute", "key", "value"]

_NAME = r'[A-Za-z_][A-Za-z0-9_]*|"(?:""|[^"\n])+"'
_WORD = re.compile(_NAME)
_BEHIND_DOT = re.compile(rf"(?:{_NAME})\.[A-Za-z0-9_.]*$")
_AFTER_WITHIN = re.compile(r"(?:within|slide|suppress)\s+\d+\s*[a-z]*$", re.IGNORECASE)
_KEY = re.compile(r"(?P<indent> *)(?:- )?(?P<key>[\w-]+):")
_VALUES = {
    "unit": ("s", "ms", "us", "ns"),
    "missing_columns": ("error", "ignore"),
    "on_limit": ("stop", "drop-oldest"),
}


@dataclass(frozen=True)
class Word:
    """A word with what it is and means; `written` is what an editor puts in."""

    written: str
    kind: Kind
    meaning: str = ""


@dataclass(frozen=True)
class Names:
    """What a workload's queries can name: types and attributes, each with what is known of it."""

    types: Mapping[str, str]
    attributes: Mapping[str, str]


def names_of(workload: WorkloadText) -> Names:
    """The names of a workload's stream, of its queries, and of the columns of its events."""
    stream = workload.values("stream")
    by_column = f"An event whose '{stream['type']}' is this." if stream.get("type") else "A type."
    loaded, _ = workload.loaded
    types = dict.fromkeys(map(str, workload.values("statistics", "rates")), by_column)
    conditions = {} if loaded is None else loaded.stream.types
    for name in map(str, workload.values("stream", "types")):
        condition = conditions.get(name)
        types[name] = by_column if condition is None else f"`{print_expression(condition)}`"
    attributes = {name: f"A column: {kind}." for name, kind in workload.columns.items()}
    for name, kind in workload.values("stream", "attributes").items():
        attributes[str(name)] = f"A column: {kind}."
    for query in workload.queries:
        for type_, _ in components(query):
            types.setdefault(type_, by_column)
        for name in _behind_dots(query):
            attributes.setdefault(name, "A column that a query names.")
    return Names(types, attributes)


def completions(workload: WorkloadText, offset: int) -> list[Word]:
    """What may stand at a place, likely things first."""
    query = workload.query_at(offset)
    if query is None:
        return list(_in_document(workload.text, offset))
    if query.notation is not None:
        return []
    names = names_of(workload)
    before = workload.text[query.start : offset]
    attributes = [Word(print_name(n), "attribute", said) for n, said in names.attributes.items()]
    if _BEHIND_DOT.search(before):
        return attributes
    if _AFTER_WITHIN.search(before):
        units = (*vocabulary.UNITS, "EVENTS")
        return [Word(unit, "keyword", "A unit of windows.") for unit in units]
    aliases = [
        Word(print_name(alias), "alias", f"An event of type {type_}.")
        for type_, alias in components(query)
        if alias is not None
    ]
    types = [Word(print_name(name), "type", said) for name, said in names.types.items()]
    first = [*types, *aliases] if _in_pattern(before) else [*aliases, *attributes]
    rest = [*attributes] if _in_pattern(before) else [*types]
    return [*first, *_words(), *rest]


def meaning_at(workload: WorkloadText, offset: int) -> str | None:
    """What the word at a place means, in Markdown."""
    start = workload.text.rfind("\n", 0, offset) + 1
    end = workload.text.find("\n", offset)
    line = workload.text[start : end if end >= 0 else None]
    found = next(
        (w for w in _WORD.finditer(line) if start + w.start() <= offset <= start + w.end()), None
    )
    if found is None:
        return None
    query = workload.query_at(offset)
    if query is None:
        return _key_meaning(workload.text, start, line, found.group())
    name, names = _plain(found.group()), names_of(workload)
    if line[: found.start()].endswith("."):
        return _said(name, names.attributes.get(name))
    for type_, alias in components(query):
        if alias == name:
            return _said(alias, f"An event of type `{type_}`. {names.types.get(type_, '')}".strip())
    known = names.types.get(name) or names.attributes.get(name)
    words = {word.upper(): said for word, said in vocabulary.explained()}
    return _said(name, known or words.get(name.upper()))


def components(query: QueryText) -> list[tuple[str, str | None]]:
    """The types and aliases of a query's pattern, also where the query is not complete."""
    try:
        tokens = tokens_of(query.text)
    except QueryError:
        return []
    found: list[tuple[str, str | None]] = []
    inside = open_ = False  # in a pattern; behind a type whose alias may come
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type in vocabulary.CLAUSES:
            inside, open_ = token.type in ("PATTERN", "FUNNEL", "UNTIL", "EXCLUDE"), False
        elif inside and token.type == "NAME" and open_:
            found[-1] = (found[-1][0], name_of(token))
            open_ = False
        elif inside and token.type == "NAME" and (after is None or after.type != "DOT"):
            found.append((name_of(token), None))
            open_ = True
        elif token.type in ("COMMA", "LPAR", "RPAR", "SEMICOLON", "BETWEEN", "AND", "OR", "WITHIN"):
            open_ = False
    return found


def _behind_dots(query: QueryText) -> Iterator[str]:
    try:
        tokens = tokens_of(query.text)
    except QueryError:
        return
    for before, token in pairwise(tokens):
        if before.type == "DOT" and token.type == "NAME":
            yield name_of(token)


def _in_pattern(before: str) -> bool:
    """Is the last clause that was begun one that names types?"""
    begun = [word for word in _WORD.findall(before) if word.upper() in vocabulary.CLAUSES]
    return bool(begun) and begun[-1].upper() in ("PATTERN", "FUNNEL", "UNTIL", "EXCLUDE")


def _words() -> Iterator[Word]:
    for word, said in vocabulary.explained():
        is_function = word in vocabulary.FUNCTIONS
        yield Word(word, "function" if is_function else "keyword", said)


def _in_document(text: str, offset: int) -> Iterator[Word]:
    """Keys and values of the document, by what the line is in."""
    start = text.rfind("\n", 0, offset) + 1
    before = text[start:offset]
    if (value := _KEY.match(before)) is not None:
        parents = _parents(text, start, len(value["indent"]))
        values = vocabulary.KINDS if parents == ["stream", "attributes"] else ()
        for known in values or _VALUES.get(value["key"], ()):
            yield Word(known, "value")
        return
    indent = len(before) - len(before.lstrip(" "))
    parents = _parents(text, start, indent)
    for key, said in vocabulary.KEYS.get(".".join(parents), {}).items():
        yield Word(f"{key}: ", "key", said)


def _parents(text: str, start: int, indent: int) -> list[str]:
    """The keys of the maps that a line with this indentation is in, outermost first."""
    found: list[str] = []
    for line in reversed(text[:start].split("\n")):
        key = _KEY.match(line)
        if key is not None and len(key["indent"]) < indent:
            found.insert(0, key["key"])
            indent = len(key["indent"])
    return found


def _key_meaning(text: str, start: int, line: str, word: str) -> str | None:
    key = _KEY.match(line)
    if key is None or key["key"] != word:
        return None
    parents = _parents(text, start, len(key["indent"]))
    return _said(word, vocabulary.KEYS.get(".".join(parents), {}).get(word))


def _plain(word: str) -> str:
    return word[1:-1].replace('""', '"') if word.startswith('"') else word


def _said(name: str, meaning: str | None) -> str | None:
    return None if meaning is None else f"**{name}**: {meaning}"
