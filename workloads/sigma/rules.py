"""Sigma rules as queries: those of one event, and correlations of several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sigma.collection import deep_dict_update
from sigma.correlations import SigmaCorrelationRule, SigmaExtendedCorrelationCondition
from sigma.exceptions import SigmaError
from sigma.filters import SigmaFilter
from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import PythonRegexEngine
from sigma.processing.pipeline import ProcessingPipeline
from sigma.rule import SigmaRule

from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError
from workloads.imported_rules import ImportedRules, NamedRule, RefusedRule, unique_name
from workloads.printing import print_query
from workloads.sigma.conditions import ALIAS, ConditionBackend, KeywordsError
from workloads.sigma.correlations import (
    OF_VALUES,
    CorrelationError,
    RulePart,
    correlation_query,
)
from workloads.sigma.logsources import LogSources, RouteError
from workloads.texts import check_patterns

_WINDOW = sx.Duration(Decimal(1), "s")


class _AnyRegex(PythonRegexEngine):
    """RE2, which takes any expression: `check_patterns` says what is wrong with those of rules."""

    def compile(self, pattern: str, flags: int = 0) -> Any:
        import re2

        options = re2.Options()
        options.log_errors = False
        words = "".join(word for flag, word in _FLAGS.items() if flags & flag)
        try:
            return re2.compile(f"(?{words}){pattern}" if words else pattern, options)
        except re2.error:
            return re2.compile("")


_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_POLICY = SigmaPolicy(regex_engine=_AnyRegex())


class PipelineError(Exception):
    """A processing pipeline that pySigma does not take."""


def load_pipelines(documents: Sequence[Any]) -> ProcessingPipeline | None:
    """Processing pipelines of pySigma, one after the other; raises `PipelineError`."""
    found: ProcessingPipeline | None = None
    for document in documents:
        try:
            read = ProcessingPipeline.from_dict(dict(document))
        except (SigmaError, TypeError, ValueError, KeyError) as error:
            raise PipelineError(f"no processing pipeline: {_reason(error)}") from error
        found = read if found is None else found + read
    return found


def sigma_queries(
    documents: Iterable[tuple[Any, str]],
    sources: LogSources,
    sequence: str | None,
    pipeline: ProcessingPipeline | None = None,
) -> ImportedRules:
    """The queries of rules, given as documents with the place of each; those that are refused too.

    A rule of one event returns the event's `sequence` and the fields that it reads.
    """
    return _Importer(sources, sequence, pipeline).take(documents)


def _completed(documents: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Rules with what others of their file say for all of them (`action: global`, `repeat`)."""
    file: str | None = None
    shared: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for document, place in documents:
        if place != file:
            file, shared, last = place, {}, {}
        action = document.get("action") if isinstance(document, Mapping) else None
        if action == "global":
            shared = last = {key: value for key, value in document.items() if key != "action"}
        elif action == "reset":
            shared = {}
        elif action == "repeat" or (shared and isinstance(document, Mapping)):
            own = {key: value for key, value in document.items() if key != "action"}
            base = (last, own) if action == "repeat" else (own, shared)
            last = deep_dict_update(deepcopy(base[0]), deepcopy(base[1]))
            yield last, place
        else:
            last = dict(document) if isinstance(document, Mapping) else {}
            yield document, place


_SMALL = re.compile(r"\b(AND|OR|NOT|OF|THEM|ALL|ANY)\b")


