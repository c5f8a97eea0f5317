"""A query's pattern in the normal form of NEEL, section III-B, and what kept it from one.

    DNF                 OR of SEQs of single events (definition 5)
    CNF                 AND of such SEQs (definition 6)
    nested AND/SEQ      SEQ in AND in SEQ …, under an OR at most at the root (definition 7)
    nested negation     a negation of more than one event that no rule could resolve exactly
    nested OR           an OR that would fall into too many parts

Each SEQ may stand under a `Proj` that names the components a match reports. An engine takes any of
them; the first three are what sharing looks for common parts in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from optimizer.body import Body, count_alternatives, disjuncts
from optimizer.driver import Rewritten, Step, rewrite
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
from optimizer.ir.query import Aggregation, Query
from optimizer.place import Names, Place
from optimizer.rules import never_disjuncts, push_down
from optimizer.rules.distribute import MAX_DISJUNCTS

Form = OneOf["DNF", "CNF", "nested AND/SEQ", "nested negation", "nested OR"]


@dataclass(frozen=True, slots=True)
class Normalized:
    """A query's rewritten body, the steps to it, the form it is in, and remarks on that form."""

    query: Query
    body: Body
    trace: tuple[Step, ...]
    form: Form
    notes: tuple[str, ...]

    @property
    def rewritten(self) -> Query:
        """The query with the rewritten body in place of its own."""
        return replace(self.query, pattern=self.body.pattern, conditions=self.body.conditions)


def normalize(query: Query, off: Iterable[str] = ()) -> Normalized:
    """Rewrite a query's body as far as the rules go; `off` names rules to leave out."""
    triggers = isinstance(query.output, Aggregation) and query.slide is None
    found: Rewritten = rewrite(Body(query.pattern, query.conditions), off=off, triggers=triggers)
    notes = tuple(dict.fromkeys(_notes(found.body)))
    return Normalized(query, found.body, found.trace, form_of(found.body.pattern), notes)


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


def _notes(body: Body) -> Iterator[str]:
    place = Place((), body.conditions, Names(set()), count_alternatives(body.pattern))
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
                reason = (
                    push_down.obstacle(node, index, place)
                    if isinstance(node, Seq)
                    else _in_and(part)
                )
                yield f"kept nested: {print_pattern(part)}: {reason or 'the rule is switched off'}"
            case _:
                yield from _nested(part, place.below(node))


def _in_and(negation: Neg) -> str:
    if isinstance(negation.part, And):
        return "the parts of an AND may come in any order, at the same time too"
    return "in an AND it looks at the whole window, not at a gap of a SEQ"
