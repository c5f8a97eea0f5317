"""Server-sent events: from lines to what happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: `status`, `progress`, rows of a kind, `end`.

    Following a job can go on behind an event that has an `id`.
    """

    name: str
    data: Any
    id: str | None = None


class Reader:
    """Puts an event together from the lines of a stream (HTML standard, 9.2.6)."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def line(self, text: str) -> Iterator[Event]:
        """The event that a line completes, if it does."""
        if text:
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if name == "data" and "data" in self._fields:
                value = f"{self._fields['data']}\n{value}"
            if name:  # a line that begins with a colon is a remark
                self._fields[name] = value
            return
        fields, self._fields = self._fields, {}
        if "data" in fields:
            name = fields.get("event", "message")
            yield Event(name, json.loads(fields["data"]), fields.get("id"))
