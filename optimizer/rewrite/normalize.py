"""The form in which queries are planned and run, with constants carried to where they hold; the
normal form that explanations show, and the forms that a planner may choose from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal as OneOf

from optimizer.bind.conditions import ordered_unique
from optimizer.ir.pattern import (
    NEVER,
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    parts_of,
    print_pattern,
    transform,
    walk,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import BoundWorkload, FixedAttribute, Query
from optimizer.rewrite.body import Body, count_alternatives, disjuncts, gaps, last_events
from optimizer.rewrite.driver import RuleStep, rewrite
from optimizer.rewrite.durations import NAME as DURATIONS
from optimizer.rewrite.durations import with_durations
from optimizer.rewrite.optional_parts import NAME as OPTIONAL
from optimizer.rewrite.optional_parts import without_optional
from optimizer.rewrite.rule import Names, NodeContext, Rule
from optimizer.rewrite.rules import (
    ALTERNATIVES,
    PHASES,
    PLANNING,
    canonical_order,
    distribute,
    flatten,
    negated_and,
    never_disjuncts,
    push_down,
)
from optimizer.rewrite.rules.distribute import MAX_DISJUNCTS
from optimizer.rewrite.strategies import NAME as STRATEGY
from optimizer.rewrite.strategies import without_strategy
from workloads import expressions as ex
from workloads.errors import SheafError
from workloads.syntax import One
from workloads.workload import Stream

NAME = "constants"
_EXACT_INTEGERS = 2**53  # below it a number is equal to itself whatever type a column has

Path = tuple[tuple[int, int], ...]  # the parts of ORs and the negations around a component
Constants = dict[tuple[str, str], ex.Literal]  # by alias and attribute
Tie = tuple[ex.Attribute, ex.Attribute]


def propagate_constants(query: Query) -> Query:
    """The query with each constant on all components that it holds for, and no key that is one."""
    return _through_equalities(_fix_key(query))


# --- keys --------------------------------------------------------------------------------------


def _fix_key(query: Query) -> Query:
    """The query without the attributes of its key that only have one value in matches."""
    if query.window.is_count:
        return query
    implied = _implied(query.pattern)
    values = {name: implied[name] for name in query.key if name in implied}
    if not values:
        return query
    attributes = query.result_key[: len(query.result_key) - len(query.named_keys)]
    named = [(name, values.get(name, value)) for name, value in attributes]
    return replace(
        query,
        pattern=transform(query.pattern, lambda node: _asking(node, values)),
        key=tuple(name for name, value in named if value is None),
        fixed_key=tuple(
            FixedAttribute(place, name, value)
            for place, (name, value) in enumerate(named)
            if value is not None
        ),
    )


def _asking(node: Pattern, values: dict[str, str]) -> Pattern:
    """A component that also asks for the values; any other node as it is."""
    if not isinstance(node, Event):
        return node
    return _with_constants(node, {name: ex.Literal(value) for name, value in values.items()})


def _implied(pattern: Pattern) -> dict[str, str]:
    """The texts that attributes of some component have in every match."""
    match pattern:
        case Event(symbol):
            found = dict(_given(symbol))
            return {name: v.value for name, v in found.items() if isinstance(v.value, str)}
        case Seq(parts) | And(parts):
            implied = [_implied(part) for part in parts]
            values: dict[str, set[str]] = {}
            for name, value in (item for one in implied for item in one.items()):
                values.setdefault(name, set()).add(value)
            # Two constants for one attribute: nothing matches, and nothing is gained.
            return {name: min(several) for name, several in values.items() if len(several) == 1}
        case Or(parts):
            if not parts:
                return {}
            first, *others = map(_implied, parts)
            return {n: v for n, v in first.items() if all(o.get(n) == v for o in others)}
        case Proj(_, part):
            return _implied(part)
        case Neg():
            return {}


def _given(symbol: Symbol) -> Iterator[tuple[str, ex.Literal]]:
    """The attributes that the predicates of a symbol give a constant."""
    for predicate in symbol.predicates:
        match predicate:
            case ex.Comparison("=", ex.Attribute(_, name), ex.Literal() as constant):
                if _can_be_carried(constant):
                    yield name, constant


def _can_be_carried(constant: ex.Literal) -> bool:
    """Is what is equal to something equal to it equal to the constant, whatever types there are?"""
    if isinstance(constant.value, str):
        return True
    return type(constant.value) is int and abs(constant.value) < _EXACT_INTEGERS


def _with_constants(event: Event, constants: dict[str, ex.Literal]) -> Event:
    asked = [
        ex.Comparison("=", ex.Attribute("", name), constant)
        for name, constant in sorted(constants.items())
    ]
    predicates = ordered_unique([*event.symbol.predicates, *asked])
    if predicates == event.symbol.predicates:
        return event
    return replace(event, symbol=Symbol(event.symbol.type, predicates))


# --- equalities --------------------------------------------------------------------------------


def _through_equalities(query: Query) -> Query:
    """The query with constants carried along its equalities, which then say no more."""
    ties = {c: tie for c in query.conditions if (tie := _tie(c)) is not None}
    paths = dict(_paths(query.pattern))
    if not ties or len(paths) < sum(1 for _ in components(query.pattern)):
        return query  # an alias stands for several components
    given: Constants = {
        (event.alias, name): constant
        for event in components(query.pattern)
        for name, constant in _given(event.symbol)
    }
    known = _carried(given, list(ties.values()), paths)
    settled = {e.alias for e in last_events(query.pattern)} if query.is_triggered else set()
    asked = {
        place: constant
        for place, constant in known.items()
        if place in given or place[0] not in settled
    }

    def change(node: Pattern) -> Pattern:
        if not isinstance(node, Event):
            return node
        own = {name: constant for (alias, name), constant in asked.items() if alias == node.alias}
        return _with_constants(node, own)

    def says_more(condition: ex.Expression) -> bool:
        if condition not in ties:
            return True
        values = [asked.get((side.alias, side.name)) for side in ties[condition]]
        return values[0] is None or values[0] != values[1]

    conditions = tuple(filter(says_more, query.conditions))
    return replace(query, pattern=transform(query.pattern, change), conditions=conditions)


def _tie(condition: ex.Expression) -> Tie | None:
    match condition:
        case ex.Comparison("=", ex.Attribute() as left, ex.Attribute() as right):
            return (left, right) if left.alias != right.alias else None
        case _:
            return None


def _carried(given: Constants, ties: list[Tie], paths: dict[str, Path]) -> Constants:
    """All constants that follow from the given ones."""
    known = dict(given)
    grown = True
    while grown:
        grown = False
        for left, right in ties:
            for source, target in ((left, right), (right, left)):
                constant = known.get((source.alias, source.name))
                place = (target.alias, target.name)
                above = paths[source.alias]
                if constant is None or place in known:
                    continue
                if paths[target.alias][: len(above)] == above:
                    known[place] = constant
                    grown = True
    return known


def _paths(pattern: Pattern) -> Iterator[tuple[str, Path]]:
    """Each alias with the parts of ORs and the negations that it stands in, outermost first."""
    number = 0

    def visit(node: Pattern, path: Path) -> Iterator[tuple[str, Path]]:
        nonlocal number
        if isinstance(node, Event):
            yield node.alias, path
            return
        number += 1
        mine = number
        for i, part in enumerate(parts_of(node)):
            below = (*path, (mine, i)) if isinstance(node, (Or, Neg)) else path
            yield from visit(part, below)

    yield from visit(pattern, ())


@dataclass(frozen=True, slots=True)
class PlanningForm:
    """A query as it is planned and run, and the steps that led there."""

    query: Query
    trace: tuple[RuleStep, ...]


def normalize_workload(workload: BoundWorkload) -> BoundWorkload:
    """The workload with every query in its planning form."""
    return replace(workload, queries=tuple(map(normalize_query, workload.queries)))


@lru_cache(maxsize=16_384)  # a query is planned and run in several places
def normalize_query(query: Query) -> Query:
    """The query in its planning form; one that is rewritten beyond that stays as it is."""
    query = without_optional(without_strategy(query))
    query = with_durations(query) if query.lasting else query
    if not query.is_rewritten:
        return query  # rules keep every match, and not which of them count
    if _is_plain(query) or any(isinstance(node, Proj) for node in walk(query.pattern)):
        return query
    return planning_form(query).query


def _is_plain(query: Query) -> bool:
    """Is it a SEQ of types and single negated types alone, as most of a large workload are?

    No rule applies to one, and there is no constant in it.
    """
    match query.pattern:
        case Seq((_, _, *_) as parts) if not query.conditions:
            single = all(map(_is_type, parts))
            return single and not any(len(gap) > 1 for gap in gaps(parts))
        case _:
            return False


def _is_type(part: Pattern) -> bool:
    match part:
        case Neg(Event(symbol, quantifier=One())) | Event(symbol):
            return not symbol.predicates
        case _:
            return False


def planning_form(query: Query, off: Iterable[str] = ()) -> PlanningForm:
    """The planning form of a query, with its steps; `off` names rules to leave out."""
    left_out = tuple(off)
    trace: list[RuleStep] = []
    counting, query = query, without_strategy(query)
    if query is not counting:
        trace.append(RuleStep(STRATEGY, Body(query.pattern, query.conditions)))
    optional, query = query, without_optional(query)
    if query is not optional:
        trace.append(RuleStep(OPTIONAL, Body(query.pattern, query.conditions)))
    if query.lasting:
        query = with_durations(query)
        trace.append(RuleStep(DURATIONS, Body(query.pattern, query.conditions)))
    while query.is_rewritten:
        found = rewrite(
            Body(query.pattern, query.conditions),
            PLANNING,
            off=[name for name in left_out if name != NAME],
            triggers=query.is_triggered,
        )
        trace += found.trace
        query = replace(query, pattern=found.body.pattern, conditions=found.body.conditions)
        if NAME in left_out:
            return PlanningForm(query, tuple(trace))
        carried = propagate_constants(query)
        if carried == query:
            return PlanningForm(query, tuple(trace))
        query = carried
        trace.append(RuleStep(NAME, Body(query.pattern, query.conditions)))
    return PlanningForm(query, ())


Form = OneOf["DNF", "CNF", "nested AND/SEQ", "nested negation", "nested OR"]


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A query's rewritten body, the steps to it, the form it is in, and remarks on that form.

    The query is planned and run in its `planning` form, whose steps come first in the trace.
    """

    query: Query
    planning: PlanningForm
    body: Body
    trace: tuple[RuleStep, ...]
    form: Form
    notes: tuple[str, ...]

    @property
    def rewritten(self) -> Query:
        """The planning form with the rewritten body in place of its own."""
        planned = self.planning.query
        return replace(planned, pattern=self.body.pattern, conditions=self.body.conditions)


