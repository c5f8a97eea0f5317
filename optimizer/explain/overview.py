"""The picture of many queries: groups below each other, in each the shared pieces with queries.

No lines are drawn. A query stands beside the piece that it shares with the most others, and has the
marks of all pieces that it shares. A page can fold a group to its first line: `data-y`,
`data-height` and `data-folded` say where it is, how high, and how high when it is folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from optimizer.explain.blocks import (
    Block,
    DrawnQuery,
    about_piece,
    about_query,
    some,
)
from optimizer.explain.layout import GAP, HEADING, LINE, PILL, piece_label
from optimizer.explain.shapes import (
    COLOURS,
    MARGIN,
    PADDING,
    SMALL,
    Box,
    about_queries,
    labelled,
    rectangle,
    shortened,
    text,
    width_of,
)

NARROW, WIDE = 1180, 1720  # pixels; the picture of up to so many queries, and of more:
FEW_QUERIES = 150
MAX_TYPES = 80
SMALL_PILL = 16
SMALL_ROW = 19
MARK = 8  # pixels, of the square that stands for a piece
LONGEST_NAME = 40  # characters
UNSHARED = "nothing is shared"
HIDDEN = "pieces not drawn"


class Overview:
    """Types, and groups of queries with what they share, from the top down."""

    def __init__(self, blocks: Sequence[Block], rates: Mapping[str, str], unit: str) -> None:
        self.unit = unit
        self.rank: dict[int, int] = {}  # of the pieces of a block: those of the most queries first
        queries = [query for block in blocks for query in block.queries]
        self.width: float = NARROW if len(queries) <= FEW_QUERIES else WIDE
        labels = [piece_label(piece) for block in blocks for piece in block.pieces]
        rest = [UNSHARED, HIDDEN] if labels else []
        widest = width_of([*labels, *rest], SMALL) + MARK if labels else 0.0
        self.query_x = MARGIN + PADDING + (widest + GAP if labels else 0.0)
        self.piece_width = widest
        self.lines: list[str] = []
        y = self._types(blocks, rates)
        before = ""
        for block in blocks:
            heading = block.partition if block.partition != before else ""
            before = block.partition
            y = self._block(block, heading, y)
        self.height = y + MARGIN

    def _types(self, blocks: Sequence[Block], rates: Mapping[str, str]) -> float:
        """The event types, in rows; gives where the next part begins."""
        readers: dict[str, list[str]] = {}
        used: dict[str, list[str]] = {}
        for block in blocks:
            for query in block.queries:
                for flow in query.reads:
                    readers.setdefault(flow.type, []).append(query.name)
            for number, piece in enumerate(block.pieces):
                for flow in piece.flows:
                    used.setdefault(flow.type, []).extend(block.users(number))
        x, y = float(MARGIN), float(HEADING)
        names = sorted(readers, key=lambda name: (-len(set(readers[name])), name))
        for name in names[:MAX_TYPES]:
            label = shortened(name, LONGEST_NAME)
            wide = width_of([label])
            if x + wide > self.width - MARGIN:
                x, y = MARGIN, y + PILL + 6
            mine = list(dict.fromkeys(readers[name]))
            said = f"{name}: {rates[name]} events a second\nread by {len(mine):,} queries"
            about = about_queries(mine, used.get(name, ()))
            self.lines.append(labelled(Box(x, y, wide, PILL), label, "type", said, about))
            x += wide + 8
        if len(names) > MAX_TYPES:
            said = f"and {len(names) - MAX_TYPES:,} more types"
            self.lines.append(text(x, y + PILL - 6, said, "quiet"))
        return y + PILL + GAP

    def _block(self, block: Block, heading: str, y: float) -> float:
        """One block; gives where the next one begins."""
        top = y + (LINE + 6 if heading else 0)
        inside = list(self._bands(block, top + LINE + 10))
        bottom = max((low for low, _ in inside), default=top + LINE + 4) + 4
        panel = Box(MARGIN, top, self.width - 2 * MARGIN, bottom - top)
        folded = top + LINE + 9 - y
        self.lines.append(
            f'<g class="block" data-y="{y:.1f}" data-height="{bottom - y:.1f}" '
            f'data-folded="{folded:.1f}">'
        )
        if heading:
            self.lines.append(text(MARGIN, top - 6, heading, "quiet"))
        self.lines.append(rectangle(panel, "panel", 8))
        title = text(MARGIN + PADDING, top + LINE, block.title, "quiet") + self._marks(block, top)
        names = [query.name for query in block.queries]
        self.lines.append(f'<g class="title"{about_queries(names)}>{title}</g>')
        self.lines.append('<g class="inside">')
        self.lines += [shape for _, shape in inside]
        self.lines.append("</g></g>")
        return bottom + GAP

    def _marks(self, block: Block, top: float) -> str:
        """The marks of all pieces of a block behind its title, where a fold leaves them to see."""
        x = MARGIN + PADDING + width_of([f"▾ {block.title}"]) + PADDING
        room = int((self.width - MARGIN - PADDING - x) / (MARK + 3))
        ranks = range(min(len(block.pieces), max(room, 0)))
        return "".join(_mark(rank, x + rank * (MARK + 3), top + LINE - 12) for rank in ranks)

    def _bands(self, block: Block, y: float) -> Iterator[tuple[float, str]]:
        """Each piece with its queries, and those without any; the lower ends of their shapes."""
        order = sorted(range(len(block.pieces)), key=lambda n: -len(block.pieces[n].piece.queries))
        places: list[int | str] = [*order, HIDDEN, UNSHARED]
        bands: dict[int | str, list[DrawnQuery]] = {place: [] for place in places}
        for query in block.queries:
            rest = HIDDEN if query.hidden else UNSHARED
            bands[next((n for n in order if n in query.through), rest)].append(query)
        self.rank = {number: place for place, number in enumerate(order)}
        for number, queries in bands.items():
            if isinstance(number, int):
                yield y + SMALL_ROW, self._piece(block, number, y, not queries)
            elif not queries:
                continue
            elif block.pieces:
                left, baseline = MARGIN + 2 * PADDING, y + SMALL_PILL / 2 + 3.5
                yield y + SMALL_ROW, text(left, baseline, number, "small quiet")
            x = self.query_x
            for query in queries:
                label = shortened(query.name, LONGEST_NAME)
                wide = width_of([label], SMALL) + (MARK + 2) * len(query.through)
                if x + wide > self.width - MARGIN - PADDING and x > self.query_x:
                    x, y = self.query_x, y + SMALL_ROW
                box = Box(x, y, wide, SMALL_PILL)
                yield y + SMALL_ROW, self._query(block, query, label, box)
                x += wide + 6
            y += SMALL_ROW + 4

    def _piece(self, block: Block, number: int, y: float, named: bool) -> str:
        """A piece; `named`: with the names of its queries, which stand beside other pieces."""
        shown = block.pieces[number]
        box = Box(MARGIN + PADDING, y, self.piece_width, SMALL_PILL)
        rank = self.rank[number]
        mark = _mark(rank, box.x + 6, y)
        if named:
            mark += text(self.query_x + PADDING, y + 11.5, some(shown.piece.queries), "small quiet")
        about = about_queries(shown.queries, block.related(number))
        label, said = piece_label(shown), about_piece(shown, self.unit)
        return labelled(box, label, "piece", said, about, _colour(rank), True, mark, PADDING + MARK)

    def _query(self, block: Block, query: DrawnQuery, label: str, box: Box) -> str:
        order = sorted(query.through, key=lambda n: self.rank[n])
        marks = [
            _mark(self.rank[n], box.x + 7 + i * (MARK + 2), box.y) for i, n in enumerate(order)
        ]
        through = [block.pieces[n].id for n in order]
        about = about_queries([query.name], through)
        inset = PADDING + (MARK + 2) * len(marks)
        css, said = f"query {query.kind}", about_query(query, block)
        return labelled(box, label, css, said, about, "", True, "".join(marks), inset)


def _colour(rank: int) -> str:
    """Of the piece of a block that as many others come before."""
    return COLOURS[rank % len(COLOURS)]


def _mark(rank: int, x: float, y: float) -> str:
    """The square of a piece; of those that come when colours repeat, a ring."""
    box = Box(x, y + (SMALL_PILL - MARK) / 2, MARK - 1, MARK - 1)
    css = "mark" if rank < len(COLOURS) else "mark ring"
    return rectangle(box, css, 2, _colour(rank))
