"""Optional parts as choices: `SEQ(A a, B? b, C c)` becomes `OR(SEQ(A a, B b, C c), SEQ(A a, C c))`.

Every engine then runs them. No match is lost and none comes twice: a match is of the one reading
that has just the components that it binds. The negations and marks of both gaps of a part that is
absent stand in the joint gap; what marks say of a gap that a reading does not have is left out.
A query of many readings that can be counted stays as it is: one machine passes over what is absent.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.automaton import is_passed_over
from optimizer.ir.pattern import Neg, Or, Pattern, alternatives, has_optional, transform
from optimizer.ir.query import Query

NAME = "optional-parts"


def without_optional(query: Query) -> Query:
    """The query without optional components; itself where there is none."""
    if query.strategy != "any" or not has_optional(query.pattern) or is_passed_over(query):
        return query
    return replace(query, pattern=readings(query.pattern))


def readings(pattern: Pattern) -> Pattern:
    """The pattern as an OR of all that it can be read as."""

    def negated(node: Pattern) -> Pattern:
        return replace(node, part=_choice(node.part)) if isinstance(node, Neg) else node

    return _choice(transform(pattern, negated))


def _choice(pattern: Pattern) -> Pattern:
    if not has_optional(pattern):
        return pattern
    choices = alternatives(pattern)
    return choices[0] if len(choices) == 1 else Or(choices)
