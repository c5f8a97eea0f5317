"""Do the rows that queries gave agree with what a test expects of them?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from workloads.rule_tests import Expectation

Row = Mapping[str, Any]
SHOWN_ROWS = 5


def differences(expected: Expectation, rows: Sequence[Row]) -> list[str]:
    """What is wrong with a query's rows, in sentences; nothing where they are as expected."""
    found: list[str] = []
    count, name = len(rows), expected.query
    wanted = expected.count
    if wanted is not None and count != wanted:
        found.append(f"{name}: expected {_rows(wanted)}, found {_rows(count)}{_listed(rows)}")
    if count < expected.least:
        found.append(f"{name}: expected some row, found none")
    if expected.rows is not None:
        taken = _assigned(expected.rows, rows)
        missing = [row for row, place in zip(expected.rows, taken, strict=True) if place is None]
        found += [f"{name}: no row is {_shown(row)}{_listed(rows)}" for row in missing]
        others = [row for place, row in enumerate(rows) if place not in taken]
        found += [f"{name}: no such row was expected: {_shown(row)}" for row in others[:SHOWN_ROWS]]
        if len(others) > SHOWN_ROWS:
            found.append(f"{name}: … and {len(others) - SHOWN_ROWS:,} more")
    taken = _assigned(expected.includes, rows)
    missing = [row for row, place in zip(expected.includes, taken, strict=True) if place is None]
    found += [f"{name}: no row is {_shown(row)}{_listed(rows)}" for row in missing]
    for described in expected.excludes:
        like = [row for row in rows if row_agrees(described, row)]
        if like:
            found.append(f"{name}: a row is {_shown(described)}: {_shown(like[0])}")
    return found


def row_agrees(described: Row, row: Row) -> bool:
    """Has a row these fields? Of objects in it, too, only the named parts are compared."""
    return all(_agrees(value, _field(row, name)) for name, value in described.items())


def _field(row: Row, name: str) -> Any:
    """A column of a row, a part of its key, what its match returns, or its aggregate's value."""
    if name in row:
        return row[name]
    for inside in (row.get("key"), row.get("match")):
        if isinstance(inside, Mapping) and name in inside:
            return inside[name]
    if row.get("aggregate") == name:
        return row["value"] if row.get("count") is None else row["count"]
    return None


def _agrees(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _agrees(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(map(_agrees, wanted, found))
        )
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(found, datetime) or (isinstance(wanted, str) and isinstance(found, str)):
        return bool(wanted == found) or (
            (moment := _moment(wanted)) is not None and moment == _moment(found)
        )
    return bool(wanted == found)


def _moment(value: Any) -> datetime | None:
    """A time, of UTC where it says no other zone."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _assigned(wanted: Sequence[Row], rows: Sequence[Row]) -> list[int | None]:
    """For each description a row of its own, for as many of them as can have one."""
    fitting = [[i for i, row in enumerate(rows) if row_agrees(each, row)] for each in wanted]
    owner: dict[int, int] = {}

    def take(number: int, tried: set[int]) -> bool:
        for place in fitting[number]:
            if place not in tried:
                tried.add(place)
                if place not in owner or take(owner[place], tried):
                    owner[place] = number
                    return True
        return False

    for number in range(len(wanted)):
        take(number, set())
    places = {number: place for place, number in owner.items()}
    return [places.get(number) for number in range(len(wanted))]


def _rows(count: int) -> str:
    return "no row" if count == 0 else "1 row" if count == 1 else f"{count:,} rows"


def _listed(rows: Sequence[Row]) -> str:
    """The first rows, behind a sentence."""
    if not rows:
        return ""
    more = f"; … and {len(rows) - SHOWN_ROWS:,} more" if len(rows) > SHOWN_ROWS else ""
    return ": " + "; ".join(map(_shown, rows[:SHOWN_ROWS])) + more


def _shown(row: Row) -> str:
    kept = {name: value for name, value in row.items() if value is not None and name != "query"}
    return json.dumps(kept, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
