"""Allen's thirteen relations of two stretches of time, as bits of a mask.

They stand in such an order that the converse of relation i is relation 12 - i.
"""

from __future__ import annotations

NAMES: tuple[str, ...] = (
    "before",
    "meets",
    "overlaps",
    "finished by",
    "contains",
    "starts",
    "equals",
    "started by",
    "during",
    "finishes",
    "overlapped by",
    "met by",
    "after",
)
BIT: dict[str, int] = {name: 1 << place for place, name in enumerate(NAMES)}
ALL = (1 << len(NAMES)) - 1
BEFORE, MEETS, MET_BY, AFTER = BIT["before"], BIT["meets"], BIT["met by"], BIT["after"]
APART = BEFORE | MEETS | MET_BY | AFTER  # the two have no moment in common
INTERSECTS = ALL & ~APART
EQUALS = BIT["equals"]
# Which of a group it is shows only when the first of the two ends.
PREFIX_GROUPS: tuple[int, ...] = (
    BIT["overlaps"] | BIT["finished by"] | BIT["contains"],
    BIT["overlapped by"] | BIT["finishes"] | BIT["during"],
    BIT["starts"] | BIT["equals"] | BIT["started by"],
)
# What may be written for a relation, or for several at once.
WORDS: dict[str, int] = {**BIT, "intersects": INTERSECTS, "any": ALL}


def converse(mask: int) -> int:
    """The relations of the second to the first, from those of the first to the second."""
    last = len(NAMES) - 1
    return sum(1 << (last - place) for place in range(len(NAMES)) if mask >> place & 1)


def names_of(mask: int) -> tuple[str, ...]:
    """The relations of a mask, as they are written; ANY and INTERSECTS by one word."""
    if mask == ALL:
        return ("any",)
    if mask == INTERSECTS:
        return ("intersects",)
    return tuple(name for place, name in enumerate(NAMES) if mask >> place & 1)


def print_relations(mask: int) -> str:
    return ";".join(names_of(mask))
