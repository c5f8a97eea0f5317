"""PreTree: prefix counters for every active START, in a tree of what queries begin with (4.1)."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.counting import pretree as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.aseq import counter as counter
from optimizer.engines.aseq import has_counter as has_counter
from optimizer.engines.aseq import refusal as refusal
from optimizer.engines.aseq import refusal_together as refusal_together
from optimizer.engines.spec import Device, Segments, Steps, beginnings, longest, words_of

NAME = "pretree"
LABEL = "PreTree"
MEANING = (
    "Counts matches with counters for each event that can begin a match, in a tree of what "
    "patterns begin with: queries that begin alike share the counters of their beginnings."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "counted together: they have one key, and what they begin with is counted once, whatever their "
    "windows and slides"
)
FEWEST = 2
CHOPPED = False
ANY_PIECE = False
BY_WINDOW = False
ROBUST = False
APART = False


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group)


def computed_once(segments: Segments) -> dict[Steps, tuple[str, ...]]:
    """What several queries begin with."""
    return longest(beginnings(words_of(segments)))


def counts_once(piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
    """Those that begin with it."""
    return tuple(name for name, word in words.items() if word[: len(piece)] == piece)
