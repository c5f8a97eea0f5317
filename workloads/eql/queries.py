"""Queries in EQL as queries of Sheaf: sequences are STRATEGY LATEST."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.eql.conditions import FALSE
from workloads.eql.parser import parse_eql
from workloads.eql.terms import OPTIONAL, EqlError, EqlPipe, EqlQuery, EqlTerm
from workloads.imported_rules import ImportedRules, NamedRule, RefusedRule, unique_name
from workloads.limits import MAX_LIMIT
from workloads.printing import print_query

CATEGORY = "event.category"
ANY = "any"
_ONE_EVENT = sx.Duration(Decimal(1), "s")
_SPANS = {"d": "day", "h": "hour", "m": "min", "s": "s", "ms": "ms", "micros": "us", "nanos": "ns"}
_SPELLED = {"day": "d", "hour": "h", "min": "m", "minute": "m", "sec": "s", "second": "s"}
_UNTIL = "halt"


@dataclass(frozen=True)
class EqlStream:
    """What EQL has to know of a stream: its time column, and how it tells categories of events.

    They are its types where `category` is the column of types; else each is a type by a condition.
    """

    time: str
    type: str | None = None
    category: str = CATEGORY

    def types(self, categories: Iterable[str]) -> dict[str, ex.Expression]:
        """The types that the categories of queries stand for, where the stream has them not."""
        found: dict[str, ex.Expression] = {}
        for name in categories:
            if name == ANY:
                found[name] = ex.IsNull(ex.Attribute("", self.time), negated=True)
            elif self.category != self.type:
                found[name] = ex.Comparison("=", ex.Attribute("", self.category), ex.Literal(name))
        return found


@dataclass
class EqlImporter:
    """Takes queries in EQL one by one, and says which are refused."""

    stream: EqlStream
    rules: list[NamedRule] = field(default_factory=list)
    refused: list[RefusedRule] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    categories: dict[str, None] = field(default_factory=dict)

    def take(
        self, text: str, name: str, about: Mapping[str, Any], place: str, suppress: Any = None
    ) -> None:
        """One query, with what its rule has under `suppress`; raises nothing."""
        try:
            parsed = parse_eql(text)
            query = self.query(parsed, name, about)
        except EqlError as error:
            self.refused.append(RefusedRule("eql", name, place, str(error)))
            return
        query = replace(query, name=unique_name(name, self.names))
        query = replace(query, text=print_query(query))
        self.rules.append(NamedRule(query, about, place, suppress))
        terms = parsed.terms if parsed.until is None else (*parsed.terms, parsed.until)
        self.categories |= dict.fromkeys(term.category for term in terms)

    def imported(self) -> ImportedRules:
        """All that was taken and refused."""
        types = self.stream.types(self.categories)
        return ImportedRules(tuple(self.rules), types, tuple(self.refused))

    def query(self, parsed: EqlQuery, name: str, about: Mapping[str, Any]) -> sx.Query:
        """A query in EQL as one of Sheaf; raises `EqlError` where that cannot be."""
        keep = tuple(map(_kept, parsed.pipes))
        if parsed.kind == "sample":
            _check_sample(parsed)
        for term in parsed.terms:
            if term.name is not None and (term.missing or term.runs > 1):
                raise EqlError(f"'as {term.name}' names a step of one event that is there")
        terms = tuple(replace(t, runs=1) for t in parsed.terms for _ in range(t.runs))
        if not any(not term.missing for term in terms):
            raise EqlError("all its events are missing ones")
        aliases = [f"e{place}" for place in range(1, len(terms) + 1)]
        present = [a for a, term in zip(aliases, terms, strict=True) if not term.missing]
        steps = list(zip(aliases, terms, strict=True))
        listed = sx.Item(ex.Equivalence(tuple(present)), "events")
        output = sx.Return((listed, *described(about)), keep=keep)
        if parsed.kind == "event":
            (alias, term), *_ = steps
            where = self._where([(alias, term)])
            return sx.Query(name, sx.Component(term.category, alias), _ONE_EVENT, output, where)
        ends = parsed.maxspan is None and (terms[0].missing or terms[-1].missing)
        if ends:
            raise EqlError("a missing event first or last needs 'with maxspan'")
        parts: list[sx.Pattern] = []
        for alias, term in steps:
            component = sx.Component(term.category, alias)
            parts.append(sx.Negation(component) if term.missing else component)
        if parsed.until is not None:
            steps.append((_UNTIL, parsed.until))
            parts.append(sx.Negation(sx.Component(parsed.until.category, _UNTIL), until=True))
        key, tied = _keys(parsed, steps, together=bool(keep))
        return sx.Query(
            name,
            sx.Operation("AND" if parsed.kind == "sample" else "SEQ", tuple(parts)),
            None if parsed.maxspan is None else _span(parsed.maxspan),
            output,
            self._where(steps),
            key,
            strategy="latest",
            tied_keys=tied,
        )

    def _where(self, steps: Sequence[tuple[str, EqlTerm]]) -> ex.Expression | None:
        found: list[ex.Expression] = []
        named: dict[str, str] = {}
        for alias, term in steps:
            condition = None if term.condition is None else _of_steps(term.condition, named)
            if term.name is not None:
                named[term.name] = alias
            if condition == FALSE:
                condition = ex.IsNull(ex.Attribute("", self.stream.time))
            if condition is not None:
                found += ex.conjuncts(ex.rename(condition, {"": alias, OPTIONAL: alias}))
        if len(found) < 2:
            return found[0] if found else None
        return ex.Logical("AND", tuple(found))


def _check_sample(parsed: EqlQuery) -> None:
    """What Elastic documents of samples: they have keys, and neither runs nor pipes."""
    if not parsed.by and not all(term.by for term in parsed.terms):
        raise EqlError("a sample needs a key: 'sample by field', or 'by field' behind each event")
    if parsed.pipes:
        raise EqlError("a sample takes no pipes")
    for term in parsed.terms:
        if term.missing or term.runs > 1 or term.name is not None:
            raise EqlError("the events of a sample are single ones, without '!', runs or names")


def _of_steps(condition: ex.Expression, named: Mapping[str, str]) -> ex.Expression:
    """A condition in which `name.field` is a field of the step of that name."""

    def change(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Attribute) and "." in node.name:
            step, field_ = node.name.split(".", 1)
            return ex.Attribute(named[step], field_) if step in named else node
        return node

    return ex.transform(condition, change) if named else condition


def _span(text: str) -> sx.Duration:
    """The window of a span, whose end is part of it."""
    found = re.fullmatch(r"([\d.]+)\s*([A-Za-z]*)", text)
    assert found is not None
    amount, unit = Decimal(found.group(1)), found.group(2)
    unit = unit if unit in _SPANS else _SPELLED.get(unit.removesuffix("s"), unit)
    if unit not in _SPANS:
        said = f"no unit is called '{unit}'" if unit else "it has no unit"
        raise EqlError(f"maxspan={text.strip()}: {said}; there are {', '.join(_SPANS)}")
    if amount <= 0:
        raise EqlError("a maxspan of nothing holds no sequence")
    return sx.Duration(amount, _SPANS[unit], inclusive=True)


def _kept(pipe: EqlPipe) -> sx.Kept:
    """`| head n` or `| tail n`: of all sequences, in the order in which they end."""
    end, numbers = pipe.name.lower(), [v.value for v in pipe.values if isinstance(v, ex.Literal)]
    number = numbers[0] if len(numbers) == len(pipe.values) == 1 else None
    if end not in ("head", "tail"):
        raise EqlError(f"the pipe '| {pipe.name}' is not taken: Elastic documents head and tail")
    if not isinstance(number, int) or not 1 <= number <= MAX_LIMIT:
        raise EqlError(f"'| {pipe.name}' takes a whole number from 1 to {MAX_LIMIT:,}")
    return sx.Kept("first" if end == "head" else "last", number)


def _keys(
    parsed: EqlQuery, steps: Sequence[tuple[str, EqlTerm]], together: bool
) -> tuple[tuple[str, ...], tuple[sx.TiedKey, ...]]:
    """The fields that all steps have in common, and those that each names for itself.

    Where matches of all keys are counted `together`, all are such.
    """
    steps = [(alias, replace(term, by=(*parsed.by, *term.by))) for alias, term in steps]
    key: list[str] = []
    tied: list[sx.TiedKey] = []
    counts = {len(term.by) for _, term in steps}
    if len(counts) > 1:
        raise EqlError("its steps have different numbers of keys")
    for place in range(counts.pop()):
        values = _plain([term.by[place] for _, term in steps])
        columns = [(alias, _column(v)) for (alias, _), v in zip(steps, values, strict=True)]
        optional = any(isinstance(v, ex.Attribute) and v.alias == OPTIONAL for v in values)
        names = {column for _, column in columns}
        if len(names) == 1 and not together and not optional:
            key += names
            continue
        name = columns[0][1]
        while name in key or any(name == other.name for other in tied):
            name += "_"
        parts = tuple(ex.Attribute(alias, column) for alias, column in columns)
        tied.append(sx.TiedKey(parts, name, optional=optional))
    return tuple(dict.fromkeys(key)), tuple(tied)


def _plain(values: Sequence[ex.Expression]) -> Sequence[ex.Expression]:
    """Keys without what is computed alike of each, where different values stay different."""
    match values[0]:
        case ex.Arithmetic("+" | "-" | "*" as operator, _, ex.Literal(int(number))) if number:
            done = (operator, values[0].right)
            alike = [v for v in values if isinstance(v, ex.Arithmetic)]
            if len(alike) == len(values) and all((v.operator, v.right) == done for v in alike):
                return _plain([_bare(v.left) for v in alike])
    return values


def _bare(value: ex.Expression) -> ex.Expression:
    """A field that is read as a number, as it is."""
    match value:
        case ex.Function("number", ex.Attribute() as field_):
            return field_
        case _:
            return value


def _column(value: ex.Expression) -> str:
    if isinstance(value, ex.Attribute):
        return value.name
    raise EqlError("a key is a field: 'by' with a computed value is not taken")


def described(about: Mapping[str, Any]) -> list[sx.Item]:
    """What each alert says of its rule."""
    tags = about.get("tags")
    values = {
        "rule": about.get("id"),
        "title": about.get("title"),
        "level": about.get("level"),
        "tags": ", ".join(map(str, tags)) if isinstance(tags, list) else None,
    }
    return [sx.Item(ex.Literal(str(value)), name) for name, value in values.items() if value]
