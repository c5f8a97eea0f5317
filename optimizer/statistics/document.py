"""Statistics as a JSON document, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optimizer.statistics.known import Sample, Source, Statistics
from workloads.document import statistics_document
from workloads.errors import SheafError
from workloads.loading import load_statistics

VERSION = 1


class StatisticsDocumentError(SheafError):
    """A document that is no statistics; says what is wrong with it."""


def to_document(statistics: Statistics) -> dict[str, Any]:
    """The statistics as plain values, `version` first."""
    plain: dict[str, Any] = json.loads(json.dumps({"version": VERSION, **asdict(statistics)}))
    return plain


def about(statistics: Statistics) -> dict[str, Any]:
    """All but rates, as a plan carries it along: what its costs rest on."""
    found = to_document(statistics)
    left_out = ("version", "rates", "assumed")
    return {k: v for k, v in found.items() if k not in left_out and v is not None}


def to_written(statistics: Statistics) -> dict[str, Any]:
    """The statistics as a workload has them, with where they came from; numbers to six digits."""
    found = statistics_document(statistics)
    for name in ("rates", "selectivities"):
        if name in found:
            found[name] = {key: _rounded(value) for key, value in found[name].items()}
    for key in found.get("keys", {}).values():
        key["heaviest"] = _rounded(key["heaviest"])
    found["source"] = statistics.source
    if statistics.sample is not None:
        sample = statistics.sample
        found["sample"] = {"events": sample.events, "seed": sample.seed, "pairs": {**sample.pairs}}
    return found


def from_written(document: Any) -> Statistics:
    """Statistics that stand in a file of their own, as `to_written` gives them or people write.

    They may also stand under `statistics`, as in a workload.
    """
    from pydantic import TypeAdapter, ValidationError

    if isinstance(document, Mapping) and "statistics" in document:
        document = document["statistics"]
    if not isinstance(document, Mapping):
        raise StatisticsDocumentError("the file holds no statistics: it is not a map")
    found = load_statistics(document)
    source, sample = document.get("source", "given"), document.get("sample")
    try:
        return Statistics(
            found.rates,
            found.selectivities,
            found.keys,
            found.ties,
            found.events,
            found.span,
            source=TypeAdapter(Source).validate_python(source),
            sample=TypeAdapter(Sample | None).validate_python(sample),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StatisticsDocumentError(
            f"statistics.source or statistics.sample: {first['msg']}"
        ) from error


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


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