def normalize(query: Query, off: Iterable[str] = (), stream: Stream | None = None) -> NormalForm:
    """Rewrite a query's body as far as the rules go; `off` names rules to leave out.

    Without its `stream` nothing is known of the types, and a negated AND stays as it is.
    """
    planning = planning_form(query, off)
    body = Body(planning.query.pattern, planning.query.conditions)
    if not planning.query.is_rewritten:
        return NormalForm(query, planning, body, (), form_of(body.pattern), ())
    left_out = [name for name in off if name != NAME]
    trace = list(planning.trace)
    # A negated AND comes last: what it becomes is no SEQ that others could be pushed down in.
    for phases in (PHASES, _LAST):
        found = rewrite(body, phases, left_out, query.is_triggered, stream)
        body, trace = found.body, [*trace, *found.trace]
    notes = tuple(dict.fromkeys(_notes(body, stream)))
    return NormalForm(query, planning, body, tuple(trace), form_of(body.pattern), notes)


_LAST = ((negated_and, flatten), (canonical_order,))


def form_of(pattern: Pattern) -> Form:
    """Which of the forms a pattern is in; a pattern that never matches is an empty DNF."""
    parts = disjuncts(pattern)
    if any(isinstance(n, Neg) and not isinstance(n.part, Event) for n in walk(pattern)):
        return "nested negation"
    if any(isinstance(n, Or) for part in parts for n in walk(part)):
        return "nested OR"
    if all(map(_is_sequential, parts)):
        return "DNF"
    root = parts[0]
    if len(parts) == 1 and isinstance(root, And) and all(map(_is_sequential, root.parts)):
        return "CNF"
    return "nested AND/SEQ"


