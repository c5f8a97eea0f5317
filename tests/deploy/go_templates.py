"""As much of Helm's templates as ours use, so that they are held to something without Helm.

Where Helm is on the PATH a test compares the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_ACTION = re.compile(r"(\s*)\{\{-\s+(.*?)\s*\}\}|\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_TERM = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|]+')
Scope = Mapping[str, Any]


def rendered(chart: Path, release: str, **changed: Any) -> list[Any]:
    """The documents that a chart makes, of its values with changes."""
    values = yaml.safe_load((chart / "values.yaml").read_text())
    about = dict.fromkeys(("Name", "Namespace"), release)
    scope = {".": {"Values": merged(values, changed), "Release": about}}
    texts = (render(f.read_text(), scope) for f in sorted((chart / "templates").glob("*.yaml")))
    return [found for text in texts for found in yaml.safe_load_all(text) if found is not None]


def merged(values: Any, changed: Any) -> Any:
    """Values as Helm changes them: maps by key, all else as a whole."""
    if not isinstance(values, Mapping) or not isinstance(changed, Mapping):
        return changed
    return {**values, **{k: merged(values.get(k), v) for k, v in changed.items()}}


def render(text: str, scope: Scope) -> str:
    """A template's text; an action that is not known is an error."""
    pieces = list(_pieces(text))
    found, rest = _rendered(pieces, scope)
    assert not rest, "there is an 'end' too many"
    return found


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    done = 0
    for match in _ACTION.finditer(text):
        yield "text", text[done : match.start()]
        yield "action", match[2] if match[2] is not None else match[3]
        done = match.end()
    yield "text", text[done:]


def _rendered(pieces: Sequence[tuple[str, str]], scope: Scope) -> tuple[str, Sequence[Any]]:
    """What is up to the end of a block, and what comes behind that."""
    out, left = "", list(pieces)
    while left:
        kind, said = left.pop(0)
        if kind == "text":
            out += said
            continue
        word, _, about = said.partition(" ")
        if word == "end":
            return out, left
        if word not in ("if", "with", "range"):
            value = _value(said, scope)
            out += "" if value is None else str(value)
            continue
        scopes = list(_scopes(word, about, scope))
        _, behind = _rendered(left, scopes[0] if scopes else {".": None, "unused": True})
        out += "".join(_rendered(left, each)[0] for each in scopes)
        left = list(behind)
    return out, []


def _scopes(word: str, about: str, scope: Scope) -> Iterator[Scope]:
    if word == "range":
        names, _, said = about.partition(":=")
        key, value = (name.strip() for name in names.split(","))
        for k, v in sorted((_value(said, scope) or {}).items()):
            yield {**scope, key: k, value: v, ".": v}
    elif found := _value(about, scope):
        yield {**scope, ".": found} if word == "with" else scope


def _value(said: str, scope: Scope) -> Any:
    if scope.get("unused"):
        return None
    return _piped(_TERM.findall(said), scope)


def _piped(terms: list[str], scope: Scope) -> Any:
    """A pipeline, up to its end or the bracket that closes it."""
    value, calls = None, [[]]  # type: tuple[Any, list[list[Any]]]
    while terms and (term := terms.pop(0)) != ")":
        if term == "|":
            calls.append([])
        elif term == "(":
            calls[-1].append((_piped(terms, scope),))
        else:
            calls[-1].append(term)
    for i, call in enumerate(calls):
        given = [_term(term, scope) for term in call[1:]] + ([value] if i else [])
        if isinstance(call[0], str) and call[0] in _FUNCTIONS:
            value = _FUNCTIONS[call[0]](*given)
        else:
            assert not given, f"'{call[0]}' is no function that is known here"
            value = _term(call[0], scope)
    return value


def _term(term: Any, scope: Scope) -> Any:
    if isinstance(term, tuple):
        return term[0]
    if term.startswith('"'):
        return json.loads(term)
    if term.lstrip("-").isdigit():
        return int(term)
    if term.startswith("$"):
        return scope[term]
    assert term.startswith("."), f"'{term}' is not known here"
    found = scope["."]
    for name in filter(None, term.split(".")):
        found = found[name]
    return found


_FUNCTIONS: Mapping[str, Any] = {
    "default": lambda other, value: value or other,
    "nindent": lambda by, text: "\n" + "\n".join(" " * by + line for line in text.splitlines()),
    "not": lambda value: not value,
    "printf": lambda text, *values: text % values,
    "quote": lambda value: json.dumps(value if isinstance(value, str) else json.dumps(value)),
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True).rstrip("\n"),
}
