"""What keeps queries that construct their matches from making a piece once, to explain a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.ir.pattern import Event, Neg, Symbol, parts_of
from optimizer.trees.pieces import Piece, Reading, pieces_of
from sharing.apriori import levels, stretches
from sharing.candidates import interned
from sharing.detection.problem import Setting
from sharing.obstacles import LISTED, Obstacle, pairs
from sharing.steps import SETTING_NAMES
from workloads import expressions as ex
from workloads.syntax import One

CONDITIONS = "conditions"


def obstacles(
    readings: Mapping[Setting, Sequence[Reading]], limit: int = LISTED
) -> tuple[Obstacle, ...]:
    """Symbols that two queries have one after the other and cannot share, longest first.

    Negations keep nobody from sharing what is around them: that is bit-marking.
    """
    of = [
        (setting, reading, symbols)
        for setting, several in readings.items()
        for reading in several
        if (symbols := _symbols(reading))
    ]
    if len(readings) < 2 and not any(reading.asked.conditions for _, reading, _ in of):
        return ()
    text = interned(symbols for _, _, symbols in of)
    exact = interned(
        [(setting, symbol, _ties(reading, i)) for i, symbol in enumerate(symbols)]
        for setting, reading, symbols in of
    )
    owner = text.owner
    found: dict[tuple[str, str], Obstacle] = {}
    for level, numbers in reversed(list(zip(levels(text), stretches(exact), strict=False))):
        for one, other in pairs(level, numbers[level.places], owner[level.places]):
            if len(found) == limit:
                return tuple(found.values())
            numbered = int(owner[one]), int(owner[other])
            names = of[numbered[0]][1].query.name, of[numbered[1]][1].query.name
            if names in found or names[0] == names[1]:
                continue
            starts = [at - int(text.start[n]) for at, n in zip((one, other), numbered, strict=True)]
            (first, mine, symbols), (second, theirs, _) = (of[n] for n in numbered)
            differs = _differences(first, second)
            if _bare(mine, starts[0], level.length) != _bare(theirs, starts[1], level.length):
                differs.append(CONDITIONS)
            if differs:
                common = tuple(symbols[starts[0] : starts[0] + level.length])
                found[names] = Obstacle(common, names, tuple(differs))
    return tuple(found.values())


def _differences(one: Setting, other: Setting) -> list[str]:
    named = zip(SETTING_NAMES, one, other, strict=False)
    return [name for name, mine, theirs in named if mine != theirs]


def _symbols(reading: Reading) -> list[Symbol]:
    """The symbols of a sequence of single events, in order; none of anything else."""
    parts = [part for part in parts_of(reading.pattern) if not isinstance(part, Neg)]
    symbols = [
        part.symbol
        for part in parts
        if isinstance(part, Event) and isinstance(part.quantifier, One)
    ]
    return symbols if len(symbols) == len(parts) else []


def _ties(reading: Reading, position: int) -> tuple[str, ...]:
    """The conditions that tie a positive part, as written: equal ones may still be the same."""
    parts = [part for part in parts_of(reading.pattern) if isinstance(part, Event)]
    alias = parts[position].alias
    return tuple(str(c) for c in reading.asked.conditions if alias in ex.aliases(c))


def _bare(reading: Reading, first: int, length: int) -> tuple[str, ...] | None:
    """The conditions of a stretch without its negations."""
    for piece in pieces_of(reading.pattern, reading.asked.conditions):
        if (piece.first, piece.size) == (first, length) and not _negates(piece):
            return piece.key[1]
    return None


def _negates(piece: Piece) -> bool:
    return any(isinstance(part, Neg) for part in piece.pattern.parts)
