"""Why a query gives a row, or none: what was found of each component, and the nearest miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.batches import FileSource
from engines.input.event_table import as_times
from engines.reference.rows import event_rows
from engines.reference.values import Binding, Row
from engines.results.json_text import plain_value, shown_moment
from engines.why.failing_parts import failing_parts
from engines.why.near_misses import MissSearch, NearMiss, said_values
from engines.why.relaxations import searched, with_equal_keys, without_memberships
from engines.why.scan import (
    ComponentScan,
    Focus,
    FocusEvents,
    KeyTexts,
    Restriction,
    Scan,
    events_of,
    key_text,
    scan_events,
    value_at,
)
from optimizer.ir.pattern import ANY_TYPE, GroupWithout, events
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Construction,
    Funnel,
    Query,
    RowPattern,
    SituationPattern,
)
from workloads import expressions as ex
from workloads.errors import SheafError
from workloads.printing import print_expression

PLACES = 5  # that are looked at closely
SHOWN_MATCHES = 3
SHOWN_MISSES = 5
_KEY_FAILS = 2
_AROUND = 10  # windows around a time that are looked at
_FEW = 200  # instances of a key, which are looked at whatever their times


class QuestionError(SheafError):
    """A question that cannot be asked of a query: a key that it does not have, or no time."""


@dataclass(frozen=True)
class Question:
    """What is asked: about a time, in ticks, about a key, by its texts, or about all events."""

    at: int | None = None
    key: KeyTexts | None = None


@dataclass(frozen=True)
class GivenRows:
    """The rows that a query gives, those that the question is about; `total` are all of them.

    With `is_cut` there are more than were looked through. `without` has rows that it would give
    without a clause that leaves some out, by the text of the clause.
    """

    rows: Sequence[Mapping[str, Any]] = ()
    total: int = 0
    is_cut: bool = False
    without: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def read_question(
    source: FileSource, query: Query, at: str | None, key: str | Mapping[str, Any] | None
) -> Question:
    """A time and a key as people write them, for the events of a source."""
    names = [name for name, _ in query.result_key]
    texts: KeyTexts | None = None
    if key is not None:
        if not names:
            raise QuestionError(f"query {query.name} has no key; ask without one")
        given = key if isinstance(key, Mapping) else _written_key(key, names)
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given]
        if unknown or missing:
            raise QuestionError(
                f"the key of query {query.name} is {', '.join(names)}; "
                f"write it such as {','.join(f'{name}=…' for name in names)}"
            )
        fixed = {name for name, value in query.result_key if value is not None}
        texts = tuple(key_text(given[name]) for name in names if name not in fixed)
    return Question(None if at is None else read_tick(source, at), texts)


def _written_key(text: str, names: Sequence[str]) -> Mapping[str, Any]:
    """`c7`, `card=c7,user=5`, or a JSON object."""
    if text.lstrip().startswith("{"):
        import json

        try:
            found = json.loads(text)
        except ValueError as error:
            raise QuestionError(f"the key '{text}' is no JSON: {error}") from error
        if isinstance(found, Mapping):
            return found
    if len(names) == 1 and not text.startswith(f"{names[0]}="):
        return {names[0]: text}
    parts = [part.partition("=") for part in text.split(",")]
    return {name.strip(): value for name, _, value in parts}


def read_tick(source: FileSource, text: str) -> int:
    """A time as a number of the stream's ticks."""
    kind = source.time_type
    if text.lstrip("-").isdigit():
        return int(text)
    if pa.types.is_integer(kind):
        raise QuestionError(f"'{text}' is no time of this stream, whose times are whole numbers")
    moment = as_times(pa.chunked_array([[text]], pa.string()))
    if moment is None:
        raise QuestionError(f"'{text}' is no time; write it such as 2024-03-01T10:00:00")
    if pa.types.is_date(kind):
        return int(moment.cast(pa.timestamp("s")).cast(pa.int64())[0].as_py() // 86_400)
    # Times of a zone are stored as those of UTC, which is how one without a zone is read.
    plain = pc.local_timestamp(moment) if moment.type.tz is not None else moment
    ticks = plain.cast(pa.timestamp(kind.unit), safe=False).cast(pa.int64())
    return int(ticks[0].as_py())


def ticks_of(source: FileSource, value: Any) -> int:
    """A time of a row as a number of the stream's ticks."""
    kind = source.time_type
    if isinstance(value, int):
        return value
    found = pa.array([value], kind)
    if pa.types.is_date32(kind):
        return int(found.cast(pa.int32())[0].as_py())
    return int(found.cast(pa.int64())[0].as_py())


def explain(
    source: FileSource, bound: BoundWorkload, question: Question, given: GivenRows
) -> dict[str, Any]:
    """What can be said about a query's rows, or about there being none, as plain values."""
    query = without_memberships(bound.queries[0])
    asked = replace(bound, queries=(query,))
    return Explainer(source, asked, query, question, given).document()


@dataclass
class Explainer:
    source: FileSource
    bound: BoundWorkload
    query: Query
    question: Question
    given: GivenRows
    notes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        query, question = self.query, self.question
        restriction = Restriction(question.key, *self.around(question.at, 1))
        is_explained = not why_opaque(query)
        scan = Scan([])
        if is_explained:
            scan = scan_events(self.source, self._lean(), restriction, question.at)
        found: dict[str, Any] = {
            "query": query.name,
            "at": None if question.at is None else self.moment(question.at),
            "key": self._key_document(question.key),
            "matched": bool(self.given.rows),
            "rows": len(self.given.rows),
            "rows_in_all": self.given.total,
            "events": scan.events,
            "events_looked_at": scan.looked_at,
            "components": [component.document() for component in scan.components],
            "matches": [],
            "misses": [],
        }
        if scan.is_cut:
            self.notes.append("there are more keys or events than are remembered: the latest count")
        if self.given.is_cut:
            self.notes.append(f"only the first {self.given.total:,} rows were looked through")
        if self.given.rows:
            found["matches"] = self._matches(is_explained)
        elif self.given.without:
            found["misses"] = self._left_out_rows()
        elif is_explained:
            misses, matches = self._misses(scan)
            found["misses"] = misses
            if matches:  # rows were cut, and this is one behind them
                found["matches"], found["matched"] = matches, True
        else:
            self.notes.append(
                f"a query {why_opaque(query)} is explained by its rows alone: which part of it "
                "fell short is not looked for"
            )
        found["notes"] = self.notes
        found["verdict"] = _verdict(found, query)
        return found

    # --- what was found ------------------------------------------------------------------------

    def _matches(self, with_events: bool) -> list[dict[str, Any]]:
        """The first rows, with the events behind each."""
        rows = list(self.given.rows)[:SHOWN_MATCHES]
        documents = [{"row": plain_value(dict(row))} for row in rows]
        if not with_events:
            return documents
        foci = []
        for row in rows:
            last = self.tick_of(row["time"])
            first = self.tick_of(row["start"]) if row.get("start") is not None else last
            low, _ = self.around(first, 1)
            _, high = self.around(last, 1)
            foci.append(Focus(self.row_key(row.get("key")), last, low, high))
        places = self.events_at(foci, self.bound)
        for row, place, document in zip(rows, places, documents, strict=True):
            search = self.search(place, None)
            found = [b for b in search.matches(self.wanted) if self.is_of(row, b)]
            found = [b for b in found if is_returned(row.get("match"), b)] or found
            document["matches"] = len(found)
            document["events"] = self._bound_document(found[0]) if found else []
            if place.is_cut or search.was_cut:
                self.notes.append("not all of the events behind a row were looked at")
        return documents

    def is_of(self, row: Mapping[str, Any], bound: Binding) -> bool:
        """Is a match behind a row?"""
        times = [event.key[0] for group in bound.values() for event in group]
        if row.get("start") is None:
            return max(times) <= self.tick_of(row["time"])
        return min(times) == self.tick_of(row["start"]) and max(times) == self.tick_of(row["end"])

    def _left_out_rows(self) -> list[dict[str, Any]]:
        """Rows that only a clause such as HAVING or SUPPRESS leaves out."""
        found = []
        for clause, rows in self.given.without.items():
            first = plain_value(dict(rows[0]))
            if "aggregate" in first:
                value = first["value"] if first.get("count") is None else first["count"]
                because = f"{first['aggregate']} is {value}"
            else:
                because = "the match is there, and the clause leaves it out"
            found.append(
                {
                    "kind": "clause",
                    "what": clause,
                    "because": because,
                    "key": first.get("key"),
                    "row": first,
                    "events": [],
                    "by": [],
                }
            )
        return found

    # --- what was missed -----------------------------------------------------------------------

    def _misses(self, scan: Scan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        positive = [component for component in scan.components if not component.negated]
        if len(scan.components) == 1:
            return self._single_event_misses(positive[0]), []
        foci = self._foci(positive)
        found: list[tuple[NearMiss, Focus]] = []
        for place in self.events_at(foci):
            search = self.search(place, self.question.at)
            if matches := search.matches(self.wanted):
                if self.given.is_cut:
                    return [], [{"events": self._bound_document(matches[0]), "matches": 1}]
                continue  # a row of another time
            found += [(miss, place.focus) for miss in search.near_misses(self.wanted)]
            self._tell_cut(place, search)
        if not any(miss.fails == 1 and miss.kind != "component" for miss, _ in found):
            found += self._key_misses(foci)
        found.sort(key=lambda pair: pair[0].rank(self.question.at))
        documents: list[dict[str, Any]] = []
        for miss, focus in found:
            document = self._miss_document(miss, focus)
            if not any(_is_like(document, other) for other in documents):
                documents.append(document)
        return documents[:SHOWN_MISSES], []

    def _single_event_misses(self, component: ComponentScan) -> list[dict[str, Any]]:
        """The events that fail the fewest conditions of a query of one event."""
        event, found = component.event, []
        for near in component.near:
            (row,) = event_rows(self.bound.stream, [near.values], [near.tick])
            failing = []
            for predicate in event.symbol.predicates:
                for part in failing_parts(predicate, partial(_holds, row)):
                    named = ex.rename(part, {"": event.alias})
                    said = said_values(named, {event.alias: (row,)})
                    failing.append((print_expression(named), said))
            found.append(
                {
                    "kind": "condition",
                    "what": "; ".join(text for text, _ in failing),
                    "because": "; ".join(dict.fromkeys(said for _, said in failing)),
                    "key": self._key_document(near.key),
                    "events": [self._event_document(event.alias, row)],
                    "by": [self._event_document(event.alias, row)],
                }
            )
        return found

    def _foci(self, components: Sequence[ComponentScan]) -> list[Focus]:
        """The places where most components have instances, the latest first."""
        at, keys = self.question.at, dict[KeyTexts | None, tuple[int, int]]()
        for component in components:
            for key, (_, times) in component.keys.items():
                number, latest = keys.get(key, (0, times[-1]))
                keys[key] = (number + 1, max(latest, times[-1]))
        if not keys:
            for component in components:
                for near in component.near:
                    keys.setdefault(near.key, (0, near.tick))
        chosen = sorted(keys, key=lambda key: keys[key], reverse=True)[:PLACES]
        foci: list[Focus] = []
        for key in chosen:
            present = [c.keys[key] for c in components if key in c.keys]
            rarest = min(present, default=(0, [keys[key][1]]))
            centers = [at] if at is not None else list(reversed(rarest[1]))
            is_small = key is not None and sum(count for count, _ in present) <= _FEW
            for center in centers:
                around = (None, None) if is_small else self.around(center, _AROUND)
                foci.append(Focus(key, center, *around))
        return foci[:PLACES]

    def _key_misses(self, foci: Sequence[Focus]) -> list[tuple[NearMiss, Focus]]:
        """Matches of events with different keys, where all else that is asked for holds."""
        query = self.query
        plain = query.strategy == "any" and query.join is None and not query.tied_key
        if not query.key or not plain or not foci:
            return []
        whole = replace(foci[0], key=None)
        (place,) = self.events_at([whole])
        search = self.search(place, self.question.at)
        asked = self.question.key

        def fits(bound: Binding) -> bool:
            """Has one of its events the key that was asked for?"""
            keys = [_key_texts(query, row) for group in bound.values() for row in group]
            return asked is None or asked in keys

        bound = search.nearest(searched(replace(query, key=())), fits)
        if bound is None:
            return []
        self._tell_cut(place, search)
        names = ", ".join(query.key)
        said = ", ".join(
            f"{alias} has {', '.join(_key_texts(query, group[0]))}"
            for alias, group in bound.items()
        )
        because = f"the events have different keys: {said}"
        # Events of other keys always come near: what is missing of the key itself is said first.
        miss = NearMiss("key", f"PARTITION BY {names}", because, bound, (), _KEY_FAILS)
        return [(miss, whole)]

    @property
    def wanted(self) -> Query:
        """The query as it is searched for."""
        return with_equal_keys(self.query)

    def _lean(self) -> BoundWorkload:
        """The query without what it returns, so that only what it asks for is read."""
        if isinstance(self.query.output, Aggregation):
            return self.bound
        return replace(self.bound, queries=(replace(self.query, output=Construction(())),))

    def events_at(
        self, foci: Sequence[Focus], bound: BoundWorkload | None = None
    ) -> list[FocusEvents]:
        if not foci:
            return []
        query = self.query
        parts = list(events(query.pattern))
        all_count = (
            query.strategy == "strict"
            or query.window.is_count
            or any(e.symbol.type == ANY_TYPE for e in parts)
            or any(isinstance(e.quantifier, GroupWithout) for e in parts)
        )
        return events_of(self.source, bound or self._lean(), foci, all_count)

    def search(self, place: FocusEvents, at: int | None) -> MissSearch:
        values = [values for _, values in place.rows]
        rows = event_rows(self.bound.stream, values, [tick for tick, _ in place.rows])
        return MissSearch(self.bound.stream, self.source.tick, rows, at)

    def _tell_cut(self, place: FocusEvents, search: MissSearch) -> None:
        if not (place.is_cut or search.was_cut):
            return
        note = "the search was bounded: not all events, or not all ways to put them together"
        if note not in self.notes:
            self.notes.append(f"{note}; narrow it with a time and a key")

    # --- as plain values -----------------------------------------------------------------------

    def around(self, tick: int | None, windows: int) -> tuple[int | None, int | None]:
        """So many windows before and after a time; all where windows are no stretch of time."""
        window, query = self.query.window, self.query
        if tick is None or not window.is_timed or window.of or window.session:
            return None, None
        width = window.ticks(self.source.tick) * windows
        if query.join is not None:
            sides = (query.join.left, query.join.right)
            if query.join.is_count:
                return None, None
            width = max(side.ticks(self.source.tick) for side in sides) * windows
        return tick - width + 1, tick + width - 1

    def moment(self, tick: int) -> int | str:
        kind = self.source.time_type
        if pa.types.is_integer(kind):
            return tick
        values = pa.array(np.array([tick], np.int64))
        if pa.types.is_date32(kind):
            values = values.cast(pa.int32())
        return shown_moment(values.cast(kind))

    def tick_of(self, value: Any) -> int:
        return ticks_of(self.source, value)

    def row_key(self, key: Any) -> KeyTexts | None:
        if not isinstance(key, Mapping):
            return None
        names = [name for name, fixed in self.query.result_key if fixed is None]
        if any(key.get(name) is None for name in names):
            return None
        return tuple(key_text(key[name]) for name in names)

    def _key_document(self, key: KeyTexts | None) -> dict[str, str] | None:
        if key is None:
            return None
        names = [name for name, fixed in self.query.result_key if fixed is None]
        return dict(zip(names, key, strict=True))

    def _miss_document(self, miss: NearMiss, focus: Focus) -> dict[str, Any]:
        return {
            "kind": miss.kind,
            "what": miss.what,
            "because": miss.because,
            "key": self._key_document(focus.key),
            "events": self._bound_document(miss.bound),
            "by": [self._event_document(alias, row) for alias, row in miss.by],
        }

    def _bound_document(self, bound: Mapping[str, tuple[Row, ...]]) -> list[dict[str, Any]]:
        pairs = [(alias, row) for alias, group in bound.items() for row in group]
        pairs.sort(key=lambda pair: pair[1].key)
        return [self._event_document(alias, row) for alias, row in pairs]

    def _event_document(self, alias: str, row: Row) -> dict[str, Any]:
        """An event with what the query reads of it."""
        stream = self.bound.stream
        names = [name for name in (stream.type, stream.sequence) if name is not None]
        names += self._read_names(alias)
        values = {name: value_at(row.values, name) for name in dict.fromkeys(names)}
        values = {k: v for k, v in values.items() if k not in (stream.time, "time")}
        return {
            "alias": alias,
            "time": self.moment(row.key[0]),
            "values": plain_value(values),
        }

    def _read_names(self, alias: str) -> list[str]:
        query = self.query
        names = list(query.key)
        names += [key.column(alias) for key in query.tied_key if alias in dict(key.columns)]
        for event in events(query.pattern):
            if event.alias == alias:
                names += [n for p in event.symbol.predicates for n in sorted(ex.attributes(p))]
        for condition in query.conditions:
            names += [
                node.name
                for node in ex.walk(condition)
                if isinstance(node, ex.Attribute) and node.alias == alias
            ]
        return names


def why_opaque(query: Query) -> str | None:
    """What a query is that no relaxation is known of."""
    if isinstance(query.output, RowPattern):
        return "in SQL"
    if isinstance(query.output, SituationPattern):
        return "about situations"
    if isinstance(query.output, Funnel):
        return "of a funnel"
    return "that reads rows of others" if query.reads else None


def is_returned(match: Any, bound: Binding) -> bool:
    """Has a row's match the values of these events, as far as it has values of events?"""
    for alias, given in match.items() if isinstance(match, Mapping) else ():
        rows = bound.get(alias, ())
        listed = given if isinstance(given, list) else [given]
        if not all(isinstance(one, Mapping) for one in listed) or not rows:
            continue
        values = [{name: plain_value(row.values[name]) for name in listed[0]} for row in rows]
        if listed != values and sorted(map(str, listed)) != sorted(map(str, values)):
            return False
    return True


def _is_like(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Do two misses say the same: that one thing fails, or the same events by the same one?"""
    if one["what"] == other["what"]:
        return True
    return bool(one["by"]) and (one["events"], one["by"]) == (other["events"], other["by"])


def _key_texts(query: Query, row: Row) -> KeyTexts:
    return tuple(key_text(row.values[name]) for name in query.key)


def _holds(row: Row, predicate: ex.Expression) -> bool:
    from engines.reference.values import true

    return true(predicate, {"": (row,)})


def _verdict(found: Mapping[str, Any], query: Query) -> str:
    """One sentence that answers the question."""
    if found["rows"]:
        what = "row" if isinstance(query.output, Aggregation) else "match"
        number = found["rows"]
        many = "rows" if what == "row" else "matches"
        return f"{query.name} gives {number:,} {what if number == 1 else many}"
    if found["matched"]:
        return f"{query.name} matches"
    text = f"{query.name} gives no row"
    misses = found["misses"]
    if misses and misses[0]["kind"] not in ("component", "key"):
        first = misses[0]
        said = f" ({first['because']})" if first["because"] else ""
        return f"{text}: the nearest miss fails at {first['what']}{said}"
    missing = [
        f"{part['type']} {part['alias']}"
        for part in found["components"]
        if not part["negated"] and not part["instances"]
    ]
    if missing:
        return f"{text}: no event is an instance of {', '.join(missing)}"
    if misses:
        return f"{text}: of {misses[0]['what']} no event fits to the others"
    return text
