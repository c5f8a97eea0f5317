"""Applies rewrite rules to a body until none applies, checking after each that it kept its word.

The driver owns traversal, fixpoint and limits; a rule sees one node at a time. A rule is applied to
all nodes, parts first, in one sweep; each sweep that changes something is one step of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Pattern,
    Proj,
    Seq,
    innermost,
    parts_of,
    scopes,
    with_parts,
)
from optimizer.rewrite.body import (
    Body,
    aliases,
    count_alternatives,
    disjuncts,
    kept_sets,
    mandatory_events,
    print_body,
)
from optimizer.rewrite.rule import Edit, Names, NodeContext, Rule
from optimizer.rewrite.rules import PHASES, RULES, never_disjuncts
from workloads import expressions as ex
from workloads.errors import SheafError
from workloads.workload import Stream

MAX_STEPS = 10_000


class RewriteError(SheafError):
    """A rule broke an invariant, or rules undo each other: a mistake in Sheaf, not in the query."""


@dataclass(frozen=True, slots=True)
class RuleStep:
    """A rule that applied, and the body after it."""

    rule: str
    body: Body


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The body to which no rule applies any more, and how it came about."""

    body: Body
    trace: tuple[RuleStep, ...]


def rewrite(
    body: Body,
    phases: Sequence[Sequence[Rule]] = PHASES,
    off: Iterable[str] = (),
    triggers: bool = False,
    stream: Stream | None = None,
) -> Rewritten:
    """Apply the rules of each phase in turn, all phases again and again, until nothing changes.

    `off` names rules to leave out; `triggers` says that the query is evaluated at each event that
    can end a match (see `never-disjuncts`), and `stream` what its types are (see `negated-and`).
    """
    left_out = set(off)
    unknown = left_out - {rule.NAME for rule in RULES}
    if unknown:
        known = ", ".join(rule.NAME for rule in RULES)
        raise RewriteError(f"no rewrite rule is called '{min(unknown)}'; known are {known}")
    active = [[rule for rule in phase if rule.NAME not in left_out] for phase in phases]
    check(body, "the input")
    run = _Run(body, Names.of(body.pattern), triggers, stream)
    while True:
        length = len(run.trace)
        for phase in active:
            run.fixpoint(phase)
        if len(run.trace) == length:
            return Rewritten(run.body, tuple(run.trace))


@dataclass
class _Run:
    body: Body
    names: Names
    triggers: bool
    stream: Stream | None
    trace: list[RuleStep] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)  # rules known not to apply to the body as it is

    def fixpoint(self, rules: Sequence[Rule]) -> None:
        changed = True
        while changed:
            changed = False
            for rule in rules:
                changed = self.step(rule) or changed

    def step(self, rule: Rule) -> bool:
        """Apply a rule once; did it change anything?"""
        if rule.NAME in self.idle:
            return False
        after = apply(rule, self.body, self.names, self.triggers, self.stream)
        if after is None:
            self.idle.add(rule.NAME)
            return False
        self.body = after
        self.idle.clear()
        self.trace.append(RuleStep(rule.NAME, after))
        if len(self.trace) > MAX_STEPS:
            raise RewriteError(
                f"rewriting goes on after {MAX_STEPS:,} steps; the last rules were "
                + ", ".join(step.rule for step in self.trace[-5:])
            )
        return True


def apply(
    rule: Rule,
    body: Body,
    names: Names | None = None,
    triggers: bool = False,
    stream: Stream | None = None,
) -> Body | None:
    """One sweep of one rule over all nodes; None where it applies nowhere."""
    sweep = _Sweep(
        rule,
        body.conditions,
        names or Names.of(body.pattern),
        count_alternatives(body.pattern),
        triggers,
        stream,
    )
    pattern = sweep.visit(body.pattern, ())
    if pattern is body.pattern and sweep.conditions is body.conditions:
        return None
    known = aliases(pattern)
    conditions = tuple(c for c in sweep.conditions if ex.aliases(c) <= known)
    after = Body(pattern, conditions)
    if after == body:
        return None
    check(after, rule.NAME)
    _check_kept(body, after, rule)
    return after


