"""Completion and layout as the editor's page asks for them, in a browser's units.

A browser counts UTF-16 units; everything else here counts characters.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from api.editing.completion import completions
from api.editing.formatting import formatted
from api.editing.workload_text import WorkloadText

MOST = 40  # words that one looks through before typing another letter
_BEGUN = re.compile(r'(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\n]*)$')
_COMMENT = re.compile(r"(?:^|\s)#|--")


def suggestions(text: str, at: int, events: str | None = None) -> dict[str, Any]:
    """Words that can go on at a place, and where the word begins that they take the place of."""
    units = _units(text)
    at = min(at, len(units) // 2)
    offset = len(units[: 2 * at].decode("utf-16-le", "ignore"))
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    begun = _BEGUN.search(line)
    typed = begun.group() if begun else ""
    before = line[: len(line) - len(typed)]
    words = []
    if not (_COMMENT.search(before) or before.count("'") % 2):
        own = typed.casefold()
        for word in completions(WorkloadText(text, None, events), offset):
            written = word.written.casefold()
            if written.strip(' "').startswith(own.strip('"')) and written.rstrip(": ") != own:
                words.append(asdict(word))
    return {"start": at - _length(typed), "words": words[:MOST]}


def laid_out(text: str) -> dict[str, Any]:
    """What is to be replaced so that queries have a clause a line."""
    return {
        "changes": [
            {"start": _length(text[: c.start]), "end": _length(text[: c.end]), "text": c.text}
            for c in formatted(WorkloadText(text))
        ]
    }


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _length(text: str) -> int:
    return len(_units(text)) // 2
