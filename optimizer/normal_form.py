"""A query's pattern in the normal form of NEEL, section III-B, and what kept it from one.

    DNF                 OR of SEQs of single events (definition 5)
    CNF                 AND of such SEQs (definition 6)
    nested AND/SEQ      SEQ in AND in SEQ …, under an OR at most at the root (definition 7)
    nested negation     a negation of more than one event that no rule could resolve exactly
    nested OR           an OR that would fall into too many parts

Each SEQ may stand under a `Proj` that names the components a match reports. Queries are planned and
run in a form on the way there (`optimizer.normalize`): writing ORs out and pushing negations down
can make more work, so it is for the planner to weigh them (`optimizer.forms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from optimizer import constants
from optimizer.body import Body, count_alternatives, disjuncts
from optimizer.driver import Step, rewrite
from optimizer.ir.pattern import (
    NEVER,
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    parts_of,
    print_pattern,
    walk,
)
from optimizer.ir.query import Query
from optimizer.normalize import PlanningForm, planning_form
from optimizer.place import Names, Place
from optimizer.rules import (
    PHASES,
    canonical_order,
    flatten,
    negated_and,
    never_disjuncts,
    push_down,
)
from optimizer.rules.distribute import MAX_DISJUNCTS
from workloads.model import Stream

Form = OneOf["DNF", "CNF", "nested AND/SEQ", "nested negation", "nested OR"]


@dataclass(frozen=True, slots=True)
class Normalized:
    """A query's rewritten body, the steps to it, the form it is in, and remarks on that form.

    The query is planned and run in its `planning` form, whose steps come first in the trace.
    """

    query: Query
    planning: PlanningForm
    body: Body
    trace: tuple[Step, ...]
    form: Form
    notes: tuple[str, ...]

    @property
    def rewritten(self) -> Query:
        """The planning form with the rewritten body in place of its own."""
        planned = self.planning.query
        return replace(planned, pattern=self.body.pattern, conditions=self.body.conditions)


def normalize(query: Query, off: Iterable[str] = (), stream: Stream | None = None) -> Normalized:
    """Rewrite a query's body as far as the rules go; `off` names rules to leave out.

    Without its `stream` nothing is known of the types, and a negated AND stays as it is.
    """
    planning = planning_form(query, off)
    body = Body(planning.query.pattern, planning.query.conditions)
    left_out = [name for name in off if name != constants.NAME]
    trace = list(planning.trace)
    # A negated AND comes last: what it becomes is no SEQ that others could be pushed down in.
    for phases in (PHASES, _LAST):
        found = rewrite(body, phases, left_out, query.is_triggered, stream)
        body, trace = found.body, [*trace, *found.trace]
    notes = tuple(dict.fromkeys(_notes(body, stream)))
    return Normalized(query, planning, body, tuple(trace), form_of(body.pattern), notes)


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
    place = Place((), body.conditions, Names(set()), alternatives, stream=stream)
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


def _nested(node: Pattern, place: Place) -> Iterator[str]:
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


def _obstacle(node: Pattern, index: int, negation: Neg, place: Place) -> str | None:
    if not isinstance(node, Seq):
        return "in an AND it looks at the whole window, not at a gap of a SEQ"
    if isinstance(negation.part, And) and count_alternatives(negation.part) == 1:
        return negated_and.obstacle(node, index, place)
    return push_down.obstacle(node, index, place)
