"""Statistics as a JSON document, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optimizer.statistics.known import Statistics
from workloads.errors import SheafError

VERSION = 1


class StatisticsDocumentError(SheafError):
    """A document that is no statistics; says what is wrong with it."""


def to_document(statistics: Statistics) -> dict[str, Any]:
    """The statistics as plain values, `version` first."""
    plain: dict[str, Any] = json.loads(json.dumps({"version": VERSION, **asdict(statistics)}))
    return plain


def from_document(document: Mapping[str, Any]) -> Statistics:
    """The statistics that `to_document` made these values from."""
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(document, Mapping) or document.get("version") != VERSION:
        raise StatisticsDocumentError(
            f"these are not statistics of version {VERSION}; measure them again"
        )
    content = {name: value for name, value in document.items() if name != "version"}
    try:
        return TypeAdapter(Statistics).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise StatisticsDocumentError(f"these are not statistics: {place}: {first['msg']}") from (
            error
        )
