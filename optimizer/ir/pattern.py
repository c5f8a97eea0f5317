"""Patterns of bound queries: nodes, scopes of aliases, the ways to choose among ORs, and the
positions of components.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TypeAlias

from workloads.errors import TooLargeError
from workloads.expressions import Expression, Logical, attributes
from workloads.printing import print_component, print_expression
from workloads.syntax import ONE, All, Exactly, One, Plus


class _Kept:
    """Room in a value for what planning asks of it again and again: its hash, the events in it."""

    __slots__ = ("_events", "_hash", "_positive")

    _events: tuple[Event, ...]
    _hash: int
    _positive: tuple[Event, ...]


def _kept_hash(self: _Kept) -> int:
    """The hash of the fields, which is that of the value for as long as it lives."""
    try:
        return self._hash
    except AttributeError:
        found = hash(tuple(getattr(self, name) for name in type(self).__slots__))
        object.__setattr__(self, "_hash", found)
        return found


@dataclass(frozen=True, slots=True)
class Symbol(_Kept):
    """A type plus canonical local predicates: what makes two components interchangeable.

    The predicates are conjuncts over `Attribute("", name)`, in canonical order.
    """

    type: str
    predicates: tuple[Expression, ...] = ()
    __hash__ = _kept_hash

    def __str__(self) -> str:
        return _symbol_text(self)

    @property
    def shown(self) -> str:
        """The same for people, as a query would have it: without columns that engines add."""
        asked = tuple(
            p for p in self.predicates if not any(name.startswith("#") for name in attributes(p))
        )
        return str(Symbol("ANY" if self.type == ANY_TYPE else self.type, asked))


@lru_cache(1 << 14)
def _symbol_text(symbol: Symbol) -> str:
    """What statistics and operators are known by: a plan of many rules asks for it often."""
    texts = [print_expression(p) for p in symbol.predicates]
    if len(texts) > 1:
        looser = (isinstance(p, Logical) and p.operator == "OR" for p in symbol.predicates)
        texts = [f"({t})" if loose else t for t, loose in zip(texts, looser, strict=True)]
    inner = " AND ".join(texts)
    return f"{symbol.type}[{inner}]" if inner else symbol.type


ANY_TYPE = "*"  # every event is an instance of it; no query can write it
ANY = Symbol(ANY_TYPE)


@dataclass(frozen=True, slots=True)
class GroupWithout:
    """A group `E+` with negations of single events that hold between any two of its members.

    `E:+` has one, of any event; `E{n,m}` has none, and n to m members. Without a `most` there may
    be any number.
    """

    absent: tuple[Pattern, ...]
    least: int = 1
    most: int | None = None

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """What may not lie between two members."""
        return tuple(event.symbol for part in self.absent for event in events(part))


Quantifier: TypeAlias = One | Plus | Exactly | All | GroupWithout


def group_sizes(quantifier: Quantifier) -> tuple[int, int | None]:
    """How many events it takes at least, and at most; None where there is no limit."""
    match quantifier:
        case One():
            return 1, 1
        case Exactly(count):
            return count, count
        case GroupWithout(_, least, most):
            return least, most
        case _:
            return 1, None


@dataclass(frozen=True, slots=True)
class Event(_Kept):
    """The leaf: one event, or a group of them, of a symbol, bound to an alias.

    An `optional` one may be bound to nothing; its neighbours are then each other.
    """

    symbol: Symbol
    alias: str
    quantifier: Quantifier = ONE
    optional: bool = False
    __hash__ = _kept_hash


@dataclass(frozen=True, slots=True)
class Seq(_Kept):
    """`SEQ(P1, …, Pn)`: each positive part wholly before the next."""

    parts: tuple[Pattern, ...]
    __hash__ = _kept_hash


@dataclass(frozen=True, slots=True)
class And(_Kept):
    """`AND(P1, …, Pn)`: a match of each positive part in any order, no event used twice."""

    parts: tuple[Pattern, ...]
    __hash__ = _kept_hash


@dataclass(frozen=True, slots=True)
class Or(_Kept):
    """`OR(P1, …, Pn)`: a match of one of the parts; without parts it never matches."""

    parts: tuple[Pattern, ...]
    __hash__ = _kept_hash


@dataclass(frozen=True, slots=True)
class Neg(_Kept):
    """`!P`, a part of a `Seq` or `And` only.

    What `UNTIL P` says is one too, last in a `Seq`: it drops what waits for its key. What a mark
    says is about a gap `between` two parts: beside optional parts there may be none.
    """

    part: Pattern
    until: bool = False
    between: bool = False
    __hash__ = _kept_hash


@dataclass(frozen=True, slots=True)
class Proj(_Kept):
    """`Proj_{a, d} P` (NEEL section III): matches of P as far as the kept aliases go, each once.

    The other positive components only have to exist: they lie in the match's window but do not
    count for its start, its end, its triggers or its result.
    """

    keep: frozenset[str]
    part: Pattern
    __hash__ = _kept_hash


Pattern: TypeAlias = Event | Seq | And | Or | Neg | Proj
NEVER = Or(())


def parts_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """The direct sub-patterns."""
    match pattern:
        case Event(quantifier=quantifier):  # first, as most nodes are leaves
            return quantifier.absent if isinstance(quantifier, GroupWithout) else ()
        case Seq(parts) | And(parts) | Or(parts):
            return parts
        case Neg(part) | Proj(_, part):
            return (part,)


def with_parts(pattern: Pattern, parts: tuple[Pattern, ...]) -> Pattern:
    """The same node over other sub-patterns."""
    match pattern:
        case Seq():
            return Seq(parts)
        case And():
            return And(parts)
        case Or():
            return Or(parts)
        case Neg(_, until, between):
            return Neg(parts[0], until, between)
        case Proj(keep):
            return Proj(keep, parts[0])
        case Event(_, _, GroupWithout() as group):
            return replace(pattern, quantifier=replace(group, absent=parts))
        case Event():
            return pattern


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and everything below it, parents first."""
    yield pattern
    for part in parts_of(pattern):
        yield from walk(part)


