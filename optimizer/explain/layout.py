"""Where each part of a plan's picture stands, for as many queries as have a row each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from optimizer.explain.blocks import Block, DrawnFragment, DrawnQuery, Flow
from optimizer.explain.shapes import MARGIN, PADDING, Box, Point, shortened, width_of

HEADING = 96
SPACE = 140  # between columns, for the edges; more where these are steep
MOST_SPACE = 260
GAP = 10
LINE = 17
ROW = 28  # of a query with its pattern
PILL = 22
LONGEST_PATTERN = 66  # characters
LONGEST_PIECE = 34


@dataclass(frozen=True)
class PlacedBlock:
    """A block and where its parts are."""

    block: Block
    panel: Box
    pieces: tuple[Box, ...]
    queries: tuple[Box, ...]
    starts_partition: bool = False


@dataclass
class PictureLayout:
    """The places of all blocks and types: types, then pieces by level, then queries."""

    blocks: Sequence[Block]
    placed: list[PlacedBlock] = field(default_factory=list)
    types: dict[str, Box] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0

    def __post_init__(self) -> None:
        names = list(dict.fromkeys(flow.type for block in self.blocks for flow in _flows(block)))
        rows = sum(len(block.queries) for block in self.blocks)
        start = MARGIN + width_of(names) + min(SPACE + 4 * rows, MOST_SPACE)
        pieces = [piece for block in self.blocks for piece in block.pieces]
        self.piece_x, self.piece_width = [start], []
        for level in range(1 + max((piece.level for piece in pieces), default=-1)):
            labels = [piece_label(piece) for piece in pieces if piece.level == level]
            self.piece_width.append(width_of(labels))
            self.piece_x.append(self.piece_x[-1] + self.piece_width[-1] + SPACE * 0.6)
        self.query_x = self.piece_x[-1]
        drawn = [query for block in self.blocks for query in block.queries]
        self.query_width = width_of([query.name for query in drawn])
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
            placed = self._rows(block, y)
            self.placed.append(replace(placed, starts_partition=new))
            y += placed.panel.height + GAP
        right = max((p.panel.x + p.panel.width for p in self.placed), default=0.0)
        self.placed = [
            replace(p, panel=replace(p.panel, width=right - p.panel.x)) for p in self.placed
        ]
        self.width, self.height = right + MARGIN, y + MARGIN

    def _rows(self, block: Block, y: float) -> PlacedBlock:
        """A row for each query, with its pattern beside it."""
        top = y + (LINE + 6 if block.title else 6)
        row = ROW if block.title else 2 * LINE + 2
        pills = tuple(
            Box(self.query_x, top + i * row + (row - PILL) / 2, self.query_width, PILL)
            for i in range(len(block.queries))
        )
        levels = [
            [n for n, piece in enumerate(block.pieces) if piece.level == level]
            for level in range(len(self.piece_width))
        ]
        height = max(len(pills) * row, max(map(len, levels), default=0) * ROW)
        middles = {q.name: box.left[1] for q, box in zip(block.queries, pills, strict=True)}
        boxes: dict[int, Box] = {}
        for level, numbers in enumerate(levels):
            wanted = {
                n: sum(middles[name] for name in block.pieces[n].queries)
                / max(1, len(block.pieces[n].queries))
                for n in numbers
            }
            order = sorted(numbers, key=lambda n: (wanted[n], n))
            places = spread([wanted[n] for n in order], ROW, top + PILL / 2, top + height)
            for n, middle in zip(order, places, strict=True):
                x, width = self.piece_x[level], self.piece_width[level]
                boxes[n] = Box(x, middle - PILL / 2, width, PILL)
        left = self.piece_x[0] - PADDING
        right = self.query_x + self.query_width + self.pattern_width
        right = max(right, left + width_of([block.title]))
        panel = Box(left, y, right + PADDING - left, top + height + 6 - y)
        return PlacedBlock(block, panel, tuple(boxes[n] for n in sorted(boxes)), pills)

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
        wanted = [(middle[name] + top + (i + 0.5) * even) / 2 for i, name in enumerate(order)]
        for name, y in zip(order, spread(wanted, step, top, bottom), strict=True):
            self.types[name] = Box(MARGIN, y - PILL / 2, width, PILL)


def spread(wanted: Sequence[float], step: float, top: float, bottom: float) -> list[float]:
    """Places near those that are wanted, which ascend, at least a step apart and within bounds."""
    places = []
    low = top
    for place in wanted:
        low = max(low, place)
        places.append(low)
        low += step
    high = bottom
    for i in reversed(range(len(places))):
        places[i] = high = min(places[i], high)
        high -= step
    return places


def ends(placed: PlacedBlock) -> Iterator[tuple[Flow, Point, int | DrawnQuery]]:
    """Where events of types lead to: pieces by their number, and queries."""
    block = placed.block
    for number, (piece, box) in enumerate(zip(block.pieces, placed.pieces, strict=True)):
        for flow in piece.flows:
            yield flow, box.left, number
    for query, box in zip(block.queries, placed.queries, strict=True):
        for flow in query.own:
            yield flow, box.left, query


def piece_label(shown: DrawnFragment) -> str:
    """What stands in a piece's box: its steps, their window, and how many queries have them."""
    window = f", {shown.window}" if shown.window else ""
    return f"{shortened(shown.label, LONGEST_PIECE)}{window} ×{len(shown.piece.queries):,}"


def pattern_label(query: DrawnQuery) -> str:
    """What stands beside a query."""
    return shortened(query.pattern, LONGEST_PATTERN)


def _flows(block: Block) -> Iterator[Flow]:
    for piece in block.pieces:
        yield from piece.flows
    for query in block.queries:
        yield from query.own