def _with_small_words(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rule with AND, OR and NOT of its conditions in small letters, as pySigma takes them."""
    detection = document.get("detection")
    if not isinstance(detection, Mapping):
        return document
    given = detection.get("condition")
    conditions = given if isinstance(given, list) else [given]
    if not any(isinstance(each, str) and _SMALL.search(each) for each in conditions):
        return document

    def small(word: re.Match[str]) -> str:
        return word.group() if word.group() in detection else word.group().lower()

    found = [_SMALL.sub(small, each) if isinstance(each, str) else each for each in conditions]
    condition = found if isinstance(given, list) else found[0]
    return {**document, "detection": {**detection, "condition": condition}}


@dataclass(frozen=True)
class _EventRule:
    """A rule of one event: the type of the events that it sees, and its condition.

    With `anywhere` it searches for values in all columns that other rules read.
    """

    rule: SigmaRule
    type: str
    condition: ex.Expression | None
    place: str
    anywhere: bool = False


class _Importer:
    def __init__(
        self, sources: LogSources, sequence: str | None, pipeline: ProcessingPipeline | None
    ) -> None:
        self._sources, self._sequence = sources, sequence
        self._backend = ConditionBackend(sources.fields, sources.keywords, pipeline)
        self._types: dict[str, ex.Expression] = {}
        self._refused: list[RefusedRule] = []
        self._filters: list[SigmaFilter] = []

    def take(self, documents: Iterable[tuple[Any, str]]) -> ImportedRules:
        rules: list[_EventRule] = []
        correlations: list[tuple[SigmaCorrelationRule, str]] = []
        unplaced: list[tuple[int, Any, str]] = []
        whole = list(_completed(documents))
        for document, place in whole:
            if isinstance(document, Mapping) and "filter" in document:
                self._filters += self._read(document, place, SigmaFilter)
        for document, place in whole:
            for rule in self._rules(document, place):
                if isinstance(rule, SigmaCorrelationRule):
                    correlations.append((rule, place))
                    continue
                try:
                    taken = self._event_rule(rule, place)
                except KeywordsError:
                    unplaced.append((len(rules), document, place))
                else:
                    rules += [] if taken is None else [taken]
        rules = self._with_keywords(rules, unplaced)
        names: set[str] = set()
        joined, silent = self._correlations(rules, correlations, names)
        single = [
            _named(self._query(each, names), each.rule, each.place)
            for each in rules
            if id(each) not in silent
        ]
        used = {part.type for named in (*single, *joined) for part in _components(named.query)}
        types = {name: condition for name, condition in self._types.items() if name in used}
        return ImportedRules((*single, *joined), types, tuple(self._refused))

    def _with_keywords(
        self, rules: list[_EventRule], unplaced: Sequence[tuple[int, Any, str]]
    ) -> list[_EventRule]:
        """The rules with those among them that search for values without a field.

        Where nobody says in which columns, it is in all that the other rules read.
        """
        if not unplaced:
            return rules
        conditions = (each.condition for each in rules if each.condition is not None)
        columns = dict.fromkeys(name for c in conditions for name in _read_fields(c))
        self._backend.look_in(tuple(columns))
        found = list(rules)
        for number, (before, document, place) in enumerate(unplaced):
            for rule in self._rules(document, place):  # anew, as pipelines change rules
                assert isinstance(rule, SigmaRule)
                try:
                    taken = self._event_rule(rule, place)
                except KeywordsError as error:
                    self._refuse(rule, place, _reason(error))
                    continue
                if taken is not None:
                    found.insert(min(before + number, len(found)), replace(taken, anywhere=True))
        return found

    def _rules(self, document: Any, place: str) -> list[SigmaRule | SigmaCorrelationRule]:
        """The rule of a document, with the filters that are for it; none of one that is no rule."""
        if not isinstance(document, Mapping):
            reason = document if isinstance(document, str) else "it is no map: no Sigma rule"
            self._refused.append(RefusedRule("sigma", "", place, reason))
            return []
        if "filter" in document:
            return []
        found: list[SigmaRule | SigmaCorrelationRule]
        if "correlation" in document:
            found = self._read(document, place, SigmaCorrelationRule)
        else:
            found = self._read(_with_small_words(document), place, SigmaRule)
        for rule in found:
            for each in self._filters:
                each.apply_on_rule(rule)
        return found

    def _read(self, document: Mapping[str, Any], place: str, kind: Any) -> list[Any]:
        policy = {} if kind is SigmaCorrelationRule else {"policy": _POLICY}
        try:
            rule = kind.from_dict(dict(document), collect_errors=True, **policy)
        except (SigmaError, AttributeError, TypeError, ValueError, KeyError) as error:
            self._refused.append(
                RefusedRule("sigma", str(document.get("title", "")), place, _reason(error))
            )
            return []
        if rule.errors:
            self._refuse(rule, place, _reason(rule.errors[0]))
            return []
        return [rule]

    def _refuse(self, rule: Any, place: str, reason: str) -> None:
        name = str(rule.id or rule.name or rule.title or "")
        self._refused.append(RefusedRule("sigma", name, place, reason))

    def _event_rule(self, rule: SigmaRule, place: str) -> _EventRule | None:
        try:
            if rule.detection.detections and "timeframe" in (rule.custom_attributes or {}):
                raise RouteError("it has a timeframe, which rules of today have in a correlation")
            conditions = self._backend.conditions(rule)
            name, route = self._sources.route(rule.logsource)
            for condition in conditions:
                for node in ex.walk(condition):
                    if isinstance(node, ex.TextTest):
                        check_patterns(node)
        except KeywordsError:
            raise
        except (SigmaError, RouteError, QueryError) as error:
            self._refuse(rule, place, _reason(error))
            return None
        while name in self._types and self._types[name] != route:
            name += "_"
        self._types[name] = route
        whole: ex.Expression | None = None
        if conditions:
            whole = conditions[0] if len(conditions) == 1 else ex.Logical("OR", tuple(conditions))
        return _EventRule(rule, name, whole, place)

    def _query(self, each: _EventRule, names: set[str]) -> sx.Query:
        # A rule that reads whatever column others do returns what it lists under `fields`.
        condition = None if each.anywhere else each.condition
        read = [] if condition is None else _read_fields(condition)
        listed = [self._backend.column(field) for field in each.rule.fields or () if field]
        columns = dict.fromkeys([*([self._sequence] if self._sequence else []), *read, *listed])
        items = [sx.Item(ex.Attribute(ALIAS, column)) for column in columns]
        query = sx.Query(
            name=unique_name(rule_name(each.rule, each.place), names),
            pattern=sx.Component(each.type, ALIAS),
            within=_WINDOW,
            output=sx.Return((*(items or [sx.Item(ALIAS)]), *described(each.rule))),
            where=each.condition,
        )
        return _with_text(query)

    def _correlations(
        self,
        rules: Sequence[_EventRule],
        correlations: Sequence[tuple[SigmaCorrelationRule, str]],
        names: set[str],
    ) -> tuple[list[NamedRule], set[int]]:
        """The queries of correlations, and which rules give no alerts of their own.

        Those that others refer to make events of their rows.
        """
        known = {name: each for each in rules for name in _names(each.rule)}
        parts = {name: RulePart(each.type, each.condition) for name, each in known.items()}
        read = {name for rule, _ in correlations for name in _referred(rule)}
        loud = {n for rule, _ in correlations if rule.generate for n in _referred(rule)}
        silent = {
            id(known[name])
            for rule, _ in correlations
            if not rule.generate
            for name in _referred(rule)
            if name in known
        }
        taken: list[NamedRule] = []
        used: set[str] = set()
        waiting = list(correlations)
        while waiting:
            ready = [(r, place) for r, place in waiting if parts.keys() >= set(_referred(r))]
            for rule, place in ready or waiting:
                own = _names(rule)
                is_read = not read.isdisjoint(own)
                try:
                    query = self._correlation(rule, parts, names, is_read)
                except (CorrelationError, QueryError, SigmaError) as error:
                    self._refuse(rule, place, _reason(error))
                    continue
                used |= set(_referred(rule))
                if query.into is not None:
                    query = replace(query, into_only=loud.isdisjoint(own))
                    fields = (*query.partition_by, *(key.name for key in query.tied_keys))
                    part = RulePart(str(query.into), None, fields)
                    parts |= dict.fromkeys(own, part)
                taken.append(_named(_with_text(query), rule, place))
            waiting = [each for each in waiting if each not in ready] if ready else []
        silent &= {id(known[name]) for name in used if name in known}
        return taken, silent

    def _correlation(
        self,
        rule: SigmaCorrelationRule,
        known: Mapping[str, RulePart],
        names: set[str],
        is_read: bool,
    ) -> sx.Query:
        named = _referred(rule)
        missing = [name for name in named if name not in known]
        if missing:
            raise CorrelationError(
                f"it refers to the rule {missing[0]}, which is not among those taken"
            )
        parts = {name: known[name] for name in named}
        if rule.type in OF_VALUES and len(parts) > 1:
            if any(part.fields is not None for part in parts.values()):
                raise CorrelationError("it is of values of rules and of correlations")
            kind = self._either([(part.kind, part.condition) for part in parts.values()])
            parts = {named[0]: RulePart(kind)}
        name = unique_name(rule_name(rule, ""), names)
        into = self._type_of(name) if is_read else None
        return correlation_query(rule, name, parts, self._backend.column, self._sequence, into)

    def _type_of(self, name: str) -> str:
        """The type of the events that a correlation makes."""
        while name in self._types:
            name += "_"
        return name

    def _either(self, parts: Sequence[tuple[str, ex.Expression | None]]) -> str:
        """A type of the events of any of several rules."""
        found: list[ex.Expression] = []
        for kind, condition in parts:
            route = self._types[kind]
            if condition is None:
                found.append(route)
            else:
                own = ex.rename(condition, {ALIAS: ""})
                found.append(ex.Logical("AND", (*ex.conjuncts(route), *ex.conjuncts(own))))
        either = ex.Logical("OR", tuple(found))
        name = "_or_".join(dict.fromkeys(kind for kind, _ in parts))
        while self._types.get(name, either) != either:
            name += "_"
        self._types[name] = either
        return name


def _referred(rule: SigmaCorrelationRule) -> list[str]:
    """The names of the rules that a correlation refers to."""
    if isinstance(rule.condition, SigmaExtendedCorrelationCondition):
        return rule.condition.get_referenced_rules()
    return [str(reference.reference) for reference in rule.rules or ()]


def rule_name(rule: Any, place: str) -> str:
    """What a rule's query is called: the rule's id, or else its name or its title."""
    return str(rule.id or rule.name or rule.title or place or "rule")


def about(rule: Any) -> dict[str, Any]:
    """What a rule says of itself."""
    return {
        "id": None if rule.id is None else str(rule.id),
        "title": rule.title,
        "level": None if rule.level is None else str(rule.level).lower(),
        "tags": [str(tag) for tag in rule.tags or ()],
    }


def _named(query: sx.Query, rule: Any, place: str) -> NamedRule:
    return NamedRule(query, about(rule), place, (rule.custom_attributes or {}).get("suppress"))


def described(rule: Any) -> list[sx.Item]:
    """What each alert says of its rule."""
    told = about(rule)
    values = {
        "rule": told["id"],
        "title": told["title"],
        "level": told["level"],
        "tags": ", ".join(told["tags"]),
    }
    return [sx.Item(ex.Literal(value), name) for name, value in values.items() if value]


def _with_text(query: sx.Query) -> sx.Query:
    return replace(query, text=print_query(query))


def _names(rule: SigmaRule | SigmaCorrelationRule) -> list[str]:
    return [str(name) for name in (rule.id, rule.name) if name]


def _read_fields(condition: ex.Expression) -> list[str]:
    names = [node.name for node in ex.walk(condition) if isinstance(node, ex.Attribute)]
    return list(dict.fromkeys(names))


def _components(query: sx.Query) -> Iterable[sx.Component]:
    waiting: list[sx.Pattern] = [query.pattern]
    while waiting:
        part = waiting.pop()
        match part:
            case sx.Component():
                yield part
            case sx.Negation(inner):
                waiting.append(inner)
            case sx.Operation(_, parts):
                waiting += parts


def _reason(error: Exception) -> str:
    if isinstance(error, QueryError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return " ".join(str(error).split())