def _is_sequential(pattern: Pattern) -> bool:
    """One SEQ of single events, some of them negated; a single event is a SEQ of one."""
    match pattern:
        case Event():
            return True
        case Proj(_, part):
            return _is_sequential(part)
        case Seq(parts):
            return all(isinstance(p, (Event, Neg)) for p in parts)
        case _:
            return False


def _notes(body: Body, stream: Stream | None) -> Iterator[str]:
    alternatives = count_alternatives(body.pattern)
    place = NodeContext((), body.conditions, Names(set()), alternatives, stream=stream)
    if body.pattern == NEVER:
        yield "it never matches"
        return
    if place.alternatives > len(disjuncts(body.pattern)):
        yield (
            f"an OR is kept nested: written out there would be {place.alternatives:,} disjuncts, "
            f"and at most {MAX_DISJUNCTS:,} are"
        )
    for part in disjuncts(body.pattern):
        if never_disjuncts.never_matches(part, place):
            yield f"kept, though it never matches, for the times it triggers: {print_pattern(part)}"
    yield from _nested(body.pattern, place)


def _nested(node: Pattern, place: NodeContext) -> Iterator[str]:
    """Why each outermost negation of more than one event is still there."""
    for index, part in enumerate(parts_of(node)):
        match part:
            case Neg(Event()):
                pass
            case Neg():
                reason = _obstacle(node, index, part, place)
                yield f"kept nested: {print_pattern(part)}: {reason or 'the rule is switched off'}"
            case _:
                yield from _nested(part, place.below(node))


