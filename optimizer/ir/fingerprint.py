"""Sharing identity: a digest of what a pattern means, whatever its components are called.

Two patterns have the same digest if they are the same tree over the same symbols with the same
conditions, up to alias names, the order of the parts of AND and OR, and the order of negations in
one gap. Digests are the same in every process. Rewrite to normal form first: no rule is applied
here.

Equal digests always mean equal patterns, as the digest is taken of a complete spelling. To find the
spelling, components are told apart by what they are and by the conditions they are in, round after
round (colour refinement, as in Weisfeiler and Leman); where some remain alike each is tried
first and the least spelling is taken.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import assert_never

from optimizer.bind.conditions import canonical
from optimizer.ir.pattern import (
    And,
    Event,
    GroupWithout,
    Neg,
    Or,
    Pattern,
    Proj,
    Quantifier,
    Seq,
    events,
    print_without,
)
from optimizer.ir.query import (
    Construction,
    Funnel,
    Query,
    RowPattern,
    SituationPattern,
    picks_matches,
)
from workloads import expressions as ex
from workloads.expressions import Expression
from workloads.printing import print_expression
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)

_MAX_TRIALS = 24  # spellings compared; alike components are almost always interchangeable
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A pattern under canonical names; `aliases` are its own, in the order of those names."""

    text: str
    aliases: tuple[str, ...]


def fingerprint(query: Query) -> str:
    """The digest of a query's pattern, conditions, window and key; not of what it returns.

    Attributes of the key that are fixed are constants of the components, and otherwise only stand
    in results.
    """
    unit = "events" if query.window.is_count else "ns"
    window = f"within {query.window.size} {unit}"
    if query.join is not None or query.has_own_clock:
        window += f" {query.window} {query.join} {query.from_first} {query.empty_rows}"
    key = "key " + ", ".join(sorted(query.key))
    strategy = [] if query.strategy == "any" else [f"strategy {query.strategy}"]
    strategy += [f"key of components {key.columns} {key.optional}" for key in query.tied_key]
    strategy += [f"group {key.added_column}" for key in query.groups]
    if query.skips_past:
        strategy.append("skip past last event")
    if isinstance(query.output, Construction) and picks_matches(query):
        strategy.append(f"suppress {query.output.suppress} keep {query.output.keep}")
    if isinstance(query.output, RowPattern):
        strategy.append(repr(query.output.recognition))  # whose values say all that it matches
    if isinstance(query.output, Funnel):
        clause = query.output.funnel  # whose steps are called as they are
        strategy.append(f"funnel {clause.strict} {clause.exclusions} {clause.by} {clause.gives}")
    if isinstance(query.output, SituationPattern):
        strategy.append(str(query.output.temporal))
    spelled = _alternatives(query.pattern, query.conditions)
    return _digest("\n".join([window, key, *strategy, *spelled]))


def fingerprint_pattern(pattern: Pattern, conditions: tuple[Expression, ...] = ()) -> str:
    """The digest of a pattern and the conditions that are asked of its components."""
    return _digest("\n".join(_alternatives(pattern, conditions)))


def signature(pattern: Pattern, conditions: tuple[Expression, ...]) -> str:
    """The spelling of a part of a pattern, with the conditions that tie it to the rest.

    Components outside it keep their names.
    """
    own = {event.alias for event in events(pattern)}
    return spell(pattern, tuple(c for c in conditions if ex.aliases(c) & own)).text


def spell(pattern: Pattern, conditions: tuple[Expression, ...]) -> Spelling:
    """The pattern and all the conditions under canonical names."""
    colours = {e.alias: _digest(where) for e, where in _whereabouts(pattern)}
    trials = [_MAX_TRIALS]
    return _least(pattern, conditions, colours, trials)


def _alternatives(pattern: Pattern, conditions: tuple[Expression, ...]) -> list[str]:
    """Each part of an OR at the root is spelled for itself: they may share aliases, or not."""
    if isinstance(pattern, Or):
        found = (text for part in pattern.parts for text in _alternatives(part, conditions))
        return sorted(found)
    own = {event.alias for event in events(pattern)}
    asked = tuple(c for c in conditions if ex.aliases(c) <= own)
    return [spell(pattern, asked).text]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# --- the spelling ------------------------------------------------------------------------------


def _least(
    pattern: Pattern, conditions: tuple[Expression, ...], colours: dict[str, str], trials: list[int]
) -> Spelling:
    colours = _refined(pattern, conditions, colours)
    tied = _tied(colours, conditions)
    if not tied:
        return _spelled(pattern, conditions, colours)
    if all(_interchangeable(pattern, conditions, tied[0], other) for other in tied[1:]):
        # Each may take the place of any other, so any order of them gives the same spelling.
        marks = {alias: _digest(f"{i} {colours[alias]}") for i, alias in enumerate(tied)}
        return _least(pattern, conditions, colours | marks, trials)
    found: Spelling | None = None
    for alias in tied:
        if found is not None and trials[0] <= 0:
            break
        marked = colours | {alias: _digest("first " + colours[alias])}
        trial = _least(pattern, conditions, marked, trials)
        trials[0] -= 1
        if found is None or trial.text < found.text:
            found = trial
    assert found is not None
    return found


def _refined(
    pattern: Pattern, conditions: tuple[Expression, ...], colours: dict[str, str]
) -> dict[str, str]:
    """Tell components apart by the colours around them, until that tells no more apart."""
    named = _named(conditions)
    while True:
        classes = Counter(colours.values())
        finer = colours | {
            alias: _digest(_surroundings(pattern, conditions, colours, alias))
            for alias, colour in colours.items()
            if classes[colour] > 1 and alias in named
        }
        if len(set(finer.values())) == len(classes):
            return colours
        colours = finer


