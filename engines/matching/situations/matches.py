"""Matches of situations as rows: their times, and what queries return of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.groups import EventGroups, ends, ranges
from engines.columns.layout import Rows
from engines.columns.vectors import Vector, evaluate, truth
from engines.matching.situations.joins import JoinedSituations
from engines.matching.situations.rests import Rests, aggregate_all
from engines.matching.situations.runs import BEHIND_ALL, Derivation
from engines.results.chunks import MatchChunk
from engines.results.json_text import (
    BoundAliases,
    KeyTexts,
    RowNumbers,
    in_turn,
    json_column,
    json_text,
    value_texts,
)
from engines.results.kept_texts import KeptTexts
from engines.results.row_texts import NumberedTexts
from engines.results.structs import MatchStructs, value_column
from optimizer.engines.situations import temporal_of
from optimizer.ir.query import Query, ReturnValue
from optimizer.ir.situations import Definition, ReturnEdge
from workloads import expressions as ex

_FEW = 4  # situations for each match: of more, only those in matches are written


class SituationMatches(MatchChunk):
    """Matches of a query about situations."""

    def __init__(
        self,
        of: Query,
        derivation: Derivation,
        keys: KeyTexts,
        found: JoinedSituations,
        account: Account,
        operator: str,
    ) -> None:
        super().__init__(of, derivation.columns, account, operator)
        self._derivation, self._keys, self._found = derivation, keys, found
        self._temporal = temporal_of(of)

    def __len__(self) -> int:
        return len(self._found)

    def take(self, rows: Rows) -> SituationMatches:
        return self._only(self._found.take(rows))

    def _only(self, found: JoinedSituations) -> SituationMatches:
        return SituationMatches(
            self.of, self._derivation, self._keys, found, self._account, self._operator
        )

    def partitions(self) -> tuple[Rows, int] | None:
        if not self.of.key:
            return None
        return self._found.partition, len(self._derivation.layout.starts) - 1

    def key_texts(self, partitions: Rows) -> pa.Array:
        return self._keys.of(partitions)

    def times(self) -> tuple[Rows, Rows, Rows]:
        found = self._found
        return found.first_tick, found.sure_tick, found.sure_tick

    def last_rows(self) -> Rows:
        return self._derivation.layout.order[self._until - 1]

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        return len(self._found.chosen), [self._groups(alias) for alias in self._read]

    @cached_property
    def _definitions(self) -> dict[str, Definition]:
        return {s.name: s.definition for s in self._temporal.situations}

    @property
    def _read(self) -> list[str]:
        """The names whose events are aggregated."""
        values = [item.value for item in self._output.items if isinstance(item, ReturnValue)]
        return sorted(frozenset().union(*map(ex.aliases, values)))

    # --- events --------------------------------------------------------------------------------

    @cached_property
    def _until(self) -> Rows:
        """The row of the layout behind the last one up to the moment at which it is certain."""
        layout, found = self._derivation.layout, self._found
        rows = layout.rows_until(found.partition, found.sure_tick)
        if not found.sequenced:
            return rows
        at_event = found.sure_place != BEHIND_ALL
        block = np.where(at_event, found.sure_place, 0)
        return np.where(at_event, layout.after[block], rows)

    @cached_property
    def _known_groups(self) -> dict[str, EventGroups]:
        return {}

    def _groups(self, alias: str) -> EventGroups:
        """The events of a name's situations, as far as they count, as rows of the layout."""
        if alias not in self._known_groups:
            place = [s.name for s in self._temporal.situations].index(alias)
            runs, chosen = self._found.named[place].runs, self._found.chosen[place]
            first, last = runs.first[chosen], runs.last[chosen]
            if self._temporal.edge == "end":  # what a live stream knows: the last moment
                first = self._derivation.layout.block[last - 1]
            sizes = np.minimum(last, self._until) - first
            rows = ranges(first, sizes)
            member = self._derivation.members(self._temporal.situations[place].definition)[rows]
            if not member.all():
                kept = np.concatenate([[0], np.cumsum(member)])
                rows, sizes = rows[member], np.diff(kept[ends(sizes)])
            self._known_groups[alias] = EventGroups(ends(sizes), rows)
        return self._known_groups[alias]

    def value(self, expression: ex.Expression) -> Vector:
        """The value of an expression over aggregates of situations."""
        layout, columns = self._derivation.layout, self._columns

        def call(node: ex.Expression) -> Vector:
            assert isinstance(node, ex.Call)
            assert isinstance(node.argument, ex.Attribute)
            alias, name = node.argument.alias, node.argument.name
            groups = self._groups(alias)
            rows = layout.order[groups.rows]
            values = columns.vector(name).take(rows)
            rests = Rests.of(columns, self._definitions[alias], name)
            rests = None if rests is None else rests.take(rows)
            return aggregate_all(node.function, values, rests, groups)

        def attribute(node: ex.Attribute) -> Vector:
            raise AssertionError(f"{node.alias}.{node.name} has no one value")

        return evaluate(expression, attribute, columns.texts, call)

    def satisfying(self) -> SituationMatches:
        """Those for which the conditions of the query hold."""
        kept: Rows = np.ones(len(self), bool)
        for condition in self.of.conditions:
            kept = kept & np.broadcast_to(truth(self.value(condition)), len(self))
        return self if kept.all() else self._only(self._found.take(kept))

    # --- what is returned ----------------------------------------------------------------------

    def matched(self) -> BoundAliases:
        order = self._derivation.layout.order
        groups: dict[str, RowNumbers | EventGroups] = {
            alias: EventGroups(group.offsets, order[group.rows])
            for alias, group in ((alias, self._groups(alias)) for alias in self._read)
        }
        return BoundAliases(len(self), groups, self.value)

    def aliases(self) -> Mapping[str, RowNumbers | EventGroups]:
        order = self._derivation.layout.order
        found: dict[str, RowNumbers | EventGroups] = {}
        for situation in self._temporal.situations:
            group = self._groups(situation.name)
            found[situation.name] = EventGroups(group.offsets, order[group.rows])
        return found

    def edges(self, item: ReturnEdge) -> pa.Array:
        """When situations start or end; null where the end is not known when a match is given."""
        runs, chosen = self._found.named[item.situation].runs, self._found.chosen[item.situation]
        ticks = (runs.start_tick if item.edge == "start" else runs.end_tick)[chosen]
        known = self._knows(item)
        if known is None:
            return self._events.times(ticks)
        times = self._events.times(np.where(known, ticks, 0))
        return pc.if_else(pa.array(known), times, pa.scalar(None, times.type))

    def _knows(self, item: ReturnEdge) -> npt.NDArray[np.bool_] | None:
        """Which of the edges are known when a match is given; None for all."""
        found = self._found
        if item.edge == "start":
            return None
        runs, chosen = found.named[item.situation].runs, found.chosen[item.situation]
        tick = runs.end_tick[chosen]
        if not found.sequenced:
            known: npt.NDArray[np.bool_] = tick <= found.sure_tick
        else:
            same = (tick == found.sure_tick) & (runs.end_place[chosen] <= found.sure_place)
            known = (tick < found.sure_tick) | same
        return None if known.all() else known

    def _edge_pieces(
        self, item: ReturnEdge, kept: KeptTexts | None, before: str, behind: str
    ) -> list[str | NumberedTexts]:
        """An edge as JSON between two texts: each situation's is written once, for all queries,
        where many of the situations are in matches.
        """
        runs, chosen = self._found.named[item.situation].runs, self._found.chosen[item.situation]
        if _FEW * len(chosen) < len(runs.first):
            return [before, in_turn(json_column(self.edges(item))), behind]
        known = self._knows(item)
        numbers = chosen if known is None else np.where(known, chosen, len(runs.first))
        if kept is None:
            texts = self._derivation.texts(runs, item.edge, before, behind)
            return [NumberedTexts(texts, numbers), ""]  # nothing stands between it and the next
        texts = self._derivation.texts(runs, item.edge)
        return [before, kept.column(texts, numbers, self._events), behind]

    def struct_column(self, structs: MatchStructs) -> pa.StructArray:
        """Each match as the struct of its query."""
        kind, bound = structs.queries[self.query], self.matched()
        values = {i.name: i.value for i in self._output.items if isinstance(i, ReturnValue)}
        found = []
        for field, items in zip(kind, self._temporal.fields().values(), strict=True):
            if field.name in values:
                made = value_column(values[field.name], field.type, bound, self._columns)
            else:
                made, *others = [self.edges(i) for i in items if isinstance(i, ReturnEdge)]
                if items[0].name is None:
                    made = pa.StructArray.from_arrays([made, *others], fields=list(field.type))
            found.append(made)
        return pa.StructArray.from_arrays(found, fields=list(kind))

    def pieces(self, kept: KeptTexts | None = None) -> list[str | NumberedTexts]:
        bound, columns = self.matched(), self._columns
        values = {i.name: i.value for i in self._output.items if isinstance(i, ReturnValue)}
        names = [situation.name for situation in self._temporal.situations]
        pieces: list[str | NumberedTexts] = []
        opened: int | None = None  # the name whose object is being written
        returned = self._temporal.returned
        for number, item in enumerate(returned, 1):
            nested = item.situation if isinstance(item, ReturnEdge) and item.name is None else None
            before = "}" if opened is not None and nested != opened else ""
            before += "{" if number == 1 else ","
            if nested is None:
                before += json_text(item.name) + ":"
            else:
                before += "" if nested == opened else json_text(names[nested]) + ":{"
                before += json_text(item.edge) + ":"  # type: ignore[union-attr]
            opened = nested
            last = "" if number < len(returned) else "}" if opened is None else "}}"
            if isinstance(item, ReturnEdge):
                pieces += self._edge_pieces(item, kept, before, last)
            else:
                pieces += [before, in_turn(value_texts(values[item.name], bound, columns)), last]
        return pieces
