"""Queries about situations: derived once for all queries of a key, joined once where they can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engines.device_kernels import DeviceKernels
from engines.matching.situations.joins import edges_of, joined_situations
from engines.matching.situations.matches import SituationMatches
from engines.matching.situations.parts import (
    PartOfPattern,
    SharedRows,
    joined_from_part,
    shared_rows,
)
from engines.matching.situations.runs import Derivation
from engines.results.chunks import RowChunk
from engines.results.json_text import KeyTexts
from optimizer.engines.situation_parts import SharedPart
from optimizer.engines.situations import joined_once, temporal_of

if TYPE_CHECKING:
    from engines.matching.passes.input import PassInput
    from engines.program import PassUnit


def situation_chunks(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The matches of a unit's queries."""
    columns, context = given.columns, given.context
    events, stopped = columns.events, context.ledger.stopped
    kernels = DeviceKernels(context.device_of(unit.device))
    derivations: dict[int, Derivation] = {}
    parts = _Parts(unit, events.tick, events.sequence is not None)
    for some in joined_once(unit.queries).values():
        layout = given.arranged(some[0]).layout
        for query in some[1:]:  # what is first of simultaneous events may show in any of them
            if given.arranged(query).layout is not layout:
                layout = columns.orders.layout(query.key, False, True)
        if not len(layout):
            continue
        if id(layout) not in derivations:
            derivations[id(layout)] = Derivation(columns, layout, events.tick, kernels)
        derivation = derivations[id(layout)]
        keys = KeyTexts(events, layout, some[0].key)
        sequenced = events.sequence is not None
        temporal = temporal_of(some[0])
        if temporal.edge is not None:
            widths = {query.name: 1 for query in some}
            joined = iter([edges_of(temporal, temporal.edge, derivation, sequenced)])
        else:
            widths = {query.name: query.window.ticks(events.tick) for query in some}
            part = parts.of(some[0].name, derivation)
            most, width = context.limits.chunk, max(widths.values())
            asked = temporal, width, derivation, sequenced, most
            if part is None:
                joined = joined_situations(*asked)
            else:
                joined = joined_from_part(*asked, part)
        for found in joined:
            length = found.sure_tick - found.first_tick
            new = np.ones(len(found), bool)
            if context.since is not None:  # what was certain before is given already
                new = found.sure_tick >= context.since
            for query in some:
                if query.name in stopped:
                    continue
                kept = new & (length < widths[query.name])
                own = found if kept.all() else found.take(kept)
                if not len(own):
                    continue
                output = given.outputs[query.name]
                chunk = SituationMatches(query, derivation, keys, own, context.account, output)
                chunk = chunk.satisfying()
                if len(chunk):
                    yield chunk


class _Parts:
    """The shared parts of a unit's patterns, each joined when it is first read."""

    def __init__(self, unit: PassUnit, tick: int, sequenced: bool) -> None:
        self._sequenced = sequenced
        self._parts = {name: part for part in unit.shared for name in part.places}
        self._widths: dict[int, int] = {}
        windows = {query.name: query.window for query in unit.queries}
        for part in unit.shared:
            wide = [windows[name].ticks(tick) for name in part.places if name in windows]
            self._widths[id(part)] = max(wide, default=0)
        self._rows: dict[tuple[int, int], SharedRows | None] = {}

    def of(self, query: str, derivation: Derivation) -> PartOfPattern | None:
        """The part that a query reads; None for none, or where it has too many matches."""
        part = self._parts.get(query)
        if part is None:
            return None
        key = id(part), id(derivation)
        if key not in self._rows:
            self._rows[key] = self._joined(part, derivation)
        rows = self._rows[key]
        return None if rows is None else PartOfPattern(rows, part.places[query])

    def _joined(self, part: SharedPart, derivation: Derivation) -> SharedRows | None:
        width = self._widths[id(part)]
        return shared_rows(part.definitions, part.constraints, width, derivation, self._sequenced)