@dataclass
class _Sweep:
    rule: Rule
    conditions: tuple[ex.Expression, ...]
    names: Names
    alternatives: int
    triggers: bool
    stream: Stream | None

    def visit(self, node: Pattern, ancestors: tuple[Pattern, ...]) -> Pattern:
        parts = parts_of(node)
        if parts:
            below = (*ancestors, node)
            changed = tuple([self.visit(part, below) for part in parts])
            if changed != parts:
                node = with_parts(node, changed)
        place = NodeContext(
            ancestors, self.conditions, self.names, self.alternatives, self.triggers, self.stream
        )
        result = self.rule.rewrite(node, place)
        if isinstance(result, Edit):
            self.conditions = result.conditions
            self.alternatives += result.alternatives
            return result.pattern
        return node if result is None else result


# --- invariants --------------------------------------------------------------------------------


def check(body: Body, who: str) -> None:
    """Raise `RewriteError` naming the rule where a body is not one that engines can take."""
    problem = _problem(body)
    if problem is not None:
        raise RewriteError(f"after {who}: {problem}, in {print_body(body)}")


def _problem(body: Body) -> str | None:
    known = aliases(body.pattern)
    for condition in body.conditions:
        missing = sorted(ex.aliases(condition) - known)
        if missing:
            return f"a condition speaks of '{missing[0]}', which is no component"
    return _misplaced(body.pattern, None) or _repeated(body.pattern) or _crossing(body)


def _misplaced(node: Pattern, parent: Pattern | None) -> str | None:
    """Negations stand in SEQ and AND, beside something positive, and between the events of a group;
    Proj is no part of SEQ or Proj.
    """
    if isinstance(node, Neg) and not isinstance(parent, (Seq, And, Event)):
        return "a negation stands outside SEQ and AND"
    if isinstance(node, Proj) and isinstance(parent, (Seq, Proj, Neg)):
        return "a Proj stands inside SEQ, Proj or a negation"
    if isinstance(node, (Seq, And)):
        negative = all(isinstance(part, Neg) for part in node.parts)
        if negative and not (isinstance(node, And) and isinstance(parent, (Seq, And))):
            return f"{type(node).__name__} without a positive part"
    found = (_misplaced(part, node) for part in parts_of(node))
    return next((problem for problem in found if problem is not None), None)


def _repeated(pattern: Pattern) -> str | None:
    """Aliases are unique in every alternative: only parts of an OR may share them."""
    if isinstance(pattern, (Seq, And)):
        seen: set[str] = set()
        for part in pattern.parts:
            own = aliases(part)
            if seen & own:
                return f"the alias '{min(seen & own)}' stands for two components at once"
            seen |= own
    found = (_repeated(part) for part in parts_of(pattern))
    return next((problem for problem in found if problem is not None), None)


def _crossing(body: Body) -> str | None:
    """No condition ties components of two negations of which neither is inside the other."""
    for part in disjuncts(body.pattern):
        certain = {event.alias for event in mandatory_events(part)}
        where = scopes(part)
        for condition in body.conditions:
            named = ex.aliases(condition)
            if named <= certain and innermost([where[name] for name in named]) is None:
                return "a condition ties components of two negations"
    return None


def _check_kept(before: Body, after: Body, rule: Rule) -> None:
    """What matches report stays the same; only alternatives that never match may go."""
    old, new = kept_sets(before.pattern), kept_sets(after.pattern)
    if old is None or new is None or old == new:
        return
    if not (rule.NAME == never_disjuncts.NAME and new < old):
        raise RewriteError(
            f"after {rule.NAME}: matches report other components than before, in "
            f"{print_body(after)}"
        )