def events(pattern: Pattern) -> Iterator[Event]:
    """All components, negated ones included, left to right."""
    try:
        return iter(pattern._events)
    except AttributeError:
        found = tuple(node for node in walk(pattern) if isinstance(node, Event))
        object.__setattr__(pattern, "_events", found)
        return iter(found)


def positive_events(pattern: Pattern) -> Iterator[Event]:
    """The components that a match binds."""
    try:
        return iter(pattern._positive)
    except AttributeError:
        found = tuple(_positive_events(pattern))
        object.__setattr__(pattern, "_positive", found)
        return iter(found)


def bound_names(pattern: Pattern) -> frozenset[str]:
    """The aliases of the components that a match binds."""
    return frozenset(event.alias for event in positive_events(pattern))


def _positive_events(pattern: Pattern) -> Iterator[Event]:
    if isinstance(pattern, Event):
        yield pattern
    elif not isinstance(pattern, Neg):
        for part in parts_of(pattern):
            yield from positive_events(part)


def transform(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """Apply `change` to every node, children first."""
    parts = parts_of(pattern)
    changed = tuple(transform(part, change) for part in parts)
    return change(pattern if changed == parts else with_parts(pattern, changed))


def rename(pattern: Pattern, names: dict[str, str]) -> Pattern:
    """The same pattern with aliases replaced."""

    def change(node: Pattern) -> Pattern:
        if isinstance(node, Event):
            return replace(node, alias=names.get(node.alias, node.alias))
        if isinstance(node, Proj):
            return Proj(frozenset(names.get(a, a) for a in node.keep), node.part)
        return node

    return transform(pattern, change)


def print_pattern(pattern: Pattern) -> str:
    """One line for people: `Proj[a, d] SEQ(A a, !B b, C[x > 1] c, D d)`."""
    match pattern:
        case Event(symbol, alias, quantifier):
            shown = None if alias == symbol.type and not symbol.predicates else alias
            if isinstance(quantifier, GroupWithout):
                sign = print_without(quantifier, pattern.optional)
                text = f"{symbol.shown}{sign}"
                return text if shown is None else f"{text} {shown}"
            printed = print_component(symbol.shown, shown, quantifier, pattern.optional)
            return printed.replace('"', "")
        case Seq(parts):
            return f"SEQ({', '.join(map(print_pattern, parts))})"
        case And(parts):
            return f"AND({', '.join(map(print_pattern, parts))})"
        case Or(()):
            return "NEVER"
        case Or(parts):
            return f"OR({', '.join(map(print_pattern, parts))})"
        case Neg(part, until):
            return ("UNTIL " if until else "!") + print_pattern(part)
        case Proj(keep, part):
            return f"Proj[{', '.join(sorted(keep))}] {print_pattern(part)}"


def print_without(group: GroupWithout, optional: bool = False) -> str:
    """What stands behind the type of such a group: `:+`, `:^3`, `{2,4}`, or `+{!B, !C}`."""
    if group.least == 1 and group.most is None:
        number = "*" if optional else "+"
    elif group.least == group.most and group.absent and not optional:
        number = f"^{group.least}"
    else:
        least = 0 if optional else group.least
        number = f"{{{least},{'' if group.most is None else group.most}}}"
    if group.symbols == (ANY,):
        return f":{number}"
    if not group.absent:
        return number
    return f"{number}{{{', '.join(f'!{symbol.shown}' for symbol in group.symbols)}}}"


Scope = tuple[int, ...]  # the path of negations from the root; () for what a match binds


def scopes(pattern: Pattern) -> dict[str, Scope]:
    """Each alias' path of negations, numbered left to right."""
    found: dict[str, Scope] = {}
    counter = 0

    def visit(node: Pattern, scope: Scope) -> None:
        nonlocal counter
        if isinstance(node, Event):
            found[node.alias] = scope
        elif isinstance(node, Neg):
            counter += 1
            visit(node.part, (*scope, counter))
        else:
            for part in parts_of(node):
                visit(part, scope)

    visit(pattern, ())
    return found


def innermost(paths: list[Scope]) -> Scope | None:
    """The deepest of scopes that lie inside one another; None where two do not."""
    deepest = max(paths, key=len, default=())
    return deepest if all(deepest[: len(p)] == p for p in paths) else None


MAX_ALTERNATIVES = 4096


@cache
def alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    """The pattern for each choice of a part of every OR outside negations, written flat.

    An optional component is a choice between nothing and it.
    """
    if count_readings(pattern) > MAX_ALTERNATIVES:
        raise TooLargeError(
            f"its ORs and optional parts can be read in more than {MAX_ALTERNATIVES:,} ways; split "
            "the query into several"
        )
    found = _alternatives(pattern)
    return tuple(map(_with_gaps, found) if has_optional(pattern) else found)


def has_optional(pattern: Pattern) -> bool:
    """May one of its components be bound to nothing?"""
    return any(isinstance(node, Event) and node.optional for node in walk(pattern))


_NOTHING = Seq(())  # what an optional component is read as besides


def _with_gaps(pattern: Pattern) -> Pattern:
    """A reading without what marks say of gaps that it does not have."""
    match pattern:
        case Seq(parts):
            places = [i for i, part in enumerate(parts) if not isinstance(part, Neg)]
            kept = [
                replace(part, between=False) if isinstance(part, Neg) else _with_gaps(part)
                for i, part in enumerate(parts)
                if not (isinstance(part, Neg) and part.between) or places[0] < i < places[-1]
            ]
            return kept[0] if len(kept) == 1 else Seq(tuple(kept))
        case And(parts):
            return And(tuple(map(_with_gaps, parts)))
        case Proj(keep, part):
            return Proj(keep, _with_gaps(part))
        case _:
            return pattern


def _alternatives(pattern: Pattern) -> list[Pattern]:
    match pattern:
        case Event(optional=True):
            return [replace(pattern, optional=False), _NOTHING]
        case Event() | Neg():
            return [pattern]
        case Or(parts):
            return [choice for part in parts for choice in _alternatives(part)]
        case Proj(keep, part):
            return [Proj(keep, choice) for choice in _alternatives(part)]
        case Seq(parts):
            return [_flat(Seq, c) for c in itertools.product(*map(_alternatives, parts))]
        case And(parts):
            return [_flat(And, c) for c in itertools.product(*map(_alternatives, parts))]


def count_readings(pattern: Pattern) -> int:
    """How many alternatives it has."""
    match pattern:
        case Event():
            return 2 if pattern.optional else 1
        case Neg():
            return 1
        case Or(parts):
            return sum(map(count_readings, parts))
        case Proj(_, part):
            return count_readings(part)
        case Seq(parts) | And(parts):
            return math.prod(map(count_readings, parts))


def _flat(kind: type[Seq] | type[And], parts: tuple[Pattern, ...]) -> Pattern:
    """Parts of the same operator written in its place; so is an AND of nothing but negations."""
    flat: list[Pattern] = []
    for part in parts:
        negations = isinstance(part, And) and all(isinstance(p, Neg) for p in part.parts)
        within = isinstance(part, kind) or negations or part == _NOTHING
        if isinstance(part, Seq | And) and within:
            flat += part.parts
        else:
            flat.append(part)
    single = len(flat) == 1 and not isinstance(flat[0], Neg)
    return flat[0] if single else kind(tuple(flat))


def in_sequence(pattern: Pattern) -> tuple[Pattern, ...]:
    """The parts of a SEQ, those of one inside of it in their place; any other pattern itself."""
    if isinstance(pattern, Seq):
        return tuple(flat for part in pattern.parts for flat in in_sequence(part))
    return (pattern,)


def unkept(pattern: Pattern) -> frozenset[str]:
    """The aliases that only have to exist: those that a `Proj` does not keep."""
    match pattern:
        case Proj(keep, part):
            return _aliases(part) - keep
        case Seq(parts) | And(parts):
            return frozenset().union(*map(unkept, parts))
        case _:
            return frozenset()


def last_events(pattern: Pattern, skip: frozenset[str]) -> list[Event]:
    """The components that can be a match's last event."""
    match pattern:
        case Event(_, alias):
            return [] if alias in skip else [pattern]
        case Seq(parts):
            for part in reversed(parts):
                if found := last_events(part, skip):
                    return found
            return []
        case And(parts):
            return [event for part in parts for event in last_events(part, skip)]
        case Proj(_, part):
            return last_events(part, skip)
        case _:
            return []


def waits(pattern: Pattern) -> bool:
    """Is a match certain only when its window has closed?"""
    match pattern:
        case Event(_, _, quantifier):
            return isinstance(quantifier, All)
        case Seq(parts):
            nested = any(waits(p) for p in parts if not isinstance(p, Event))
            last = [p for p in parts if not (isinstance(p, Neg) and p.until)][-1]
            return nested or isinstance(last, Neg) or waits(last)
        case And(parts):
            return any(map(waits, parts))
        case Proj(_, part):
            return waits(part)
        case _:
            return False


@dataclass(frozen=True)
class PositionGap:
    """What lies between a leaf's neighbours: the aliases of the part before and after it.

    None stands for the opening or the closing of the window; a negation in an AND looks at the
    whole of it, but not past the match's last event (`anywhere`).
    """

    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    anywhere: bool = False

    @property
    def at_edge(self) -> bool:
        return self.before is None or self.after is None

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(self.before or ()) | frozenset(self.after or ())


@dataclass(frozen=True)
class Position:
    """A component or a negation, and how it stands to the rest of an OR-free pattern.

    `earlier` and `later` hold the aliases of the parts that are certainly before and after it,
    the nearest first; `rivals` those in other parts of an AND, which may not use its events. What
    only has to exist in a part of an AND may be any event.
    """

    leaf: Event | Neg
    gap: PositionGap
    earlier: tuple[tuple[str, ...], ...]
    later: tuple[tuple[str, ...], ...]
    rivals: frozenset[str]


def places(pattern: Pattern) -> list[Position]:
    """The components and negations of an OR-free pattern, left to right."""
    return list(_places(pattern, PositionGap(), (), (), {}))


AliasParts = tuple[tuple[str, ...], ...]


def _places(
    node: Pattern,
    gap: PositionGap,
    earlier: AliasParts,
    later: AliasParts,
    rivals: Mapping[str, frozenset[str]],
) -> Iterator[Position]:
    """`rivals` are by alias the others that may not use the same event."""
    match node:
        case Neg():
            yield Position(node, gap, earlier, later, frozenset())
        case Event(_, alias):
            yield Position(node, gap, earlier, later, rivals.get(alias, frozenset()))
        case Proj(_, part):
            yield from _places(part, PositionGap(), earlier, later, rivals)
        case Seq(parts):
            names = [tuple(sorted(_aliases(part))) for part in parts]
            for i, part in enumerate(parts):
                before = tuple(n for n in reversed(names[:i]) if n)
                after = tuple(n for n in names[i + 1 :] if n)
                between = PositionGap(next(iter(before), None), next(iter(after), None))
                yield from _places(part, between, before + earlier, after + later, rivals)
        case And(parts):
            used = [_aliases(part) - unkept(part) for part in parts]
            every = Counter(alias for own in used for alias in own)
            several = frozenset(alias for alias, times in every.items() if times > 1)
            both = dict(rivals)
            for own in used:
                others = (frozenset(every) - own) | (several & own)
                both |= {alias: both.get(alias, frozenset()) | others for alias in own}
            for part in parts:
                whole = PositionGap(anywhere=isinstance(part, Neg))
                yield from _places(part, whole, earlier, later, both)
        case Or():
            raise AssertionError("an OR in an OR-free pattern")


def _aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(pattern))


Run: TypeAlias = tuple[Symbol, ...]


def run_of(choices: Sequence[Pattern]) -> Run | None:
    """The symbols of a pattern of single events with nothing between any two; None of others."""
    if len(choices) != 1 or not isinstance(choices[0], Seq):
        return None
    parts = choices[0].parts
    found = [part for part in parts[::2] if isinstance(part, Event)]
    gaps = [part for part in parts[1::2] if isinstance(part, Neg) and _is_any(part.part)]
    if len(found) + len(gaps) != len(parts) or len(found) < 2:
        return None
    single = all(event.quantifier == ONE and not event.optional for event in found)
    return tuple(event.symbol for event in found) if single and len(gaps) < len(found) else None


def _is_any(pattern: Pattern) -> bool:
    return isinstance(pattern, Event) and pattern.symbol == ANY and pattern.quantifier == ONE


def word_of(choice: Pattern) -> tuple[Symbol, ...] | None:
    """The symbols of a sequence of single events, between which nothing is negated; else None."""
    parts = choice.parts if isinstance(choice, Seq) else (choice,)
    for part in parts:
        if not isinstance(part, Event) or part.optional or part.quantifier != ONE:
            return None
    return tuple(part.symbol for part in parts if isinstance(part, Event))
