"""Which events rules see: the log sources of rules as types of events, and names of fields.

A file of log sources names one `product`. A `category` or a `service` has alternatives, each a map
of columns to the values that they may have; a service may also be a list of the values of
`service_column`. What is `unrouted` sees no event. `fields` are names in rules whose column has
another name, and `keywords` the columns that values without a field are searched for in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads import expressions as ex

KEYS = (
    "product",
    "categories",
    "services",
    "service_column",
    "unrouted",
    "fields",
    "keywords",
)
EVERY_EVENT = "event"
_NO_EVENT = ex.IsNull(ex.Attribute("", "time"))


class RouteError(Exception):
    """A log source, or a file of them, that cannot be used."""


@dataclass(frozen=True)
class LogSources:
    """The routes of a file; without one every rule sees every event."""

    product: str | None = None
    categories: Mapping[str, ex.Expression] = field(default_factory=dict)
    services: Mapping[str, ex.Expression] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()
    is_routed: bool = False

    def route(self, source: Any) -> tuple[str, ex.Expression]:
        """The type of the events that a rule's log source means, and its condition."""
        if not self.is_routed:
            return EVERY_EVENT, ex.IsNull(ex.Attribute("", "time"), negated=True)
        if self.product is not None and source.product not in (None, self.product):
            raise RouteError(f"its log source is of product {source.product}, not {self.product}")
        parts = []
        for kind, name, known in (
            ("category", source.category, self.categories),
            ("service", source.service, self.services),
        ):
            if name is None:
                continue
            if name not in known:
                raise RouteError(
                    f"its log source has the {kind} {name}, which the log sources do not have"
                )
            parts.append(known[name])
        words = [w for w in (source.product, source.category, source.service) if w]
        name = re.sub(r"\W+", "_", "_".join(words)) or EVERY_EVENT
        if not parts:
            return name, ex.IsNull(ex.Attribute("", "time"), negated=True)
        return name, parts[0] if len(parts) == 1 else ex.Logical("AND", tuple(parts))


def read_logsources(document: Any) -> LogSources:
    """The routes of a document; raises `RouteError`."""
    if document is None:
        return LogSources()
    if not isinstance(document, Mapping):
        raise RouteError("log sources are a map with the keys " + ", ".join(KEYS))
    unknown = [str(key) for key in document if key not in KEYS]
    if unknown:
        raise RouteError(f"log sources have no key '{unknown[0]}'; known are {', '.join(KEYS)}")
    column = str(document.get("service_column", "channel"))
    categories = {
        name: _alternatives(routes, column, f"categories.{name}")
        for name, routes in _map(document, "categories").items()
    }
    services = {
        name: _alternatives(routes, column, f"services.{name}")
        for name, routes in _map(document, "services").items()
    }
    for name in _texts(document, "unrouted"):
        categories.setdefault(name, _NO_EVENT)
    fields = {str(name): str(to) for name, to in _map(document, "fields").items()}
    product = document.get("product")
    return LogSources(
        None if product is None else str(product),
        categories,
        services,
        fields,
        tuple(_texts(document, "keywords")),
        True,
    )


def _map(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key) or {}
    if not isinstance(found, Mapping):
        raise RouteError(f"'{key}' of the log sources is not a map")
    return found


def _texts(document: Mapping[str, Any], key: str) -> Sequence[str]:
    found = document.get(key) or []
    if not isinstance(found, list):
        raise RouteError(f"'{key}' of the log sources is not a list")
    return [str(value) for value in found]


def _alternatives(routes: Any, column: str, where: str) -> ex.Expression:
    given = routes if isinstance(routes, list) else [routes]
    plain = [route for route in given if isinstance(route, str)]
    parts = [_equal(column, plain)] if plain else []
    for route in given:
        if isinstance(route, Mapping) and route:
            tests = [_equal(str(name), values) for name, values in route.items()]
            parts.append(tests[0] if len(tests) == 1 else ex.Logical("AND", tuple(tests)))
        elif not isinstance(route, str):
            raise RouteError(f"'{where}' of the log sources is neither texts nor maps of columns")
    if not parts:
        raise RouteError(f"'{where}' of the log sources is empty")
    return parts[0] if len(parts) == 1 else ex.Logical("OR", tuple(parts))


def _equal(column: str, values: Any) -> ex.Expression:
    """A column with one of some values, compared as texts: numbers may be in a column of these."""
    listed = values if isinstance(values, list) else [values]
    text = ex.Function("text", ex.Attribute("", column))
    literals = tuple(ex.Literal(str(value)) for value in listed)
    if len(literals) == 1:
        return ex.Comparison("=", text, literals[0])
    return ex.Membership(text, literals)
