"""A pattern without its ORs: once for each way to choose one part of each."""

from __future__ import annotations

import itertools
import math
from functools import cache

from optimizer.ir.pattern import And, Event, Neg, Or, Pattern, Proj, Seq
from workloads.errors import TooLargeError

MAX_ALTERNATIVES = 4096


@cache
def alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    """The pattern for each choice of a part of every OR outside negations, written flat."""
    if _count(pattern) > MAX_ALTERNATIVES:
        raise TooLargeError(
            f"its ORs can be read in more than {MAX_ALTERNATIVES:,} ways; split the query into "
            "several"
        )
    return tuple(_alternatives(pattern))


def _alternatives(pattern: Pattern) -> list[Pattern]:
    match pattern:
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


def _count(pattern: Pattern) -> int:
    match pattern:
        case Event() | Neg():
            return 1
        case Or(parts):
            return sum(map(_count, parts))
        case Proj(_, part):
            return _count(part)
        case Seq(parts) | And(parts):
            return math.prod(map(_count, parts))


def _flat(kind: type[Seq] | type[And], parts: tuple[Pattern, ...]) -> Pattern:
    """Parts of the same operator written in its place; so is an AND of nothing but negations."""
    flat: list[Pattern] = []
    for part in parts:
        negations = isinstance(part, And) and all(isinstance(p, Neg) for p in part.parts)
        if isinstance(part, Seq | And) and (isinstance(part, kind) or negations):
            flat += part.parts
        else:
            flat.append(part)
    single = len(flat) == 1 and not isinstance(flat[0], Neg)
    return flat[0] if single else kind(tuple(flat))
