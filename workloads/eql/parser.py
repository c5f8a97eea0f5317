"""Text in EQL to the values of `terms.py`; raises `EqlError` with the place of what is wrong."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from workloads import expressions as ex
from workloads.eql import conditions
from workloads.eql.terms import OPTIONAL, EqlError, EqlPipe, EqlQuery, EqlTerm
from workloads.limits import MAX_QUERY_CHARACTERS

_STRINGS = re.compile(r'"""(?:.|\n)*?"""+|"(?:\\.|[^"\\\n])*"|/\*(?:.|\n)*?\*/|//[^\n]*')
# What the rules of the Elastic Endpoint have, and Elasticsearch's EQL has not.
_OTHERS = {
    re.compile(r"\b(descendant|child|event)\s+of\s*\["): (
        "only the Elastic Endpoint's EQL has '{} of […]': it follows the tree of processes, which "
        "events alone do not have"
    ),
    re.compile(r"^\s*(join)\s*(?=by\b|\[)"): (
        "Elasticsearch's EQL has no '{}'; 'sample by' is for events in any order"
    ),
    re.compile(r"\]\s*(fork)\b"): "Elasticsearch's EQL has no '{}'",
}


def parse_eql(text: str) -> EqlQuery:
    """One query in EQL."""
    if len(text) > MAX_QUERY_CHARACTERS:
        raise EqlError(f"it is longer than {MAX_QUERY_CHARACTERS:,} characters")
    bare = _STRINGS.sub(lambda found: re.sub(r"\S", "-", found.group()), text)
    for pattern, reason in _OTHERS.items():
        if found := pattern.search(bare):
            start = found.start(1)
            line, column = bare.count("\n", 0, start) + 1, start - bare.rfind("\n", 0, start)
            raise EqlError(f"line {line}, column {column}: {reason.format(found.group(1))}")
    try:
        tree = _lark().parse(text)
        query: EqlQuery = _Builder().transform(tree)
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        raise _unexpected(error) from None
    return query


@cache
def _lark() -> Lark:
    source = Path(__file__).with_name("grammar.lark")
    return Lark(source.read_text(encoding="utf-8"), parser="lalr", maybe_placeholders=True)


def _unexpected(error: UnexpectedInput) -> EqlError:
    place = f"line {error.line}, column {error.column}"
    match error:
        case UnexpectedToken(token=Token(type="$END")):
            return EqlError("the query ends too early")
        case UnexpectedToken(token=token):
            return EqlError(f"{place}: unexpected '{str(token)[:30]}'")
        case UnexpectedCharacters():
            return EqlError(f"{place}: unexpected character {error.char!r}")
        case _:
            return EqlError(f"{place}: no EQL")


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'", "f": "\f", "b": "\b"}


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found.group(1)
        if code.startswith("u"):
            return chr(int(code.strip("u{}"), 16))
        return _ESCAPES.get(code, "\\" + code)

    return re.sub(r"\\(u\{[0-9a-fA-F]{2,8}\}|u[0-9a-fA-F]{4}|.)", one, text)


class _Builder(Transformer_NonRecursive[Token, Any]):
    """Bottom-up, without recursion."""

    def start(self, parts: list[Any]) -> EqlQuery:
        query, *pipes = parts
        if isinstance(query, tuple):
            query = EqlQuery("event", (EqlTerm(*query),))
        found: EqlQuery = query
        return found.piped(tuple(pipes))

    def sequence(self, parts: list[Any]) -> EqlQuery:
        *given, until = parts
        terms = tuple(part for part in given if isinstance(part, EqlTerm))
        by: tuple[ex.Expression, ...] = ()
        span: str | None = None
        for part in given:
            if isinstance(part, tuple):
                by = part
            elif isinstance(part, str):
                span = part
        return EqlQuery("sequence", terms, by, span, until)

    def sample(self, parts: list[Any]) -> EqlQuery:
        by, *terms = parts
        return EqlQuery("sample", tuple(terms), by or ())

    def by(self, parts: list[Any]) -> tuple[ex.Expression, ...]:
        return tuple(parts)

    def maxspan(self, parts: list[Any]) -> str:
        return str(parts[0])

    def term(self, parts: list[Any]) -> EqlTerm:
        missing, (category, condition), by, named, runs = parts
        return EqlTerm(category, condition, by or (), missing is not None, runs or 1, named)

    def named(self, parts: list[Any]) -> str:
        return str(parts[0])

    def until(self, parts: list[Any]) -> EqlTerm:
        (category, condition), by = parts
        return EqlTerm(category, condition, by or ())

    def runs(self, parts: list[Any]) -> int:
        number = str(parts[0])
        if not number.isdigit() or not 1 <= int(number) <= 100:
            raise EqlError(f"with runs={number}: a whole number from 1 to 100 is taken")
        return int(number)

    def event(self, parts: list[Any]) -> Any:
        conditions.check_variables(parts[1])
        return parts[0], conditions.condition(parts[1])

    def category(self, parts: list[Any]) -> str:
        text = str(parts[0])
        return _unescaped(text[1:-1]) if text[0] in "\"'" else text.strip("`")

    def pipe(self, parts: list[Any]) -> EqlPipe:
        name, *values = parts
        return EqlPipe(str(name), tuple(value for value in values if value is not None))

    def any_of(self, parts: list[Any]) -> ex.Expression:
        return conditions.joined("OR", parts)

    def all_of(self, parts: list[Any]) -> ex.Expression:
        return conditions.joined("AND", parts)

    def not_(self, parts: list[Any]) -> ex.Expression:
        return conditions.inverse(parts[0])

    def compare(self, parts: list[Any]) -> ex.Expression:
        left, operator, right = parts
        return conditions.compared(str(operator), left, right)

    def in_(self, parts: list[Any]) -> ex.Expression:
        operand, operator, values = parts
        return conditions.member(operand, values, str(operator).endswith("~"))

    def not_in(self, parts: list[Any]) -> ex.Expression:
        return conditions.inverse(self.in_(parts))

    def like(self, parts: list[Any]) -> ex.Expression:
        operand, operator, values = parts
        listed = values if isinstance(values, list) else [values]
        return conditions.patterned(str(operator), operand, listed)

    def not_like(self, parts: list[Any]) -> ex.Expression:
        return conditions.inverse(self.like(parts))

    def listed(self, parts: list[Any]) -> list[Any]:
        return list(parts)

    def arithmetic(self, parts: list[Any]) -> ex.Expression:
        left, operator, right = parts
        return conditions.computed(str(operator), left, right)

    def negative(self, parts: list[Any]) -> ex.Expression:
        return conditions.computed("-", ex.Literal(0), parts[-1])

    def positive(self, parts: list[Any]) -> ex.Expression:
        return conditions.computed("+", ex.Literal(0), parts[-1])

    def call(self, parts: list[Any]) -> ex.Expression:
        name, *arguments = parts
        return conditions.called(str(name), [a for a in arguments if a is not None])

    def field(self, parts: list[Any]) -> ex.Attribute:
        name = str(parts[0])
        alias = OPTIONAL if name.startswith("?") else ""
        return ex.Attribute(alias, name.lstrip("?").replace("`", ""))

    def raw(self, parts: list[Any]) -> ex.Literal:
        text = str(parts[0])
        if text.startswith("?"):  # the older spelling
            return ex.Literal(text[2:-1].replace("\\" + text[-1], text[-1]))
        return ex.Literal(text[3:-3])

    def string(self, parts: list[Any]) -> ex.Literal:
        return ex.Literal(_unescaped(str(parts[0])[1:-1]))

    def number(self, parts: list[Any]) -> ex.Literal:
        text = str(parts[0])
        return ex.Literal(int(text) if text.isdigit() else float(text))

    def truth(self, parts: list[Any]) -> ex.Literal:
        return ex.Literal({"true": True, "false": False}.get(str(parts[0])))
