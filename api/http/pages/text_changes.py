"""What changed from one version of a workload's text to another, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

CONTEXT_LINES = 3  # around each change
MAX_LINES = 20_000  # of both texts together
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
ALIKE = 0.5  # from which ratio on two lines are one that was changed

LineKind = Literal["same", "removed", "added", "left out"]


@dataclass(frozen=True)
class ShownLine:
    """A line with its numbers before and after, in parts of which some are marked as changed.

    One of kind "left out" stands for `parts[0]` lines that did not change.
    """

    kind: LineKind
    before: int | None
    after: int | None
    parts: tuple[tuple[str, bool], ...]


def changed_lines(before: str, after: str) -> list[ShownLine] | None:
    """The lines around what changed; none if nothing did, and `None` if the texts are too long."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > MAX_LINES:
        return None
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    shown: list[ShownLine] = []
    end = 0  # of the old lines that are accounted for
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        shown += _left_out(group[0][1] - end)
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                shown += [
                    ShownLine("same", i + n + 1, j + n + 1, ((line, False),))
                    for n, line in enumerate(old[i:i_end])
                ]
            else:
                shown += _replaced(old[i:i_end], new[j:j_end], i + 1, j + 1)
        end = group[-1][2]
    return [*shown, *_left_out(len(old) - end)] if shown else []


def _left_out(number: int) -> list[ShownLine]:
    return [ShownLine("left out", None, None, ((f"{number:,}", False),))] if number else []


def _replaced(old: Sequence[str], new: Sequence[str], i: int, j: int) -> Iterator[ShownLine]:
    """Lines that went, then those that came; in a pair of similar ones the words that differ."""
    pairs = [_marked(a, b) for a, b in zip(old, new, strict=False)]
    for n, line in enumerate(old):
        parts = pairs[n][0] if n < len(pairs) else ((line, False),)
        yield ShownLine("removed", i + n, None, parts)
    for n, line in enumerate(new):
        parts = pairs[n][1] if n < len(pairs) else ((line, False),)
        yield ShownLine("added", None, j + n, parts)


_Parts = tuple[tuple[str, bool], ...]


def _marked(old: str, new: str) -> tuple[_Parts, _Parts]:
    """Two lines with the words marked in which they differ, where they are much alike."""
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < ALIKE:
        return ((old, False),), ((new, False),)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        for side, words in ((left, a[i:i_end]), (right, b[j:j_end])):
            if words:
                side.append(("".join(words), tag != "equal"))
    return tuple(left), tuple(right)
