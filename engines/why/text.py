"""An explanation as people read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_WORDS = {
    "condition": "condition",
    "negation": "negation",
    "window": "window",
    "order": "order",
    "strategy": "strategy",
    "slide": "window",
    "key": "key",
    "component": "component",
    "clause": "clause",
}


def render_why(found: Mapping[str, Any]) -> str:
    """The text of an explanation."""
    return "\n".join(_lines(found))


def render_miss(found: Mapping[str, Any]) -> list[str]:
    """The verdict, and of the nearest miss the events and what fails."""
    lines = [found["verdict"]]
    for miss in found["misses"][:1]:
        lines += _miss_lines(miss)
    return lines


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield found["verdict"] + _where(found)
    if found["components"]:
        yield ""
        yield f"components, of {found['events_looked_at']:,} of {found['events']:,} events"
    for component in found["components"]:
        yield from _component(component)
    for number, match in enumerate(found["matches"], 1):
        yield ""
        row = match.get("row")
        yield f"match {number}" if row is None else _row(number, row, bool(match.get("events")))
        if match.get("matches", 1) > 1:
            yield f"  the first of {match['matches']:,} matches behind it"
        for event in match.get("events", ()):
            yield f"  {_event(event)}"
    if len(found["matches"]) < found["rows"]:
        yield f"… and {found['rows'] - len(found['matches']):,} more"
    for number, miss in enumerate(found["misses"], 1):
        yield ""
        title = "nearest miss" if number == 1 else "another miss"
        key = "" if miss["key"] is None else f", {_named(miss['key'])}"
        yield f"{title}{key}"
        yield from _miss_lines(miss)
    for note in found["notes"]:
        yield f"note: {note}"


def _row(number: int, row: Mapping[str, Any], has_events: bool) -> str:
    """A row in a line; what it returns where the events behind it do not follow."""
    key = "" if row["key"] is None else f", {_named(row['key'])}"
    if "aggregate" in row:
        value = row["value"] if row.get("count") is None else row["count"]
        return f"row {number}{key}, at {row['time']}: {row['aggregate']} is {value}"
    returned = "" if has_events else f": {_json(row['match'])}"
    return f"match {number}{key}, {row['start']} to {row['end']}{returned}"


def _miss_lines(miss: Mapping[str, Any]) -> Iterator[str]:
    for event in miss["events"]:
        yield f"  found  {_event(event)}"
    because = f": {miss['because']}" if miss["because"] else ""
    yield f"  fails  {_WORDS[miss['kind']]} {miss['what']}{because}"
    for event in miss["by"]:
        if event not in miss["events"]:
            yield f"  by     {_event(event)}"


def _where(found: Mapping[str, Any]) -> str:
    asked = []
    if found["key"] is not None:
        asked.append("for " + ", ".join(f"{k} = {v}" for k, v in found["key"].items()))
    if found["at"] is not None:
        asked.append(f"at {found['at']}")
    return f" ({' '.join(asked)})" if asked else ""


def _component(component: Mapping[str, Any]) -> Iterator[str]:
    mark = "!" if component["negated"] else ""
    asked = component["events_looked_at"]
    of = (
        f" (of {component['events_of_type']:,} in all)"
        if asked < component["events_of_type"]
        else ""
    )
    yield f"  {mark}{component['type']} {component['alias']}: {_events(asked)} of the type{of}"
    before = asked
    for condition in component["conditions"]:
        left = condition["left"]
        fell = before - left
        gone = f", {fell:,} fell out" if fell else ""
        yield f"    {condition['condition']}: {left:,} left{gone}"
        before = left


def _event(event: Mapping[str, Any]) -> str:
    values = _named(event["values"])
    return f"{event['alias']} at {event['time']}: {values}"


def _events(number: int) -> str:
    return "1 event" if number == 1 else f"{number:,} events"


def _named(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_json(value)}" for name, value in values.items())


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:297] + "..."
