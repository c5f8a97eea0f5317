"""Random trials: workloads of all sizes over streams of all kinds, the same for the same seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engines.trials import Trial

WINDOWS = (50, 5_000)  # events
MOST_QUERIES = 50
NEVER_USED = "OTHER"  # a type that no query speaks of, unless it negates it


@dataclass(frozen=True)
class _Drawn:
    """What a trial's queries are drawn from."""

    types: Sequence[str]
    starts: Sequence[str]  # types that queries begin with
    common: Sequence[str]  # a piece that many queries end with; may be empty
    has_negations: bool


def drawn(seed: int) -> Trial:
    """A random trial.

    1 to 50 sequences of 2 to 8 types, a window of 50 to 5,000 events; rates that are uniform,
    skewed, or have rare STARTs; with a partition key or none, skewed or not; some with negations,
    a few with sums; most per trigger. Often many queries end with the same piece.
    """
    draw = random.Random(seed)
    types = [f"T{i:02}" for i in range(draw.choice((6, 10, 20, 30)))]
    starts = types[: max(1, len(types) // 5)]
    width = round(math.exp(draw.uniform(*map(math.log, WINDOWS))))
    kind = draw.choice(("uniform", "skewed", "rare starts"))
    slide = draw.choice((0, 0, 0, max(1, width // 10), max(1, width // 3)))
    keys = _keys(draw)
    common = draw.sample(types, draw.randint(2, 4)) if draw.random() < 0.5 else []
    many = draw.choice((1, 2, 3, 5, 8, 12, 20, 30, MOST_QUERIES))
    source = _Drawn(types, starts if kind == "rare starts" else types, common, draw.random() < 0.35)
    sums = draw.random() < 0.1
    queries, lengths = [], {}
    for i in range(many):
        parts, chopped = _sequence(draw, source)
        if len(chopped) > 1:
            lengths[f"q{i}"] = chopped
        where = "WHERE [k] " if len(keys) > 1 else ""
        aggregates = f"COUNT(*), SUM({parts[-1]}.x)" if sums else "COUNT(*)"
        every = f" SLIDE {slide} ms" if slide else ""
        queries.append(
            f"QUERY q{i} PATTERN SEQ({', '.join(parts)}) {where}AGG {aggregates} "
            f"WITHIN {width} ms{every}"
        )
    name = (
        f"{many} of {len(types)} types, {kind}, window {width}"
        f"{f', slide {slide}' if slide else ''}{f', {len(keys)} keys' if len(keys) > 1 else ''}"
        f"{', negations' if source.has_negations else ''}{', sums' if sums else ''}"
    )
    return Trial(name, tuple(queries), _shares(draw, kind, source), keys, lengths, seed)


def width_of(trial: Trial) -> int:
    """A trial's window, in events."""
    return int(trial.queries[0].partition("WITHIN ")[2].split()[0])


def _keys(draw: random.Random) -> tuple[float, ...]:
    if draw.random() < 0.6:
        return (1.0,)
    number = draw.choice((3, 10, 50))
    skewed = draw.random() < 0.5
    return tuple(1 / (i + 1) if skewed else 1.0 for i in range(number))


def _shares(draw: random.Random, kind: str, source: _Drawn) -> Mapping[str, float]:
    shares = dict.fromkeys(source.types, 1.0)
    if kind == "skewed":
        shares = {t: 1 / (i + 1) for i, t in enumerate(draw.sample(source.types, len(shares)))}
    elif kind == "rare starts":
        shares |= {t: 10 ** draw.uniform(-2.5, -1) for t in source.starts}
    return shares | {NEVER_USED: draw.choice((0.1, 0.5, 3.0))}


def _sequence(draw: random.Random, source: _Drawn) -> tuple[list[str], tuple[int, ...]]:
    """A query's parts, and the lengths of its segments."""
    first = draw.choice(source.starts)
    others = [t for t in source.types if t != first]
    if source.common and draw.random() < 0.6 and first not in source.common:
        rest = [t for t in others if t not in source.common]
        before = [first, *draw.sample(rest, min(len(rest), draw.randint(0, 3)))]
        return [*before, *source.common], (len(before), len(source.common))
    parts = [first, *draw.sample(others, draw.randint(1, min(7, len(others))))]
    length = len(parts)
    if source.has_negations and draw.random() < 0.5:
        unused = [t for t in source.types if t not in parts]
        parts.insert(draw.randint(1, length - 1), f"!{draw.choice(unused or [NEVER_USED])}")
    return parts, (length,)
