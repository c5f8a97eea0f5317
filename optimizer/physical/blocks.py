"""What a picture of a plan shows: blocks of queries, the pieces they share, and what they read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from optimizer.physical.groups import CountingGroup, Group
from optimizer.physical.operator import Operator
from optimizer.physical.pieces import (
    Cover,
    Piece,
    computed_once,
    cover,
    is_part,
    made_once,
    steps_of,
)
from optimizer.physical.plan import Plan
from optimizer.physical.wording import cpu

_LISTED = 12
_QUOTED = re.compile(r"'(?:[^']|'')*'")


class Flow(NamedTuple):
    """Events of a type that something reads, or that must not occur there."""

    type: str
    negated: bool


@dataclass(frozen=True)
class Shown:
    """A piece as it is drawn: `queries` lead through it, `piece.queries` all contain it."""

    piece: Piece
    engine: str
    queries: tuple[str, ...]
    flows: tuple[Flow, ...]

    @property
    def label(self) -> str:
        """Its steps."""
        return ", ".join(self.piece.steps)


@dataclass(frozen=True)
class Drawn:
    """A query: `parts` are pieces of its block, by number, and `own` is what it reads besides."""

    name: str
    pattern: str
    how: str
    kind: str
    parts: tuple[int, ...]
    own: tuple[Flow, ...]

    def main(self, otherwise: int) -> int:
        """The first of its pieces."""
        return min(self.parts, default=otherwise)


@dataclass(frozen=True)
class Block:
    """Queries that are drawn together: a group, or groups of one query each."""

    partition: str
    title: str
    queries: tuple[Drawn, ...]
    pieces: tuple[Shown, ...] = ()

    def together(self, other: Block) -> Block:
        """Both as one; neither has pieces."""
        return replace(self, queries=self.queries + other.queries)

    def limited(self, most: int) -> Block:
        """With at most so many queries, those of one piece side by side."""
        ordered = sorted(self.queries, key=lambda query: query.main(len(self.pieces)))
        if len(ordered) <= most:
            return replace(self, queries=tuple(ordered))
        title = f"{self.title}; {len(ordered) - most:,} queries are not drawn"
        return replace(self, queries=tuple(ordered[:most]), title=title)


def blocks(plan: Plan, most_pieces: int, merged: bool) -> list[Block]:
    """The plan's groups by partition; with `merged`, lone queries of an engine are one block."""
    outputs = {o.detail["query"]: o for o in plan.operators if o.kind == "output"}
    once = computed_once(plan) | made_once(plan)
    found: dict[object, Block] = {}
    keys = {tuple(output.detail["key"]) for output in outputs.values()}
    order = {key: i for i, key in enumerate(sorted(keys, key=lambda key: (len(key), key)))}

    def key_of(number: int) -> tuple[str, ...]:
        return tuple(outputs[plan.groups[number].queries[0]].detail["key"])

    for number in sorted(range(len(plan.groups)), key=lambda n: order[key_of(n)]):
        group = plan.groups[number]
        key = ", ".join(key_of(number))
        block = _block(
            [outputs[name] for name in group.queries],
            group,
            once.get(number, []),
            f"partition by {key}" if key else "no partition",
            most_pieces,
        )
        alone = merged and len(block.queries) == 1
        place = (key, group.engine) if alone else number
        found[place] = found[place].together(block) if place in found else block
    return [_titled(block) for block in found.values()] if merged else list(found.values())


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _block(
    outputs: Sequence[Operator],
    group: Group,
    pieces: Sequence[Piece],
    partition: str,
    most: int,
) -> Block:
    read = {name.removeprefix("!") for output in outputs for name in output.detail["reads"]}
    types = sorted(read, key=lambda name: (-len(name), name))
    steps = steps_of(group) if pieces else {}
    counted = isinstance(group, CountingGroup)
    covered = cover(pieces, steps, most) if counted else _largest(pieces, most)
    shown = tuple(
        Shown(
            piece,
            group.engine,
            covered.queries(number),
            tuple(dict.fromkeys(f for step in piece.steps for f in flows(step, types))),
        )
        for number, piece in enumerate(covered.pieces)
    )
    drawn = []
    for output in outputs:
        detail = output.detail
        name, pattern = detail["query"], detail["pattern"]
        own = [Flow(read.removeprefix("!"), read.startswith("!")) for read in detail["reads"]]
        parts = tuple(number for _, number in covered.places.get(name, ()))
        if parts:
            rest = covered.uncovered(name, steps.get(name, ()))
            left = {f for step in rest for f in flows(step, types)}
            through = {f for number in parts for f in shown[number].flows}
            own = [flow for flow in own if flow in left or flow not in through]
        how = _how(group, detail)
        drawn.append(Drawn(name, pattern, how, detail["rows"], parts, tuple(own)))
    title = f"{len(drawn):,} queries together: {drawn[0].how}" if len(drawn) > 1 else ""
    if title and group.cost is not None and group.cost.separate > group.cost.shared:
        title += f" ({cpu(group.cost.separate)} one by one)"
    if len(shown) < len(pieces):
        title += f"; {len(shown):,} of {len(pieces):,} pieces in common are drawn"
    return Block(partition, title, tuple(drawn), shown)


def _largest(pieces: Sequence[Piece], most: int) -> Cover:
    """The pieces that save the most, each in all queries that it is made for."""
    ranked = sorted(pieces, key=lambda piece: -(piece.benefit or 0.0))[:most]
    places: dict[str, tuple[tuple[int, int], ...]] = {}
    for name in dict.fromkeys(name for piece in ranked for name in piece.queries):
        mine = [(i, piece.steps) for i, piece in enumerate(ranked) if name in piece.queries]
        inner = {
            i
            for i, steps in mine
            if any(steps != other and is_part(steps, other) for _, other in mine)
        }
        places[name] = tuple((0, i) for i, _ in mine if i not in inner)
    return Cover(tuple(ranked), places)


def _titled(block: Block) -> Block:
    if block.title:
        return block
    how = block.queries[0].how
    if len(block.queries) == 1:
        return replace(block, title=f"1 query: {how}")
    engine = how.split(",")[0]
    return replace(block, title=f"{len(block.queries):,} queries, each alone: {engine}")


def _how(group: Group, detail: Mapping[str, Any]) -> str:
    slide = f" every {detail['slide']}" if "slide" in detail else ""
    cost = f", {cpu(group.cost.shared)}" if group.cost is not None else ""
    return f"{group.engine}, {detail['window']}{slide}{cost}"


def flows(step: str, types: Iterable[str]) -> list[Flow]:
    """What a step such as `A[x > 1] !B` reads, of types of which longer ones come first."""
    plain = _QUOTED.sub("''", step)
    found = []
    for negated, before in ((False, "^"), (True, " !")):
        for name in types:
            if re.search(rf"{before}{re.escape(name)}(?=[\[ ]|$)", plain):
                found.append(Flow(name, negated))
                if not negated:
                    break
    return found
