"""Matches of parts of patterns, which several queries read, and what each takes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from engines.columns.layout import Rows
from engines.matching.situations.joins import Join, JoinedSituations
from engines.matching.situations.runs import Derivation, NamedRuns
from kernels.situations.cpu import FOREVER, relation_codes, select_matches, with_groups
from optimizer.engines.situation_joins import asked_masks
from optimizer.ir.situations import Constraint, Definition, Situation, Temporal

MOST_SHARED = 1 << 22  # matches of a part that several queries read


@dataclass(frozen=True, eq=False)
class SharedRows:
    """The matches of a part that patterns of several queries have.

    `chosen` has for each name its situations among `start` and `end`, the ticks of the situations
    of all names, those of name i from `bases[i]` on; `codes` has for the pairs of names in `sides`
    the relation of each match, as `relation_codes` has it.
    """

    named: Sequence[NamedRuns]
    chosen: Rows
    bases: Rows
    start: Rows
    end: Rows
    partition: Rows
    sides: Rows
    codes: Any
    _sure: dict[tuple[object, ...], Rows] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.partition)

    def asked(self, bits: int) -> Rows:
        """The matches whose first pair has a relation of a mask with groups, in order."""
        order, ends = self._by_code
        some = [order[ends[c] : ends[c + 1]] for c in range(16) if bits >> c & 1]
        filled = [numbers for numbers in some if len(numbers)] or [order[:0]]
        return filled[0] if len(filled) == 1 else np.sort(np.concatenate(filled), kind="stable")

    @cached_property
    def _by_code(self) -> tuple[Rows, Rows]:
        """The numbers of matches by the relation of their first pair, and where each begins."""
        codes = self.codes[0]
        counts = np.bincount(codes, minlength=16)
        return np.argsort(codes, kind="stable"), np.concatenate([[0], np.cumsum(counts)])

    def sure(self, situations: Sequence[Situation], complete: bool, derivation: Derivation) -> Rows:
        """When each situation counts by itself for a pattern with these names; FOREVER for never.

        Patterns that ask for the same lengths have the same, whatever else differs.
        """
        lengths = (complete, *((s.at_least, s.at_most) for s in situations))
        if lengths not in self._sure:
            own = [derivation.sure_ticks(s, complete) for s in situations]
            self._sure[lengths] = np.concatenate(own)
        return self._sure[lengths]


class PartOfPattern(NamedTuple):
    """What a pattern has of matches that are made already: which name is which of theirs."""

    rows: SharedRows
    places: tuple[int, ...]  # of the pattern's names, in the order of the part's


def shared_rows(
    definitions: Sequence[Definition],
    constraints: Sequence[Constraint],
    width: int,
    derivation: Derivation,
    sequenced: bool,
) -> SharedRows | None:
    """The matches of a part of several patterns, whatever lengths they ask for, and whenever they
    give their rows; None where there are more than are kept.
    """
    situations = [Situation(str(i), definition) for i, definition in enumerate(definitions)]
    join = Join(situations, constraints, (), False, derivation, sequenced, width)
    start, end, bases = join.tables.start, join.tables.end, join.tables.offsets[:, 0]
    if len(definitions) == 2:
        made = _pairs(join, constraints[0].mask, derivation)
    else:
        made = _matches(join, constraints)
    if made is None:
        return None
    chosen, codes = made
    partition = join.named[0].runs.partition[chosen[0] - bases[0]]
    sides = np.array([(c.left, c.right) for c in constraints])
    return SharedRows(join.named, chosen, bases, start, end, partition, sides, codes)


def _pairs(join: Join, mask: int, derivation: Derivation) -> tuple[Rows, Any] | None:
    tables, (first, second) = join.tables, join.named
    middle = len(first.number)
    own = [
        (tables.start[some], tables.end[some], tables.tick[some])
        for some in (slice(middle), slice(middle, None))
    ]
    found = derivation.kernels.related_pairs(
        *(first.offsets, second.offsets, *own[0], *own[1]),
        *(with_groups(mask), join.width, MOST_SHARED),
    )
    if found is None:
        return None
    pairs, codes = found
    return pairs + tables.offsets[:, :1], codes[None, :]


def _matches(join: Join, constraints: Sequence[Constraint]) -> tuple[Rows, Any] | None:
    number, found = 0, [np.zeros((len(join.named), 0), np.int64)]
    if not join.is_empty:
        order = join.order()
        for some, _ in join.matches(MOST_SHARED // 4, order, *join.seeds(order)):
            number += some.shape[1]
            if number > MOST_SHARED:
                return None
            found.append(some)
    chosen = np.concatenate(found, axis=1) if len(found) != 2 else found[1]
    codes = np.empty((len(constraints), chosen.shape[1]), np.uint8)
    start, end = join.tables.start, join.tables.end
    for c, known in zip(constraints, codes, strict=True):
        left, right = chosen[c.left], chosen[c.right]
        known[:] = relation_codes(start[left], end[left], start[right], end[right])
    return chosen, codes


def joined_from_part(
    temporal: Temporal,
    width: int,
    derivation: Derivation,
    sequenced: bool,
    most: int,
    part: PartOfPattern,
) -> Iterator[JoinedSituations]:
    """What `joined_situations` gives, from the matches of a part of the pattern."""
    rows, places = part
    complete = temporal.emit == "complete"
    sure = rows.sure([temporal.situations[place] for place in places], complete, derivation)
    masks = asked_masks(len(temporal.situations), temporal.constraints)
    bits = [with_groups(masks[places[i]][places[j]]) for i, j in rows.sides.tolist()]
    asked = rows.asked(bits[0])
    of = rows.chosen, rows.codes, rows.sides, np.array(bits), rows.start, rows.end
    if len(places) == len(temporal.situations) and not sequenced:
        for begin in range(0, len(asked), most):
            yield _made(part, *select_matches(asked[begin : begin + most], *of, sure, width))
        return
    # What is left open here, such as moments that time alone brings, the join looks at.
    known = np.where(sure == FOREVER, FOREVER, rows.start)
    some, _, _ = select_matches(asked, *of, known, FOREVER)
    join = Join.of(temporal, width, derivation, sequenced)
    if join.is_empty or not len(some):
        return
    seeds = np.stack(
        [
            join.named[place].places(
                rows.chosen[i, some] - rows.bases[i], len(rows.named[i].number)
            )
            + join.tables.offsets[place, 0]
            for i, place in enumerate(places)
        ]
    )
    order = join.order(places, len(some))
    for chosen, certain in join.matches(most, order, seeds, rows.partition[some]):
        yield join.made(chosen, certain)


def _made(part: PartOfPattern, some: Rows, first: Rows, certain: Rows) -> JoinedSituations:
    """Some matches of a part that has all names of a pattern."""
    rows = part.rows
    order = np.argsort(part.places).tolist()
    return JoinedSituations(
        [rows.named[i] for i in order],
        [rows.chosen[i, some] - rows.bases[i] for i in order],
        rows.partition[some],
        first,
        certain,
        certain,
        False,
    )
