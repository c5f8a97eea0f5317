"""The forms of a query that a planner may choose from: all give the same rows, at different costs.

Writing ORs out lets parts be shared that are common to some alternatives only; negations pushed
down need no sequence constructed. Both can make more work than they save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.body import Body
from optimizer.driver import rewrite
from optimizer.ir.pattern import Event, Neg, Or, Pattern, Proj, walk
from optimizer.ir.query import BoundWorkload, Query
from optimizer.normalize import normalize_query
from optimizer.place import Rule
from optimizer.rules import ALTERNATIVES, PLANNING, distribute, negated_and, push_down
from workloads.errors import SheafError
from workloads.model import Stream

# ORs beside a negation are written out before it is pushed down.
_CHOICES: tuple[tuple[Rule, ...], ...] = (
    (distribute,),
    (distribute, push_down),
    (negated_and,),
    ALTERNATIVES,
)


@dataclass(frozen=True, slots=True)
class Form:
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


def alternative_forms(query: Query, stream: Stream | None = None) -> tuple[Form, ...]:
    """The planning form of a query, then the other forms that rules can give it, each once.

    Without its `stream` nothing is known of the types, and a negated AND stays as it is.
    """
    planned = normalize_query(query)
    forms = {planned: Form(planned)}
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
        forms.setdefault(other, Form(other, names))
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


def form_by_rules(query: Query, rules: tuple[str, ...], stream: Stream) -> Form:
    """The form of a query that these rules lead to; a `FormError` where there is none."""
    for form in alternative_forms(query, stream):
        if form.rules == tuple(rules):
            return form
    raise FormError(
        f"query {query.name} has no form by {', '.join(rules) or 'no rule'}; make the plan again"
    )


class FormError(SheafError):
    """A form that a query does not have."""
