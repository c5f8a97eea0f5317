"""What a workload says of its stream: rates, selectivities, keys, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workloads import document as doc
from workloads.document import Document
from workloads.errors import Diagnostic, Place, at_place, did_you_mean, shown
from workloads.workload import KeyStatistics, Statistics

# What statistics are made of; `source` and `sample` say where they came from, for people.
_NUMBERS = ("rates", "selectivities", "keys", "ties", "events", "span")


@dataclass
class StatisticsReader:
    """Collects findings while a document is taken apart, and reads what it says of a stream."""

    file: str | None
    findings: list[Diagnostic] = field(default_factory=list)
    document: Document = field(default_factory=lambda: Document(None))

    def report(
        self, message: str, hint: str | None = None, at: doc.Path = (), key: bool = False
    ) -> None:
        """A finding about the value at a path of the document, or about its key."""
        self.report_at(message, hint, self.document.place(at, key))

    def report_at(self, message: str, hint: str | None, place: Place | None) -> None:
        found = at_place(Diagnostic(message, hint), self.file, place)
        self.findings.append(found)

    def known_keys(
        self, document: Mapping[str, Any], keys: tuple[str, ...], where: str, path: doc.Path
    ) -> None:
        for key in document:
            if key not in keys:
                self.report(
                    f"{where} has no key {shown(key)}; known are {', '.join(keys)}",
                    did_you_mean(str(key), keys) or "leave it out",
                    (*path, key),
                    key=True,
                )

    def statistics(self, document: Any, at: doc.Path) -> Statistics:
        if document is None:
            return Statistics()
        if not isinstance(document, Mapping):
            self.report("'statistics' is not a map", "such as 'statistics: {rates: {A: 2.5}}'", at)
            return Statistics()
        known = (*_NUMBERS, "source", "sample")
        self.known_keys(document, known, "'statistics'", at)
        rates = self._numbers(
            document.get("rates"), "rates", lambda v: v >= 0, "at least 0", (*at, "rates")
        )
        selectivities = self._numbers(
            document.get("selectivities"),
            "selectivities",
            lambda v: 0 <= v <= 1,
            "from 0 to 1",
            (*at, "selectivities"),
        )
        shares = {"ties": document["ties"]} if document.get("ties") is not None else {}
        ties = self._numbers(shares, "ties", lambda v: 0 <= v <= 1, "from 0 to 1", at).get("ties")
        sizes = {k: document[k] for k in ("events", "span") if document.get(k) is not None}
        whole = {key: size for key, size in sizes.items() if key == "events"}
        length = {key: size for key, size in sizes.items() if key == "span"}
        found = self._numbers(whole, "events", lambda v: v >= 1, "at least 1", at)
        found |= self._numbers(length, "span", lambda v: v > 0, "above 0", at)
        if len(sizes) == 1:
            self.report(
                "statistics has only one of events and span",
                "give both: so many events in so many seconds",
                (*at, *sizes),
                key=True,
            )
        if len(found) == 2 and not 0 < found["events"] / found["span"] < math.inf:
            self.report(
                f"statistics: {found['events']:g} events in {found['span']:g} s are a rate that no "
                "number can hold",
                "give the events of all types and the seconds in which they came",
                (*at, "events"),
            )
            found = {}
        events = int(found["events"]) if "events" in found else None
        keys = self._keys(document.get("keys"), (*at, "keys"))
        return Statistics(rates, selectivities, keys, ties, events, found.get("span"))

    def _keys(self, document: Any, at: doc.Path) -> dict[str, KeyStatistics]:
        """Partition keys: how many values each has, and the heaviest one's share of the events."""
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report(
                "statistics.keys is not a map of key to its cardinality and heaviest",
                "such as 'keys: {user: {cardinality: 500, heaviest: 0.01}}'",
                at,
            )
            return {}
        keys: dict[str, KeyStatistics] = {}
        for name, given in document.items():
            what, here = f"keys.{str(name)[:60]}", (*at, name)
            number = {"cardinality": given} if not isinstance(given, Mapping) else given
            self.known_keys(number, ("cardinality", "heaviest"), f"statistics.{what}", here)
            values = self._numbers(
                {k: v for k, v in number.items() if k == "cardinality"},
                what,
                lambda v: v >= 1,
                "at least 1",
                here,
            )
            if "cardinality" not in values:
                if "cardinality" not in number:
                    self.report(
                        f"statistics.{what} has no cardinality", "say how many values", here, True
                    )
                continue
            even = 1 / values["cardinality"]
            shares = self._numbers(
                {k: v for k, v in number.items() if k == "heaviest"},
                what,
                lambda v: 0 < v <= 1,
                "above 0 and up to 1",
                here,
            )
            attributes = ", ".join(part.strip() for part in str(name).split(","))
            heaviest = shares.get("heaviest", even)
            keys[attributes] = KeyStatistics(values["cardinality"], heaviest)
        return keys

    def _numbers(
        self,
        document: Any,
        key: str,
        accept: Callable[[float], bool],
        range_text: str,
        at: doc.Path,
    ) -> dict[str, float]:
        if document is None:
            return {}
        if not isinstance(document, Mapping):
            self.report(
                f"statistics.{key} is not a map of name to number", f"such as '{key}: {{A: 1}}'", at
            )
            return {}
        numbers: dict[str, float] = {}
        for name, value in document.items():
            number = _finite(value)
            if number is not None and accept(number):
                numbers[str(name)] = number
            else:
                self.report(
                    f"statistics.{key}: {str(name)[:60]} is {shown(value)}, not a number "
                    f"{range_text}",
                    "leave it out, or write such a number",
                    (*at, name),
                )
        return numbers


def _finite(value: Any) -> float | None:
    """A number that a double can hold, or None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