def _obstacle(node: Pattern, index: int, negation: Neg, place: NodeContext) -> str | None:
    if not isinstance(node, Seq):
        return "in an AND it looks at the whole window, not at a gap of a SEQ"
    if isinstance(negation.part, And) and count_alternatives(negation.part) == 1:
        return negated_and.obstacle(node, index, place)
    return push_down.obstacle(node, index, place)


# ORs beside a negation are written out before it is pushed down.
_CHOICES: tuple[tuple[Rule, ...], ...] = (
    (distribute,),
    (distribute, push_down),
    (negated_and,),
    ALTERNATIVES,
)


@dataclass(frozen=True, slots=True)
class QueryForm:
    """A query in one form, and the rules beyond those of its planning form that led to it."""

    query: Query
    rules: tuple[str, ...] = ()

    @property
    def is_projected(self) -> bool:
        """Do some components only have to exist?

        Such a form is neither counted nor run as a tree: its matches are constructed one component
        after the other, and those that differ in nothing else are made one.
        """
        return any(isinstance(node, Proj) for node in walk(self.query.pattern))


def alternative_forms(query: Query, stream: Stream | None = None) -> tuple[QueryForm, ...]:
    """The planning form of a query, then the other forms that rules can give it, each once.

    Without its `stream` nothing is known of the types, and a negated AND stays as it is.
    """
    planned = normalize_query(query)
    projected = any(isinstance(node, Proj) for node in walk(planned.pattern))
    if projected or not planned.is_rewritten:
        return (QueryForm(planned),)
    forms = {planned: QueryForm(planned)}
    for rules in _CHOICES if any(map(_has_choice, walk(planned.pattern))) else ():
        found = rewrite(
            Body(planned.pattern, planned.conditions),
            (*PLANNING[:-1], rules, *PLANNING[-1:]),
            triggers=planned.is_triggered,
            stream=stream,
        )
        other = replace(planned, pattern=found.body.pattern, conditions=found.body.conditions)
        applied = {step.rule for step in found.trace}
        names = tuple(rule.NAME for rule in ALTERNATIVES if rule.NAME in applied)
        forms.setdefault(other, QueryForm(other, names))
    return tuple(forms.values())


def _has_choice(node: Pattern) -> bool:
    """Is it something that a rule of `ALTERNATIVES` could resolve?"""
    return isinstance(node, Or) or (isinstance(node, Neg) and not isinstance(node.part, Event))


Forms = Mapping[str, tuple[str, ...]]  # by query, the rules beyond those of its planning form


def workload_in_forms(workload: BoundWorkload, forms: Forms) -> BoundWorkload:
    """The workload with every query in its planning form, or in the other form that is named."""
    return replace(
        workload,
        queries=tuple(
            form_by_rules(query, forms[query.name], workload.stream).query
            if query.name in forms
            else normalize_query(query)
            for query in workload.queries
        ),
    )


def form_by_rules(query: Query, rules: tuple[str, ...], stream: Stream) -> QueryForm:
    """The form of a query that these rules lead to; a `FormError` where there is none."""
    for form in alternative_forms(query, stream):
        if form.rules == tuple(rules):
            return form
    raise FormError(
        f"query {query.name} has no form by {', '.join(rules) or 'no rule'}; make the plan again"
    )


class FormError(SheafError):
    """A form that a query does not have."""