def _surroundings(
    pattern: Pattern, conditions: tuple[Expression, ...], colours: dict[str, str], alias: str
) -> str:
    """Everything, as one component sees it."""
    seen = colours | {alias: "@" + colours[alias]}
    tree = _tree(pattern, seen)
    mine = (c for c in conditions if alias in ex.aliases(c))
    return "\n".join([tree, *_sorted_conditions(mine, seen)])


def _named(conditions: tuple[Expression, ...]) -> set[str]:
    return {alias for condition in conditions for alias in ex.aliases(condition)}


def _tied(colours: dict[str, str], conditions: tuple[Expression, ...]) -> list[str]:
    """The first components that are alike and stand in conditions.

    Those in no condition need no order: their spellings do not differ.
    """
    named = _named(conditions)
    classes = Counter(c for a, c in colours.items() if a in named)
    alike = min((c for c, count in classes.items() if count > 1), default=None)
    return sorted(a for a, c in colours.items() if c == alike and a in named)


def _interchangeable(
    pattern: Pattern, conditions: tuple[Expression, ...], first: str, second: str
) -> bool:
    """Is everything the same with the two names exchanged?"""
    same = {event.alias: event.alias for event in events(pattern)}
    swapped = same | {first: second, second: first}
    mine = [c for c in conditions if ex.aliases(c) & {first, second}]
    return _tree(pattern, same) == _tree(pattern, swapped) and _sorted_conditions(
        iter(mine), same
    ) == _sorted_conditions(iter(mine), swapped)


def _spelled(
    pattern: Pattern, conditions: tuple[Expression, ...], colours: dict[str, str]
) -> Spelling:
    order = list(dict.fromkeys(_in_order(pattern, colours)))
    numbers = {alias: f"#{i + 1}" for i, alias in enumerate(order)}
    text = [_tree(pattern, numbers, colours), *_sorted_conditions(iter(conditions), numbers)]
    return Spelling("\n".join(text), tuple(order))


def _sorted_conditions(conditions: Iterator[Expression], labels: Labels) -> list[str]:
    return sorted(
        print_expression(canonical(ex.rename(condition, dict(labels)))) for condition in conditions
    )


# --- the tree ----------------------------------------------------------------------------------


def _tree(pattern: Pattern, labels: Labels, order: Labels | None = None) -> str:
    """The pattern under the given labels; parts that have no order are sorted by `order`."""
    match pattern:
        case Event(symbol, alias, quantifier):
            absent = "?" if pattern.optional else ""
            return f"{symbol}{_mark(quantifier)}{absent} {labels[alias]}"
        case Neg(part, until):
            sign = "UNTIL " if until else "!between " if pattern.between else "!"
            return sign + _tree(part, labels, order)
        case Proj(keep, part):
            kept = sorted(labels[a] for a in keep if a in labels)
            return f"Proj{kept}({_tree(part, labels, order)})"
        case Seq() | And() | Or():
            kind = type(pattern).__name__
            inner = (_tree(part, labels, order) for part in _ordered(pattern, order or labels))
            return f"{kind}({', '.join(inner)})"
        case _:
            assert_never(pattern)


def _mark(quantifier: Quantifier) -> str:
    match quantifier:
        case One():
            return ""
        case Plus():
            return "+"
        case Exactly(count):
            return f"^{count}"
        case All():
            return " ALL"
        case GroupWithout():
            return print_without(quantifier)
        case _:
            assert_never(quantifier)


def _ordered(pattern: Seq | And | Or, labels: Labels) -> list[Pattern]:
    """The parts, sorted where their order means nothing."""

    def key(part: Pattern) -> str:
        return _tree(part, labels)

    if not isinstance(pattern, Seq):
        return sorted(pattern.parts, key=key)
    found: list[Pattern] = []
    for negative, run in groupby(pattern.parts, lambda part: isinstance(part, Neg)):
        members = list(run)
        found += sorted(members, key=key) if negative else members
    return found


def _in_order(pattern: Pattern, labels: Labels) -> Iterator[str]:
    """Aliases as they come in the sorted tree."""
    match pattern:
        case Event(_, alias):
            yield alias
        case Neg(part) | Proj(_, part):
            yield from _in_order(part, labels)
        case Seq() | And() | Or():
            for part in _ordered(pattern, labels):
                yield from _in_order(part, labels)
        case _:
            assert_never(pattern)


def _whereabouts(pattern: Pattern, path: str = "") -> Iterator[tuple[Event, str]]:
    """Each component, with its symbol and its place as far as that has an order."""
    match pattern:
        case Event(symbol, _, quantifier):
            absent = "?" if pattern.optional else ""
            yield pattern, f"{path}/{symbol}{_mark(quantifier)}{absent}"
        case Neg(part):
            yield from _whereabouts(part, path + "/!")
        case Proj(keep, part):
            for event, where in _whereabouts(part, path + "/Proj"):
                yield event, where + (" kept" if event.alias in keep else "")
        case And(parts) | Or(parts):
            kind = type(pattern).__name__
            for part in parts:
                yield from _whereabouts(part, f"{path}/{kind}")
        case Seq(parts):
            place = 0
            for before, part in zip((None, *parts), parts, strict=False):
                # Negations in one gap share its number.
                place += not (isinstance(before, Neg) and isinstance(part, Neg))
                yield from _whereabouts(part, f"{path}/Seq{place}")
        case _:
            assert_never(pattern)
