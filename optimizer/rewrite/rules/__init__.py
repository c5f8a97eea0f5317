"""The rewrite rules, one a file, and the order in which the driver tries them.

A rule is a module with a `NAME` and a function `rewrite(node, place)`. To add one, copy a file,
write the rewrite on the first line of its docstring, and name it in `PHASES`.
"""

from __future__ import annotations

from optimizer.rewrite.rule import Rule
from optimizer.rewrite.rules import (
    absorb_negations,
    canonical_order,
    distribute,
    duplicate_negations,
    false_conditions,
    flatten,
    fold_conditions,
    fold_predicates,
    join_negations,
    negated_and,
    never_disjuncts,
    never_negations,
    push_down,
    single_in_negation,
    split_negation,
    unwrap,
    vacuous_conditions,
)

# The rules that make no engine's work more: every query is planned and run in the form that they
# end in. They neither write an OR out nor leave components that only have to exist.
PLANNING: tuple[tuple[Rule, ...], ...] = (
    (fold_predicates, fold_conditions, vacuous_conditions),
    (flatten, unwrap, join_negations, split_negation),
    (false_conditions, never_negations, vacuous_conditions),
    (single_in_negation, duplicate_negations, absorb_negations),
    (canonical_order,),
)

# All the way to NEEL's normal form, which `check --explain` shows.
# Each phase is repeated until none of its rules applies, and all of them until nothing changes.
# Any other order gives the same result; this one keeps the patterns in between small.
PHASES: tuple[tuple[Rule, ...], ...] = (
    (fold_predicates, fold_conditions, vacuous_conditions),
    (flatten, unwrap, join_negations),
    (split_negation, distribute, flatten, unwrap),
    (false_conditions, never_negations, never_disjuncts, vacuous_conditions),
    (single_in_negation, duplicate_negations, absorb_negations),
    (push_down, flatten),
    (canonical_order,),
)

# The rules that trade one kind of work for another: a planner weighs the forms they lead to.
ALTERNATIVES: tuple[Rule, ...] = (distribute, push_down, negated_and)

RULES: tuple[Rule, ...] = tuple(
    {rule.NAME: rule for phase in (*PHASES, ALTERNATIVES) for rule in phase}.values()
)
