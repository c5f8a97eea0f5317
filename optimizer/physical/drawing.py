"""Boxes, lines and texts of an SVG picture; the same calls give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]

# The texts are monospaced, so their widths are known without a font at hand: pixels.
CHARACTER = 7.3
SMALL = 6.1
PADDING = 10

# One colour a thing, in turn; dark enough for lines on white.
COLOURS = ("#2f6f9f", "#b4552d", "#4f7f3a", "#8a4f9e", "#a8862a", "#3b8686", "#a33f5f", "#5b62a8")

# Each rule begins with the picture's class: within a page, it must not touch anything else.
STYLE = """
.plan text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2933 }
.plan .heading { font-weight: bold; font-size: 14px }
.plan .quiet { fill: #66727f } .plan .small { font-size: 10px }
.plan .panel { fill: #f5f7f9; stroke: #dbe1e7 } .plan .type rect { fill: #ffffff; stroke: #8695a4 }
.plan .piece rect { fill: #ffffff; stroke-width: 1.6 }
.plan .alone rect { fill: #fbfcfd; stroke: #b3bec9 }
.plan .aggregates rect { fill: #e6f0e2; stroke: #7d9c6f }
.plan .matches rect { fill: #fbeadd; stroke: #c08a63 }
.plan .edge { fill: none; opacity: 0.5 } .plan .faint { opacity: 0.28 }
.plan .negated { stroke-dasharray: 5 4 } .plan .edge:hover { opacity: 1 }
.plan .halo { paint-order: stroke; stroke: #f5f7f9; stroke-width: 4px }
.plan .outside { stroke: #ffffff } .plan .ended { text-anchor: end }
"""


@dataclass(frozen=True)
class Box:
    """Where something is."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Point:
        """The middle of its left side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """The middle of its right side."""
        return self.x + self.width, self.y + self.height / 2


def width_of(texts: Iterable[str], character: float = CHARACTER) -> float:
    """Of a box that holds the longest of these texts."""
    return max((len(text) for text in texts), default=0) * character + 2 * PADDING


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def rectangle(box: Box, css: str = "", radius: float = 4, stroke: str = "") -> str:
    """A box by itself."""
    more = (f' class="{css}"' if css else "") + (f' stroke="{stroke}"' if stroke else "")
    return (
        f'<rect{more} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:.0f}"/>'
    )


def text(x: float, y: float, content: str, css: str = "") -> str:
    """A line of text; y is where its letters stand."""
    shown = f' class="{css}"' if css else ""
    return f'<text{shown} x="{x:.1f}" y="{y:.1f}">{escape(content, quote=False)}</text>'


def labelled(
    box: Box,
    label: str,
    css: str,
    tooltip: str,
    queries: Sequence[str] = (),
    stroke: str = "",
    small: bool = False,
) -> str:
    """A box with a text in it and a tooltip; `queries` are those that it is about."""
    radius = box.height / 2 if css.split()[0] in ("type", "query") else 4
    baseline = box.y + box.height / 2 + (3.5 if small else 4.2)
    return (
        f'<g class="{css}"{_about(queries)}>{_title(tooltip)}'
        f"{rectangle(box, radius=radius, stroke=stroke)}"
        f"{text(box.x + PADDING, baseline, label, 'small' if small else '')}</g>"
    )


def edge(
    start: Point,
    end: Point,
    colour: str,
    width: float,
    css: str,
    tooltip: str,
    queries: Sequence[str] = (),
    on_to: float | None = None,
) -> str:
    """A curve from left to right, and straight on from there to an x where one is given."""
    (x1, y1), (x2, y2) = start, end
    bend = (x2 - x1) / 2
    straight = "" if on_to is None else f" H{on_to:.1f}"
    return (
        f'<path class="edge {css}"{_about(queries)} stroke="{colour}" stroke-width="{width:.1f}" '
        f'd="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} '
        f'{x2:.1f} {y2:.1f}{straight}">{_title(tooltip)}</path>'
    )


def _about(queries: Sequence[str]) -> str:
    return f' data-query="{escape(" ".join(queries))}"' if queries else ""


def _title(tooltip: str) -> str:
    return f"<title>{escape(tooltip, quote=False)}</title>"
