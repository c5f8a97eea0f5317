"""Boxes, texts and lines of a plan's picture, as SVG.

`data-query` of a shape names the queries that it is about and `data-piece` the shared pieces, both
separated by blanks. Blanks within a name are written as in addresses: `my%20query`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias
from urllib.parse import quote

Point: TypeAlias = tuple[float, float]

# The texts are monospaced, so their widths are known without a font at hand: pixels.
CHARACTER = 7.3
SMALL = 6.1
PADDING = 10
MARGIN = 24

# One colour a shared piece, in turn; dark enough for lines on white.
COLOURS = ("#2f6f9f", "#b4552d", "#4f7f3a", "#8a4f9e", "#a8862a", "#3b8686", "#a33f5f", "#5b62a8")
MUTED_COLOR = "#8695a4"

# Each rule begins with the picture's class: within a page, it must not touch anything else.
STYLE = """
.plan text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2933 }
.plan .heading { font-weight: bold; font-size: 14px }
.plan .quiet { fill: #66727f } .plan .small { font-size: 10px }
.plan .panel { fill: #f5f7f9; stroke: #dbe1e7 } .plan .type rect { fill: #ffffff; stroke: #8695a4 }
.plan .piece rect { stroke-width: 1.6 } .plan .tinted { fill-opacity: 0.13 }
.plan .mark { fill-opacity: 1 } .plan .ring { fill: #ffffff; stroke-width: 2 }
.plan .ground { fill: #ffffff; stroke: none }
.plan .plain { fill: #ffffff; stroke: #b3bec9 }
.plan .hit { fill: none; pointer-events: all }
.plan .edge { fill: none; opacity: 0.6 } .plan .own { opacity: 0.35 }
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


def rectangle(box: Box, css: str = "", radius: float = 4, colour: str = "") -> str:
    """A box by itself; with a colour its border has it, and what is inside a tint of it."""
    if colour:
        css = f"{css} tinted".strip()
    more = f' class="{css}"' if css else ""
    more += f' stroke="{colour}" fill="{colour}"' if colour else ""
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
    about: str = "",
    colour: str = "",
    small: bool = False,
    more: str = "",
    inset: float = PADDING,
) -> str:
    """A box with a text in it and a tooltip; `about` comes from `about_queries`."""
    words = css.split()
    radius = 3 if "matches" in words else box.height / 2 if words[0] in ("type", "query") else 4
    baseline = box.y + box.height / 2 + (3.5 if small else 4.2)
    shape = rectangle(box, "" if colour else "plain", radius, colour)
    ground = rectangle(box, "ground", radius) if colour else ""
    return (
        f'<g class="{css}"{about}>{_title(tooltip)}{ground}{shape}'
        f"{text(box.x + inset, baseline, label, 'small' if small else '')}{more}</g>"
    )


def edge(
    start: Point, end: Point, colour: str, width: float, css: str, tooltip: str, about: str = ""
) -> str:
    """A curve from left to right."""
    (x1, y1), (x2, y2) = start, end
    bend = (x2 - x1) / 2
    return (
        f'<path class="edge {css}"{about} stroke="{colour}" stroke-width="{width:.1f}" '
        f'd="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} '
        f'{x2:.1f} {y2:.1f}">{_title(tooltip)}</path>'
    )


_BLANKS = re.compile(r"[%\s]")


def about_queries(queries: Sequence[str], pieces: Iterable[str] = ()) -> str:
    """The attributes by which a page finds what belongs to a query or to a shared piece."""
    names = " ".join(_BLANKS.sub(lambda found: quote(found[0]), name) for name in queries)
    shown = f' data-query="{escape(names)}"' if queries else ""
    named = " ".join(dict.fromkeys(pieces))
    return shown + (f' data-piece="{escape(named)}"' if named else "")


def _title(tooltip: str) -> str:
    return f"<title>{escape(tooltip, quote=False)}</title>"
