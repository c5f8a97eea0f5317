"""Where the parts of a picture are: blocks from top to bottom, types near what reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

from optimizer.physical.blocks import Block, Drawn, Flow, Shown
from optimizer.physical.drawing import (
    CHARACTER,
    PADDING,
    SMALL,
    Box,
    Point,
    shortened,
    width_of,
)

MARGIN = 24
HEADING = 96
SPACE = 140  # between columns, for the edges; more where these are steep
MOST_SPACE = 260
GAP = 10
LINE = 17
ROW = 28  # of a query with its pattern
PILL = 22
SMALL_PILL = 16
SMALL_ROW = 19
ROWS = 34  # of small pills, that a block should have at most
COLUMNS = 8  # of small pills, that it has at least
LONGEST_PATTERN = 66  # characters
LONGEST_PIECE = 34
ALONE, BESIDES = "each on its own", "other steps"


class Rail(NamedTuple):
    """A row of small pills that belong to a piece, by its number, or to no piece."""

    piece: int | None
    queries: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    """A block and where its parts are; `alone` stands for what queries read by themselves."""

    block: Block
    panel: Box
    pieces: tuple[Box, ...]
    queries: tuple[Box, ...]
    alone: Box | None = None
    rails: tuple[Rail, ...] = ()
    starts_partition: bool = False


@dataclass
class Layout:
    """The places of all blocks and types; where queries are `many` they are small pills."""

    blocks: Sequence[Block]
    many: bool
    placed: list[Placed] = field(default_factory=list)
    types: dict[str, Box] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0

    def __post_init__(self) -> None:
        names = list(dict.fromkeys(flow.type for block in self.blocks for flow in _flows(block)))
        rows = 0 if self.many else sum(len(block.queries) for block in self.blocks)
        self.piece_x = MARGIN + width_of(names) + min(SPACE + 4 * rows, MOST_SPACE)
        character = SMALL if self.many else CHARACTER
        labels = [piece_label(piece) for block in self.blocks for piece in block.pieces]
        if self.many:
            labels += [ALONE, BESIDES]
        self.piece_width = width_of(labels, character) if labels else 0.0
        self.query_x = self.piece_x + self.piece_width + (SPACE * 0.6 if labels else 0)
        drawn = [query for block in self.blocks for query in block.queries]
        self.query_width = width_of([query.name for query in drawn], character)
        self.pattern_width = width_of(map(pattern_label, drawn))
        self._place_blocks()
        self._place_types(names)

    def _place_blocks(self) -> None:
        y: float = HEADING
        before = ""
        for block in self.blocks:
            new = block.partition != before
            before = block.partition
            y += LINE + 4 if new else 0
            placed = self._pills(block, y) if self.many else self._rows(block, y)
            self.placed.append(replace(placed, starts_partition=new))
            y += placed.panel.height + GAP
        right = max((p.panel.x + p.panel.width for p in self.placed), default=0.0)
        self.placed = [
            replace(p, panel=replace(p.panel, width=right - p.panel.x)) for p in self.placed
        ]
        self.width, self.height = right + MARGIN, y + MARGIN

    def _rows(self, block: Block, y: float) -> Placed:
        """A row for each query, with its pattern beside it."""
        top = y + (LINE + 6 if block.title else 6)
        row = ROW if block.title else 2 * LINE + 2
        pills = tuple(
            Box(self.query_x, top + i * row + (row - PILL) / 2, self.query_width, PILL)
            for i in range(len(block.queries))
        )
        number = len(block.pieces)
        height = max(len(pills) * row, number * ROW)
        step = min(height / max(1, number), 2.5 * ROW)
        first = top + (height - step * number) / 2 + (step - PILL) / 2
        pieces = tuple(
            Box(self.piece_x, first + i * step, self.piece_width, PILL) for i in range(number)
        )
        right = self.query_x + self.query_width + self.pattern_width
        right = max(right, self.piece_x + width_of([block.title]))
        left = self.piece_x - PADDING
        panel = Box(left, y, right + PADDING - left, top + height + 6 - y)
        return Placed(block, panel, pieces, pills)

    def _pills(self, block: Block, y: float) -> Placed:
        """A band of small pills for each piece, and one for the queries that have none of them."""
        bands: list[list[int]] = [[] for _ in range(len(block.pieces) + 1)]
        for i, query in enumerate(block.queries):
            bands[query.main(len(block.pieces))].append(i)
        columns = COLUMNS
        while sum(ceil(len(band) / columns) for band in bands) > ROWS and columns < len(bands[-1]):
            columns += 1
        pills: dict[int, Box] = {}
        rails = []
        boxes = []
        top = first = y + LINE + 8
        for number, band in enumerate(bands):
            is_alone = number == len(block.pieces)
            if is_alone and not any(query.own for query in block.queries):
                break
            rows = [band[at : at + columns] for at in range(0, len(band), columns)]
            for r, row in enumerate(rows):
                rails.append(Rail(None if is_alone else number, tuple(row)))
                for c, i in enumerate(row):
                    x = self.query_x + c * (self.query_width + GAP)
                    pills[i] = Box(x, top + r * SMALL_ROW, self.query_width, SMALL_PILL)
            height = max(1, len(rows)) * SMALL_ROW
            box_y = top + (height - SMALL_ROW) / 2
            boxes.append(Box(self.piece_x, box_y, self.piece_width, SMALL_PILL))
            top += height + 5
        alone = boxes.pop() if len(boxes) > len(block.pieces) else None
        right = self.query_x + columns * (self.query_width + GAP)
        right = max(right, self.piece_x + width_of([block.title]))
        left = self.piece_x - PADDING
        panel = Box(left, y, right - left, max(top, first + SMALL_ROW) - y)
        queries = tuple(pills[i] for i in range(len(block.queries)))
        return Placed(block, panel, tuple(boxes), queries, alone, tuple(rails))

    def _place_types(self, names: Sequence[str]) -> None:
        """In the order of what reads them: half level with its middle, half evenly spread."""
        targets: dict[str, list[float]] = {name: [] for name in names}
        for placed in self.placed:
            for flow, end, _ in ends(placed):
                targets[flow.type].append(end[1])
        middle = {name: sum(ys) / len(ys) for name, ys in targets.items() if ys}
        order = sorted(middle, key=lambda name: (middle[name], name))
        step = PILL + 6
        top, width = HEADING + LINE + PILL / 2, width_of(names)
        self.height = max(self.height, top + step * len(order) + MARGIN)
        bottom = self.height - MARGIN - GAP - PILL / 2
        even = (bottom - top) / max(1, len(order))
        places = []
        low: float = top
        for i, name in enumerate(order):
            low = max(low, (middle[name] + top + (i + 0.5) * even) / 2)
            places.append(low)
            low += step
        high = bottom
        for i in reversed(range(len(places))):
            places[i] = high = min(places[i], high)
            high -= step
        for name, y in zip(order, places, strict=True):
            self.types[name] = Box(MARGIN, y - PILL / 2, width, PILL)


def ends(placed: Placed) -> Iterator[tuple[Flow, Point, Shown | Drawn | Block]]:
    """Where events of types lead to: pieces, and queries or what stands for them by themselves."""
    block = placed.block
    for piece, box in zip(block.pieces, placed.pieces, strict=True):
        for flow in piece.flows:
            yield flow, box.left, piece
    if placed.alone is not None:
        for flow in dict.fromkeys(flow for query in block.queries for flow in query.own):
            yield flow, placed.alone.left, block
    elif not placed.rails:
        for query, box in zip(block.queries, placed.queries, strict=True):
            for flow in query.own:
                yield flow, box.left, query


def piece_label(shown: Shown) -> str:
    """What stands in a piece's box: its steps, and how many queries have them."""
    return f"{shortened(shown.label, LONGEST_PIECE)} ×{len(shown.piece.queries):,}"


def pattern_label(query: Drawn) -> str:
    """What stands beside a query."""
    return shortened(query.pattern, LONGEST_PATTERN)


def _flows(block: Block) -> Iterator[Flow]:
    for piece in block.pieces:
        yield from piece.flows
    for query in block.queries:
        yield from query.own
